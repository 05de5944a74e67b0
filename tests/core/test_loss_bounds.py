"""Rounded scores: the losses of the exact ones lie where the bound says."""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, Groups, audit
from propcal.core.bins import uniform
from propcal.core.categories import categories, largest_log_ratio
from propcal.core.criterion import multicalibration, proportional
from propcal.core.loss_bounds import loss_bounds

RHO, MIN_SHARE, MIN_PEOPLE = 0.1, 0.002, 3


def people(seed, n):
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 4, n) if seed % 3 else np.clip(rng.normal(0.3, 0.02, n), 0, 1)
    frame = pd.DataFrame(
        {
            "s": score,
            "a": rng.choice(["x", "y", "z"], n),
            "b": rng.choice(["u", "v"], n),
        }
    )
    return frame.assign(
        y=(rng.random(n) < score * rng.choice([0.6, 1.0, 1.4])).astype(int)
    )


def table_of(atoms, n_bins):
    bins = uniform(n_bins)
    collection = atoms.collection(Groups(), gamma=0.05)
    return categories(
        atoms, collection, bins, min_share=MIN_SHARE, min_people=MIN_PEOPLE
    )


def losses(table):
    rate, gap, counts = table.outcome_rate, table.gap, table.eligible
    return (
        float(multicalibration().loss(gap[counts], rate[counts])),
        float(proportional(RHO).loss(gap[counts], rate[counts])),
        float(largest_log_ratio(np.where(counts, rate, np.nan), rho=RHO)),
    )


@pytest.mark.parametrize("bits", [3, 5, 8, 12, 16])
def test_the_losses_of_exact_scores_lie_within_the_bounds_of_rounded_ones(bits):
    widths = []
    for seed in range(40):
        frame = people(seed, n=int(np.random.default_rng(seed).integers(60, 4000)))
        columns = {"score": "s", "outcome": "y", "groups": ["a", "b"]}
        exact = losses(table_of(Atoms.from_frame(frame, **columns), n_bins=10))
        rounded = Atoms.from_frame(frame, **columns, resolution=2.0**-bits)
        assert rounded.resolution == 2.0**-bits
        table = table_of(rounded, n_bins=10)
        bound = loss_bounds(
            rounded, table, rho=RHO, min_share=MIN_SHARE, min_people=MIN_PEOPLE
        )
        for found, own, (low, high) in zip(
            exact, losses(table), (bound.mc, bound.pmc, bound.dc)
        ):
            assert low - 1e-12 <= found <= high + 1e-12
            assert low - 1e-12 <= own <= high + 1e-12
            widths.append(high - low)
    if bits == 16:  # and says something
        assert np.median(widths) < 1e-4


def test_exact_scores_have_no_bound_to_speak_of(cohort):
    atoms = Atoms.from_frame(
        cohort, score="score", outcome="y", groups=["race", "gender"]
    )
    table = table_of(atoms, 10)
    bound = loss_bounds(
        atoms, table, rho=RHO, min_share=MIN_SHARE, min_people=MIN_PEOPLE
    )
    assert bound.people == 0
    assert bound.mc == pytest.approx((losses(table)[0],) * 2, abs=2**-32)


def test_an_audit_of_rounded_scores_says_what_rounding_can_change(cohort):
    atoms = Atoms.from_frame(
        cohort, score="score", outcome="y", groups=["gender"], resolution=2**-12
    )
    result = audit(atoms, n_draws=100)
    note = next(note for note in result.notes if "rounded" in note)
    assert "Scores were rounded to 2**-12" in note
    exact = audit(
        cohort.y, cohort.score, sensitive_features=cohort[["gender"]], n_draws=100
    )
    low, high = map(float, note.split("MC loss ")[1].split(",")[0].split(" to "))
    assert low - 1e-4 <= exact.losses.loc["mc", "value"] <= high + 1e-4
    assert not any("rounded" in text for text in exact.notes)


def test_the_resolution_is_kept_in_sums_and_files(cohort):
    columns = {"score": "score", "outcome": "y", "groups": ["gender"]}
    fine = Atoms.from_frame(cohort, **columns)
    coarse = Atoms.from_frame(cohort, **columns, resolution=2**-12)
    assert (fine + coarse).resolution == 2**-12
    coarse.save("a.atoms")
    assert Atoms.load("a.atoms").resolution == 2**-12
