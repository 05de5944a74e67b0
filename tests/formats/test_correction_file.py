"""The file of a correction: exact round trips, and clear refusals."""

import json

import numpy as np
import pytest

from propcal import Correction, PMCBoost
from propcal.errors import FileFormatError


@pytest.fixture(scope="module")
def correction(cohort):
    return (
        PMCBoost.paper(alpha=0.05)
        .fit(cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]])
        .correction_
    )


@pytest.fixture
def path(tmp_path, correction):
    correction.save(tmp_path / "model.json")
    return tmp_path / "model.json"


def editable(path):
    """The content of a file without its hash, so that what is edited is judged by
    itself.
    """
    content = json.loads(path.read_text())
    del content["about"]["model_id"]
    return content


def test_round_trip_is_exact(path, correction, cohort):
    loaded = Correction.load(path)
    frame = cohort[["race", "gender"]]
    assert np.array_equal(
        loaded.apply(cohort.score, frame), correction.apply(cohort.score, frame)
    )
    for name in ("starts", "begin", "slope", "offset"):
        assert np.array_equal(
            getattr(loaded.maps, name), getattr(correction.maps, name)
        )
    assert loaded.to_json() == path.read_text()
    assert (loaded.model_id, loaded.about["model_id"]) == (
        correction.model_id,
        correction.model_id,
    )
    assert repr(loaded) == repr(correction)


@pytest.mark.parametrize(
    "kw",
    [
        {"binning": "geometric"},
        {"binning": "quantile"},
        {"binning": [0, 0.3, 1]},
        {"intersections": 1},
    ],
)
def test_every_kind_of_fit_round_trips(tmp_path, cohort, kw):
    model = PMCBoost(**kw).fit(
        cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
    )
    model.correction_.save(tmp_path / "m.json")
    again = Correction.load(tmp_path / "m.json")
    assert again.to_json() == (tmp_path / "m.json").read_text()
    assert again.model_id == model.correction_.model_id


def test_a_smooth_start_round_trips_and_is_checked(tmp_path, cohort):
    frame = cohort[["race", "gender"]]
    model = PMCBoost().fit(cohort.score, cohort.y, sensitive_features=frame)
    path = tmp_path / "m.json"
    model.correction_.save(path)
    again = Correction.load(path)
    assert again.start is not None
    assert again.model_id == model.correction_.model_id
    assert (
        again.apply(cohort.score, frame).tobytes()
        == model.predict(cohort.score, sensitive_features=frame).tobytes()
    )
    good = editable(path)
    group, shifts = good["start"][0]
    for nonsense in (
        [[group, shifts[:-1]]],
        [[group, [*shifts[:-1], 2**24 + 1]]],
        [[group, [*shifts[:-1], 0.5]]],
        [[group, shifts], [group, shifts]],
        [
            [[["race", "Asian"], ["gender", "F"]], shifts],
            [[["gender", "F"], ["race", "Asian"]], shifts],
        ],
        [[[["race", "Martian"]], shifts]],
        [[[["planet", "Mars"]], shifts]],
        [group],
        "none",
    ):
        path.write_text(json.dumps({**good, "start": nonsense}))
        with pytest.raises(FileFormatError, match="damaged"):
            Correction.load(path)


@pytest.mark.parametrize("guard", ["-1", '"noise"', "1e999", "true"])
def test_a_guard_that_is_no_number_of_standard_errors_is_refused(path, guard):
    content = editable(path)
    content["about"]["guard"] = "GUARD"
    path.write_text(json.dumps(content).replace('"GUARD"', guard))
    with pytest.raises(FileFormatError, match="guard"):
        Correction.load(path)


def test_strange_names_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    names = np.array(
        ['"quoted"', "new\nline", "żółć 🏥", "", "null", None, "a & b=c"], dtype=object
    )
    group, score = names[rng.integers(0, 7, 700)], rng.random(700)
    model = PMCBoost().fit(
        score, rng.random(700) < score**2, sensitive_features={"ąttr": group}
    )
    model.correction_.save(tmp_path / "m.json")
    again = Correction.load(tmp_path / "m.json")
    assert np.array_equal(
        again.apply(score, {"ąttr": group}),
        model.predict(score, sensitive_features={"ąttr": group}),
    )


def test_the_file_says_what_it_is_and_holds_no_counts(path):
    content = editable(path)
    assert (content["format"], content["version"]) == ("propcal-correction", 4)
    assert content["about"]["method"] == "PMCBoost"
    assert content["about"].pop("people") == [2000, 4999]
    assert "people" not in json.dumps(content)
    assert "3000" not in json.dumps(
        {k: v for k, v in content.items() if k not in ("updates", "bins", "about")}
    )


