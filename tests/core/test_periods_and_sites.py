"""Periods and sites are keys of atoms: they can be added, split off and left out
again.
"""

import numpy as np
import pytest

from propcal import Atoms
from propcal.core.grid import UNIT, from_grid, significant, to_grid
from propcal.core.patterns import PERIOD, SITE
from propcal.core.reduction import (
    people_by,
    replace_parts,
    split_by,
    stack,
    without_keys,
)
from propcal.errors import InputError

ROLES = {"score": "score", "outcome": "y", "groups": ["race", "gender"]}


def parts_of(cohort):
    return {
        "2025-02": cohort[:700],
        "2025-01": cohort[700:1900],
        "2025-04": cohort[1900:],
    }


def test_parts_come_back_as_they_were(cohort):
    parts = {
        name: Atoms.from_frame(rows, **ROLES) for name, rows in parts_of(cohort).items()
    }
    for key in (PERIOD, SITE):
        whole = stack(parts, key)
        back = split_by(whole, key)
        assert list(back) == sorted(parts)
        assert all(
            back[name].fingerprint() == parts[name].fingerprint() for name in parts
        )
        assert (
            without_keys(whole).fingerprint()
            == Atoms.from_frame(cohort, **ROLES).fingerprint()
        )


def test_people_left_out_are_kept_apart_by_period(cohort):
    rows = cohort.assign(y=cohort.y.where(cohort.index % 10 > 0))
    parts = {
        n: Atoms.from_frame(r, **ROLES, drop_missing=True)
        for n, r in parts_of(rows).items()
    }
    back = split_by(stack(parts, PERIOD), PERIOD)
    assert {name: one.left_out.people for name, one in back.items()} == {
        name: one.left_out.people for name, one in parts.items()
    }


def test_attributes_in_another_order_are_the_same_and_others_are_refused(cohort):
    a = Atoms.from_frame(cohort[:500], **ROLES)
    b = Atoms.from_frame(cohort[500:], **ROLES | {"groups": ["gender", "race"]})
    assert (
        without_keys(stack({"a": a, "b": b}, SITE)).fingerprint()
        == (a + b).fingerprint()
    )
    other = Atoms.from_frame(cohort[500:], **ROLES | {"groups": ["gender"]})
    with pytest.raises(
        InputError, match=r"a and b: .*only the first set has the attribute 'race'"
    ):
        stack({"a": a, "b": other}, SITE)


def test_atoms_without_the_key_have_no_parts(cohort):
    assert split_by(Atoms.from_frame(cohort, **ROLES), SITE) == {}


def test_scores_keep_their_significant_digits_and_their_number_is_limited():
    rng = np.random.default_rng(1)
    score = np.concatenate(
        [rng.random(200_000), rng.random(200_000) * 1e-4, [0.0, 1.0, 0.1, 0.25, 0.125]]
    )
    found = from_grid(significant(to_grid(score), 9))
    small, kept = np.minimum(score, 1 - score), np.minimum(found, 1 - found)
    assert np.max(np.abs(small - kept) / np.maximum(small, 2.0**-20)) <= 1.05 * 2.0**-9
    assert found[-5:].tolist() == from_grid(to_grid(score[-5:])).tolist()
    assert len(np.unique(found)) < 8000
    assert np.all(
        (significant(to_grid(score), 9) >= 0) & (significant(to_grid(score), 9) <= UNIT)
    )


def test_parts_are_added_and_replaced_as_if_all_were_put_together(cohort):
    rows = cohort.assign(y=cohort.y.where(cohort.index % 10 > 0))
    parts = {
        n: Atoms.from_frame(r, **ROLES, drop_missing=True)
        for n, r in parts_of(rows).items()
    }
    whole = stack(parts, PERIOD)
    grown = replace_parts(None, {"2025-01": parts["2025-01"]}, PERIOD)
    grown = replace_parts(
        grown, {"2025-02": parts["2025-04"]}, PERIOD
    )  # to be replaced
    grown = replace_parts(
        grown, {"2025-02": parts["2025-02"], "2025-04": parts["2025-04"]}, PERIOD
    )
    assert grown.fingerprint() == whole.fingerprint()
    assert grown.left_out.people == whole.left_out.people
    assert grown.left_out.by[PERIOD] == whole.left_out.by[PERIOD]
    assert people_by(grown, PERIOD) == {
        name: one.n_people for name, one in parts.items()
    }
    assert replace_parts(grown, parts, PERIOD).fingerprint() == whole.fingerprint()
