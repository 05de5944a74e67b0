"""compare: several scores of the same people side by side, with intervals of the differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit, assemble, audited_atoms
from propcal.auditing.findings import AuditSettings, Findings, find
from propcal.auditing.measure_names import LOSSES
from propcal.auditing.notes import fitting_note
from propcal.auditing.paired import loss_difference, mean_square_difference, person_differences
from propcal.auditing.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray, from_grid, to_grid
from propcal.core.groups.collection import membership
from propcal.core.reduction import numbered, rescored
from propcal.data.rows_to_atoms import rows_of_scores
from propcal.errors import InputError
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, excludes_one, known, listed, plural

IDENTITY = (
    "title",
    "score_name",
    "outcome_name",
    "unit",
    "labels",
    "source",
    "period",
    "institution",
    "population",
)
FURTHER = 0.01  # in the logarithm of an O/E ratio: smaller changes do not matter
MOST_NAMED = 5
COLUMNS = ("score", "measure", "group", "base", "value", "difference", "low", "high")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several scores of the same people.

    Attributes
    ----------
    audits : dict
        The audit of each score, by name; the first is the base.
    differences : DataFrame
        For each other score, measure and group: its value, the base's, their difference and its
        interval, which uses that both scores are of the same people.
    notes : tuple of str
    exactly_worse : dict, optional
        Of protected counts: the groups that each score is further off for by the exact ones.
    """

    audits: dict[str, Audit]
    differences: pd.DataFrame
    notes: tuple[str, ...]
    exactly_worse: dict[str, list[str]] | None = None

    @property
    def base(self) -> str:
        """Name of the score that the others are compared with."""
        return next(iter(self.audits))

    def further_off(self, name: str) -> pd.DataFrame:
        """The groups whose O/E ratio is further from 1 than with the base, and whose interval excludes 1.

        One row a group, the worst first: `group`, `label`, and the ratios `base` and `value`. Only groups
        whose ratio surely changed are listed.
        """
        table = self.differences
        chosen = table[(table["score"] == name) & (table["measure"] == "observed_expected")]
        chosen = chosen[chosen["group"] != "everybody"]
        base, value, low, high = (
            chosen[column].to_numpy(dtype=np.float64) for column in ("base", "value", "low", "high")
        )
        before, after = (np.abs(np.log(np.maximum(ratio, 1e-9))) for ratio in (base, value))
        names, labels = chosen["group"].tolist(), self.audits[name].labels
        own = self.audits[name].groups.set_index("group").loc[names]
        limits = zip(own["observed_expected_low"], own["observed_expected_high"])
        off = np.array([excludes_one(*ends) for ends in limits], dtype=np.bool_)
        worse = np.flatnonzero(off & ((low > 0) | (high < 0)) & (after > before + FURTHER))
        if self.exactly_worse is not None:
            worse = np.flatnonzero(np.isin(names, self.exactly_worse.get(name, [])))
        order = worse[np.argsort(-after[worse], kind="stable")]
        rows = [(names[i], labels.get(names[i], names[i]), base[i], value[i]) for i in order]
        return pd.DataFrame(rows, columns=["group", "label", "base", "value"])

    def worse_groups(self, name: str) -> list[str]:
        """The groups of `further_off`, with their O/E ratios before and after as far as these are known."""
        return [
            f"{label} (O/E {IN_SENTENCE.decimal(base)} before, {IN_SENTENCE.decimal(value)} after)"
            if known(base) and known(value)
            else str(label)
            for _, label, base, value in self.further_off(name).itertuples(index=False)
        ]

    def worse(self) -> list[str]:
        """For each other score, the groups that it is further off for than the base, in a sentence."""
        return [sentence for name in [*self.audits][1:] if (sentence := self._worse(name))]

    def _worse(self, name: str) -> str:
        told = self.worse_groups(name)
        n = len(told)
        if not n:
            return ""
        told = [*told[:MOST_NAMED], *([f"{n - MOST_NAMED} more"] if n > MOST_NAMED else [])]
        return (
            f"With {name}, {plural(n, 'group')} {'is' if n == 1 else 'are'} further off than with "
            f"{self.base}, with a 95 % CI that excludes 1: {listed(told)}."
        )

    def to_frame(self) -> pd.DataFrame:
        """The differences."""
        return self.differences.copy()

    def to_json(self, suppress: int | None = None) -> str:
        """Everything as JSON (docs/reference/audit.schema.json); `suppress` as for an audit."""
        from propcal.disclosure.protected import protected_comparison
        from propcal.output.json import comparison_to_json

        return comparison_to_json(protected_comparison(self, suppress))

    def to_html(
        self,
        path: str | PathLike[str] | None = None,
        *,
        suppress: int = 11,
        title: str | None = None,
        correction: Any = None,
        certificate: Any = None,
        discovery: Any = None,
    ) -> str:
        """The page of the last score, with what changed from the base; arguments as for `Audit.to_html`."""
        from propcal.output.report.render import write_html

        return write_html(
            self,
            path,
            suppress=suppress,
            title=title,
            correction=correction,
            certificate=certificate,
            discovery=discovery,
        )

    def to_markdown(
        self,
        path: str | PathLike[str] | None = None,
        *,
        suppress: int = 11,
        title: str | None = None,
        discovery: Any = None,
    ) -> str:
        """The same in short, as Markdown text."""
        from propcal.output.report.render import write_markdown

        return write_markdown(self, path, suppress=suppress, title=title, discovery=discovery)

    def plot(
        self, kind: str = "before_after", groups: Any = None, *, ax: Any = None, width: float = 6.4
    ) -> Any:
        """Draw outcomes observed for each one expected, group by group, under every score (extra `plots`).

        Parameters
        ----------
        kind : {"before_after"}
        groups : list of str, optional
            Names of the groups to draw; None draws all of them, or those that the first score is furthest
            off for, and says so.
        ax : matplotlib axes, optional
        width : float, default=6.4
            Inches of a new figure; 3.5 is a column of a journal.

        Returns
        -------
        The axes.
        """
        from propcal.output.plots.by_name import plot_comparison

        return plot_comparison(self, kind, groups, ax=ax, width=width)

    def __repr__(self) -> str:
        from propcal.output.terminal import comparison_text
        from propcal.output.text_blocks import as_text

        return as_text(comparison_text(self))

    def _repr_html_(self) -> str:
        from propcal.output.notebook import comparison_html

        return comparison_html(self)


