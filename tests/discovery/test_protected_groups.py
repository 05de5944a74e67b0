"""The table of protected groups: what it says of new people is true of them."""

import numpy as np
import pandas as pd
import pytest

from propcal import discover
from propcal.discovery.people import People, chance_followed, correct_for
from propcal.discovery.protected_groups import ProtectedGroups, measure_repairs
from propcal.discovery.search import Outcome
from propcal.documents.discovery import discovery_document


def cohort(n, seed, error=0.06):
    """A score that is too low for race X, and for race B above the age of 60."""
    rng = np.random.default_rng(seed)
    race = rng.choice(["A", "B", "X"], n, p=[0.6, 0.37, 0.03])
    age = np.clip(rng.normal(np.where(race == "B", 55, 48), 15), 18, 95).round()
    risk = rng.uniform(0.1, 0.5, n)
    true = risk + error * (race == "X") + 1.5 * error * (race == "B") * (age > 60)
    y = (rng.random(n) < true).astype(int)
    return pd.DataFrame(
        {
            "race": race,
            "age": age,
            "other": rng.integers(0, 5, n),
            "score": risk,
            "true": true,
            "y": y,
        }
    )


def found_in(frame, **more):
    return discover(
        "y",
        "score",
        data=frame,
        features=["age", "other"],
        protect=["race"],
        n_draws=24,
        **more,
    )


@pytest.fixture(scope="module")
def found():
    return found_in(cohort(12_000, 11))


def test_a_score_in_which_nothing_is_found_has_nothing_removed():
    frame = cohort(4000, 3, error=0.0)
    found = found_in(frame)
    assert len(found) == 0
    assert found.protection.by == "nothing"
    table = found.protection.to_frame()
    assert (table["after"] == table["before"]).all()
    assert not table["clear"].any()
    assert table["removed"].isna().all()
    assert "could be chance for race A, race B and race X" in found.text
    assert discovery_document(found).blocks[0].tone == "noise"


def test_an_error_that_no_permitted_group_repairs_is_told_as_it_is():
    frame = cohort(12_000, 5, error=0.0)
    rng = np.random.default_rng(55)
    frame["y"] = (
        rng.random(len(frame)) < frame["score"] + 0.2 * (frame["race"] == "X")
    ).astype(int)
    found = found_in(frame, max_groups=1, level=1e-9)
    assert found.protection.by == "nothing"
    assert "so that nothing of it is removed" in found.text
    row = found.protection.to_frame().set_index("group").loc["race X"]
    assert row["clear"]
    assert row["removed"] == 0
    assert (
        row["removed_reading"] < 0.95
    )  # the group is too small for more, though its gap here is 0
    assert abs(row["reading"]) < 0.001 < row["left_reading"]
    verdict = discovery_document(found).blocks[0]
    assert (
        verdict.tone == "few"
    )  # no tick above a group for whom the score is clearly wrong
    assert verdict.headline.startswith(
        "No group described by the searched columns was found for whom "
    )


def test_a_finding_does_not_exclude_others(found):
    others = (
        "Other groups may also be wrong: small errors can be missed, and groups with less than about 2 % of "
        "the people are not searched for (min_share)."
    )
    assert len(found) > 0
    assert others in found.sentences
    assert others in discovery_document(found).blocks[0].sentences


def test_the_gap_after_correction_is_that_of_the_groups_that_are_named(found):
    frame = cohort(12_000, 11)
    (condition,) = found.groups.where.values()
    inside = np.flatnonzero(frame.eval(condition.replace(" = ", " == ")))
    people = People(
        frame["score"].to_numpy(), frame["y"].to_numpy(), np.ones(len(frame)), False
    )
    _, score = correct_for(people, [inside], whole=found.overall["found"])
    table = found.protection.to_frame().set_index("group")
    for race in "ABX":
        rows = (frame["race"] == race).to_numpy()
        assert table.loc[f"race {race}", "after"] == pytest.approx(
            (frame["y"] - score)[rows].mean()
        )


def test_a_correction_follows_the_chance_of_a_group_as_far_as_its_groups_describe_it():
    frame = cohort(20_000, 6)
    people = People(
        frame["score"].to_numpy(), frame["y"].to_numpy(), np.ones(len(frame)), False
    )
    old, young = np.flatnonzero(frame["age"] > 60), np.flatnonzero(frame["age"] <= 30)
    half = np.append(old, np.flatnonzero(frame["age"] <= 60)[: len(old)])
    _, score = correct_for(people, [old], whole=False)
    followed = chance_followed(people, [old], [old, young, half], score, whole=False)
    assert followed == pytest.approx([1.0, 0.0, 0.5], abs=0.03)


