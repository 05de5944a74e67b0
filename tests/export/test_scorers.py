"""One-file scorers give what propcal gives, to the last bit, in each language."""

import json
import shutil
import signal
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

from propcal import Correction, Groups, PMCBoost
from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.core.correction.smooth_map import knots
from propcal.errors import InputError
from propcal.export.check_vectors import near_breakpoints, values_that_matter
from propcal.export.scorer_files import LANGUAGES
from sql_corrections import bits, fitted, hostile

COMMANDS = {
    "python": [sys.executable, "-I", "-S"],
    "javascript": ["node"],
    "r": ["Rscript", "--vanilla"],
}
NONE = type(None)
KINDS = (str, float, int, bool, NONE)
CONDITIONS = [
    "age >= 30 and icu",
    "not (age < 30 or race = Asian)",
    "race != Asian",
    "race not in [Asian]",
    "race is missing or age is missing",
    "ward = 01 or ward = 3.0",
    "ward in [1, 2] and icu = 1",
]
POINTS = PointsTable(
    (
        FeaturePoints("age", (-9000, 11, 420), cuts=(30.0, 41.3), missing=-250),
        FeaturePoints(
            "race", (133, -77), levels=("Asian", "Black"), missing=5, other=-1
        ),
        FeaturePoints("code", (-40, 310, 1), levels=("1", "2.5", "true")),
        FeaturePoints("lab", (7, 0, -7), cuts=(-0.1, 1e-9), missing=3),
        FeaturePoints("any", (12,)),
    )
)


@pytest.fixture(params=list(COMMANDS))
def language(request):
    """Each language in turn."""
    if shutil.which(COMMANDS[request.param][0]) is None:
        pytest.skip(f"{COMMANDS[request.param][0]} is not installed")
    return request.param


@pytest.fixture(scope="module")
def corrections():
    """With and without a smooth start; columns, ranges and conditions; names that no
    language expects.
    """
    ranges = Groups(columns=["race", "icu"], cuts={"age": [30, 41.3]})
    named = {f"condition {i}": text for i, text in enumerate(CONDITIONS)}
    updates = fitted(ranges, PMCBoost.paper, alpha=0.1, gamma=0.1, n_bins=5)
    smooth = fitted(
        Groups(columns=["race", "ward"], cuts={"age": [41.3]}),
        alpha=0.2,
        guard=None,
        binning="quantile",
        order="worst",
    )  # and updates
    return {
        "updates": updates,
        "smooth": smooth,
        "points": replace(smooth, points=POINTS),
        "points and updates": replace(updates, points=POINTS),
        "points alone": replace(
            smooth, start=None, updates=smooth.updates[:0], points=POINTS
        ),
        "conditions": fitted(
            Groups(columns=[], where=named, intersections=1),
            PMCBoost.paper,
            gamma=0.01,
            alpha=0.1,
            n_bins=5,
        ),
        "hostile": hostile()[1],
    }


def write(correction, language, folder, **options):
    path = folder / f"scorer.{LANGUAGES[language].ending}"
    path.write_text(correction.to_code(language, **options), encoding="utf-8")
    return path


def run(language, *words, **settings):
    command = [*COMMANDS[language], *map(str, words)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        **settings,
    )


def people(correction, n, *, kinds=KINDS):
    """Scores at breakpoints of each person and their neighbours, and values of some
    kinds that matter.
    """
    rng = np.random.default_rng(1)
    values = {
        name: [
            value
            for value in values_that_matter(correction, name)
            if type(value) in kinds
        ]
        for name in correction.reads
    }
    scores, columns = [], {name: [] for name in values}
    while len(scores) < n:
        person = {name: some[rng.integers(len(some))] for name, some in values.items()}
        own = rng.permutation(near_breakpoints(correction, person))[:60].tolist()
        scores += own
        for name, column in columns.items():
            column += [person[name]] * len(own)
    return scores, columns


def scored_as_lines(language, path, scores, columns):
    """The corrected scores that a program gives for lines of JSON."""
    rows = [dict(zip(columns, values)) for values in zip(*columns.values())] or [
        {}
    ] * len(scores)
    lines = "".join(
        json.dumps({**row, "the score": score}) + "\n"
        for row, score in zip(rows, scores)
    )
    done = run(language, path, "--score", "the score", input=lines)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["corrected"] for line in done.stdout.splitlines()]


