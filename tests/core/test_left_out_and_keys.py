"""What is said about people who were left out, and the numbers that recognise people."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms
from propcal.core import atoms as atoms_module
from propcal.core.atoms import LeftOutReport, _hidden, person_hash
from propcal.core.grid import UNIT


def splitmix(value):
    """The finaliser of splitmix64, in Python integers."""
    most = 2**64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) % most
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) % most
    return value ^ (value >> 31)


def hash_of(score, outcome):
    return splitmix(2 * int(score * UNIT) + outcome)


SCORES = (0.25, 0.5, 0.75)


def test_a_person_is_hashed_by_twice_the_score_plus_the_outcome():
    score = np.array([int(s * UNIT) for s in SCORES])
    for outcome in (0, 1):
        expected = [hash_of(s, outcome) for s in SCORES]
        assert person_hash(score, outcome).tolist() == expected
    mixed = person_hash(score, np.array([1, 0, 1])).tolist()
    assert mixed == [hash_of(s, y) for s, y in zip(SCORES, (1, 0, 1))]


def fingerprint(n_people, sums):
    content = repr((n_people, sums))
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


@pytest.mark.parametrize("rows_at_once", [1, 1 << 16])
def test_a_fingerprint_is_made_of_hashes_added_up_over_people(
    rows_at_once, monkeypatch
):
    monkeypatch.setattr(atoms_module, "HASH_ROWS", rows_at_once)
    people, events = (5, 3, 4), (1, 2, 4)
    score = np.repeat(SCORES, people)
    outcome = np.concatenate([np.arange(n) < k for n, k in zip(people, events)])
    frame = pd.DataFrame({"s": score, "y": outcome.astype(int)})
    atoms = Atoms.from_frame(frame, score="s", outcome="y")
    sums = [
        sum(n * hash_of(s, 0) for s, n in zip(SCORES, people)) % 2**64,
        sum(k * hash_of(s, 1) for s, k in zip(SCORES, events)) % 2**64,
    ]
    assert atoms.people_fingerprint() == fingerprint(12, sums)
    keys = [
        (k * hash_of(s, 1) + (n - k) * hash_of(s, 0)) % 2**64
        for s, n, k in zip(SCORES, people, events)
    ]
    assert atoms.record_keys().tolist() == keys


@pytest.mark.parametrize("rows_at_once", [1, 1 << 16])
def test_a_fingerprint_of_survey_weights_has_ten_digits_of_their_sums(
    rows_at_once, monkeypatch
):
    monkeypatch.setattr(atoms_module, "HASH_ROWS", rows_at_once)
    weight = np.array([0.5, 1.25, 3.5])
    outcome = np.array([1, 0, 1])
    frame = pd.DataFrame({"s": SCORES, "y": outcome, "w": weight})
    atoms = Atoms.from_frame(frame, score="s", outcome="y", weight="w")
    sums = [
        sum(w * hash_of(s, 0) / 2**64 for s, w in zip(SCORES, weight)),
        sum(w * hash_of(s, 1) / 2**64 for s, w in zip(SCORES, weight * outcome)),
    ]
    assert atoms.people_fingerprint() == fingerprint(3, [f"{x:.9e}" for x in sums])


def test_one_person_left_out_has_a_verb_of_their_own():
    assert LeftOutReport(0, 500).sentence() == ""
    assert LeftOutReport(1, 500).sentence() == (
        "1 of 500 people (0.20 %) has no score or outcome and was left out."
    )
    assert LeftOutReport(2, 500).sentence(unit="patients") == (
        "2 of 500 patients (0.40 %) have no score or outcome and were left out."
    )


def test_levels_are_listed_by_the_share_that_was_left_out():
    rows = [("A", 20, 1000), ("B", 12, 100), ("C", 11, 220), ("D", 0, 50)]
    report = LeftOutReport(43, 1370, {"ward": rows})
    assert report.sentence(11).endswith(": B 12.0 %, C 5.0 %, A 2.0 %.")
    named = report.sentence(11, labels={"ward": {"B": "ward B"}})
    assert named.endswith(": ward B 12.0 %, C 5.0 %, A 2.0 %.")


def test_attributes_are_named_where_there_are_several():
    report = LeftOutReport(
        30, 300, {"ward": [("A", 30, 300)], "sex": [("F", 30, 150), ("M", 0, 150)]}
    )
    assert report.sentence().endswith(": by ward, A 10.0 %; by sex, F 20.0 %.")


def test_levels_beyond_the_sixth_are_counted():
    rows = [(f"w{i}", 10 + i, 100) for i in range(8)]
    text = LeftOutReport(108, 800, {"ward": rows}).sentence()
    assert text.endswith("w2 12.0 % and 2 more.")
    text = LeftOutReport(91, 700, {"ward": rows[:7]}).sentence()
    assert text.endswith("w1 11.0 % and 1 more.")
    text = LeftOutReport(75, 600, {"ward": rows[:6]}).sentence()
    assert text.endswith("w1 11.0 %, w0 10.0 %.")


@pytest.mark.parametrize(
    ("counts", "hidden"),
    [
        ([20, 11, 30], []),  # 11 and more are shown, and so is 0
        ([20, 0, 30], []),
        ([20, 5, 30], [0, 1]),  # alone, 5 could be worked out from the total
        ([20, 5, 6, 30], [1, 2]),  # 11 together
        ([20, 5, 5, 30], [0, 1, 2]),  # 10 are too few
        ([5, 0, 0], [0]),  # nobody else can be hidden
    ],
)
def test_counts_are_hidden_until_their_sum_is_large_enough(counts, hidden):
    assert np.flatnonzero(_hidden(counts, 11)).tolist() == hidden
