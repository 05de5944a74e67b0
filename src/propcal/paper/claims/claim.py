"""A claim of the paper, the rule that decides it, and the verdict of the trials with its uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray, IntArray
from propcal.numbers import plural
from propcal.paper.experiment.settings import BASE, MC, MODELS, PMC
from propcal.paper.experiment.setups import Setup
from propcal.paper.results.calibration_by_group import CurveCounts, Curves
from propcal.paper.results.evidence import METRICS, Evidence
from propcal.paper.results.trial_cube import TrialCube, median
from propcal.paper.results.wins import PUBLISHED, wins_of_seeds

AGREES, DIFFERS, UNDECIDED, VACUOUS = "agrees", "differs", "undecided", "vacuous"
CONTRADICTED = "the paper contradicts itself"
NOT_YET, NOT_ASKED = "cannot be judged yet", "cannot be asked here"
VERDICTS = (AGREES, DIFFERS, UNDECIDED, VACUOUS, CONTRADICTED, NOT_ASKED, NOT_YET)
LEAST_SEEDS = 20  # fewer shuffles give no verdict
SURE = 0.9  # the share of resamples that must agree, or differ, for a verdict
N_DRAWS = 200


class NotYetError(Exception):
    """The store does not yet contain something that a rule needs."""


class NotAskedError(Exception):
    """The cohort has nothing to which the claim could apply."""


@dataclass(frozen=True, eq=False)
class Whole:
    """All trials by one rule, arranged for the rules of the claims; each part is made when it is needed."""

    evidence: Evidence

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds, in the order of the arrays."""
        return sorted(int(seed) for seed in self.evidence.stored["seed"].unique())

    @cached_property
    def cube(self) -> TrialCube:
        """The trials as arrays."""
        return TrialCube.of(self.evidence.trials, MODELS, self.evidence.grouping_names)

    @cached_property
    def wins(self) -> dict[tuple[str, str], FloatArray]:
        """By interpretation and metric: wins of the methods of Table 6 and comparisons, for each seed."""
        found = {}
        for (reading, metric), each in wins_of_seeds(self.evidence.trials).groupby(["reading", "metric"]):
            rows = each.set_index("seed").reindex(self.seeds)[[*PUBLISHED, "comparisons"]]
            found[str(reading), str(metric)] = rows.fillna(0.0).to_numpy(dtype=float)
        return found

    @cached_property
    def curve_counts(self) -> CurveCounts | None:
        """The counts behind the calibration curves of RF."""
        return CurveCounts.of(self.evidence)

    @cached_property
    def seeds_of(self) -> Mapping[Any, int]:
        """The number of seeds of each base model and method."""
        counted = self.evidence.stored.groupby(["model", "method"])["seed"].nunique()
        return {key: int(n) for key, n in counted.items()}


