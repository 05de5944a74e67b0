"""The pictures of a monitor draw the numbers of its tables."""

import numpy as np
import pandas as pd
import pytest

from propcal import Monitor
from propcal.errors import InputError

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def course():
    rng = np.random.default_rng(4)
    n = 4000
    ward, month, risk = (
        rng.choice(["A", "B", "$_x$"], n),
        rng.integers(0, 6, n),
        rng.beta(2, 4, n),
    )
    chance = np.where((ward == "B") & (month >= 3), np.minimum(1.5 * risk, 1), risk)
    day = pd.Timestamp("2024-01-15") + pd.to_timedelta(month * 31, unit="D")
    monitor = Monitor(score="risk", outcome="y", time="day", groups=["ward"])
    monitor.add(
        pd.DataFrame(
            {
                "day": day,
                "ward": ward,
                "risk": risk,
                "y": (rng.random(n) < chance).astype(int),
            }
        )
    )
    return monitor.course()


def test_evidence_is_drawn_with_the_alarm_line(course):
    ax = course.plot()
    lines = ax.get_lines()
    assert len(lines) == len(course.groups) + 1
    best = (
        course.evidence[course.evidence["group"] == "ward=B"]
        .groupby("period")["evidence"]
        .max()
    )
    assert any(
        np.allclose(line.get_ydata(), np.clip(best, 1, 1000)) for line in lines[:-1]
    )
    assert list(lines[-1].get_ydata()) == [20, 20]
    ax.figure.canvas.draw()
    plt.close(ax.figure)


def test_ratios_of_named_groups_are_those_of_the_table(course):
    ax = course.plot("ratios", ["B", "ward=A"])
    own = course.periods[course.periods["group"] == "ward=B"]["observed_expected"]
    assert np.allclose(ax.get_lines()[1].get_ydata(), own)
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["B", "A"]
    assert len(ax.collections) == 2
    plt.close(ax.figure)


def test_what_there_is_not_cannot_be_drawn(course):
    with pytest.raises(InputError, match="there is no picture 'rates'"):
        course.plot("rates")
    with pytest.raises(InputError, match="there is no group 'C'"):
        course.plot(groups=["C"])
    with pytest.raises(InputError, match="empty list"):
        course.plot(groups=[])