def test_a_group_that_is_taken_further_from_its_observed_rate_has_a_sentence():
    frame = cohort(40_000, 7)
    low = (frame["race"] == "B") & (frame["age"] > 60)
    frame["y"] = np.where(
        (frame["race"] != "B") & (frame["age"] > 60) & (frame["y"] == 1), 0, frame["y"]
    )
    rng = np.random.default_rng(7)
    frame.loc[low, "y"] = (rng.random(low.sum()) < frame["score"][low]).astype(int)
    found = found_in(frame)
    table = found.protection.to_frame().set_index("group")
    assert abs(table.loc["race B", "after"]) > abs(table.loc["race B", "before"])
    assert any(
        s.startswith("race B: the correction takes predicted further")
        for s in found.sentences
    )


def test_weights_and_repeat_visits_are_allowed_for():
    frame = cohort(6000, 8)
    rows = ProtectedGroups(
        ("race",), ("race B",), (np.flatnonzero(frame["race"] == "B"),)
    )

    def width(repeat, weight, **more):
        twice = pd.concat([frame] * repeat, ignore_index=True)
        own = ProtectedGroups(
            ("race",), ("race B",), (np.flatnonzero(twice["race"] == "B"),)
        )
        people = People(
            twice["score"].to_numpy(), twice["y"].to_numpy(), weight, **more
        )
        row = measure_repairs(own, Outcome(), people).table.iloc[0]
        return row["before_high"] - row["before_low"]

    once = width(1, np.ones(6000), survey=False)
    assert len(rows.rows[0]) > 2000
    assert width(2, np.ones(12_000), survey=False) == pytest.approx(
        once / 2**0.5, rel=1e-3
    )
    assert width(1, np.full(6000, 2.0), survey=False) == pytest.approx(
        once / 2**0.5, rel=1e-3
    )
    assert width(1, np.full(6000, 2.0), survey=True) == pytest.approx(once, rel=1e-3)
    persons = np.tile(np.arange(6000), 2)
    assert width(2, np.ones(12_000), survey=False, cluster=persons) == pytest.approx(
        once, rel=1e-2
    )


def true_errors(found, frame, new):
    """The error of both corrections among new people whose true risks are known."""
    both = pd.concat([frame, new], ignore_index=True)
    old = np.arange(len(both)) < len(frame)
    people = People(
        both["score"].to_numpy(), both["y"].to_numpy(), np.ones(len(both)), False
    )
    where = found.groups.where.values() if len(found) else []
    groups = [
        np.flatnonzero(both.eval(condition.replace(" = ", " == ")))
        for condition in where
    ]
    races = [np.flatnonzero(both["race"] == race) for race in "ABX"]
    after = people.raw
    if groups or found.overall["found"]:
        _, after = correct_for(people, groups, whole=found.overall["found"], fitted=old)
    _, reading = correct_for(people, races, whole=True, fitted=old)
    own = [rows[~old[rows]] for rows in races]
    scores = {"before": people.raw, "after": after, "reading": reading}
    return {
        k: np.array([(both["true"] - p)[rows].mean() for rows in own])
        for k, p in scores.items()
    }


@pytest.mark.slow
def test_errors_left_and_intervals_are_true_of_new_people():
    sets, said, true = 120, [], []
    for seed in range(sets):
        frame = cohort(12_000, 500 + seed)
        found = found_in(frame, random_state=seed)
        said.append(found.protection.to_frame())
        true.append(true_errors(found, frame, cohort(100_000, 90_000 + seed)))
    for name in ("before", "after", "reading"):
        truth = np.array([one[name] for one in true])
        low, high, gap = (
            np.array([t[name + end] for t in said]) for end in ("_low", "_high", "")
        )
        covered = ((low <= truth) & (truth <= high)).mean(axis=0)
        assert (covered > 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / sets)).all()
        bias = (gap - truth).mean(axis=0)
        assert (np.abs(bias) < 3.5 * (gap - truth).std(axis=0) / np.sqrt(sets)).all()
    for name, left in (("after", "left"), ("reading", "left_reading")):
        size = np.abs([one[name] for one in true])
        told = np.array([t[left] for t in said])
        assert told.mean(axis=0) == pytest.approx(size.mean(axis=0), rel=0.25)
    for name, share in (("after", "removed"), ("reading", "removed_reading")):
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # a group without an error has no share
            truth = np.array([1 - np.abs(one[name] / one["before"]) for one in true])
        truth = np.maximum(truth, -1)
        low, high = (
            np.array([t[share + end] for t in said]) for end in ("_low", "_high")
        )
        told = ~np.isnan(low)
        covered = ((low <= truth + 1e-9) & (truth <= high + 1e-9))[told]
        assert covered.mean() > 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / told.sum())
