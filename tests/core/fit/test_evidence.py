"""Repeat visits in a fit: rows of one person are not independent evidence."""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, PMCBoost
from propcal.core.fit.evidence import repeat_effect
from propcal.errors import InputError


def visits(seed, patients=400, each=6):
    """Patients who come several times, always with the same risk and the same outcome;
    the score is right.
    """
    rng = np.random.default_rng(seed)
    risk, race = rng.beta(2, 4, patients), rng.choice(["A", "B"], patients)
    y = (rng.random(patients) < risk).astype(int)
    frame = pd.DataFrame(
        {"id": np.arange(patients), "risk": risk, "race": race, "y": y}
    )
    return frame.loc[frame.index.repeat(each)].reset_index(drop=True)


def fitted(frame, **more):
    return PMCBoost().fit(
        frame.risk, frame.y, sensitive_features=frame[["race"]], **more
    )


def test_a_perfect_score_is_left_alone_if_repeat_visits_are_named():
    changed = {True: 0, False: 0}
    for seed in range(20):
        frame = visits(seed)
        for named in changed:
            more = {"cluster": frame["id"]} if named else {}
            changed[named] += fitted(frame, **more).n_updates_ > 0
    assert (
        changed[False] >= 10
    )  # taken for 2,400 different people, chance looks like an error
    assert changed[True] <= 4


def test_the_design_effect_is_that_of_the_visits():
    atoms = Atoms.from_frame(
        visits(1), score="risk", outcome="y", groups=["race"], cluster="id"
    )
    assert 4.5 < repeat_effect(atoms) < 8
    single = Atoms.from_frame(
        visits(1, 3000, 1), score="risk", outcome="y", groups=["race"], cluster="id"
    )
    assert repeat_effect(single) < 1.3
    bare = Atoms.from_frame(
        visits(1).drop(columns="id"), score="risk", outcome="y", groups=["race"]
    )
    assert repeat_effect(bare) == 1


def test_a_wrong_score_is_corrected_and_the_summary_says_what_was_done():
    frame = visits(3, 3000)
    wrong = frame.assign(risk=np.clip(frame.risk * 0.6, 0, 1))
    model = fitted(wrong, cluster=wrong["id"])
    assert model.n_updates_ > 0
    assert any(
        "repeat visits were taken into account" in note
        for note in model.fit_summary_.notes
    )
    again = PMCBoost().fit_atoms(
        Atoms.from_frame(
            wrong, score="risk", outcome="y", groups=["race"], cluster="id"
        )
    )
    scores = [
        m.predict(wrong.risk, sensitive_features=wrong[["race"]])
        for m in (model, again)
    ]
    assert np.array_equal(*scores)


def test_rows_of_a_few_people_cannot_be_fitted():
    frame = visits(1, 5, 60).assign(y=lambda f: f["id"] % 2)
    with pytest.raises(InputError, match="about 5 different values, too few"):
        fitted(frame, cluster=frame["id"])


def test_only_a_fit_with_repeat_visits_speaks_of_them():
    frame = visits(1)
    notes = [
        fitted(frame, cluster=named).fit_summary_.notes for named in (None, frame["id"])
    ]
    assert [any("repeat visits" in note for note in each) for each in notes] == [
        False,
        True,
    ]