def scored_in_r(path, scores, columns):
    """The corrected scores of columns, of one kind each; numbers go there and back as
    hexadecimals.
    """
    folder = path.parent
    (folder / "scores").write_text("\n".join(map(float.hex, scores)))
    lists = []
    for name, values in columns.items():
        known = list(dict.fromkeys(values))
        (folder / "places").mkdir(exist_ok=True)
        file = folder / "places" / str(len(lists))
        file.write_text("\n".join(str(known.index(value) + 1) for value in values))
        written = ", ".join(map(LANGUAGES["r"].value, known))
        lists.append(
            f"{LANGUAGES['r'].value(name)} = c({written})[scan('{file}', quiet = TRUE)]"
        )
    (folder / "run.R").write_text(
        f"source('{path}')\nscores <- as.double(readLines('{folder}/scores'))\n"
        f"found <- score_people(scores, list({', '.join(lists)}))\n"
        f"writeLines(sprintf('%a', found), '{folder}/found')"
    )
    done = run("r", folder / "run.R")
    assert done.returncode == 0, done.stderr
    return [float.fromhex(line) for line in (folder / "found").read_text().splitlines()]


def applied(correction, scores, columns):
    return correction.apply(
        scores,
        {k: np.array(v, dtype=object) for k, v in columns.items()},
        unseen="replay",
    )


@pytest.mark.parametrize(
    "which",
    [
        "updates",
        "smooth",
        "conditions",
        "hostile",
        "points",
        "points and updates",
        "points alone",
    ],
)
def test_a_hundred_thousand_people_get_the_same_bits(
    language, which, corrections, tmp_path
):
    correction = corrections[which]
    n = 100_000 if which == "smooth" else 10_000
    path = write(correction, language, tmp_path, unseen="replay")
    if language != "r":
        scores, columns = people(correction, n)
        assert bits(scored_as_lines(language, path, scores, columns)) == bits(
            applied(correction, scores, columns)
        )
        return
    for kinds in ((str, NONE, float), (float, int, NONE)):  # a column of R has one kind
        scores, columns = people(correction, n, kinds=kinds)
        for name in columns:
            texts = str in kinds and any(
                isinstance(value, str) for value in columns[name]
            )
            if texts:
                columns[name] = [
                    None if isinstance(value, float) else value
                    for value in columns[name]
                ]
        assert bits(scored_in_r(path, scores, columns)) == bits(
            applied(correction, scores, columns)
        )


