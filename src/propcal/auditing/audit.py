"""audit: is this score wrong, for whom, and by more than chance explains?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
import pandas as pd

from propcal import __version__
from propcal.auditing.audit_tables import (
    labelled_categories,
    labelled_groups,
    threshold_table,
)
from propcal.auditing.bin_free import BinFree
from propcal.auditing.claims import Verdict, labelled_claims
from propcal.auditing.findings import AuditSettings, Findings, find, settings_and_names
from propcal.auditing.loss_intervals import ranges_unsure, where_attained
from propcal.auditing.printable_results import Pages
from propcal.core.arguments import Table, Values
from propcal.core.atoms import Atoms
from propcal.core.grid import from_grid, to_grid
from propcal.core.groups import group_labels
from propcal.core.reduction import rescored
from propcal.errors import InputError, refused
from propcal.options import AuditOptions, AuditRule, Correcting, Identity, spelled_out
from propcal.reading.frame_arguments import takes_frame
from propcal.reading.rows import rows_to_atoms, warn_of_unused_ids

EDGE_DIGITS = 9
TABLES = (
    "losses",
    "debiased",
    "categories",
    "groups",
    "curves",
    "net_benefit",
    "distribution",
)


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Pages):
    """What an audit found. Everything is plain numbers and text; no row of the data is
    kept.

    Attributes
    ----------
    verdict : Verdict
        `conclusion`, `sentences` (together: `text`) and the `tests` behind them.
    losses : DataFrame
        MC, PMC and DC loss (rows "mc", "pmc", "dc"): value, where it is attained, what
        chance alone would show (median and 95th percentile of a perfect score),
        p-value, interval.
    debiased : DataFrame
        Mean squared gap ("mc"), and as a share of the rate ("pmc"), without what chance
        adds; `rms` is its root, `low` and `high` the interval of that.
    categories, groups : DataFrame
        One row for each cell (a group within a bin), and for each group. `finding` is
        the result; `label` is what people call the group.
    curves, net_benefit, distribution : DataFrame
        Smooth calibration curve, decision curve and histogram of the scores of each
        group.
    notes : tuple of str
    settings : dict
    identity : Identity
        What the score, the outcome and the people are called, and where the data are
        from.
    smallest_alpha : DataFrame
        The smallest alpha for which the score is (alpha, lambda)-MC or -PMC on these
        people (rows "mc", "pmc"), by the size rule of Algorithm 1 and by that of the
        paper's definitions.
    bin_free : BinFree or None
        Measures that need no bins, with `bin_free=True`: its `sentence` and its
        `table`.
    cells_unsure : bool
        Whether shared atoms leave risk ranges too uncertain to show cells and losses.

    Examples
    --------
    >>> from propcal.datasets import load_doctor_visits
    >>> years = load_doctor_visits()
    >>> names = {"score": "risk", "outcome": "frequent", "cluster": "person"}
    >>> a = audit(years, groups=["plan"], **names)
    >>> a.verdict.conclusion
    'miscalibrated'
    >>> a.groups.loc[a.groups.label == "free care", "finding"].tolist()
    ['could be chance']
    """

    verdict: Verdict
    losses: pd.DataFrame
    debiased: pd.DataFrame
    categories: pd.DataFrame
    groups: pd.DataFrame
    curves: pd.DataFrame
    net_benefit: pd.DataFrame
    distribution: pd.DataFrame
    notes: tuple[str, ...]
    settings: dict[str, Any]
    identity: Identity = field(default_factory=Identity)
    smallest_alpha: pd.DataFrame | None = field(default=None, repr=False)
    bin_free: BinFree | None = field(default=None, repr=False)
    cells_unsure: bool = False
    _source: Findings | None = field(default=None, repr=False)

    @property
    def labels(self) -> dict[str, str]:
        """What people call each group, by its name in the tables."""
        return dict(zip(self.groups["group"], self.groups["label"]))

    def to_frame(self, kind: str = "categories") -> pd.DataFrame:
        """One of the tables by name, such as "categories" or "groups"."""
        if kind == "bin_free" and self.bin_free is not None:
            return self.bin_free.to_frame()
        if kind not in TABLES:
            names = ", ".join(map(repr, TABLES))
            raise refused("no such table", names=names, kind=kind)
        table: pd.DataFrame = getattr(self, kind)
        return table.copy()

    def at_threshold(self, *thresholds: float) -> pd.DataFrame:
        """What treating everybody at or above a threshold comes to, for everybody and
        each group that counts.

        Each has its 95 % interval: the share `flagged`, `sensitivity`, `specificity`,
        `ppv` (the share of those flagged who have the outcome) and `net_benefit`.
        `avoided` is the share of people who are spared treatment, compared with
        treating everybody, at no cost in net benefit.

        Parameters
        ----------
        *thresholds : float
            Whole percents, such as 0.2, or those that the audit was made with; the
            default is the latter.

        Examples
        --------
        >>> from propcal import audit
        >>> from propcal.datasets import make_ed_visits
        >>> visits = make_ed_visits(5_000, seed=1)
        >>> a = audit(visits.admitted, visits.true_risk, thresholds=0.2)
        >>> shares = a.at_threshold()[["flagged", "sensitivity", "ppv"]]
        >>> shares.round(2).iloc[0].tolist()
        [0.52, 0.88, 0.52]
        """
        return threshold_table(
            self.groups, self.net_benefit, thresholds or self.settings["thresholds"]
        )

    def _charts(self) -> Mapping[str, Callable[..., Any]]:
        from propcal.documents.audit_charts import AUDIT_CHARTS

        return AUDIT_CHARTS


@takes_frame
@spelled_out(AuditRule, Identity)
def audit(
    y: Values | Atoms,
    score: Values | None = None,
    *,
    sensitive_features: Table = None,
    sample_weight: Values | None = None,
    cluster: Values | None = None,
    correction: Correcting | None = None,
    progress: Callable[[int, int], None] | None = None,
    **settings: Unpack[AuditOptions],
) -> Audit:
    """Is this score wrong, for whom, and by more than chance explains?

    With a data frame of any kind, name its columns: ``audit(frame, score="risk",
    outcome="died", groups=["sex"], weight="w", cluster="patient")``. Groups are names
    of columns or a `Groups`.

    Parameters
    ----------
    y : array-like of shape (n,), or Atoms
        Outcomes, 0 or 1 (or soft labels between: then there are no tests and no
        intervals). Atoms hold scores, groups and weights as well; the arguments for
        these are then left out.
    score : array-like of shape (n,)
        Risk scores in [0, 1].
    sensitive_features : data frame, series or array with n rows, optional
        The attributes that define the groups; None is one group, everybody.
    alpha, gamma, rho, n_bins, binning, intersections, missing, groups, min_share
        As for `mc_loss`: tolerance, smallest share of a group for losses and risk
        ranges, floor on the rate, bins, groups, size rule of cells.
    min_people : int, default=30
        A cell (a group within a bin) with fewer people is not judged.
    min_group, min_events : int, default=50, 10
        A group is tested if it has at least ``min_group`` people, ``min_events``
        expected events and ``min_events`` expected non-events. Groups that you name
        with a condition (`Groups(where=...)`) are always shown.
    sample_weight : array-like of shape (n,), optional
        Whole numbers are frequencies, others survey weights.
    weight_kind : "auto", "frequency" or "survey", default="auto"
        Name "survey" if survey weights happen to be whole numbers: as counts of people,
        they would make intervals far too narrow.
    cluster : array-like of shape (n,), optional
        Patient (or hospital) ID of each row, if several rows may have the same one.
    correction : Correction or fitted PMCBoost or MCBoost, optional
        Audit the score that it gives. The audit says so if it was fitted to these very
        people.
    positive : optional
        The value of `y` that means the event, such as "EXPIRED"; every other value then
        means no event. Not needed for 0 and 1, nor for yes/no, y/n, true/false or t/f
        in any case.
    drop_missing : bool, default=False
        Leave out people without a score or an outcome; a note says how many, and from
        which groups.
    thresholds : float or list of float, optional
        Risks from which people would be treated, beside whole percents (see
        `Audit.at_threshold`); the report begins with these.
    bin_free : bool, default=False
        Also compute measures that need no bins (`Audit.bin_free`). They do not enter
        the verdict.
    within : float, optional
        Ask the other way round: is the score shown to be right to within this share,
        such as 0.2, overall and in every group tested? O/E ratios must then lie between
        0.8 and 1.2 with 95 % confidence.
    n_draws : int, default=1000
        Data sets drawn from the score itself, to see what chance alone would show.
    random_state : int or Generator, default=0
        Seed; the same seed gives the same audit.
    progress : callable, optional
        Called with the number of groups done and the number of all groups.
    labels : dict, optional
        Names of levels for people to read: ``{"sex": {"F": "women", "M": "men"}}``.
    unit : str, optional
        Plural noun for those who are scored, such as "patients". The default is
        "people", or "visits" with `cluster`.
    score_name, outcome_name, title : str, optional
        What the score and the outcome are called, and the title of reports.
    source, period, institution, population : str, optional
        Where the data are from, the time they cover, the hospital or other site, and
        who the people are.

    Returns
    -------
    Audit

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(20_000, seed=1)
    >>> groups = visits[["race", "gender"]]
    >>> a = audit(visits.admitted, visits.true_risk, sensitive_features=groups)
    >>> a.verdict.conclusion
    'no miscalibration found'
    """
    rule, identity = settings_and_names(settings)
    atoms = audited_atoms(y, score, sensitive_features, sample_weight, cluster, rule)
    atoms, fitted_on_these = _corrected(atoms, correction)
    findings = find(atoms, rule, fitted_on_these=fitted_on_these, progress=progress)
    return assemble(findings, identity)


def assemble(findings: Findings, identity: Identity) -> Audit:
    """Label findings and put them into words; they are exact, or protected."""
    from propcal.documents.audit_sentences import bin_free_summary, notes_of, verdict_of

    rule = findings.rule
    shown = findings.shown
    unit = identity.unit or ("visits" if findings.people.clusters else "people")
    identity = replace(identity, unit=unit)
    labels = labels_of(findings, identity)
    groups = labelled_groups(shown.groups, labels, identity)
    claims = labelled_claims(findings.claims, labels)
    verdict = verdict_of(findings, identity, claims, groups)
    notes = notes_of(findings, identity, groups)
    if findings.fewest:
        notes = (*notes, protection_note(findings.fewest, unit))
    bin_free = None
    if rule.bin_free:
        bin_free = bin_free_summary(shown.bin_free, labels, findings.untested)
    places = where_attained(findings.table, rule.rho, labels)
    return Audit(
        verdict=verdict,
        losses=shown.losses.assign(where=places),
        debiased=shown.debiased,
        categories=labelled_categories(
            shown.categories, rule, findings.min_share, unit
        ),
        groups=groups,
        curves=shown.curves,
        net_benefit=shown.net_benefit,
        distribution=shown.distribution,
        notes=notes,
        settings=settings_of(findings),
        identity=identity,
        smallest_alpha=shown.smallest_alpha,
        bin_free=bin_free,
        cells_unsure=ranges_unsure(findings.shared_losses),
        _source=None if findings.fewest else findings.kept(verdict.conclusion),
    )


def labels_of(findings: Findings, identity: Identity) -> dict[str, str]:
    """What people call each group, by its name."""
    groups = findings.counts.groups
    patterns = findings.people.patterns
    everyone = identity.everyone
    labels = group_labels(groups, patterns, identity.labels, everyone=everyone)
    return dict(zip((group.name for group in groups), labels))


def protection_note(fewest: int, unit: str) -> str:
    """How counts were protected, and what that changes."""
    from propcal.documents.words import words

    return words("notes", "protection", fewest=fewest, unit=unit)


def audited_atoms(
    y: Any,
    score: Any,
    sensitive_features: Any,
    sample_weight: Any,
    cluster: Any,
    rule: AuditSettings,
) -> Atoms:
    """Atoms of rows, or those that were passed in the place of the outcome."""
    if isinstance(y, Atoms):
        beside = {
            "score": score,
            "sensitive_features": sensitive_features,
            "sample_weight": sample_weight,
            "cluster": cluster,
            "positive": rule.positive,
            "drop_missing": rule.drop_missing or None,
        }
        given = [name for name, value in beside.items() if value is not None]
        if given:
            raise refused("beside atoms", names=", ".join(given))
        return y
    if score is None:
        raise refused("score missing")
    reading = rule.reading()
    atoms = rows_to_atoms(
        score, y, sensitive_features, sample_weight, cluster=cluster, **reading
    )
    if cluster is not None:
        return atoms
    unused_id = warn_of_unused_ids(sensitive_features, rule.definition())
    return replace(atoms, unused_id=unused_id)


def correction_in(given: Any) -> Any:
    """A correction, or that of a fitted estimator; None if it is neither."""
    correction = getattr(given, "correction_", given)
    if hasattr(correction, "apply_to_atoms"):
        return correction
    return None


def correction_of(given: Any) -> Any:
    """A correction, or that of a fitted estimator; anything else is refused."""
    correction = correction_in(given)
    if correction:
        return correction
    expected = "a Correction, or a fitted PMCBoost or MCBoost"
    raise wrong_type("correction", expected, given)


def wrong_type(argument: str, expected: str, given: object) -> InputError:
    """The error of an argument that is something else."""
    return InputError(
        f"{argument} must be {expected}; got {type(given).__name__}", argument=argument
    )


def _corrected(atoms: Atoms, correction: Any) -> tuple[Atoms, bool | None]:
    """The people with corrected scores, and whether the correction was fitted to
    them.
    """
    if correction is None:
        return atoms, None
    correction = correction_of(correction)
    corrected_scores = to_grid(correction.apply_to_atoms(atoms))
    same_people = replace(atoms, keys=atoms.record_keys())
    return rescored(same_people, corrected_scores), correction.fitted_to(atoms)


def settings_of(findings: Findings) -> dict[str, Any]:
    """By which rule the audit was made, and of how many people."""
    rule = findings.rule
    people = findings.people
    groups = rule.definition()
    intersections: str | int = "listed"
    if isinstance(groups.intersections, (str, int)):
        intersections = groups.intersections
    seed = None
    if isinstance(rule.random_state, (int, np.integer)):
        seed = int(rule.random_state)
    edges = from_grid(findings.table.bins.edges).round(EDGE_DIGITS)
    return {
        "version": __version__,
        "people": people.people,
        "positives": people.positives,
        "attributes": list(people.patterns.attributes),
        "intersections": intersections,
        "missing": groups.missing,
        "alpha": float(rule.alpha),
        "gamma": float(rule.gamma),
        "rho": float(rule.rho),
        "binning": findings.table.bins.kind,
        "edges": edges.tolist(),
        "min_share": float(findings.min_share),
        "min_people": int(rule.min_people),
        "min_group": int(rule.min_group),
        "min_events": int(rule.min_events),
        "thresholds": list(rule.thresholds),
        "within": rule.within,
        "n_draws": int(rule.n_draws),
        "random_state": seed,
        "weights": "frequency" if people.frequencies else "survey",
        "soft_labels": people.soft_labels,
        "buckets": people.clusters,
        "fitted_on_these": bool(findings.fitted_on_these),
        "fingerprint": people.fingerprint,
    }
