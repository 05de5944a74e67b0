"""Pictures in scikit-learn's manner: displays with `plot`, `ax_` and `figure_`.

They are made by `from_predictions` or `from_audit`, draw what `Audit.plot` and
`Comparison.plot` draw, and need matplotlib: pip install "propcal[plots]".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypedDict, Unpack

import pandas as pd

from propcal.auditing.audit import Audit, audit
from propcal.auditing.compare import Comparison, compare
from propcal.auditing.loss_intervals import dc_by_bin
from propcal.core.arguments import Axes, Table, Values
from propcal.core.atoms import Atoms
from propcal.errors import InputError
from propcal.options import AuditOptions, Correcting

__all__ = [
    "BeforeAfterDisplay",
    "CalibrationByGroupDisplay",
    "CategoryHeatmapDisplay",
    "DCByBinDisplay",
    "DecisionCurveDisplay",
    "ForestDisplay",
    "ScoreDistributionDisplay",
]


class WhereDrawn(TypedDict, total=False):
    """Which groups are drawn, and where: arguments of `Audit.plot`."""

    groups: Sequence[str] | None
    ax: Axes | None
    width: float


class _Display:
    """A picture of a result: `ax_` and `figure_` are where it was drawn last."""

    _kind: ClassVar[str]
    _takes: ClassVar[Any] = Audit
    ax_: Any
    figure_: Any

    def __init__(self, result: Audit | Comparison) -> None:
        name = self._takes.__name__
        if not isinstance(result, self._takes):
            given = type(result).__name__
            raise InputError(f"{type(self).__name__} draws {name} objects; got {given}")
        self._result: Any = result
        setattr(self, name.lower(), result)

    def plot(self, **where: Unpack[WhereDrawn]) -> Self:
        """Draw it, on the given axes or in a new figure so many inches wide; see
        `Audit.plot`.
        """
        self.ax_ = self._result.plot(self._kind, **where)
        self.figure_ = self.ax_.figure
        return self


class _AuditDisplay(_Display):
    """A picture of an audit.

    Attributes
    ----------
    audit : Audit
    ax_, figure_ : matplotlib axes and figure
    """

    audit: Audit
    _table: ClassVar[str]

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers behind the picture."""
        return self.audit.to_frame(self._table)

    @classmethod
    def from_audit(cls, a: Audit, **where: Unpack[WhereDrawn]) -> Self:
        """Draw an audit; `groups`, `ax` and `width` as for `Audit.plot`."""
        return cls(a).plot(**where)

    @classmethod
    def from_predictions(
        cls,
        y: Values | Atoms,
        score: Values | None = None,
        *,
        sensitive_features: Table = None,
        show: Sequence[str] | None = None,
        ax: Axes | None = None,
        width: float = 6.4,
        **settings: Unpack[AuditOptions],
    ) -> Self:
        """Audit a score and draw the audit.

        Parameters
        ----------
        y, score, sensitive_features, **settings
            As for `audit`.
        show : list of str, optional
            Names of the groups to draw, as `groups` of `Audit.plot` (here `groups`
            defines groups).
        ax, width
            As for `Audit.plot`.
        """
        found = audit(y, score, sensitive_features=sensitive_features, **settings)
        return cls.from_audit(found, groups=show, ax=ax, width=width)


class CalibrationByGroupDisplay(_AuditDisplay):
    """Observed rate against predicted risk: smooth curves with bands, and every cell.

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(2000, seed=1)
    >>> y, score, gender = visits.admitted, visits.true_risk, visits[["gender"]]
    >>> of_groups = CalibrationByGroupDisplay.from_predictions
    >>> d = of_groups(y, score, sensitive_features=gender)
    >>> d.ax_.get_ylabel()
    'observed rate'
    """

    _kind = "calibration"
    _table = "curves"


