"""What a correction's file gives away: attacks on exact files succeed, on shared ones
they find chance.
"""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, Correction, MCBoost, PMCBoost
from propcal.cli import main
from propcal.core.arguments import FEWEST_SHOWN
from propcal.core.grid import UNIT
from propcal.core.groups import membership
from propcal.errors import InputError, UnknownLevelWarning, UnseenError
from propcal.protect.shared_corrections import shared_bits
from propcal.reading.rows_to_score import scoring_rows

SMALL = range(1, FEWEST_SHOWN)
EXACT = 2.0**-32  # scores and shifts are rounded to that


def people(seed, decimals, n=500):
    """Few people in many groups, and scores as a sheet of paper gives them; all alike
    with no decimals.
    """
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 3, n)
    score = np.full(n, 0.3) if decimals == 0 else score.round(decimals)
    race = rng.choice(["A", "B", "C", "D"], n, p=[0.7, 0.15, 0.1, 0.05])
    if decimals == 0:
        race = np.char.add(race, rng.integers(0, 12, n).astype(str))
    sex, payer = (
        rng.choice(["F", "M"], n),
        rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1]),
    )
    y = (
        rng.random(n)
        < np.clip(score * np.where(np.char.startswith(race, "A"), 1, 1.6), 0, 1)
    ).astype(int)
    return pd.DataFrame(
        {"race": race, "sex": sex, "payer": payer, "score": score, "y": y}
    )


def fitted(frame, method=PMCBoost, **settings):
    model = method.paper(gamma=0.01, **settings)
    return model.fit(
        frame.score, frame.y, sensitive_features=frame[["race", "sex", "payer"]]
    ).correction_


def truth(correction, frame):
    """How many people each update moved, and whether none of them had been moved
    before.
    """
    values, patterns, code, _ = scoring_rows(frame.score, frame, correction)
    raw = np.floor(values * UNIT + 0.5).astype(np.int64)
    now, inside = raw.copy(), membership(correction.groups, patterns)
    found = []
    for group, j, shift in correction.updates.tolist():
        who = inside[group, code] & (correction.bins.index(now) == j)
        found.append((int(who.sum()), bool(np.all(now[who] == raw[who]))))
        now[who] = np.clip(now[who] + shift, 0, UNIT)
    return np.array(found)


def fits(shift, people, grain, tolerance):
    """Whether a shift is a whole number of 1 / (people * grain), to a tolerance."""
    parts = shift * people * grain
    return np.abs(parts - np.rint(parts)) <= tolerance * people * grain + 1e-12


@pytest.mark.parametrize("decimals", [0, 1, 2, 3])
def test_exact_files_give_small_cells_away(decimals):
    """The attack of a reader who knows to how many decimals scores are given."""
    tried = recovered = possible = 0
    grain = max(10**decimals, 10)
    for seed in range(6):
        frame = people(seed, decimals)
        correction = fitted(frame)
        for (n, fresh), (_, _, shift) in zip(
            truth(correction, frame), correction.updates.tolist()
        ):
            if not fresh or n >= FEWEST_SHOWN or fits(shift / UNIT, 1, grain, EXACT):
                # if nobody of them had the outcome, any number of people would do
                continue
            tried += 1
            found = [
                other for other in SMALL if fits(shift / UNIT, other, grain, EXACT)
            ]
            recovered += n in found
            possible += len(found)
    assert tried >= 16
    assert (
        recovered == tried
    )  # the true number is always among those that fit, and few fit
    assert possible < 3 * tried


