"""compare: several scores of the same people, with intervals of the differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Unpack

import pandas as pd

from propcal.auditing.audit import Audit, assemble, audited_atoms, correction_in
from propcal.auditing.claims import FITTING, NAN
from propcal.auditing.comparison_findings import ComparisonFindings, find_changes
from propcal.auditing.findings import (
    AuditSettings,
    Findings,
    find,
    settings_and_names,
)
from propcal.auditing.printable_results import Pages
from propcal.auditing.score_changes import WORSE, GroupChange, ScorePair, claims_of
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
    _source: ComparisonFindings | None = None

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
        claims: list[GroupChange] = []
        for name in others:
            claims += self.claims_of(name)
        return tuple(claims)

    def claims_of(self, name: str) -> list[GroupChange]:
        """The claims about one score."""
        changes = self.changes[self.changes["score"] == name]
        before = self.audits[self.base].groups
        after = self.audits[name].groups
        return claims_of(changes, name, self.base, (before, after))

    def worse_groups(self, name: str) -> list[str]:
        """The groups that a score is further off for than the base, with their O/E
        ratios as far as known.
        """
        claims = self.claims_of(name)
        return [claim.words for claim in claims if claim.direction == WORSE]

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
    return assembled(_found(people, rule, progress), identity)


def _found(
    people: ScoredPeople,
    rule: AuditSettings,
    progress: Callable[[int, int], None] | None,
) -> ComparisonFindings:
    """What is found about each score, and about each with the base."""
    base, *others = people.scores
    base_score = to_grid(people.scores[base])
    same_people = replace(people.rows, score=base_score).record_keys()
    rows = replace(people.rows, keys=same_people)

    by_score = {}
    for i, (name, score) in enumerate(people.scores.items()):
        atoms = rescored(rows, to_grid(score))
        part = _part(progress, i, len(people.scores))
        fitted = people.fitted[name]
        findings = find(atoms, rule, fitted_on_these=fitted, progress=part)
        by_score[name] = replace(findings, called=name)

    pairs = []
    for name in others:
        both_scores = people.scores[base], people.scores[name]
        both_found = by_score[base], by_score[name]
        pairs.append(ScorePair(name, rows, both_scores, both_found))
    return find_changes(by_score, pairs)


def assembled(findings: ComparisonFindings, identity: Identity) -> Comparison:
    """Label findings and put them into words; they are exact, or protected."""
    audits = {name: assemble(one, identity) for name, one in findings.by_score.items()}
    base = audits[findings.base]
    flags = findings.flags.copy()
    labels = flags["group"].map(lambda group: base.labels.get(group, group))
    flags.insert(list(flags).index("group") + 1, "label", labels)
    source = None
    if findings.exact:
        source = findings.kept(audits)
    return Comparison(
        audits=audits,
        differences=findings.differences,
        changes=findings.changes,
        flags=flags,
        unchanged=findings.unchanged,
        notes=_notes(findings.by_score, base.identity.unit),
        _source=source,
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
    has_base = scores[base] is None
    if not has_base or None in corrections.values():
        raise InputError(
            'with atoms, scores are {"base": None, ...}: None is their own score, the '
            "others are corrections",
            argument="scores",
        )
    rows = numbered(atoms)
    own_score = from_grid(atoms.score)
    values: dict[str, FloatArray] = {base: own_score[rows.score]}
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
    reading["cluster"] = cluster
    rows, values = rows_of_scores(arrays, y, features, weight, **reading)
    if cluster is None:
        unused_id = warn_of_unused_ids(features, rule.definition())
        rows = replace(rows, unused_id=unused_id)
    raw = rescored(rows, to_grid(values[base]))
    fitted = {
        name: correction and correction.fitted_to(raw)
        for name, correction in corrections.items()
    }
    return ScoredPeople(rows, values, fitted)


def _notes(by_score: Mapping[str, Findings], unit: str) -> tuple[str, ...]:
    """Which scores were corrected by something fitted to others, and how differences
    are to be read; the base comes first.
    """
    from propcal.documents.sentences.notes import fitting_note
    from propcal.documents.words import words

    notes: list[str] = []
    for name, findings in by_score.items():
        if findings.fitted_on_these is False:
            notes.append(fitting_note(False, name, unit=unit))
    base = next(iter(by_score))
    return (*notes, words("notes", "differences", base=base))


def loss_of_everybody(comparison: Comparison) -> Any:
    """The log loss of everybody before and after, and the change; NaN if there are too
    few people for one.
    """
    table = comparison.differences
    of_everybody = table[table["group"] == EVERYBODY.name]
    rows = of_everybody[of_everybody["measure"] == "log_loss"]
    if len(rows):
        return rows.iloc[0]
    return dict.fromkeys(("base", "value", "difference", "low", "high"), NAN)
