"""O/E ratios of shown counts, with numbers worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from propcal.auditing.statistics.chance import Chance
from propcal.protect.shown_cells import ShownCells, _agree_with_findings
from propcal.protect.shown_ratios import RatioParts, _agreeing, moved_ratios


def agreeing(value, low, high, exact_low, exact_high):
    ratio = tuple(np.array([end], dtype=float) for end in (value, low, high))
    found = _agreeing(ratio, np.array([exact_low]), np.array([exact_high]))
    return [float(end[0]) for end in found]


@pytest.mark.parametrize(
    ("exact", "shown", "printed"),
    [
        # the exact interval is above 1, and so is the shown one
        ((1.1, 1.5), (1.2, 0.97, 1.4), (1.2, 1.01, 1.4)),
        ((1.1, 1.5), (1.001, 0.97, 1.4), (1.01, 1.01, 1.4)),
        ((1.1, 1.5), (1.0, 0.97, 1.4), (1.01, np.nan, np.nan)),
        ((1.1, 1.5), (0.99, 0.97, 1.4), (1.01, np.nan, np.nan)),
        # below 1
        ((0.5, 0.9), (0.8, 0.6, 1.02), (0.8, 0.6, 0.99)),
        ((0.5, 0.9), (1.0, 0.6, 1.02), (0.99, np.nan, np.nan)),
        ((0.5, 0.9), (1.01, 0.6, 1.02), (0.99, np.nan, np.nan)),
        # around 1
        ((0.9, 1.1), (1.05, 1.02, 1.2), (1.05, 1.0, 1.2)),
        ((0.9, 1.1), (0.95, 0.8, 0.98), (0.95, 0.8, 1.0)),
        ((0.9, 1.1), (1.0, 0.8, 1.2), (1.0, 0.8, 1.2)),
    ],
)
def test_a_shown_interval_says_of_1_what_the_exact_one_says(exact, shown, printed):
    assert agreeing(*shown, *exact) == pytest.approx(printed, nan_ok=True)


def test_moved_people_and_moved_events_both_widen_an_interval():
    """20 of 25 people had the outcome, twice as many as expected. An exact interval
    without any width keeps a tenth of the binomial variance, 0.2 / 20.
    """
    exact = [np.array([2.0])] * 3
    shown = RatioParts(*(np.array([x]) for x in (25.0, 20.0, 0.4, 0.0)))
    value, low, high = moved_ratios(exact, np.array([[20.0], [5.0]]), shown)
    variance = 0.1 * 0.2 / 20 + 4 / 3 * (1 / 20**2 + 1 / 25**2)
    reach = np.exp(1.959964 * np.sqrt(variance))
    assert value[0] == 2.0
    assert [low[0], high[0]] == pytest.approx([2 / reach, 2 * reach], abs=0.0051)


def test_a_ratio_that_is_not_known_is_not_shown():
    exact = [np.array([np.nan])] * 3
    shown = RatioParts(*(np.array([x]) for x in (25.0, 20.0, 0.4, 0.0)))
    ratio = moved_ratios(exact, np.array([[20.0], [5.0]]), shown)
    assert np.isnan([end[0] for end in ratio]).all()


def effective_people(effective, mean_variance=0.0):
    """As how many independent people a cell of 100, 20 of them with the outcome, counts
    if it counts as `effective` in the audit.
    """
    one = np.ones((1, 1))
    noise = Chance(one, effective * one, np.ones((3, 1, 1)), 100 * one, one[0])
    cell = SimpleNamespace(
        exact=SimpleNamespace(table=SimpleNamespace(people=100 * one), noise=noise),
        table=SimpleNamespace(weight=100 * one, positives=20 * one),
        shown=SimpleNamespace(mean_variance=np.array([mean_variance])),
        places=np.zeros((1, 1), dtype=int),
    )
    found = ShownCells._noise(cell)
    assert len(found.rates) == 0
    return float(found.effective[0, 0])


def test_moved_counts_make_a_cell_worth_fewer_people():
    # the variance of the rate is 0.2 * 0.8 / 100; moves add 4/3 (1 + 0.2^2) / 100^2
    added = 4 / 3 * (1 + 0.04) / 100**2 / (0.16 / 100)
    assert effective_people(100) == pytest.approx(100 / (1 + added))
    assert effective_people(100 / 1.54) == pytest.approx(100 / (1.5 + added))
    assert effective_people(1e6) == pytest.approx(100 / (0.1 + added))  # at least 0.1
    # the variance of the mean score, 1e-4, is a 16th of that of the rate
    of_mean = 1e-4 / (0.16 / 100)
    assert effective_people(100, 1e-4) == pytest.approx(100 / (1 + added + of_mean))


def test_limits_of_a_gap_agree_with_the_finding_of_a_cell():
    findings = np.array(["too low", "too high", "could be chance", "not tested"])

    def agree(low, high):
        ends = np.full(4, low), np.full(4, high)
        return _agree_with_findings(findings, *ends).tolist()

    assert agree(0.01, 0.02) == [True, False, False, True]
    assert agree(-0.02, -0.01) == [False, True, False, True]
    assert agree(-0.01, 0.01) == [False, False, True, True]
    assert agree(0.0, 0.01) == [False, False, True, True]
    assert agree(-0.01, 0.0) == [False, False, True, True]