@dataclass
class Case:
    """The trials in the form that rules need: all seeds, or a resample of them."""

    whole: Whole
    cube: TrialCube
    seeds: IntArray  # which seeds, by their place
    _by_alpha: dict[tuple[str, str], FloatArray] = field(default_factory=dict)
    _changes: dict[tuple[str, str, str], float] = field(default_factory=dict)

    @classmethod
    def of(cls, evidence: Evidence) -> Case:
        """All seeds of a store."""
        whole = Whole(evidence)
        return cls(whole, whole.cube, np.arange(len(whole.seeds)))

    def drawn(self, places: IntArray) -> Case:
        """A resample of the seeds."""
        return Case(self.whole, self.cube.drawn(places), places)

    @property
    def evidence(self) -> Evidence:
        """The store."""
        return self.whole.evidence

    @property
    def setup(self) -> Setup:
        """The set-up of the experiment."""
        return self.evidence.setup

    @property
    def panels(self) -> list[tuple[str, str]]:
        """The base models and groupings, in the order of the arrays."""
        return [(model, groups) for model in self.cube.models for groups in self.cube.groupings]

    def change(self, method: str, model: str, metric: str) -> float:
        """The median percent change from the base model (Table 4)."""
        key = method, model, metric
        if key not in self._changes:
            self._changes[key] = float(median(self.cube.of_method(f"{metric}_change", method, model)))
        if np.isnan(self._changes[key]):
            raise NotYetError(f"there is no {METRICS[metric]} of {method} with {model} and its base model")
        return self._changes[key]

    def idle(self, method: str, model: str, metric: str) -> bool:
        """Whether the median change is 0 because at least half of the fits made no update.

        A median of 0 over fits that mostly made updates is a result: as many rose as fell.
        """
        if self.change(method, model, metric) != 0:
            return False
        changes = self.cube.of_method(f"{metric}_change", method, model)
        updates = self.cube.of_method("n_updates", method, model)
        there = ~np.isnan(changes)
        if np.mean(updates[there] == 0) < 0.5:
            return False
        return bool(median(np.where(updates > 0, changes, np.nan)) != 0)  # also without updates: NaN

    def by_alpha(self, column: str, method: str) -> FloatArray:
        """Medians over seeds, gamma and rho: base models, groupings, alphas. The base model has none."""
        key = column, method
        if key not in self._by_alpha:
            name = f"base_{column}" if method == BASE else column
            found = self.cube.by_alpha(name, PMC if method == BASE else method)
            if np.isnan(found).any():
                raise NotYetError(f"{column} is not available for every base model, grouping and alpha")
            self._by_alpha[key] = found
        return self._by_alpha[key]

    def wins(self, reading: str, metric: str) -> dict[str, float]:
        """Table 6: the percent of comparisons that each method wins."""
        total = self.whole.wins.get((reading, metric))
        summed = total[self.seeds].sum(axis=0) if total is not None else np.zeros(4)
        if not summed[-1]:
            raise NotYetError("no seed with all three methods")
        return dict(zip(PUBLISHED, (100 * summed[:-1] / summed[-1]).tolist()))

    @cached_property
    def curves(self) -> Curves | None:
        """The calibration curves of RF in three groups."""
        counts = self.whole.curve_counts
        if counts is None:
            return None
        return counts.curves([self.whole.seeds[place] for place in self.seeds])

    def need(self, models: tuple[str, ...], methods: tuple[str, ...]) -> int:
        """The number of seeds behind a rule: the fewest of the base models and methods that it uses."""
        fewest = self.evidence.n_seeds
        for model in models:
            for method in methods:
                n = self.whole.seeds_of.get((model, method), 0)
                if n < LEAST_SEEDS:
                    there = plural(n, "seed") if n else "no trials"
                    raise NotYetError(f"{there} of {method} with {model}; {LEAST_SEEDS} seeds are needed")
                fewest = min(fewest, n)
        return fewest


