"""What a correction is, in sentences: who made it from what, what it reads and does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from propcal.documents.words import sentence
from propcal.errors import plain

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

MOST_ATTRIBUTES = 4  # that are named; a fifth is named rather than called 1 other

say = partial(sentence, "correction")


def provenance(correction: Correction, notes: Sequence[Sequence[str]]) -> list[str]:
    """Who made a correction from what, as far as its file says; `notes` are the user's,
    with their names.
    """
    about = correction.about
    texts = []
    if "score" in about or "people" in about:
        score = _quoted(about, "score")
        outcome = _quoted(about, "outcome")
        people = ""
        if "people" in about:
            people = _people(about)
        texts.append(say("fitted_to", score=score, outcome=outcome, people=people))
    if "propcal" in about:
        saved = about.get("created", "")
        texts.append(say("made_with", version=about["propcal"], saved=saved))
    if correction.is_shared:
        texts.append(say("for_sharing"))
    texts.append(say("id", c=correction))
    for name, text in notes:
        texts.append(say("note", name=name, text=text))
    return texts


def _quoted(about: Mapping[str, Any], name: str) -> str:
    if name in about:
        return repr(about[name])
    return ""


def _people(about: Mapping[str, Any]) -> str:
    """How many people it was fitted to: between two numbers, or on one side of one."""
    low, high = about["people"]
    if high is None:
        count = say("at_least", n=low)
    elif low:
        count = say("between", low=low, high=high)
    else:
        count = say("fewer_than", n=high + 1)
    return f"{count} {plain(about.get('unit', 'people'))}"


def facts(correction: Correction, settings: Sequence[str]) -> list[str]:
    """What a correction reads and does."""
    groups = ""
    if correction.patterns.attributes:
        groups = say("groups_of_these", n=len(correction.groups))
    texts = [say("facts", c=correction, settings=settings, groups=groups)]
    if correction.not_read:
        texts.append(say("not_read", columns=list(correction.not_read)))
    return [*texts, _what_it_does(correction)]


def _what_it_does(correction: Correction) -> str:
    n_cells = correction.n_updates
    n_cells -= correction.start is not None
    n_cells -= correction.points is not None
    if not correction.n_updates:
        return say("changes_nothing")
    if correction.start is not None:
        terms = len(correction.start.groups)
        if n_cells:
            return say("curve_and_cells", terms=terms, n=n_cells)
        return say("curve_only", terms=terms)
    if n_cells:
        return say("cells_only", n=n_cells)
    assert correction.points is not None
    return say("points_only", n=len(correction.points.columns))


def attributes(
    used: Sequence[str], idle: Sequence[str], most: float, without: Sequence[str]
) -> list[str]:
    """Which attributes scores depend on, which ones are read but hardly used (by so
    many points at most), and which are not read.
    """
    texts = []
    if used:
        columns = list(used)
        more = len(columns) - MOST_ATTRIBUTES
        if more > 1:
            columns = [*columns[:MOST_ATTRIBUTES], say("other_attributes", n=more)]
        texts.append(say("depend_on", columns=columns))
    if idle:
        who_changes = f"{idle[0]} changes" if len(idle) == 1 else "they change"
        about = {"who_changes": who_changes, "most": most}
        texts.append(say("hardly_used", columns=idle, **about))
    if without:
        texts.append(say("no_effect", columns=without))
    return texts


def picture(reads: str, used: Sequence[str], shown: int, n: int) -> str:
    """What a correction reads, and which of the combinations of levels its picture
    shows.
    """
    if shown < n:
        last = say("shows_some", shown=shown, n=n)
    elif n > 1:
        last = say("shows_all", n=n)
    else:
        last = say("shows_what_it_does")
    return " ".join([say("reads", columns=reads), *used, last])
