"""What is said of a file that was written: a correction, atoms, the state of a monitor."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.fit.log_odds_cells import FEWEST_OF_A_TERM
from propcal.core.groups.collection import group_labels
from propcal.core.left_out import FEWEST_SHOWN, LeftOutReport
from propcal.core.loss_bounds import are_coarse
from propcal.core.patterns import SITE
from propcal.core.reduction import by_key, without_clusters, without_keys
from propcal.data.periods import days
from propcal.identity import Identity
from propcal.numbers import listed, plural, risk_range

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
    of = f"{len(every)} groups" if len(every) > 1 else "one group"
    n = people.n_people
    who = names.count(n) if not 0 < n < suppress else f"fewer than {suppress} {names.unit}"
    yield f"{type(model).__name__}: {who}, {of}."
    yield from model.fit_summary_.sentences(suppress)
    shifts = [update for update in model.correction_.update_list() if not isnan(update.shift)]
    if shifts:
        most = max(shifts, key=lambda update: abs(update.shift))
        label = next(text for group, text in called.items() if group.name == most.group)
        yield f"Largest adjustment: {label} at predicted risk {risk_range(most.bin)}: {most.shift:+.4f}"
    if small:
        less = f"less than {100 * model.gamma:g} % of the {names.unit} (gamma),"
        have = "has no cells of its own" if len(small) == 1 else "have no cells of their own"
        curve = f"; the smooth curve corrects those of at least {FEWEST_OF_A_TERM} {names.unit}"
        yield f"{len(small)} of the groups, with {less} {have}{curve if model.fit_summary_.smooth else ''}:"
        for size in small[:MOST_LISTED]:
            yield f"  {called[size.group]}: {_people(size.people, suppress, names)}"
        if len(small) > MOST_LISTED:
            yield f"  ... and {len(small) - MOST_LISTED} more"


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


def sharing_lines(exact: Correction, people: Atoms) -> Iterator[str]:
    """What sharing a correction removed, and how much it changes scores in the fitting data."""
    shared, people = exact.shared(), without_clusters(people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a level may have been left out for its size
        moved = np.abs(shared.apply_to_atoms(people) - exact.apply_to_atoms(people))
    steps = f"{len(shared.updates):,} of {plural(len(exact.updates), 'adjustment')}, and "
    yield (
        "The file is prepared for sharing: its numbers are rounded, and it keeps "
        f"{steps if len(exact.updates) else ''}{len(shared.patterns):,} of {len(exact.patterns):,} "
        f"combinations of groups. This changes scores in the fitting data by "
        f"{np.average(moved, weights=people.people):.4f} on average and by at most {moved.max():.4f}. Audit "
        "the shared file itself before using it."
    )
    yield (
        "Share one correction of these people only. A second one, fitted to nearly the same people, would "
        "tell the outcome of a person who was added or removed."
    )


def grid_words(bits: int) -> str:
    """How exact scores are.

    >>> grid_words(32), grid_words(16)
    ('exact', 'rounded to 2**-16')
    """
    return "exact" if bits == 32 else f"rounded to 2**-{bits}"


def atoms_lines(
    atoms: Atoms, written: str, folded: Mapping[str, Sequence[str]], *, counted: str
) -> Iterator[str]:
    """What was written, and whether it is personal data; `folded` are the rare levels of each attribute."""
    bare, n_sites = without_keys(atoms).patterns, len(by_key(atoms, SITE))
    of = f" of {listed(list(bare.attributes))}" if bare.attributes else ""
    at = f", at {plural(n_sites, 'site')}" if n_sites else ""
    patterns = f"{plural(len(bare), 'combination')}{of}{at}"
    yield f"{plural(len(atoms), 'atom')} of {atoms.n_people:,} people; {patterns}"
    if left_out := LeftOutReport.of(atoms).sentence(FEWEST_SHOWN):
        yield left_out
    yield f"Written: {written}."
    if atoms.shared is None:
        yield f"Scores are {grid_words(atoms.resolution_bits)}: treat the file as personal data."
        return
    fewest = atoms.shared.fewest
    for name, levels in folded.items():
        yield f'{name}: folded into "other levels": {", ".join(levels)}'
    yield (
        f"Every cell has at least {fewest} {counted} with the outcome and {fewest} without it. This file "
        "may be shared. Share the same people only once, and make pages that you hand on from this file."
    )
    if few := int(are_coarse(atoms).sum()):
        yield (
            f"{plural(few, 'cell')} with few different scores: mean scores are coarse, so that nobody can "
            "work out how many people have each score."
        )
    if counted == "rows":
        yield "If people have several rows, name their ID with --cluster, so that people are counted."


def added_lines(added: Added, monitor: Monitor, *, read: bool) -> Iterator[str]:
    """Which periods were added to the state of a monitor; `read` says whether there were any files."""
    who = monitor.identity
    if added.new:
        yield f"Added: {_some(added.new)}."
    for period, (was, now) in added.replaced_people.items():
        yield f"Replaced: {period} ({who.count(now)} instead of {was:,})."
    if added.unchanged:
        yield f"Unchanged, with the same {who.unit}: {_some(added.unchanged)}."
    if added.held_back:
        first = min(added.held_back)
        ready = monitor.calendar.end(first) + timedelta(days=days(monitor.delay))
        why = "their outcomes may not be known yet" if monitor.delay else "they are not over"
        until = f"{first} can be added from {ready} on"
        yield f"Held back, because {why}: {_some(added.held_back)}. {until}."
    if read and not (added.changed or added.unchanged or added.held_back):
        yield "Nothing was added: the files have nobody with a date."
    if added.undated:
        yield f"{who.count(added.undated)} without a date were left out."


def _some(periods: Iterable[str]) -> str:
    names = list(periods)
    return listed(names) if len(names) <= 6 else f"{names[0]} to {names[-1]} ({len(names)} periods)"
