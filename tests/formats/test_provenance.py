"""Who a correction is: its hash, its time, the notes of its users; and what an edited
file is told.
"""

import hashlib
import json
import shutil
import subprocess

import numpy as np
import pytest

from propcal import Correction, PMCBoost, __version__
from propcal.errors import FileFormatError, InputError
from propcal.formats.strict_json import canonical


@pytest.fixture(scope="module")
def model(cohort):
    columns = {"score": "score", "outcome": "y", "groups": ["race", "gender"]}
    return PMCBoost.paper(alpha=0.05).fit(cohort, **columns)


@pytest.fixture
def path(tmp_path, model):
    model.correction_.save(tmp_path / "model.json")
    return tmp_path / "model.json"


def edited(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_file_says_who_made_it_from_what(path, cohort):
    about = json.loads(path.read_text())["about"]
    assert about["propcal"] == __version__
    assert (about["score"], about["outcome"]) == ("score", "y")
    low, high = about["people"]
    assert low <= len(cohort) <= high
    assert about["model_id"].startswith("sha256:")
    assert about["created"].endswith("Z")


def test_two_fits_are_the_same_and_only_their_files_have_a_time(
    model, cohort, tmp_path, monkeypatch
):
    again = PMCBoost.paper(alpha=0.05).fit(
        cohort, score="score", outcome="y", groups=["race", "gender"]
    )
    assert again.correction_.to_json() == model.correction_.to_json()
    assert "created" not in model.correction_.about
    texts = []
    for when, fit in ((0, model), (86_400, again), (86_400, model)):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(when))
        fit.correction_.save(tmp_path / "m.json")
        texts.append((tmp_path / "m.json").read_text())
    first, second, third = texts
    assert '"created": "1970-01-01T00:00:00Z"' in first
    assert first != second == third
    assert first == second.replace(
        "1970-01-02", "1970-01-01"
    )  # and nothing else differs
    Correction.load(tmp_path / "m.json").save(tmp_path / "copy.json")
    assert (
        tmp_path / "copy.json"
    ).read_text() == third  # a copy keeps the time of the fit
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(InputError, match="SOURCE_DATE_EPOCH must be"):
        model.correction_.save(tmp_path / "m.json")


