"""Scores side by side: paired intervals, and what is said of the fitting people."""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, MCBoost, PMCBoost, audit, compare
from propcal.errors import InputError


def test_side_by_side_with_paired_intervals(cohort):
    frame = cohort[["race", "gender"]]
    half = len(cohort) // 2
    past, new = cohort[:half], cohort[half:]
    cal = PMCBoost.paper(alpha=0.2).fit(past.score, past.y, sensitive_features=frame[:half])
    also = MCBoost.paper(alpha=0.2).fit(past.score, past.y, sensitive_features=frame[:half])
    scores = {"base": new.score, "PMCBoost": cal, "MCBoost": also.correction_}
    c = compare(scores, new.y, sensitive_features=frame[half:])
    assert list(c.audits) == ["base", "PMCBoost", "MCBoost"]
    alone = audit(new.y, new.score, sensitive_features=frame[half:])
    assert c.audits["base"].to_json() == alone.to_json()
    table = c.differences.set_index(["score", "measure", "group"])
    corrected = cal.predict(new.score, sensitive_features=frame[half:])
    loss = (corrected - new.y) ** 2 - (new.score - new.y) ** 2
    row = table.loc[("PMCBoost", "brier", "everybody")]
    assert row.difference == pytest.approx(loss.mean())
    assert (row.high - row.low) / 2 == pytest.approx(
        1.959964 * loss.std(ddof=0) / np.sqrt(len(new)), rel=1e-6
    )
    women = (new.gender == "F").to_numpy()
    assert table.loc[("PMCBoost", "brier", "gender=F")].difference == pytest.approx(loss[women].mean())
    assert table.loc[("PMCBoost", "pmc", "all categories")].value == pytest.approx(
        c.audits["PMCBoost"].losses.loc["pmc", "value"]
    )
    assert table.loc[("PMCBoost", "observed_expected", "gender=F")].value == pytest.approx(
        new.y[women].sum() / corrected[women].sum()
    )
    assert (table.low <= table.difference + 1e-12).all()
    assert (table.difference <= table.high + 1e-12).all()
    assert c.notes[0].startswith("PMCBoost was not fitted to exactly these people")
    assert "PMCBoost" in repr(c)
    assert "PMCBoost" in c._repr_html_()


def test_a_score_compared_with_itself_does_not_differ(cohort):
    c = compare({"a": cohort.score, "b": cohort.score}, cohort.y, sensitive_features=cohort[["gender"]])
    each = c.differences[c.differences.group != "all categories"]
    assert (each.difference == 0).all()
    assert np.allclose(each.low, 0, atol=1e-12)
    assert np.allclose(each.high, 0, atol=1e-12)
    assert (c.differences.low <= 0).all()
    assert (c.differences.high >= 0).all()


def test_a_comparison_says_when_it_looks_at_the_fitting_data(cohort):
    frame = cohort[["race", "gender"]]
    cal = PMCBoost.paper().fit(cohort.score, cohort.y, sensitive_features=frame)
    rows = compare({"base": cohort.score, "PMCBoost": cal}, cohort.y, sensitive_features=frame)
    assert rows.notes[0].startswith("PMCBoost was fitted to these very people")
    atoms = Atoms.from_frame(cohort, score="score", outcome="y", groups=["race", "gender"])
    of_atoms = compare({"base": None, "PMCBoost": cal.correction_}, atoms)
    assert of_atoms.notes == rows.notes
    pd.testing.assert_frame_equal(of_atoms.differences, rows.differences, rtol=1e-6, atol=1e-9)


def test_wrong_comparisons_are_told(cohort):
    atoms = Atoms.from_frame(cohort, score="score", outcome="y")
    cal = PMCBoost().fit(cohort.score, cohort.y)
    for scores, y, message in (
        ({"a": cohort.score}, cohort.y, "two or more"),
        ([cohort.score], cohort.y, "two or more"),
        ({"a": cal, "b": cohort.score}, cohort.y, "must be an array"),
        ({"a": cohort.score, "b": cal}, atoms, "with atoms"),
        ({"a": cohort.score, "b": cohort.score[:5]}, cohort.y, "same number of rows"),
        ({"a": cohort.score, "b": cohort.score * 100}, cohort.y, "score 'b'"),
    ):
        with pytest.raises(InputError, match=message):
            compare(scores, y)