@pytest.mark.parametrize("decimals", [0, 1, 2, 3])
@pytest.mark.parametrize("method", [PMCBoost, MCBoost])
def test_shared_files_do_not(decimals, method):
    grain = max(10**decimals, 10)
    hits, chance, spread = np.zeros((3, FEWEST_SHOWN))
    for seed in range(6):
        frame = people(seed, decimals)
        correction = fitted(frame, method)
        n, _ = truth(correction, frame).T
        sharing = correction.sharing
        assert np.array_equal(sharing.update_bits, shared_bits(n))
        left = sharing.update_bits >= 0
        assert (
            n[left].min() >= FEWEST_SHOWN
        )  # nothing else decided a number of the file
        steps = 2.0 ** -sharing.update_bits[left]
        rounded = np.floor(correction.updates[left, 2] / UNIT / steps + 0.5) * steps
        shared = correction.shared()
        assert np.array_equal(shared.updates[:, 2] / UNIT, rounded[rounded != 0])
        for shift, step, count in zip(rounded, steps, n[left]):
            # any number of people from the true one on explains it: one score value or
            # many
            assert all(
                fits(shift, other, 1, step / 2) for other in range(count, 3 * count)
            )
            for small in SMALL:
                hits[small] += fits(shift, small, grain, step / 2)
                expected = min(1.0, small * grain * step)
                chance[small] += expected
                spread[small] += expected * (1 - expected)
    # fewer than 11 fit as often as they would any number at all
    assert chance[1:].min() > 0
    assert np.all(hits[1:] <= chance[1:] + 4 * np.sqrt(spread[1:]) + 1)


def test_a_shared_file_says_so_and_has_no_fingerprint():
    frame = people(0, 2)
    correction = fitted(frame)
    content = json.loads(correction.to_json(share=True))
    assert content["about"]["shared"] is True
    assert content["version"] == json.loads(correction.to_json())["version"]
    assert "fingerprint" in json.loads(correction.to_json())["about"]
    shared = correction.to_json(share=True)
    assert shared.count("sha256") == 1  # of what the file says itself
    assert correction.about["fingerprint"] not in shared
    loaded = Correction.from_json(correction.to_json(share=True))
    atoms = Atoms.from_frame(
        frame, score="score", outcome="y", groups=["race", "sex", "payer"]
    )
    assert correction.fitted_to(atoms)
    assert not loaded.fitted_to(atoms)
    assert (
        loaded.to_json(share=True) == loaded.to_json()
    )  # what is shared may be shared again


def test_combinations_and_groups_of_few_people_are_not_named():
    frame = people(1, 2)
    frame.loc[0, "race"] = "Canary"
    correction = fitted(frame)
    counts = frame.fillna("").groupby(["race", "sex", "payer"]).size()
    named = {tuple(row) for row in json.loads(correction.to_json())["patterns"]}
    assert named == {*counts.index}
    text = correction.to_json(share=True)
    assert "Canary" not in text
    shown = {tuple(row) for row in json.loads(text)["patterns"]}
    assert shown >= {*counts[counts >= FEWEST_SHOWN].index}
    made_up = shown - {*counts[counts >= FEWEST_SHOWN].index}
    levels = {
        (a, level)
        for row in counts[counts >= FEWEST_SHOWN].index
        for a, level in enumerate(row)
    }
    for row in made_up:  # only to name a level that a group of 11 or more needs
        assert sum((a, level) not in levels for a, level in enumerate(row)) == 1
    for group in json.loads(text)["groups"]:
        who = np.logical_and.reduce([frame[name] == level for name, level in group])
        assert who.sum() >= FEWEST_SHOWN


def test_a_combination_that_is_left_out_scores_as_before():
    frame = people(2, 2)
    correction = fitted(frame)
    fewer = correction.shared()
    every = pd.DataFrame(
        product(*(sorted(frame[a].unique()) for a in fewer.attributes)),
        columns=fewer.attributes,
    )
    new = pd.DataFrame([["new", "F", None]], columns=fewer.attributes)
    every = pd.concat([every, new], ignore_index=True)
    assert len(fewer.patterns) < len(correction.patterns)
    scores = np.linspace(0, 1, 201)
    rows = every.loc[every.index.repeat(len(scores))]
    full = Correction(
        correction.patterns,
        fewer.groups,
        fewer.bins,
        fewer.updates,
        "replay",
        fewer.about,
        fewer.start,
    )
    tiled = np.tile(scores, len(every))
    assert np.array_equal(fewer.apply(tiled, rows), full.apply(tiled, rows))
    loaded = Correction.from_json(correction.to_json(share=True))
    assert np.array_equal(loaded.apply(tiled, rows), fewer.apply(tiled, rows))
    assert np.array_equal(
        fewer.to_sql(score="r").numbers, loaded.to_sql(score="r").numbers
    )


