"""Fit summary: how far each cell is off after a fit, and what the correction uses.

A cell is a group within a range of scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from propcal.core.arguments import FEWEST_SHOWN
from propcal.core.atoms import LeftOutReport
from propcal.core.bins import Bins
from propcal.core.grid import UNIT, FloatArray, IntArray, from_grid
from propcal.core.groups import Collection, Group, Labels, group_labels

if TYPE_CHECKING:
    import pandas as pd

    from propcal.core.correction.correction import Correction
    from propcal.core.patterns import Patterns

WITHIN_ALPHA = "within tolerance"
WITHIN_NOISE = "could be chance"
OUTSIDE = "exceeds tolerance"
NOT_JUDGED = "not enough data"
COLUMNS = (
    "people",
    "outcome_rate",
    "mean_score",
    "gap",
    "cutoff",
    "standard_error",
)  # of the table
MAX_ROUNDING = 2.0**-31  # fitting compares gaps that are rounded to the grid
# patterns times scores; effects of larger corrections are not computed
MAX_VALUES = 4_000_000


@dataclass(frozen=True)
class Gains:
    """Gains in log loss per person, cross-validated: of everybody's curve, of curves of
    groups in addition to it, of points.

    Each gain is over the one before, and so are the `standard_errors`. `n_features`
    were tried; `spread` has the standard deviation, among people, of the points of each
    feature that got any; `without` got none.
    """

    curve: float
    groups: float
    points: float
    standard_errors: tuple[float, float, float]
    n_features: int
    spread: Mapping[str, float] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    @property
    def points_z(self) -> float:
        """The gain of points in standard errors."""
        if self.standard_errors[2] > 0:
            return self.points / self.standard_errors[2]
        return 0.0

    @property
    def shares(self) -> tuple[float, float, float]:
        """The shares of curve, groups and points in the whole gain; losses count as
        0.
        """
        gains = [max(gain, 0.0) for gain in (self.curve, self.groups, self.points)]
        total = sum(gains) or 1.0
        return gains[0] / total, gains[1] / total, gains[2] / total

    @property
    def largest(self) -> float:
        """The largest share of one feature in the variance of all points."""
        squares = [spread**2 for spread in self.spread.values()]
        return max(squares, default=0.0) / (sum(squares) or 1.0)


@dataclass(frozen=True, eq=False)
class FitSummary:
    """How far each cell of the fitting data is off after the correction.

    A cell is a group within a range of scores (a category, in the paper). The summary
    only describes the people used to fit; audit other people to see how well the
    correction works for them.

    Attributes
    ----------
    collection : Collection
    bins : Bins
    group, bin : arrays of int64, shape (n_cells,)
        The index of each cell's group in `collection` and of its range in `bins`. Cells
        that are too small to be adjusted are left out.
    people : array of float64
        The number of people; with survey weights, the effective number.
    outcome_rate, mean_score, cutoff, standard_error : arrays of float64
        The observed and the predicted rate; the gap that alpha allows; the standard
        error of the gap.
    z : float
        A gap of less than z standard errors could be chance; 0 without a guard.
    n_people : int
    why : str
        Why cells may still exceed the tolerance.
    no_error_found : bool
        Whether a test found no miscalibration in the score.
    enough : bool
        Whether there were enough data for a test; without one, the guard against chance
        allows no change.
    correction : Correction
        The correction itself.
    patterns : Patterns
        The combinations of attributes in the fitting data; a correction reads only some
        of the attributes.
    raw_scores : tuple of int
        The lowest and the highest raw score, in units of the grid.
    found : tuple of str
        The tests that found an error before the fit, the most significant first.
    notes : tuple of str
        Where the fit departed from what was asked for.
    left_out : LeftOutReport
        People without a score or an outcome, who were left out.
    unit : str
        Plural noun for those who were used to fit.
    level_labels : dict
        What to call levels in sentences, by attribute.
    gains : Gains, optional
        What curve, groups and points gain in people who were left out; only with
        `features`.

    Examples
    --------
    >>> from propcal import PMCBoost
    >>> summary = PMCBoost().fit([0.5] * 400, [1, 0, 0, 0] * 100).fit_summary_
    >>> summary.sentences()[0]
    'Recalibrated with a smooth curve, fitted to 400 people.'
    >>> summary.to_frame().people.tolist()
    [400.0]
    """

    collection: Collection
    bins: Bins
    group: IntArray
    bin: IntArray
    people: FloatArray
    outcome_rate: FloatArray
    mean_score: FloatArray
    cutoff: FloatArray
    standard_error: FloatArray
    z: float
    n_people: int
    why: str
    no_error_found: bool
    enough: bool
    correction: Correction = field(repr=False)
    patterns: Patterns = field(repr=False)
    raw_scores: tuple[int, int] = (0, UNIT)
    found: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: LeftOutReport = field(default_factory=LeftOutReport, repr=False)
    unit: str = "people"
    level_labels: Labels = field(default_factory=dict, repr=False)
    gains: Gains | None = None

    @property
    def n_updates(self) -> int:
        """The number of adjustments; a smooth recalibration counts as one."""
        return self.correction.n_updates

    @property
    def smooth(self) -> bool:
        """Whether there is a smooth recalibration."""
        return self.correction.start is not None

    @property
    def gap(self) -> FloatArray:
        """Observed minus predicted rate."""
        return np.asarray(self.outcome_rate - self.mean_score)

    @property
    def status(self) -> NDArray[np.str_]:
        """For each cell "within tolerance", "could be chance", "exceeds tolerance" or
        "not enough data".
        """
        size = np.abs(self.gap) - MAX_ROUNDING
        within_alpha = size < self.cutoff
        if not self.enough:
            return np.where(within_alpha, WITHIN_ALPHA, NOT_JUDGED)

        limit = np.maximum(self.cutoff, self.z * self.standard_error)
        could_be_chance = (self.z > 0) & (size < limit) | self.no_error_found
        beyond_alpha = np.where(could_be_chance, WITHIN_NOISE, OUTSIDE)
        return np.where(within_alpha, WITHIN_ALPHA, beyond_alpha)

    @cached_property
    def labels(self) -> dict[str, str]:
        """What to call groups in sentences, by their names."""
        sizes = (*self.collection.kept, *self.collection.left_out)
        groups = [Group(()), *(size.group for size in sizes)]
        labels = group_labels(
            groups, self.patterns, self.level_labels, everyone=f"all {self.unit}"
        )
        return {group.name: label for group, label in zip(groups, labels)}

    @cached_property
    def effects(self) -> dict[str, float]:
        """The largest difference that each attribute alone makes to a score; empty if
        nothing is changed.
        """
        if self.n_updates:
            return attribute_effects(self.correction, *self.raw_scores)
        return {}

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Attributes for which no effect was found, so that the correction does not
        read them.
        """
        if self.n_updates:
            used = self.correction.attributes
        else:
            used = self.patterns.attributes
        return tuple(name for name in self.patterns.attributes if name not in used)

    def count(self, status: str) -> int:
        """The number of cells with a status."""
        return int(np.sum(self.status == status))

    def to_frame(self) -> pd.DataFrame:
        """One row for each cell, starting with those that exceed the tolerance."""
        import pandas as pd

        group_names = [size.group.name for size in self.collection.kept]
        bin_labels = np.array(self.bins.labels, dtype=object)
        status = self.status
        reason = {
            WITHIN_ALPHA: "",
            WITHIN_NOISE: f"less than {self.z:.2f} standard errors",
            OUTSIDE: self.why,
            NOT_JUDGED: "",
        }
        columns: dict[str, Any] = {
            "group": [group_names[g] for g in self.group],
            "bin": bin_labels[self.bin],
        }
        for name in COLUMNS:
            columns[name] = getattr(self, name)
        columns["status"] = status
        columns["why"] = [reason[s] for s in status]
        table = pd.DataFrame(columns)
        return table.iloc[self.worst_first()].reset_index(drop=True)

    def worst_first(self) -> IntArray:
        """The order of the cells: by status, then by how far each exceeds its
        tolerance.
        """
        ranks = (OUTSIDE, WITHIN_NOISE, NOT_JUDGED, WITHIN_ALPHA)
        rank = np.array([ranks.index(status) for status in self.status], dtype=np.int64)
        return np.asarray(np.lexsort((-np.abs(self.gap) / self.cutoff, rank)))

    def sentences(self, fewest: int = FEWEST_SHOWN) -> list[str]:
        """The summary in sentences, without counts of fewer people that were left
        out.
        """
        from propcal.documents.correction import fit_sentences

        return fit_sentences(self, fewest)

    def listed(self) -> list[str]:
        """The worst of the cells that are not within tolerance, one line each."""
        from propcal.documents.correction import worst_cells

        return worst_cells(self)

    def _repr_html_(self) -> str:
        from propcal.documents.correction import fit_document
        from propcal.render.html import card

        return card(fit_document(self))

    def __repr__(self) -> str:
        worst = [f"  {line}" for line in self.listed()]
        return "\n".join([*self.sentences(), *worst])


