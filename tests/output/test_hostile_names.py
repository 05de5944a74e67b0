"""Names from data and from others' files, through every way out: none steers a terminal
or a page.
"""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import propcal
from propcal import Atoms, Correction, Groups, PMCBoost
from propcal.cli import main
from propcal.errors import InputError, Message, plain, shown
from propcal.render.markdown import escaped

ESCAPE = "\x1b[2J\x1b]0;owned\x07"
LEVEL = f"A|`x`[y](http://z)<b>{ESCAPE}\r\n# *h*\u202e -- ;'\""
COLUMN = f"race{ESCAPE}|<i>`\n"
SCORE = f"mine{ESCAPE}<u>|\n"


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(7)
    n = 4000
    level = rng.choice([LEVEL, "B", "C"], n)
    score = rng.beta(1.5, 4, n)
    truth = np.where(level == LEVEL, np.clip(score * 2, 0, 1), score)
    return pd.DataFrame(
        {COLUMN: level, "risk": score, "y": (rng.random(n) < truth).astype(int)}
    )


@pytest.fixture(scope="module")
def model(people):
    groups = Groups(columns=[COLUMN], where={f"old{ESCAPE}": "risk > 0.9"})
    made = PMCBoost(groups=groups)
    return made.fit(
        people["risk"], people["y"], sensitive_features=people[[COLUMN, "risk"]]
    )


@pytest.fixture(scope="module")
def audit(people):
    return propcal.audit(
        people["y"], people["risk"], sensitive_features=people[[COLUMN]], n_draws=100
    )


@pytest.fixture(scope="module")
def comparison(people, model):
    scores = {"base" + SCORE: people["risk"], SCORE: people["risk"] ** 1.2}
    return propcal.compare(
        scores, people["y"], sensitive_features=people[[COLUMN]], n_draws=100
    )


def assert_plain(text):
    """Only letters, signs and line ends that we have put there."""
    assert all(line.isprintable() for line in text.split("\n")), repr(text)


def test_the_names_are_in_what_is_shown(audit, model):
    assert "A|`x`[y](http://z)<b>?[2J" in repr(audit)
    assert "?[2J" in repr(model.correction_)


def test_reprs_and_strings_are_plain(people, model, audit, comparison):
    correction = model.correction_
    atoms = Atoms.from_frame(people, score="risk", outcome="y", groups=[COLUMN])
    explanation = correction.explain(people["risk"][:50], people[[COLUMN, "risk"]][:50])
    content = json.loads(correction.to_json()) | {"about": {"method": "\x1b[2J"}}
    by_hand = Correction.from_json(json.dumps(content))
    for shown_thing in (
        correction,
        by_hand,
        model.fit_summary_,
        model.groups_,
        atoms,
        explanation,
        audit,
        audit.verdict.text and str(audit.verdict),
        comparison,
        correction.to_sql(score="risk"),
        Groups(columns=[COLUMN]),
    ):
        text = shown_thing if isinstance(shown_thing, str) else repr(shown_thing)
        assert_plain(text)
    for sentence in [
        *explanation.sentences(),
        *model.fit_summary_.sentences(),
        *model.fit_summary_.listed(),
    ]:
        assert_plain(sentence)
    assert_plain(repr(correction.update_list()))


def test_errors_and_warnings_are_plain(people, model):
    with pytest.raises(InputError) as error:
        PMCBoost(gamma=0.99).fit(
            people["risk"], people["y"], sensitive_features=people[[COLUMN]]
        )
    assert "?[2J" in str(error.value)
    assert_plain(str(error.value))
    assert_plain(error.value.render(str))
    with pytest.raises(InputError) as error:
        model.correction_.apply("risk", people[["risk"]])
    assert_plain(str(error.value))
    other = people.assign(**{COLUMN: "new"})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.correction_.apply("risk", other)
    assert seen
    for warning in seen:
        assert_plain(str(warning.message))
    assert_plain(str(Message(f"a{ESCAPE}", next_step=f"b{ESCAPE}")))


def test_notebooks_and_pages_escape_markup(model, audit, comparison, people):
    explanation = model.correction_.explain(
        people["risk"][:9], people[[COLUMN, "risk"]][:9]
    )
    pages = [
        thing._repr_html_()
        for thing in (
            model.correction_,
            model.fit_summary_,
            audit,
            comparison,
            explanation,
        )
    ]
    pages += [
        audit.to_html(title=LEVEL, correction=model),
        comparison.to_html(title=LEVEL),
    ]
    for page in pages:
        for tag in ("<b>\x1b", "<i>`", "<u>|", "<b>?", "<u>"):
            assert tag not in page