EDITS = {
    "a shift": lambda c: c["updates"][0].__setitem__(2, c["updates"][0][2] + 1),
    "the order of updates": lambda c: c["updates"].reverse(),
    "monotone": lambda c: c.__setitem__("monotone", not c["monotone"]),
    "the policy": lambda c: c.__setitem__("unseen", "keep"),
    "a group": lambda c: c["groups"].reverse(),
    "alpha": lambda c: c["about"].__setitem__("alpha", 0.2),
    "the outcome": lambda c: c["about"].__setitem__("outcome", "readmitted"),
    "a key more": lambda c: c["about"].__setitem__("valid", True),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edited_file_is_refused(path, what):
    edited(path, EDITS[what])
    with pytest.raises(
        FileFormatError, match=r'was edited or damaged: .*"model_id".*remove "model_id"'
    ):
        Correction.load(path)
    edited(path, lambda c: c["about"].pop("model_id"))
    Correction.load(path)  # meant


def test_a_file_may_be_laid_out_anew_and_carry_notes(path, model):
    edited(
        path,
        lambda c: c["about"].__setitem__(
            "user", {"ticket": "CAB-17", "approved": ["A. B.", None]}
        ),
    )
    content = json.loads(path.read_text())
    content["about"]["created"] = "2026-01-01T00:00:00Z"
    path.write_text(
        json.dumps(dict(reversed(content.items())), indent=7, ensure_ascii=True)
    )
    loaded = Correction.load(path)
    assert loaded.about["user"]["ticket"] == "CAB-17"
    assert loaded.model_id == model.correction_.model_id
    loaded.with_notes(approved_on="2026-02-01").save(path)
    assert Correction.load(path).about["user"] == {
        **loaded.about["user"],
        "approved_on": "2026-02-01",
    }


@pytest.mark.parametrize(
    "note", [float("nan"), object(), {1: 2}, "\ud800", [10**5000], [[[[[[[[[]]]]]]]]]]
)
def test_notes_that_a_file_could_not_hold_are_refused(model, note):
    with pytest.raises(
        InputError, match=r"notes must be texts, finite numbers.* at most 8 levels deep"
    ):
        model.correction_.with_notes(note=note)


def test_the_deepest_notes_are_read_again(path, model):
    model.correction_.with_notes(note=[[[[[[[[1]]]]]]]]).save(path)
    assert Correction.load(path).about["user"] == {"note": [[[[[[[[1]]]]]]]]}


def test_unknown_keys_of_about_are_kept(path):
    edited(
        path,
        lambda c: c["about"].update(
            model_card={"url": "https://example.org", "n": [1.5, None]}
        ),
    )
    edited(path, lambda c: c["about"].pop("model_id"))
    loaded = Correction.load(path)
    loaded.save(path)
    assert json.loads(path.read_text())["about"]["model_card"] == {
        "url": "https://example.org",
        "n": [1.5, None],
    }
    assert Correction.load(path).about["model_card"]["n"] == [1.5, None]


def test_a_file_without_provenance_loads_as_before(path, model, cohort):
    for key in ("model_id", "created", "propcal", "people", "score", "outcome"):
        edited(path, lambda c, key=key: c["about"].pop(key))
    old = Correction.load(path)
    frame = cohort[["race", "gender"]]
    assert np.array_equal(
        old.apply(cohort.score, frame), model.correction_.apply(cohort.score, frame)
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c.pop("bins"), 'the entry "bins" is missing'),
        (lambda c: c.update(x=1), '"x" is not an entry of version 4'),
        (lambda c: c["updates"].__setitem__(2, [0, 0]), 'row 3 of "updates" is wrong'),
        (
            lambda c: c["groups"].__setitem__(1, [["shoe", "44"]]),
            'row 2 of "groups".*unknown attribute',
        ),
        (lambda c: c["about"].update(people=5), '"people" of "about"'),
        (lambda c: c["about"].update(user="me"), '"user" of "about"'),
        (
            lambda c: c["about"].update(deep=[[[[[[[[[[[[1]]]]]]]]]]]]),
            '"about" must be .* at most 10 levels',
        ),
    ],
)
def test_a_refusal_names_the_entry_and_the_fault(path, change, told):
    edited(path, change)
    with pytest.raises(FileFormatError, match=told):
        Correction.load(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.replace(b'"alpha"', b'"rho": 0.1, "alpha"'), '"rho" occurs twice'),
        (
            lambda t: t.replace(b'"alpha": 0.05', b'"alpha": NaN'),
            'NaN in "alpha" is not a finite number',
        ),
        (
            lambda t: t.replace(
                b'"alpha": 0.05', b'"a": [1, [Infinity]], "alpha": 0.05'
            ),
            'Infinity in "a"',
        ),
        (
            lambda t: t.replace(b'"alpha": 0.05', b'"b": {"c": -1e999}, "alpha": 0.05'),
            '-1e999 in "c"',
        ),
        (
            lambda t: t.replace(b'"alpha": 0.05', b'"alpha": ' + b"[" * 90_000),
            "nested too deeply",
        ),
        (
            lambda t: t.replace(b'"alpha": 0.05', b'"alpha" 0.05'),
            r"not JSON: .* \(line 5, column \d+\)",
        ),
        (lambda t: t.decode().encode("utf-16"), "it is UTF-16 text. Save it as UTF-8"),
        (lambda t: t[:100], "not complete JSON. Is it truncated"),
        (lambda t: t + b"// reviewed", r"not JSON: Extra data \(line \d+, column 1\)"),
        (lambda t: t.replace(b"PMCBoost", b"\xff\xff"), r"not UTF-8 text \(byte \d+\)"),
    ],
)
def test_each_fault_of_a_text_has_its_own_message(path, change, told):
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FileFormatError, match=told):
        Correction.load(path)


def test_the_hash_is_that_of_the_page(path):
    """As docs/reference/correction-file.md describes it, for a file whose numbers are
    all plain.
    """
    content = json.loads(path.read_text())
    told = content["about"].pop("model_id")
    content["about"].pop("created")
    content["about"] = {
        k: int(v) if v == 1.0 and v is not True else v
        for k, v in content["about"].items()
    }
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    assert told == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


LARGE = [1e21, 123456789012345680000.0, 1.7976931348623157e308]
NUMBERS = [0.1, -0.0, *LARGE, 1e-7, 0.000001, 5e-324, -2.5e-9, 3]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_numbers_and_keys_are_written_as_javascript_writes_them():
    text = canonical({"n": NUMBERS, "é": 'a"\\\x07\n', "": [True, None, {}]})
    program = "process.stdout.write(JSON.stringify(JSON.parse(process.argv[1])))"
    done = subprocess.run(
        ["node", "-e", program, text], capture_output=True, text=True, check=True
    )
    assert done.stdout == text


def test_numbers_are_written_in_one_form():
    told = "[0.1,0,1e+21,123456789012345680000,1.7976931348623157e+308,1e-7,0.000001,5e-324,-2.5e-9,3]"
    assert canonical(NUMBERS) == told
    assert canonical({"￿": 1, "😀": 2, "a": 3}) == '{"a":3,"😀":2,"￿":1}'  # by UTF-16