@pytest.mark.parametrize(
    ("which", "unseen"),
    [
        ("smooth", "keep"),
        ("smooth", "error"),
        ("smooth", "replay"),
        ("points", "replay"),
        ("points", "keep"),
    ],
)
def test_the_file_tests_itself_and_says_who_it_is(
    language, which, unseen, corrections, tmp_path
):
    path = write(corrections[which], language, tmp_path, unseen=unseen)
    done = run(language, path, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    found, total = done.stdout.split(" test")[0].split(" of ")
    assert int(found) == int(total) > 50
    about = run(language, path, "--about").stdout
    assert corrections["smooth"].about["fingerprint"] in about
    assert "propcal" in about
    broken = path.read_text().replace("|0 1 0", "|0 1 1")
    assert broken != path.read_text()
    path.write_text(broken)
    assert run(language, path, "--check").returncode == 1


def test_what_is_long_in_r_has_a_statement_for_each_row(corrections):
    """Rscript took 1.8 s to read a statement of 760 kB, and 0.02 s to read as much in
    672 of them.
    """
    lines = corrections["smooth"].to_code("r").splitlines()
    for begin, row in (
        ("MAPS <- c()", 'MAPS[1] <- "'),
        ("VECTORS <- list()", "VECTORS[[1]] <- list("),
    ):
        assert lines[lines.index(begin) + 1].startswith(row)


def test_a_combination_that_did_not_occur_is_kept_or_refused(corrections, tmp_path):
    correction = corrections["smooth"]
    stranger = {"race": "Martian", "ward": 2, "age": 50.0}
    for language in ("python", "javascript"):
        kept = write(correction, language, tmp_path, unseen="keep")
        row = {name: [stranger[name]] for name in correction.reads}
        assert scored_as_lines(language, kept, [0.123], row) == [0.123]
        refused = write(correction, language, tmp_path, unseen="error")
        done = run(
            language,
            refused,
            "--score",
            "risk",
            input=json.dumps({**stranger, "risk": 0.1}),
        )
        assert done.returncode == 2
        assert (
            "line 1: this combination of levels did not occur in the fitting data"
            in done.stderr
        )


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_what_cannot_be_scored_is_refused_by_line(language, corrections, tmp_path):
    path = write(corrections["smooth"], language, tmp_path)
    fine = {"race": "Asian", "ward": 1, "age": 30, "risk": 0.2}
    for wrong, problem in [
        ({"risk": 1.5}, "the score must be a number from 0 to 1"),
        ({"risk": True}, "the score must be a number from 0 to 1"),
        ({"risk": None}, "the score must be a number from 0 to 1"),
        ({"age": "30"}, "age must be a number"),
        ({"race": ["Asian"]}, "race must be a text"),
    ]:
        lines = json.dumps(fine) + "\n" + json.dumps({**fine, **wrong})
        done = run(language, path, "--score", "risk", input=lines)
        assert (done.returncode, len(done.stdout.splitlines())) == (2, 1)
        assert "line 2: " in done.stderr
        assert problem in done.stderr
    done = run(
        language, path, "--score", "risk", input='{"risk": 0.2, "race": null, "age": 3}'
    )
    assert "a value is needed for ward" in done.stderr


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_line_that_is_no_person_is_refused_without_repeating_it(
    language, corrections, tmp_path
):
    path = write(corrections["smooth"], language, tmp_path)
    for wrong in (
        "Jane Doe",
        "[1, 2]",
        "null",
        '{"name": "Jane Doe", "risk"',
        '"Jane Doe"',
    ):
        lines = (
            json.dumps({"race": "Asian", "ward": 1, "age": 30, "risk": 0.2})
            + "\n\n"
            + wrong
        )
        done = run(language, path, "--score", "risk", input=lines)
        assert (done.returncode, len(done.stdout.splitlines())) == (2, 1)
        assert done.stderr.startswith("line 3: ")
        assert (done.stderr.count("\n"), "Jane" in done.stderr) == (1, False)


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_reader_that_stops_early_is_no_error(language, corrections, tmp_path):
    path = write(corrections["smooth"], language, tmp_path)
    people = json.dumps({"race": "Asian", "ward": 1, "age": 30, "risk": 0.2}) + "\n"
    (tmp_path / "people").write_text(people * 20_000)
    command = [*COMMANDS[language], str(path), "--score", "risk"]
    pipe = subprocess.PIPE
    with (
        (tmp_path / "people").open() as file,
        subprocess.Popen(command, stdin=file, stdout=pipe, stderr=pipe) as done,
    ):
        assert done.stdout.readline()
        done.stdout.close()
        assert done.stderr.read() == b""
    assert done.returncode in (141, -signal.SIGPIPE)  # a shell says 141 for both


def python_module(correction, tmp_path, **options):
    names = {}
    exec(compile(correction.to_code("python", **options), "scorer.py", "exec"), names)
    return names


def test_the_module_of_python_scores_like_score_one(corrections, tmp_path):
    from decimal import Decimal

    correction = corrections["smooth"]
    scorer = python_module(correction, tmp_path)
    for ward in (
        1,
        1.0,
        "1",
        " 1.00 ",
        True,
        Decimal("1.0"),
        np.float64(1),
        None,
        float("nan"),
        10**30,
    ):
        person = {"race": "Asian", "ward": ward, "age": 30}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert scorer["score_one"](0.2, **person) == correction.score_one(
                0.2, **person
            )
    assert np.isnan(scorer["score_one"](2.0, **person, invalid="null"))
    assert scorer["score_one"](2.0, **person, invalid="keep") == 2.0
    assert scorer["unseen_levels"](race="Martian", ward=1, age=3) == ["race"]
    assert scorer["unseen_levels"](race=None, ward=99, age=3) == ["ward"]


def test_values_without_points_are_named_as_score_one_names_them(corrections, tmp_path):
    correction = corrections["points"]
    scorer = python_module(correction, tmp_path)
    people = [
        {"race": "Martian", "ward": 1, "age": 3, "code": "1", "lab": None, "any": 3},
        {"race": None, "ward": 99, "age": None, "code": None, "lab": 1, "any": None},
        {"race": "Asian", "ward": 2, "age": 50, "code": 7, "lab": 0.0, "any": -1},
    ]
    for person in people:
        assert (
            tuple(scorer["unseen_levels"](**person))
            == correction.score_one(0.2, **person, detail=True).unseen
        )
    assert scorer["unseen_levels"](**people[1]) == ["ward", "code", "any"]


def test_a_level_with_points_that_a_language_cannot_hold_is_refused(corrections):
    codes = FeaturePoints("code", (5, 7), levels=("9007199254740993", "a"))
    correction = replace(corrections["smooth"], points=PointsTable((codes,)))
    for language in ("javascript", "r"):
        with pytest.raises(InputError, match=r"'code' has the level 9007199254740993"):
            correction.to_code(language)
    assert "9007199254740993" in correction.to_code("python")


def test_1_and_0_are_truth_values_where_the_levels_are(tmp_path):
    correction = fitted(Groups(columns=["icu"]), PMCBoost.paper, alpha=0.1)
    scorer = python_module(correction, tmp_path)
    for value in (True, "TRUE", 1, 1.0, "1", 0, "0.0", False, None, 2):
        assert scorer["score_one"](0.3, icu=value) == correction.score_one(
            0.3, icu=value
        )


def test_a_correction_that_reads_nothing_has_a_scorer(language, tmp_path):
    rng = np.random.default_rng(0)
    score = rng.random(500)
    correction = PMCBoost.paper().fit(score, rng.random(500) < 0.3).correction_
    path = write(correction, language, tmp_path)
    assert run(language, path, "--check").returncode == 0


def test_a_number_that_a_language_cannot_hold_is_refused():
    codes = ["9007199254740993", "9007199254740992"]
    rng = np.random.default_rng(0)
    code, score = rng.choice(codes, 2000), rng.random(2000)
    y = rng.random(2000) < np.where(code == codes[0], 0.9, 0.1)
    correction = (
        PMCBoost.paper().fit(score, y, sensitive_features={"code": code}).correction_
    )
    for language in ("javascript", "r"):
        with pytest.raises(
            InputError, match=r"9007199254740993, a number that .* cannot hold exactly"
        ):
            correction.to_code(language)
    scorer = {}
    exec(correction.to_code("python"), scorer)
    for one in (9007199254740993, "9007199254740993"):
        assert scorer["score_one"](0.3, code=one) == correction.score_one(
            0.3, code="9007199254740993"
        )


def test_no_step_along_a_curve_leaves_the_whole_numbers_of_a_double():
    """What the scorers in JavaScript and R compute with, at most: see `corrected` in
    their templates.
    """
    width = np.diff(knots())
    assert int((width // 2 * width + width).max()) < 1 << 53
    # a quotient below 2**26 is at least 1 / width from a whole number, and doubles
    # there are closer
    assert 1 / width.max() > 2.0**-27
    assert int((width // 2 * width + width).max() // width.max()) < 1 << 26


def test_every_combination_is_listed_or_the_export_is_refused():
    rng = np.random.default_rng(0)
    frame = {f"a{i}": rng.choice([*"abcdefgh"], 3000) for i in range(5)}
    score, y = rng.random(3000), rng.random(3000) < 0.3
    model = PMCBoost.paper(groups=Groups(columns=list(frame), intersections=1))
    correction = model.fit(score, y, sensitive_features=frame).correction_
    with pytest.raises(InputError, match="needs every combination of levels"):
        correction.to_code("python", unseen="replay")
    assert "UNSEEN = 'keep'" in correction.to_code("python", unseen="keep")


def test_a_file_brings_no_code_of_its_own(tmp_path):
    """Names and levels become values of the language; none of them is written into a
    comment.
    """
    correction = hostile()[1]
    text = '"""\n*/ import os # ` ${x} @maps@'
    content = json.loads(correction.to_json())
    content["about"] = {**content["about"], "user": {text: text}}
    content["about"].pop("model_id", None)
    marked = Correction.from_json(json.dumps(content))
    for language, how in LANGUAGES.items():
        code = marked.to_code(language)
        assert how.value(text) in code
        assert code.count("import os") == 2  # the key and its value
    scorer = python_module(marked, tmp_path)
    assert scorer["ABOUT"]["user"] == {text: text}