def test_markdown_escapes_every_name(audit, comparison):
    for page in (audit.to_markdown(title=LEVEL), comparison.to_markdown(title=LEVEL)):
        assert_plain(page)
        assert "A\\|\\`x\\`\\[y\\](http&#58;//z)&lt;b&gt;?\\[2J" in page
        assert not re.search(r"<(?!br)[a-z]", page)
        assert not re.search(r"(?<!\\)`", page.replace("\\\\", ""))
        assert "http://" not in page
        rows = [line for line in page.splitlines() if line.startswith("|")]
        assert rows
        widths = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
        for row, width, before in zip(rows[1:], widths[1:], widths):
            assert width == before or "---" not in row, "a name opened another cell"
    assert comparison.to_markdown().count("mine?\\[2J") > 3


def test_markdown_of_a_name_is_one_line_of_letters():
    assert escaped("a|b`c`[d](e)<f>\n&g *h* _i_ #j ~k~ $l$ \\m !n") == (
        "a\\|b\\`c\\`\\[d\\](e)&lt;f&gt;?&amp;g \\*h\\* \\_i\\_ \\#j \\~k\\~ \\$l\\$ \\\\m \\!n"
    )
    assert escaped("see www.x.org or ftp://y") == "see www&#46;x.org or ftp&#58;//y"


def test_comments_of_sql_hold_no_line_of_their_own(model):
    for form in ("lookup", "values"):
        script = str(model.correction_.to_sql(score="risk", form=form))
        comments = [line for line in script.split("\n") if line.startswith("--")]
        assert comments
        for line in comments:
            assert line.isprintable()
            assert ";" not in line


def test_json_is_json(audit):
    assert json.loads(audit.to_json())


@pytest.fixture
def files(people, tmp_path):
    people.to_parquet(tmp_path / "people.parquet")
    for month, part in (("1", people[:2000]), ("2", people[2000:])):
        Atoms.from_frame(part, score="risk", outcome="y", groups=[COLUMN]).save(
            tmp_path / f"{month}.atoms"
        )
    return tmp_path


def run(capfd, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    shown_text = capfd.readouterr()
    for text in (shown_text.out, shown_text.err):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
    return ended.value.code, shown_text


def test_commands_show_no_name_raw(files, capfd, model):
    model.correction_.save(files / "model.json")
    code, told = run(
        capfd, "merge", files / "1.atoms", files / "2.atoms", "-o", files / "all.atoms"
    )
    assert code == 0
    assert "race?[2J" in told.out
    assert run(capfd, "audit", files / "all.atoms", "--draws", 100)[0] == 0
    assert run(capfd, "fit", files / "all.atoms", "-o", files / "fitted.json")[0] == 0
    assert (
        run(
            capfd, "fit", files / "all.atoms", "--gamma", 0.99, "-o", files / "no.json"
        )[0]
        == 2
    )
    assert run(capfd, "audit", files / "people.parquet", "--score", "risk")[0] == 2
    code, told = run(
        capfd,
        "apply",
        files / "model.json",
        files / "1.atoms",
        "--score",
        "x",
        "-o",
        files / "x.csv",
    )
    assert code == 2
    groups = f'"{COLUMN}"'
    columns = ["--score", "risk", "--outcome", "y", "--groups", groups]
    assert run(capfd, "audit", files / "people.parquet", *columns, "--draws", 100)[
        0
    ] in (0, 2)


def test_a_name_of_a_file_is_made_plain(files, capfd):
    hostile = files / f"a{ESCAPE[:4]}.csv"
    hostile.write_text("")
    code, told = run(
        capfd, "audit", hostile, "--score", "risk", "--outcome", "y", "--groups", "a"
    )
    assert code == 2
    assert "a?[2J" in told.err


def test_long_values_are_cut_in_errors():
    assert plain("x" * 50, 10) == "xxxxxxx..."
    assert shown([1] * 1000, 12) == "[1, 1, 1,..."
    with pytest.raises(InputError) as error:
        PMCBoost(n_bins=10**5000).fit([0.1, 0.2], [0, 1])
    assert len(str(error.value)) < 200