def compare(
    scores: Mapping[str, Any],
    y: Any,
    *,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    cluster: Any = None,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Audit several scores of the same people, and say by how much they differ.

    Parameters
    ----------
    scores : dict
        Name and score of each; the first is the base. A score is an array, or a Correction (or a fitted
        PMCBoost or MCBoost) that is applied to the base: then the comparison can say whether these are
        the people it was fitted to, which an array of corrected scores cannot.
    y : array-like of shape (n,), or Atoms
        Outcomes. With Atoms, the base is None (their own score) and the others are corrections.
    sensitive_features, sample_weight, cluster, progress, **settings
        As for `audit`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from propcal.data.cohorts import make_ed_visits
    >>> visits = make_ed_visits(20_000, seed=1)
    >>> scores = {"rate": visits.admitted.mean() + 0 * visits.true_risk, "risk": visits.true_risk}
    >>> c = compare(scores, visits.admitted, sensitive_features=visits[["race", "gender"]])
    >>> brier = c.differences.query("measure == 'brier' and group == 'everybody'").iloc[0]
    >>> bool(brier.high < 0)  # the true risk has a lower Brier score
    True
    """
    identity = Identity(
        **{name.removesuffix("_name"): settings.pop(name) for name in IDENTITY if name in settings}
    )
    rule = AuditSettings(**settings)
    if not isinstance(scores, Mapping) or len(scores) < 2:
        raise InputError(
            'scores must be a dict of two or more, such as {"base": s0, "PMCBoost": s1}', argument="scores"
        )
    if isinstance(y, Atoms):
        audited_atoms(y, None, sensitive_features, sample_weight, cluster, rule)  # refuses these beside atoms
        joint, values, fitted = _of_atoms(scores, y)
    else:
        joint, values, fitted = _of_rows(scores, y, sensitive_features, sample_weight, cluster, rule)
    names, found = list(scores), {}
    for i, name in enumerate(names):
        found[name] = find(
            rescored(joint, to_grid(values[name])),
            rule,
            fitted_on_these=fitted[name],
            progress=_part(progress, i, len(names)),
        )
    rows = [
        row
        for name in names[1:]
        for row in _differences(name, joint, values[names[0]], values[name], found[names[0]], found[name])
    ]
    audits = {name: assemble(findings, identity) for name, findings in found.items()}
    unit = audits[names[0]].identity.unit
    return Comparison(audits, pd.DataFrame(rows, columns=list(COLUMNS)), _notes(names, fitted, unit))


def _part(progress: Callable[[int, int], None] | None, i: int, n: int) -> Callable[[int, int], None] | None:
    """Progress of the i-th of n audits as part of the whole."""
    return None if progress is None else lambda done, total: progress(i * total + done, n * total)


def _is_correction(value: Any) -> bool:
    return hasattr(getattr(value, "correction_", value), "apply_to_atoms")


def _of_atoms(
    scores: Mapping[str, Any], atoms: Atoms
) -> tuple[Atoms, dict[str, FloatArray], dict[str, bool | None]]:
    """Scores of each atom: their own, and what corrections make of it."""
    base, *others = scores
    if scores[base] is not None or not all(_is_correction(scores[name]) for name in others):
        raise InputError(
            'with atoms, scores are {"base": None, ...}: None is their own score, the others are corrections',
            argument="scores",
        )
    joint = numbered(atoms)
    values: dict[str, FloatArray] = {base: from_grid(atoms.score)[joint.score]}
    fitted: dict[str, bool | None] = {base: None}
    for name in others:
        correction = getattr(scores[name], "correction_", scores[name])
        values[name] = correction.apply_to_atoms(atoms)[joint.score]
        fitted[name] = correction.fitted_to(atoms)
    return joint, values, fitted


def _of_rows(
    scores: Mapping[str, Any], y: Any, features: Any, weight: Any, cluster: Any, rule: AuditSettings
) -> tuple[Atoms, dict[str, FloatArray], dict[str, bool | None]]:
    """Atoms of single rows, and the scores of each."""
    base = next(iter(scores))
    if _is_correction(scores[base]):
        raise InputError(
            f"the first score, {base!r}, must be an array: corrections are applied to it", argument="scores"
        )
    invalid = "null" if rule.drop_missing else "error"
    arrays = {
        name: getattr(value, "correction_", value).apply(scores[base], features, invalid=invalid)
        if _is_correction(value)
        else value
        for name, value in scores.items()
    }
    joint, values = rows_of_scores(
        arrays,
        y,
        features,
        weight,
        cluster=cluster,
        groups=rule.words(),
        weight_kind=rule.weight_kind,
        positive=rule.positive,
        drop_missing=rule.drop_missing,
    )
    raw = rescored(joint, to_grid(values[base]))
    fitted = {
        name: getattr(value, "correction_", value).fitted_to(raw) if _is_correction(value) else None
        for name, value in scores.items()
    }
    return joint, values, fitted


def _differences(
    name: str, joint: Atoms, base: FloatArray, other: FloatArray, a: Findings, b: Findings
) -> Iterator[tuple[Any, ...]]:
    """Rows of the table for one score."""
    for i, measure in enumerate(LOSSES):
        yield (name, measure, "all categories", *loss_difference(i, a, b))
    for place, measure in enumerate(("mc_mean_square", "pmc_mean_square")):
        yield (name, measure, "all categories", *mean_square_difference(place, joint, (base, other), (a, b)))
    groups = [profile.size.group for profile in a.profiles if profile.measured and not profile.size.left_out]
    inside = membership(groups, joint.patterns)
    for group, members in zip(groups, inside):
        rows = members[joint.pattern_index()]
        sample = Sample.of(joint, np.flatnonzero(members))
        before, after = (replace(sample, score=score[rows]) for score in (base, other))
        for measure, numbers in person_differences(before, after).items():
            yield (name, measure, group.name, *numbers)


def _notes(names: list[str], fitted: dict[str, bool | None], unit: str) -> tuple[str, ...]:
    notes = [fitting_note(known, name, unit=unit) for name, known in fitted.items() if known is not None]
    notes.append(
        f"Differences are relative to {names[0]}. If an interval includes 0, chance may explain the "
        "difference. Intervals for the differences in MC, PMC and DC loss are wide, because a maximum over "
        "many cells is known only roughly."
    )
    return tuple(notes)


def loss_of_everybody(comparison: Comparison) -> Any:
    """The log loss of everybody before and after, and the change; NaN if there are too few people for one."""
    table = comparison.differences
    rows = table[(table["measure"] == "log_loss") & (table["group"] == "everybody")]
    if len(rows):
        return rows.iloc[0]
    return dict.fromkeys(("base", "value", "difference", "low", "high"), float("nan"))
