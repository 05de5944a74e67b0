"""What is said of a file that was written: corrections, atoms, states of monitors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from propcal.documents.words import sentence, sentence_if
from propcal.numbers import listed
from propcal.options import Identity

if TYPE_CHECKING:
    from propcal.core.atoms import Atoms
    from propcal.core.correction.correction import Correction
    from propcal.core.patterns import Patterns
    from propcal.monitoring.monitor import Added

MOST_PERIODS = 6  # that are listed

say = partial(sentence, "files")
say_if = partial(sentence_if, "files")


def sharing(
    exact: Correction, shared: Correction, mean: float, most: float
) -> list[str]:
    """What sharing a correction removed, and how much it changes scores in the fitting
    data.
    """
    both = {"exact": exact, "shared": shared}
    kept = say_if(len(exact.updates), "adjustments_kept", **both)
    moved = {"mean": mean, "most": most}
    first = say("prepared_for_sharing", adjustments=kept, **both, **moved)
    return [first, say("share_one_only")]


def atoms_written(
    atoms: Atoms,
    patterns: Patterns,
    n_sites: int,
    *,
    left_out: str,
    file: str,
    grid: str,
    folded: Mapping[str, Collection[str]],
    counted: str,
    n_coarse: int,
) -> list[str]:
    """What was written, and whether it is personal data; `folded` are the rare levels
    of each attribute, and `n_coarse` rows have few different scores.
    """
    combinations = say("combinations", patterns=patterns)
    sites = say_if(n_sites, "at_sites", n=n_sites)
    texts = [say("atoms", atoms=atoms, combinations=combinations, sites=sites)]
    if left_out:
        texts.append(left_out)
    texts.append(say("written", file=file))
    if atoms.shared is None:
        return [*texts, say("personal_data", grid=grid)]

    for attribute, levels in folded.items():
        texts.append(say("folded", attribute=attribute, levels=levels))
    fewest = atoms.shared.fewest
    texts.append(say("may_be_shared", fewest=fewest, counted=counted))
    if n_coarse:
        texts.append(say("coarse_rows", n=n_coarse))
    if counted == "rows":
        texts.append(say("name_the_id"))
    return texts


def periods_added(
    added: Added, who: Identity, delay: str | int, ready: Any, *, read: bool
) -> list[str]:
    """Which periods were added to the state of a monitor; `read` says whether there
    were any files, `ready` when more can be added.
    """
    texts = []
    if added.new:
        texts.append(say("added", periods=_some(added.new)))
    for period, (before, now) in added.replaced_people.items():
        people = who.count(now)
        texts.append(say("replaced", period=period, people=people, before=before))
    if added.unchanged:
        texts.append(say("unchanged", periods=_some(added.unchanged), who=who))
    if added.held_back:
        about = {"periods": _some(added.held_back), "first": min(added.held_back)}
        why = say("outcomes_not_known" if delay else "not_over")
        texts.append(say("held_back", why=why, ready=ready, **about))
    if read and not (added.changed or added.unchanged or added.held_back):
        texts.append(say("nothing_added"))
    if added.undated:
        texts.append(say("undated", people=who.count(added.undated)))
    return texts


def _some(periods: Collection[str]) -> str:
    """A few periods, or the first and the last."""
    names = list(periods)
    if len(names) <= MOST_PERIODS:
        return listed(names)
    return f"{names[0]} to {names[-1]} ({len(names)} periods)"