def test_a_truncated_file_is_refused(path):
    text = path.read_text()
    for cut in (0, 1, len(text) // 2, len(text) - 3):
        path.write_text(text[:cut])
        with pytest.raises(FileFormatError, match="not complete JSON"):
            Correction.load(path)


def test_other_files_are_refused(path):
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(FileFormatError, match="not a correction file"):
        Correction.load(path)
    path.write_text('{"format": "something else"}')
    with pytest.raises(FileFormatError, match='"format" is not'):
        Correction.load(path)
    path.write_text("[1, 2]")
    with pytest.raises(FileFormatError, match='"format" is not'):
        Correction.load(path)
    path.write_text("[" * 100_000)
    with pytest.raises(FileFormatError):
        Correction.load(path)


def test_a_newer_version_is_refused_with_advice(path):
    content = editable(path)
    path.write_text(json.dumps({**content, "version": 8}))
    with pytest.raises(
        FileFormatError,
        match=r"version 8, but this propcal reads only up to version 7\. Upgrade",
    ):
        Correction.load(path)


NONSENSE = {
    "a group that is not there": lambda c: c["updates"].__setitem__(0, [999, 0, 5]),
    "a bin that is not there": lambda c: c["updates"].__setitem__(0, [0, 10, 5]),
    "a shift beyond 2": lambda c: c["updates"].__setitem__(0, [0, 0, 2**34]),
    "a shift that is no whole number": lambda c: c["updates"].__setitem__(
        0, [0, 0, 0.5]
    ),
    "a truth value for a number": lambda c: c["updates"].__setitem__(0, [True, 0, 5]),
    "an update with an entry too many": lambda c: c["updates"].__setitem__(
        0, [0, 0, 5, 5]
    ),
    "updates that are no list": lambda c: c.__setitem__("updates", 7),
    "edges that fall": lambda c: c["bins"]["edges"].reverse(),
    "edges that do not cover": lambda c: c["bins"]["edges"].pop(),
    "edges of text": lambda c: c["bins"].__setitem__("edges", ["0", "1"]),
    "an unknown kind of bins": lambda c: c["bins"].__setitem__("kind", "odd"),
    "bins that are a number": lambda c: c.__setitem__("bins", 10),
    "a group of an unknown attribute": lambda c: c["groups"].__setitem__(
        0, [["shoe size", "44"]]
    ),
    "a group twice": lambda c: c["groups"].append(c["groups"][0]),
    "a level that is a number": lambda c: c["groups"].__setitem__(0, [["race", 5]]),
    "no groups": lambda c: c.__setitem__("groups", []),
    "a pattern twice": lambda c: c["patterns"].append(c["patterns"][0]),
    "a pattern with a level too few": lambda c: c["patterns"].append(["White"]),
    "attributes that are equal": lambda c: c.__setitem__(
        "attributes", ["race", "race"]
    ),
    "a policy that is none": lambda c: c.__setitem__("unseen", "shrug"),
    "another unit": lambda c: c.__setitem__("unit", "percent"),
    "a missing entry": lambda c: c.pop("patterns"),
    "an entry too many": lambda c: c.__setitem__("code", "import os"),
    "a version of text": lambda c: c.__setitem__("version", "1"),
    "a group with a level that nobody had": lambda c: c["groups"].__setitem__(
        0, [["race", "Martian"]]
    ),
    "attributes swapped": lambda c: c["attributes"].reverse(),
    "an alpha out of range": lambda c: c["about"].__setitem__("alpha", 10**400),
    "a method that is no text": lambda c: c["about"].__setitem__("method", [1]),
    "an alpha of text": lambda c: c["about"].__setitem__("alpha", "low"),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_a_file_edited_into_nonsense_is_refused(path, what):
    content = editable(path)
    NONSENSE[what](content)
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=r"model\.json"):
        Correction.load(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"version": 4, "version": 4,', '"version" occurs twice'),
        ('"version": NaN,', 'NaN in "version" is not a finite number'),
        (f'"version": {"9" * 5000},', "thousands of digits"),
        (f'"version": {"[" * 99_000}', "nested too deeply"),
        (r'"version": "\ud800",', "invalid Unicode"),
    ],
)
def test_json_that_is_not_quite_json_is_refused(path, text, why):
    path.write_text(path.read_text().replace('"version": 4,', text))
    with pytest.raises(
        FileFormatError, match=rf"model\.json is not a correction file: .*{why}"
    ):
        Correction.load(path)


def test_a_mark_at_the_beginning_is_no_harm(path, correction):
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # some editors add it
    assert Correction.load(path).model_id == correction.model_id
    text = "\ufeff" + correction.to_json()
    assert Correction.from_json(text).model_id == correction.model_id


def test_large_steps_round_trip(tmp_path):
    score, y = np.full(100, 0.01), np.r_[np.ones(90), np.zeros(10)]
    model = PMCBoost.paper(alpha=0.1, eta=1.5).fit(score, y)
    model.correction_.save(tmp_path / "m.json")
    again = Correction.load(tmp_path / "m.json")
    assert again.to_json() == (tmp_path / "m.json").read_text()
    assert again.model_id == model.correction_.model_id


def test_a_save_that_fails_leaves_the_old_file_whole(path, correction, monkeypatch):
    old = path.read_text()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        correction.save(path)
    assert path.read_text() == old
    assert [p.name for p in path.parent.iterdir()] == ["model.json"]


# files of older versions


def test_the_first_version_of_the_file_is_still_read(path, correction, cohort):
    content = editable(path)
    del content["start"], content["monotone"]
    path.write_text(json.dumps({**content, "version": 1}))
    assert Correction.load(path).model_id == correction.model_id
    path.write_text(json.dumps({**content, "version": 2}))
    with pytest.raises(FileFormatError, match='the entry "start" is missing'):
        Correction.load(path)
    path.write_text(json.dumps({**content, "version": 1, "start": []}))
    with pytest.raises(FileFormatError, match='version 1 has no "start"'):
        Correction.load(path)