def attribute_effects(
    correction: Correction, low: int = 0, high: int = UNIT
) -> dict[str, float]:
    """The largest difference that each attribute alone makes to a raw score from `low`
    to `high` (in units).

    Patterns that differ only in the attribute are compared; an attribute without such
    patterns is left out. Maps are straight between the scores at which a piece of one
    of them begins, so that it is enough to look there, and at the score just below.

    >>> import pandas as pd
    >>> from propcal import PMCBoost
    >>> past = pd.DataFrame({"sex": list("FFMM") * 400, "ward": list("AAAABBBB") * 200})
    >>> died = [0, 0, 0, 1, 0, 1, 0, 0] * 200  # a fourth of men in A, of women in B
    >>> model = PMCBoost.paper(intersections="marginal")
    >>> fitted = model.fit([0.5] * 1600, died, sensitive_features=past)
    >>> attribute_effects(fitted.correction_, UNIT // 2, UNIT // 2)
    {'sex': 0.0}
    """
    table = correction.patterns.table
    n_patterns = len(table)
    if n_patterns * len(correction.updates) > MAX_VALUES:
        return {}
    begin = np.unique(correction.maps.pieces()[1])
    places = np.concatenate([begin, begin - 1, [low, high]])
    raw = np.unique(np.clip(places, low, high))
    if n_patterns * len(raw) > MAX_VALUES:
        return {}
    pattern = np.repeat(np.arange(n_patterns), len(raw))
    scores = np.tile(from_grid(raw), n_patterns)
    corrected = correction.maps.apply(scores, pattern).reshape(n_patterns, len(raw))

    effects = {}
    for a, name in enumerate(correction.attributes):
        others = np.delete(table, a, axis=1)
        _, alike = np.unique(others, axis=0, return_inverse=True)
        n_different = alike.max(initial=-1) + 1
        if len(alike) > n_different:
            effects[name] = _widest(corrected, alike.reshape(-1))
    return effects


def _widest(values: FloatArray, alike: np.ndarray) -> float:
    """The largest difference within a column between rows that are alike."""
    order = np.argsort(alike, kind="stable")
    starts = np.searchsorted(alike[order], np.arange(alike.max() + 1))
    highest = np.maximum.reduceat(values[order], starts, axis=0)
    lowest = np.minimum.reduceat(values[order], starts, axis=0)
    return float((highest - lowest).max())