@pytest.mark.parametrize("n", [12, 40])
def test_hardly_anybody_is_still_a_file_that_can_be_read(n):
    frame = people(3, 2, n=n)
    frame.loc[:1, "y"] = [0, 1]
    correction = fitted(frame)
    loaded = Correction.from_json(correction.to_json(share=True))
    assert len(loaded.updates) <= len(correction.updates)
    loaded.apply(frame.score, frame)


def test_the_smooth_start_rests_on_fifty_people_and_is_rounded():
    frame = people(4, 2, n=4000)
    features = frame[["race", "sex", "payer"]]
    correction = (
        PMCBoost().fit(frame.score, frame.y, sensitive_features=features).correction_
    )
    shared = correction.shared()
    assert shared.start is not None
    for group, shifts in zip(shared.start.groups, shared.start.shifts):
        who = np.logical_and.reduce(
            [np.ones(len(frame), bool), *(frame[a] == v for a, v in group.conditions)]
        )
        assert who.sum() >= 50
        step = 2.0 ** -shared_bits(np.array([who.sum()]))[0]
        assert step >= 1 / who.sum() or step == 2.0**-10
        assert np.all(shifts % round(step * 2**20) == 0)
    moved = shared.apply(frame.score, features) - correction.apply(
        frame.score, features
    )
    assert np.abs(moved).max() < 0.02


def test_edges_of_quantile_bins_are_nobody_s_score():
    frame = people(5, 2, n=2000)
    frame["score"] = np.random.default_rng(0).random(2000)
    correction = fitted(frame, binning="quantile")
    inner, shared = correction.bins.edges[1:-1], correction.shared().bins.edges[1:-1]
    scores = np.floor(frame.score * UNIT + 0.5)
    assert np.isin(inner, scores).all()
    assert not np.isin(shared, scores).any()
    assert np.abs(shared - inner).max() <= UNIT // 2048
    assert np.array_equal(fitted(frame).shared().bins.edges, fitted(frame).bins.edges)


def test_survey_weights_count_people_at_the_least():
    frame = people(6, 2, n=2000)
    weight = np.random.default_rng(0).uniform(0.5, 3, len(frame))
    model = PMCBoost.paper(gamma=0.01)
    features = frame[["race", "sex", "payer"]]
    correction = model.fit(
        frame.score, frame.y, sensitive_features=features, sample_weight=weight
    ).correction_
    n, _ = truth(correction, frame).T
    assert n[correction.sharing.update_bits >= 0].min() >= FEWEST_SHOWN
    assert np.all(2.0**-correction.sharing.update_bits >= 1 / n)


def test_a_file_cannot_be_shared_later(tmp_path):
    fitted(people(0, 2)).save(tmp_path / "model.json")
    with pytest.raises(InputError, match="does not record how many people"):
        Correction.load(tmp_path / "model.json").save(
            tmp_path / "shared.json", share=True
        )
    assert not (tmp_path / "shared.json").exists()