class ForestDisplay(_AuditDisplay):
    """O/E ratio (observed over expected events), group by group.

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(20_000, seed=1)
    >>> d = ForestDisplay.from_predictions(
    ...     visits.admitted,
    ...     visits.true_risk,
    ...     sensitive_features=visits[["race", "gender"]],
    ... )
    >>> d.ax_.get_yticklabels()[0].get_text()
    'All people'
    """

    _kind = "forest"
    _table = "groups"


class CategoryHeatmapDisplay(_AuditDisplay):
    """The gap of every cell, a group within a range of scores.

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(2000, seed=1)
    >>> y, score, gender = visits.admitted, visits.true_risk, visits[["gender"]]
    >>> of_groups = CategoryHeatmapDisplay.from_predictions
    >>> d = of_groups(y, score, sensitive_features=gender)
    >>> [label.get_text() for label in d.ax_.get_yticklabels()]
    ['M', 'F']
    """

    _kind = "heatmap"
    _table = "categories"


class DecisionCurveDisplay(_AuditDisplay):
    """Net benefit of acting on the score, over thresholds.

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(2000, seed=1)
    >>> y, score, gender = visits.admitted, visits.true_risk, visits[["gender"]]
    >>> of_groups = DecisionCurveDisplay.from_predictions
    >>> d = of_groups(y, score, sensitive_features=gender)
    >>> d.ax_.get_ylabel()
    'net benefit per 100 people'
    """

    _kind = "decision"
    _table = "net_benefit"


class ScoreDistributionDisplay(_AuditDisplay):
    """How the scores of each group are spread.

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(2000, seed=1)
    >>> y, score, gender = visits.admitted, visits.true_risk, visits[["gender"]]
    >>> of_groups = ScoreDistributionDisplay.from_predictions
    >>> d = of_groups(y, score, sensitive_features=gender)
    >>> d.ax_.get_xlabel()
    'risk score, in steps of 0.05'
    """

    _kind = "distribution"
    _table = "distribution"


class DCByBinDisplay(_AuditDisplay):
    """How far apart the outcome rates of groups are within each range of scores, and
    which two.

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(2000, seed=1)
    >>> y, score, gender = visits.admitted, visits.true_risk, visits[["gender"]]
    >>> of_groups = DCByBinDisplay.from_predictions
    >>> d = of_groups(y, score, sensitive_features=gender)
    >>> d.ax_.get_xlabel()
    'observed rate, % (log scale)'
    """

    _kind = "dc"

    @property
    def frame(self) -> pd.DataFrame:
        """One row a bin, with the two groups furthest apart; see `dc_by_bin`."""
        return dc_by_bin(self.audit)


class BeforeAfterDisplay(_Display):
    """O/E ratios, group by group, under several scores of the same people.

    Attributes
    ----------
    comparison : Comparison
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> from propcal import compare
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(2000, seed=1)
    >>> scores = {"half": visits.true_risk / 2, "right": visits.true_risk}
    >>> d = BeforeAfterDisplay.from_comparison(compare(scores, visits.admitted))
    >>> [label.get_text() for label in d.ax_.get_yticklabels()]
    ['All people']
    """

    _kind = "before_after"
    _takes = Comparison
    comparison: Comparison

    @classmethod
    def from_comparison(cls, c: Comparison, **where: Unpack[WhereDrawn]) -> Self:
        """Draw a comparison; `groups`, `ax` and `width` as for `Comparison.plot`."""
        return cls(c).plot(**where)

    @classmethod
    def from_predictions(
        cls,
        y: Values | Atoms,
        scores: Mapping[str, Values | Correcting | None],
        *,
        sensitive_features: Table = None,
        show: Sequence[str] | None = None,
        ax: Axes | None = None,
        width: float = 6.4,
        **settings: Unpack[AuditOptions],
    ) -> Self:
        """Compare scores, a dict of two or more, and draw the comparison; arguments as
        for `compare`.
        """
        found = compare(scores, y, sensitive_features=sensitive_features, **settings)
        return cls.from_comparison(found, groups=show, ax=ax, width=width)
