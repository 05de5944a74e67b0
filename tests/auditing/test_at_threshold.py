"""What acting at a threshold comes to, compared with counting rows."""

import numpy as np
import pandas as pd
import pytest

from propcal import audit
from propcal.errors import InputError


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"g": rng.choice(["A", "B"], 3000), "score": rng.beta(1.2, 3, 3000).round(3)}
    )
    return frame.assign(y=(rng.random(3000) < frame.score).astype(int))


def test_numbers_are_those_of_the_rows(people):
    a = audit(
        people.y,
        people.score,
        sensitive_features=people[["g"]],
        thresholds=[0.075, 0.3],
        n_draws=100,
    )
    table = a.at_threshold().set_index(["threshold", "group"])
    assert sorted({t for t, _ in table.index}) == [0.075, 0.3]
    for t in (0.075, 0.3):
        for name, rows in [
            ("everybody", people),
            *((f"g={g}", r) for g, r in people.groupby("g")),
        ]:
            found, flagged, event = table.loc[(t, name)], rows.score >= t, rows.y == 1
            assert found.flagged == pytest.approx(flagged.mean())
            assert found.sensitivity == pytest.approx(flagged[event].mean())
            assert found.specificity == pytest.approx(1 - flagged[~event].mean())
            assert found.ppv == pytest.approx(event[flagged].mean())
            odds = t / (1 - t)
            benefit = (flagged & event).mean() - odds * (flagged & ~event).mean()
            assert found.net_benefit == pytest.approx(benefit)
            avoided = (~flagged & ~event).mean() - (~flagged & event).mean() / odds
            assert found.avoided == pytest.approx(avoided)
            for share in (
                "flagged",
                "sensitivity",
                "specificity",
                "ppv",
                "net_benefit",
            ):
                assert found[f"{share}_low"] < found[share] < found[f"{share}_high"]


def test_intervals_cover(people):
    rng = np.random.default_rng(1)
    truth = people.score[people.score >= 0.3].mean()  # the PPV of a score that is right
    hits = 0
    for _ in range(60):
        y = (rng.random(len(people)) < people.score).astype(int)
        row = audit(y, people.score, n_draws=100).at_threshold(0.3).iloc[0]
        hits += row.ppv_low <= truth <= row.ppv_high
    assert hits >= 52


def test_repeat_visits_make_intervals_wider(people):
    twice = pd.concat([people, people, people, people])
    person = np.tile(np.arange(len(people)), 4)
    rows = audit(twice.y, twice.score, n_draws=100).at_threshold(0.3).iloc[0]
    visits = (
        audit(twice.y, twice.score, cluster=person, n_draws=100)
        .at_threshold(0.3)
        .iloc[0]
    )
    assert visits.ppv == pytest.approx(rows.ppv)
    wider = (visits.ppv_high - visits.ppv_low) / (rows.ppv_high - rows.ppv_low)
    assert 1.6 < wider < 2.5


@pytest.mark.parametrize("value", [0, 1, -0.1, 2, "0.2", np.nan])
def test_a_threshold_lies_between_0_and_1(people, value):
    with pytest.raises(InputError, match="threshold"):
        audit(people.y, people.score, thresholds=value)


def test_a_threshold_that_was_not_asked_for(people):
    a = audit(people.y, people.score, n_draws=100)
    assert a.at_threshold().empty
    assert len(a.at_threshold(0.2)) == 1
    with pytest.raises(InputError, match=r"audit\(\.\.\., thresholds=\[0\.123\]\)"):
        a.at_threshold(0.123)
