"""What changes from one score to another, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from propcal.auditing.names import HIGHER, LOWER
from propcal.auditing.score_changes import BETTER, HARDLY, SAME, WORSE, GroupChange
from propcal.core.groups import EVERYBODY
from propcal.documents.sentences.claim_lists import on_side, split
from propcal.documents.words import sentence
from propcal.numbers import capital, known, listed
from propcal.options import Identity

MOST_EXAMPLES = 3  # subgroups that are named

Row = Mapping[str, Any]

say = partial(sentence, "comparison")


@dataclass(frozen=True)
class Changes:
    """What was found of a score in comparison with its base.

    `claims` are of groups that are better or worse off, those whose predictions change
    most first; `groups` has a row for each group compared, and `crossed` one of
    everybody for each threshold. `newly_off` are the sides on which the score is shown
    to be wrong overall, and its base is not.
    """

    name: str
    base: str
    claims: Sequence[GroupChange]
    groups: Sequence[Row]
    crossed: Sequence[Row]
    newly_off: Collection[str]
    labels: Mapping[str, str]
    unchanged: bool
    fitted_to_these: bool
    who: Identity

    @property
    def scores(self) -> dict[str, str]:
        """The names of both scores."""
        return {"name": self.name, "base": self.base}

    @property
    def subgroups(self) -> int:
        """How many groups besides everybody were compared."""
        return len([row for row in self.groups if row["group"] != EVERYBODY.name])


def change_sentences(found: Changes) -> list[str]:
    """Whether the people are those of the fit; who is better and who worse off; who is
    flagged.
    """
    texts = []
    if found.unchanged:
        texts.append(say("unchanged", **found.scores))
    if found.fitted_to_these:
        texts.append(say("fitted_to_these", name=found.name, who=found.who))
    if found.unchanged:
        return texts

    for side in found.newly_off:
        texts.append(say("newly_off", side=side, **found.scores))
    texts += _better_or_worse(found)
    crossings = []
    for row in found.crossed:
        crossing = _crossing(row, found.who)
        if crossing:
            crossings.append(crossing)
    if crossings:
        texts.append(f"{capital('; '.join(crossings))}.")

    brier = []
    for side in (LOWER, HIGHER):
        change = _brier(found, side)
        if change:
            brier.append(change)
    if brier and not found.fitted_to_these:
        texts.append(say("brier", changes=brier))
    return texts


def _better_or_worse(found: Changes) -> list[str]:
    """For whom the score is closer to the observed rate, and for whom further off."""
    better = on_side(found.claims, BETTER)
    worse = on_side(found.claims, WORSE)
    texts = []
    if better:
        where = _where(better, found.subgroups)
        texts.append(say("closer", where=where, **found.scores))
    if worse:
        where = _where(worse, found.subgroups)
        if better:
            texts.append(say("but_further_off", where=where))
        else:
            texts.append(say("further_off", where=where, **found.scores))
    if not better and not worse and found.groups:
        texts.append(_nobody_better_or_worse(found))
    return texts


def _nobody_better_or_worse(found: Changes) -> str:
    """That predictions hardly differ, or that no difference is more than chance."""
    n = len(found.groups)
    alike = len([row for row in found.groups if row["change"] == SAME])
    if alike == n:
        where = " overall"
        if found.subgroups:
            where = ", overall and in each subgroup compared"
        return say("hardly_differ", most=HARDLY, where=where, **found.scores)

    where = "overall"
    if found.subgroups:
        where = "overall or in any subgroup"
    others = say("all_could_be_chance")
    if alike:
        others = say("others_could_be_chance", alike=alike, n=n, most=HARDLY)
    return say("not_shown", where=where, others=others, **found.scores)


def _where(claims: Sequence[GroupChange], tested: int) -> str:
    """Everybody, and the subgroups by number; those whose predictions change most are
    named.
    """
    everybody, subgroups = split(claims, lambda claim: claim.who == EVERYBODY.name)
    n = len(subgroups)
    parts = []
    if everybody:
        parts.append(say("overall", rates=_rates(everybody[0])))
    if subgroups:
        if 1 < n == tested:
            groups = say("all_subgroups", n=n)
        else:
            groups = say("some_subgroups", n=n, tested=tested)
        examples = listed([claim.words for claim in subgroups[:MOST_EXAMPLES]])
        if n > MOST_EXAMPLES:
            examples = say("most_clearly", groups=examples)
        parts.append(say("in_subgroups", groups=groups, examples=examples))
    return " and ".join(parts)


def _rates(claim: GroupChange) -> str:
    rates = (claim.observed, claim.before, claim.after)
    if all(known(rate) for rate in rates):
        return say("rates", claim=claim)
    return say("p_value", claim=claim)


def _crossing(row: Row, who: Identity) -> str:
    """How many people cross a threshold; nothing if nobody does, or too few."""
    new = _shown_count(row["newly_flagged"])
    old = _shown_count(row["no_longer_flagged"])
    if new and old:
        how = say("newly_and_no_longer", old=old)
    elif new:
        how = say("newly_flagged")
    elif old:
        how = say("no_longer_flagged")
    else:
        return ""
    crossing = new or old
    about = {"people": who.count(crossing), "how": how}
    is_or_are = "is" if crossing == 1 else "are"
    return say("crossing", threshold=row["threshold"], is_or_are=is_or_are, **about)


def _shown_count(count: Any) -> Any:
    """A number of people; 0 if it is withheld."""
    if known(count):
        return count
    return 0


def _brier(found: Changes, side: str) -> str:
    """For whom the Brier score is lower, or higher; nothing if for nobody."""
    subgroups = []
    parts = []
    for row in found.groups:
        if row["brier_change"] != side:
            continue
        if row["group"] == EVERYBODY.name:
            parts.append("overall")
        else:
            subgroups.append(found.labels[row["group"]])
    if len(subgroups) > MOST_EXAMPLES:
        parts.append(say("brier_in_many", n=len(subgroups)))
    elif len(subgroups) > 1:
        parts.append(say("brier_in_some", groups=subgroups))
    elif subgroups:
        parts.append(say("brier_for_one", group=subgroups[0]))
    if not parts:
        return ""
    return f"{side} {' and '.join(parts)}"


def typical_gap(before: float, after: float, *, sure: bool) -> str:
    """The typical gap of a cell before and after; the difference may not be `sure`."""
    if round(before, 3) == 0 and round(after, 3) == 0:
        return say("no_typical_gap")
    text = say("typical_gap", before=before, after=after)
    if sure:
        return text
    return f"{text} {say('may_be_chance')}"