def test_the_command_line_shares_what_the_library_shares(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    frame = people(0, 2)
    frame.to_csv("past.csv", index=False)
    columns = ["--score", "score", "--outcome", "y", "--groups", "race,sex,payer"]
    with pytest.raises(SystemExit) as end:
        main(
            [
                "fit",
                "past.csv",
                *columns,
                "--paper",
                "--gamma",
                "0.01",
                "--share",
                "-o",
                "model.json",
            ]
        )
    out, err = capfd.readouterr()
    assert (end.value.code, err) == (0, "")
    expected = fitted(frame).shared()
    expected = replace(
        expected, about=expected.about | {"score": "score", "outcome": "y"}
    )
    assert Correction.load(tmp_path / "model.json").model_id == expected.model_id
    assert "prepared for sharing" in out
    assert "Share one correction of these people only." in out
    assert "would tell the outcome of a person who was added or removed" in " ".join(
        out.split()
    )


def one_person_of_many_rows(kind, seed=7, rows=30):
    """500 people, and one more of a rare level who is in many rows, or in one row of a
    large weight.
    """
    frame = people(seed, 2)
    person = frame.iloc[[0]].assign(race="Canary", y=1, score=0.31)
    if kind == "visits":
        frame = pd.concat([frame, *[person] * rows], ignore_index=True)
        return frame.assign(weight=1, patient=[*range(500), *[500] * rows])
    frame = pd.concat([frame, person], ignore_index=True)
    return frame.assign(weight=[1] * 500 + [rows], patient=range(501))


def fitted_to_rows(frame, kind):
    by = (
        {"cluster": frame.patient}
        if kind == "visits"
        else {"sample_weight": frame.weight}
    )
    model = PMCBoost.paper(gamma=0.01)
    return model.fit(
        frame.score, frame.y, sensitive_features=frame[["race", "sex", "payer"]], **by
    ).correction_


@pytest.mark.parametrize("kind", ["visits", "weight"])
def test_thirty_rows_of_one_person_are_one_person(kind):
    """The attack: look for a person whose rare level is known, and for adjustments made
    for them alone.
    """
    frame = one_person_of_many_rows(kind)
    correction = fitted_to_rows(frame, kind)
    assert "Canary" in correction.to_json()
    assert "Canary" not in correction.to_json(share=True)
    inside = membership(
        correction.groups, scoring_rows(frame.score, frame, correction)[1]
    )
    values, _, code, _ = scoring_rows(frame.score, frame, correction)
    now = np.floor(values * UNIT + 0.5).astype(np.int64)
    smallest = []
    for (group, j, shift), bits in zip(
        correction.updates.tolist(), correction.sharing.update_bits
    ):
        who = inside[group, code] & (correction.bins.index(now) == j)
        if bits >= 0:
            different = frame[who].patient.nunique()
            smallest.append(different)
            assert 2.0**-bits >= 1 / different
        now[who] = np.clip(now[who] + shift, 0, UNIT)
    assert min(smallest) >= FEWEST_SHOWN


def test_weights_of_one_change_nothing_about_sharing():
    frame = people(8, 2).assign(weight=1)
    plain, one_each = fitted(frame), fitted_to_rows(frame, "weight")
    assert one_each.to_json(share=True) == plain.to_json(share=True)


def test_a_level_that_was_left_out_is_not_said_to_be_new():
    frame = people(1, 2)
    frame.loc[0, "race"] = "Canary"
    shared = fitted(frame).shared()
    omits = "listed in this shared correction, which omits values that few people had, so no group of 'race'"
    with pytest.warns(
        UnknownLevelWarning, match=f"'race': 1 of 500 values is not {omits}"
    ):
        shared.apply(frame.score, frame)
    with pytest.warns(UnknownLevelWarning, match=f"'race': the value is not {omits}"):
        shared.score_one(0.3, race="Canary", sex="F", payer="x")
    with pytest.warns(
        UnknownLevelWarning, match=f"'race': none of the 500 values is {omits}"
    ):
        shared.apply("score", frame.assign(race="Canary"))
    with (
        pytest.raises(
            UnseenError,
            match="not listed in this shared correction, which omits combinations",
        ),
        pytest.warns(UnknownLevelWarning),
    ):
        shared.apply(frame.score, frame, unseen="error")