# Whether the trials agree, or None if the rule compares fits that did nothing; and the numbers.
Check = Callable[[Case], tuple[bool | None, str]]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, its place, and the rule by which trials agree or differ.

    Parameters
    ----------
    check : callable
        Returns whether the trials agree (None: vacuous), and the numbers.
    why : str
        What decides it: why trials agree or differ.
    odd : str
        An inconsistency in the paper itself; with `contradicted`, the paper's own tables break the rule.
    models, methods : tuples of str
        Those that a verdict needs. Without any, the claim is about every single fit.
    by_losses : bool
        Whether the claim depends on losses, so that it is judged by each of the three rules.
    of_its_patients : bool
        Whether the claim is about the size of an effect among the paper's patients, which other patients
        can neither confirm nor refute.
    """

    name: str
    place: str
    says: str
    rule: str
    check: Check
    why: str
    odd: str = ""
    contradicted: bool = False
    models: tuple[str, ...] = MODELS
    methods: tuple[str, ...] = (BASE, MC, PMC)
    by_losses: bool = True
    of_its_patients: bool = False


@dataclass(frozen=True)
class Judgement:
    """A claim with its verdict, the numbers behind it and the number of seeds.

    `share` is the share of resamples of the seeds that agree; NaN if the claim is about every single fit or
    has no verdict. `vacuous` is the share of resamples in which there was nothing to compare. `here` is what
    the trials say where the paper contradicts itself.
    """

    claim: Claim
    verdict: str
    numbers: str
    n_seeds: int
    share: float = float("nan")
    vacuous: float = 0.0
    here: str = ""
    by_rule: Mapping[str, Judgement] = field(default_factory=dict)

    @property
    def depends_on_rule(self) -> bool:
        """Whether the rules by which losses are computed give different verdicts."""
        return len({(j.verdict, j.here) for j in self.by_rule.values()}) > 1

    def sure(self) -> str:
        """The verdict with the share of resamples that agree."""
        said = f"{self.verdict} (here: {self.here})" if self.here else self.verdict
        if np.isnan(self.share):
            return said
        return f"{said}, {_percent(self.share)} of resamples agree{self._not_compared()}"

    def in_brief(self) -> str:
        """The share of resamples that agree, for a table; empty if there is none."""
        return "" if np.isnan(self.share) else f"({_percent(self.share)}{self._not_compared()})"

    def _not_compared(self) -> str:
        """In how many resamples there was nothing to compare, if this is why the claim is undecided."""
        if not self.vacuous or UNDECIDED not in (self.verdict, self.here):
            return ""
        return f", {_percent(self.vacuous)} vacuous"


def judge_claims(claims: Sequence[Claim], case: Case, draws: IntArray) -> list[Judgement]:
    """Decide claims by all seeds and by resamples of them, one in each row of `draws`."""
    first = [_with_all_seeds(claim, case) for claim in claims]
    asked = [claim for claim, found in zip(claims, first) if claim.models and found.verdict in _DECIDED]
    flags: dict[str, list[bool | None]] = {claim.name: [] for claim in asked}
    for places in draws if asked else ():
        drawn = case.drawn(places)  # shared by all claims, which need the same medians
        for claim in asked:
            flags[claim.name].append(_flag(claim, drawn))
    return [_doubted(found, flags[found.claim.name]) if found.claim in asked else found for found in first]


_DECIDED = (AGREES, DIFFERS, VACUOUS)


def _with_all_seeds(claim: Claim, case: Case) -> Judgement:
    """What all seeds say."""
    if claim.of_its_patients and not case.evidence.of_admissions:
        reason = "it is about the size of an effect among the paper's patients"
        return Judgement(claim, NOT_ASKED, reason, 0)
    try:
        n_seeds = case.need(claim.models, claim.methods)
        agrees, numbers = claim.check(case)
    except NotYetError as missing:
        return Judgement(claim, NOT_YET, str(missing), 0)
    except NotAskedError as missing:
        return Judgement(claim, NOT_ASKED, str(missing), 0)
    said = VACUOUS if agrees is None else AGREES if agrees else DIFFERS
    return Judgement(claim, said, numbers, n_seeds)


def _doubted(found: Judgement, flags: Sequence[bool | None]) -> Judgement:
    """The verdict after resampling the seeds."""
    share = float(np.mean([flag is True for flag in flags]))
    vacuous = float(np.mean([flag is None for flag in flags]))
    agrees = {AGREES: True, DIFFERS: False}.get(found.verdict)
    verdict = _verdict(agrees, share, vacuous)
    share = float("nan") if verdict == VACUOUS else share
    if found.claim.contradicted:
        return replace(found, verdict=CONTRADICTED, share=share, vacuous=vacuous, here=verdict)
    return replace(found, verdict=verdict, share=share, vacuous=vacuous)


def _flag(claim: Claim, case: Case) -> bool | None:
    try:
        return claim.check(case)[0]
    except (NotYetError, NotAskedError):
        return None


def _verdict(agrees: bool | None, share: float, vacuous: float) -> str:
    """The verdict of all seeds and of the resamples.

    >>> _verdict(True, 0.95, 0.0), _verdict(True, 0.7, 0.0), _verdict(False, 0.05, 0.0)
    ('agrees', 'undecided', 'differs')
    >>> _verdict(None, 0.0, 0.8)
    'vacuous'
    """
    if agrees is None:
        return VACUOUS if vacuous >= 0.5 else UNDECIDED
    if agrees and share >= SURE:
        return AGREES
    return DIFFERS if not agrees and share <= 1 - SURE else UNDECIDED


def _percent(share: float) -> str:
    """A share in percent, with a decimal where rounding would hide on which side of the limit it is.

    >>> _percent(0.895), _percent(0.105), _percent(0.9), _percent(0.654), _percent(0.004)
    ('89.5 %', '10.5 %', '90 %', '65 %', '0.4 %')
    """
    whole = round(100 * share)
    near = {0, 100, round(100 * SURE), round(100 * (1 - SURE))}
    hidden = whole in near and abs(100 * share - whole) > 1e-9
    return f"{100 * share:.1f} %" if hidden else f"{whole} %"


def all_hold(flags: list[bool], idle: list[bool]) -> bool | None:
    """Whether all hold; None if none is broken but for some most fits made no update.

    >>> all_hold([True, False], [False, False]), all_hold([True, False], [False, True])
    (False, None)
    """
    if any(not flag and not still for flag, still in zip(flags, idle)):
        return False
    return None if any(idle) else True


def about(value: float, published: float) -> bool:
    """Whether a number is "about" a published one: from half to twice its size, with the same sign.

    >>> about(7, 5), about(11, 5), about(-5, 5)
    (True, False, False)
    """
    return bool(0.5 <= value / published <= 2.0)


def signed(value: float, digits: int = 2) -> str:
    """A change with its sign, and zero without one.

    >>> signed(3.149), signed(-0.001), signed(0.0, 3)
    ('+3.15', '0.00', '0.000')
    """
    return f"{0:.{digits}f}" if round(value, digits) == 0 else f"{value:+.{digits}f}"


def most(flags: Any) -> bool:
    """Whether more than half are true."""
    return bool(np.mean(np.asarray(flags, dtype=bool)) > 0.5)
