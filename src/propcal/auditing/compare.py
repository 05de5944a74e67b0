"""compare: several scores of the same people, with intervals of the differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit, assemble, audited_atoms, correction_in
from propcal.auditing.claims import FITTING, NAN
from propcal.auditing.findings import AuditSettings, find, settings_and_names
from propcal.auditing.printable_results import Pages
from propcal.auditing.score_changes import (
    COLUMNS,
    WORSE,
    FlagChanges,
    GroupChange,
    ScorePair,
    claims_of,
    flag_table,
)
from propcal.core.arguments import Table, Values
from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray, from_grid, to_grid
from propcal.core.groups import EVERYBODY
from propcal.core.reduction import numbered, rescored
from propcal.errors import InputError, refused
from propcal.options import AuditOptions, AuditRule, Correcting, Identity, spelled_out
from propcal.reading.frame_arguments import takes_frame
from propcal.reading.rows import rows_of_scores, warn_of_unused_ids


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Pages):
    """Several scores of the same people.

    Attributes
    ----------
    audits : dict
        The audit of each score, by name; the first is the base.
    differences : DataFrame
        For each other score, measure and group: its value, the base's, their difference
        and its interval, which uses that both scores are of the same people.
    changes : DataFrame
        For each other score and each group tested: whether its predictions are nearer
        to the observed rate than those of the base or further off, and whether its
        Brier score is lower or higher, with p-values adjusted for the number of groups.
    flags : DataFrame
        For each other score, threshold and group: how many people are newly flagged,
        and no longer.
    unchanged : tuple of str
        The scores that are the base's for everybody.
    notes : tuple of str

    Examples
    --------
    >>> y, before = [1, 0, 0, 0] * 100, [0.5] * 400
    >>> c = compare({"before": before, "after": [0.25] * 400}, y)
    >>> c.audits["after"].verdict.conclusion
    'no miscalibration found'
    >>> print(c.sentences("after")[0])
    “after” is closer to the observed rate than “before” overall (observed 25.0 %,
    predicted 50.0 % before and 25.0 % after; p < 0.001).
    """

    audits: dict[str, Audit]
    differences: pd.DataFrame
    changes: pd.DataFrame
    flags: pd.DataFrame
    unchanged: tuple[str, ...]
    notes: tuple[str, ...]
    _flag_source: tuple[FlagChanges, ...] = ()

    @property
    def base(self) -> str:
        """Name of the score that the others are compared with."""
        return next(iter(self.audits))

    @property
    def claims(self) -> tuple[GroupChange, ...]:
        """For whom the other scores are nearer to the observed rate than the base, or
        further off.
        """
        _, *others = self.audits
        return tuple(claim for name in others for claim in self.claims_of(name))

    def claims_of(self, name: str) -> list[GroupChange]:
        """The claims about one score."""
        changes = self.changes[self.changes["score"] == name]
        both = self.audits[self.base].groups, self.audits[name].groups
        return claims_of(changes, name, self.base, both)

    def worse_groups(self, name: str) -> list[str]:
        """The groups that a score is further off for than the base, with their O/E
        ratios as far as known.
        """
        return [
            claim.words for claim in self.claims_of(name) if claim.direction == WORSE
        ]

    def fitted_on_these(self, name: str) -> bool:
        """Whether a score was corrected by something that was fitted to these very
        people.
        """
        return bool(self.audits[name].settings["fitted_on_these"])

    def sentences(self, name: str) -> list[str]:
        """What a score changes for whom: at most five sentences."""
        from propcal.documents.report import change_sentences

        return change_sentences(self, name)

    @property
    def all_notes(self) -> list[str]:
        """The notes, and those of the last audit; the comparison itself says to whom a
        score was fitted.
        """
        *_, last = self.audits.values()
        others = [note for note in last.notes if getattr(note, "about", "") != FITTING]
        return list(dict.fromkeys([*self.notes, *others]))

    def to_frame(self) -> pd.DataFrame:
        """The differences."""
        return self.differences.copy()

    def _charts(self) -> Mapping[str, Callable[..., Any]]:
        from propcal.documents.audit_charts import COMPARISON_CHARTS

        return COMPARISON_CHARTS


@takes_frame
@spelled_out(AuditRule, Identity)
def compare(
    scores: Mapping[str, Values | Correcting | None],
    y: Values | Atoms,
    *,
    sensitive_features: Table = None,
    sample_weight: Values | None = None,
    cluster: Values | None = None,
    progress: Callable[[int, int], None] | None = None,
    **settings: Unpack[AuditOptions],
) -> Comparison:
    """Audit several scores of the same people, and say by how much they differ.

    With a data frame of any kind, name its columns, as for `audit`: ``compare(frame,
    scores={"old": "risk", "new": "risk2"}, outcome="died", groups=["sex"])``.

    Parameters
    ----------
    scores : dict
        Name and score of each; the first is the base. A score is an array, or a
        Correction (or a fitted PMCBoost or MCBoost) that is applied to the base: then
        the comparison can say whether these are the people it was fitted to, which an
        array of corrected scores cannot.
    y : array-like of shape (n,), or Atoms
        Outcomes. With Atoms, the base is None (their own score) and the others are
        corrections.
    sensitive_features, sample_weight, cluster, progress, **settings
        As for `audit`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(20_000, seed=1)
    >>> risk = visits.true_risk
    >>> scores = {"rate": visits.admitted.mean() + 0 * risk, "risk": risk}
    >>> groups = visits[["race", "gender"]]
    >>> c = compare(scores, visits.admitted, sensitive_features=groups)
    >>> brier = c.differences.query("measure == 'brier' and group == 'everybody'")
    >>> bool(brier.high.iloc[0] < 0)  # the true risk has a lower Brier score
    True
    """
    rule, identity = settings_and_names(settings)
    if not isinstance(scores, Mapping) or len(scores) < 2:
        example = '{"base": s0, "PMCBoost": s1}'
        raise InputError(
            f"scores must be a dict of two or more, such as {example}",
            argument="scores",
        )
    if isinstance(y, Atoms):
        # refuses arguments beside atoms
        audited_atoms(y, None, sensitive_features, sample_weight, cluster, rule)
        people = _of_atoms(scores, y)
    else:
        people = _of_rows(scores, y, sensitive_features, sample_weight, cluster, rule)
    base, *others = scores
    base_score = to_grid(people.scores[base])
    same_people = replace(people.rows, score=base_score).record_keys()
    people = people._replace(rows=replace(people.rows, keys=same_people))

    found = {}
    for i, name in enumerate(scores):
        atoms = rescored(people.rows, to_grid(people.scores[name]))
        part = _part(progress, i, len(scores))
        fitted = people.fitted[name]
        findings = find(atoms, rule, fitted_on_these=fitted, progress=part)
        found[name] = replace(findings, called=name)
    audits = {name: assemble(each, identity) for name, each in found.items()}
    pairs = []
    for name in others:
        both_scores = people.scores[base], people.scores[name]
        both_found = found[base], found[name]
        pairs.append(ScorePair(name, people.rows, both_scores, both_found))
    return _compared(pairs, audits, people.fitted, rule)


def _compared(
    pairs: Sequence[ScorePair],
    audits: dict[str, Audit],
    fitted: Mapping[str, bool | None],
    rule: AuditSettings,
) -> Comparison:
    """What differs between each score and the base."""
    differences: list[Any] = []
    unchanged = []
    for pair in pairs:
        differences += pair.differences()
        before, after = map(to_grid, pair.scores)
        if np.array_equal(before, after):
            unchanged.append(pair.name)
    base, *_ = audits.values()
    profiles = pairs[0].found[0].profiles
    groups = [one.size.group for one in profiles if not one.size.left_out]
    flags = tuple(
        pair.flags(threshold, groups) for pair in pairs for threshold in rule.thresholds
    )
    return Comparison(
        audits=audits,
        differences=pd.DataFrame(differences, columns=list(COLUMNS)),
        changes=pd.concat([pair.changes() for pair in pairs], ignore_index=True),
        flags=flag_table(flags, base.labels),
        unchanged=tuple(unchanged),
        notes=_notes(fitted, base.identity.unit),
        _flag_source=flags,
    )


def _part(
    progress: Callable[[int, int], None] | None, i: int, n: int
) -> Callable[[int, int], None] | None:
    """Progress of the i-th of n audits as part of the whole."""
    if progress is None:
        return None
    return lambda done, total: progress(i * total + done, n * total)


class ScoredPeople(NamedTuple):
    """People with several scores.

    `rows` are atoms whose scores number them, `scores` has the scores of each row by
    name; `fitted` says whether they were corrected by something that was fitted to
    these very people (None: they were not corrected).
    """

    rows: Atoms
    scores: dict[str, FloatArray]
    fitted: dict[str, bool | None]


def _of_atoms(scores: Mapping[str, Any], atoms: Atoms) -> ScoredPeople:
    """Scores of each atom: their own, and what corrections make of it."""
    base, *others = scores
    corrections = {name: correction_in(scores[name]) for name in others}
    all_corrections = all(each is not None for each in corrections.values())
    if scores[base] is not None or not all_corrections:
        raise InputError(
            'with atoms, scores are {"base": None, ...}: None is their own score, the '
            "others are corrections",
            argument="scores",
        )
    rows = numbered(atoms)
    values: dict[str, FloatArray] = {base: from_grid(atoms.score)[rows.score]}
    fitted: dict[str, bool | None] = {base: None}
    for name, correction in corrections.items():
        values[name] = correction.apply_to_atoms(atoms)[rows.score]
        fitted[name] = correction.fitted_to(atoms)
    return ScoredPeople(rows, values, fitted)


def _of_rows(
    scores: Mapping[str, Any],
    y: Any,
    features: Any,
    weight: Any,
    cluster: Any,
    rule: AuditSettings,
) -> ScoredPeople:
    """Scores of each row: arrays, and what corrections make of the first."""
    base = next(iter(scores))
    corrections = {name: correction_in(value) for name, value in scores.items()}
    if corrections[base] is not None:
        raise refused("base is a correction", base=base)
    arrays = dict(scores)
    invalid = "null" if rule.drop_missing else "error"
    for name, correction in corrections.items():
        if correction is not None:
            arrays[name] = correction.apply(scores[base], features, invalid=invalid)
    reading = rule.reading()
    rows, values = rows_of_scores(
        arrays, y, features, weight, cluster=cluster, **reading
    )
    if cluster is None:
        unused_id = warn_of_unused_ids(features, rule.definition())
        rows = replace(rows, unused_id=unused_id)
    raw = rescored(rows, to_grid(values[base]))
    fitted = {
        name: correction and correction.fitted_to(raw)
        for name, correction in corrections.items()
    }
    return ScoredPeople(rows, values, fitted)


def _notes(fitted: Mapping[str, bool | None], unit: str) -> tuple[str, ...]:
    """Which scores were corrected by something fitted to others, and how differences
    are to be read; the base comes first.
    """
    from propcal.documents.sentences.notes import fitting_note
    from propcal.documents.words import words

    base = next(iter(fitted))
    of_others = [name for name, these in fitted.items() if these is False]
    notes = [fitting_note(False, name, unit=unit) for name in of_others]
    return (*notes, words("notes", "differences", base=base))


def loss_of_everybody(comparison: Comparison) -> Any:
    """The log loss of everybody before and after, and the change; NaN if there are too
    few people for one.
    """
    table = comparison.differences
    rows = table[(table["measure"] == "log_loss") & (table["group"] == EVERYBODY.name)]
    if len(rows):
        return rows.iloc[0]
    return dict.fromkeys(("base", "value", "difference", "low", "high"), NAN)
