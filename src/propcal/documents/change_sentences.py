"""What another score changes for whom, in at most four sentences, from claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.score_changes import BETTER, HIGHER, LOWER, WORSE, GroupChange
from propcal.core.groups.collection import EVERYBODY
from propcal.numbers import IN_SENTENCE, known, listed, plural

if TYPE_CHECKING:
    from propcal.auditing.compare import Comparison
    from propcal.identity import Identity

MOST_NAMED = 3


def change_sentences(comparison: Comparison, name: str) -> list[str]:
    """Whether the people are those of the fit; who is better and who worse off; who is flagged."""
    unit, told = comparison.audits[name].identity.unit, []
    if name in comparison.unchanged:
        told.append(f"“{name}” changes nobody: all scores are those of “{comparison.base}”.")
    if comparison.fitted_on_these(name):
        told.append(
            f"“{name}” was fitted to these very {unit}: this is not evidence of how it does on others."
        )
    if name in comparison.unchanged:
        return told
    brier = [] if told else _brier(comparison, name)
    flags = _flags(comparison, name, comparison.audits[name].identity)
    return [*told, *_groups(comparison, name), *brier, *flags]


def _brier(comparison: Comparison, name: str) -> list[str]:
    """For whom the Brier score is lower, and for whom higher."""
    changes = comparison.changes[comparison.changes["score"] == name]
    labels = comparison.audits[comparison.base].labels
    parts = []
    for way in (LOWER, HIGHER):
        groups = changes.loc[changes["brier_change"] == way, "group"].tolist()
        some = [labels[group] for group in groups if group != EVERYBODY.name]
        where = ["overall"] if EVERYBODY.name in groups else []
        if some:
            few = len(some) <= MOST_NAMED
            where.append(f"for {listed(some)}" if few else f"in {plural(len(some), 'subgroup')}")
        if where:
            parts.append(f"{way} {' and '.join(where)}")
    return [f"The Brier score is {', and '.join(parts)}."] if parts else []


def _groups(comparison: Comparison, name: str) -> list[str]:
    """For whom predictions are nearer to the observed rate, and for whom further off."""
    changes = comparison.changes[comparison.changes["score"] == name]
    tested = int((changes["group"] != EVERYBODY.name).sum())
    claims = comparison.claims_of(name)
    better, worse = ([one for one in claims if one.direction == way] for way in (BETTER, WORSE))
    told = []
    if better:
        told.append(
            f"“{name}” is closer to the observed rate than “{comparison.base}” {_in(better, tested)}."
        )
    if worse:
        than = "It is further off" if better else f"“{name}” is further off than “{comparison.base}”"
        told.append(f"{than} {_in(worse, tested)}.")
    if not told and len(changes):
        told.append(
            f"“{name}” is not shown to be closer to the observed rate than “{comparison.base}”, or further "
            "off, for anybody: the differences are small or could be chance."
        )
    return told


def _in(claims: list[GroupChange], tested: int) -> str:
    """Everybody, and the subgroups by number; those whose predictions change most are named."""
    everybody = [one for one in claims if one.who == EVERYBODY.name]
    parts = sorted((one for one in claims if one.who != EVERYBODY.name), key=lambda one: -abs(one.size))
    told = [f"overall ({everybody[0].rates})"] if everybody else []
    if parts:
        n = len(parts)
        of = f"all {n:,} subgroups" if 1 < n == tested else f"{n:,} of {plural(tested, 'subgroup')}"
        of += " tested"
        most = "most clearly " if n > MOST_NAMED else ""
        told.append(f"in {of}: {most}{listed([one.words for one in parts[:MOST_NAMED]])}")
    return " and ".join(told)


def _flags(comparison: Comparison, name: str, identity: Identity) -> list[str]:
    """How many people cross each threshold."""
    table = comparison.flags
    told = []
    for row in row_dicts(table[(table["score"] == name) & (table["group"] == EVERYBODY.name)]):
        counts = [(row["newly_flagged"], "newly"), (row["no_longer_flagged"], "no longer")]
        parts = [(n, how) for n, how in counts if known(n) and n]
        if parts:
            n, how = parts[0]
            more = [f" and {IN_SENTENCE.count(other)} {which}" for other, which in parts[1:]]
            crossed = f"{identity.count(n)} {'is' if n == 1 else 'are'} {how} flagged{''.join(more)}"
            told.append(f"at a threshold of {100 * row['threshold']:g} %, {crossed}")
    return [f"A{'; '.join(told)[1:]}."] if told else []
