"""What is said of a file that was written: a correction, atoms, the state of a monitor."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.atoms import FEWEST_SHOWN, LeftOutReport
from propcal.core.fit.log_odds_cells import FEWEST_OF_A_TERM, smooth_terms
from propcal.core.groups import group_labels
from propcal.core.loss_bounds import are_coarse
from propcal.core.patterns import SITE
from propcal.core.reduction import by_key, without_clusters, without_keys
from propcal.data.periods import days
from propcal.documents.words import sentences
from propcal.numbers import risk_range
from propcal.option_records import Identity

if TYPE_CHECKING:
    from propcal.core.atoms import Atoms
    from propcal.core.correction.correction import Correction
    from propcal.monitoring.monitor import Added, Monitor

MOST_LISTED = 10


def fit_lines(model: Any, people: Atoms, names: Identity, suppress: int) -> Iterator[str]:
    """Whom a fitted estimator saw, what it changes, and which groups were too small."""
    kept, small = model.groups_.groups, model.groups_.left_out
    every = [*kept, *(size.group for size in small)]
    labels = group_labels(every, model.fit_summary_.patterns, names.labels, everyone=names.everyone)
    called = dict(zip(every, labels))
    of = f"{len(every):,} groups" if len(every) > 1 else "one group"
    n = people.n_people
    who = names.count(n) if not 0 < n < suppress else f"fewer than {suppress} {names.unit}"
    read = len(model.correction_.groups)
    some = f"; the correction reads {read} of them" if model.n_updates_ and read < len(every) else ""
    yield f"{type(model).__name__}: {who}, {of}{some}."
    yield from model.fit_summary_.sentences(suppress)
    shifts = [update for update in model.correction_.update_list() if not isnan(update.shift)]
    if shifts:
        most = max(shifts, key=lambda update: abs(update.shift))
        label = next(text for group, text in called.items() if group.name == most.group)
        yield f"Largest adjustment: {label} at predicted risk {risk_range(most.bin)}: {most.shift:+.4f}"
    if small:
        less = f"less than {100 * model.gamma:g} % of the {names.unit} (gamma),"
        have = "has no cells of its own" if len(small) == 1 else "have no cells of their own"
        limited = smooth_terms(model.groups_)[1]
        those = "the largest" if limited else f"those of at least {FEWEST_OF_A_TERM} {names.unit}"
        curve = f" (the smooth curve corrects {those})"
        yield f"{len(small):,} of the groups, with {less} {have}{curve if model.fit_summary_.smooth else ''}:"
        for size in small[:MOST_LISTED]:
            yield f"  {called[size.group]}: {_people(size.people, suppress, names)}"
        if len(small) > MOST_LISTED:
            yield f"  ... and {len(small) - MOST_LISTED:,} more"


def _people(count: int, fewest: int, names: Identity) -> str:
    """A number of people; a small one is suppressed, and others are a range from which it cannot be derived.

    >>> people = Identity(unit="people")
    >>> _people(4, 11, people), _people(12, 11, people), _people(127, 11, people)
    ('fewer than 11 people', '11 to 20 people', '121 to 130 people')
    >>> _people(127, 0, people), _people(0, 11, people), _people(1, 0, people)
    ('127 people', 'nobody', '1 person')
    """
    if not count:
        return "nobody"
    if count < fewest:
        return f"fewer than {fewest} {names.unit}"
    if fewest < 2:
        return names.count(count)
    step = fewest - 1
    block = (count - 1) // step
    return f"{block * step + 1:,} to {(block + 1) * step:,} {names.unit}"


def sharing_lines(exact: Correction, people: Atoms) -> list[str]:
    """What sharing a correction removed, and how much it changes scores in the fitting data."""
    shared, people = exact.shared(), without_clusters(people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a level may have been left out for its size
        moved = np.abs(shared.apply_to_atoms(people) - exact.apply_to_atoms(people))
    mean = np.average(moved, weights=people.people)
    return sentences("files", "sharing", exact, shared, mean, moved.max())


def grid_words(bits: int) -> str:
    """How exact scores are.

    >>> grid_words(32), grid_words(16)
    ('exact', 'rounded to 2**-16')
    """
    return "exact" if bits == 32 else f"rounded to 2**-{bits}"


def atoms_lines(
    atoms: Atoms, written: str, folded: Mapping[str, Sequence[str]], *, counted: str
) -> list[str]:
    """What was written, and whether it is personal data; `folded` are the rare levels of each attribute."""
    patterns, n_sites = without_keys(atoms).patterns, len(by_key(atoms, SITE))
    left_out, grid = LeftOutReport.of(atoms).sentence(FEWEST_SHOWN), grid_words(atoms.resolution_bits)
    few = 0 if atoms.shared is None else int(are_coarse(atoms).sum())
    about = patterns, n_sites, left_out, written, grid, folded
    return sentences("files", "atoms", atoms, *about, counted, few)


def added_lines(added: Added, monitor: Monitor, *, read: bool) -> list[str]:
    """Which periods were added to the state of a monitor; `read` says whether there were any files."""
    ready = None
    if added.held_back:
        ready = monitor.calendar.end(min(added.held_back)) + timedelta(days=days(monitor.delay))
    return sentences("files", "added", added, monitor.identity, monitor.delay, ready, read)
