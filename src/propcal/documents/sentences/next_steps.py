"""What remains open after an audit, and what to do next, in sentences."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from propcal.auditing.audit import Audit
from propcal.auditing.names import NONE_FOUND, NOT_SHOWN, SHOWN
from propcal.documents.sentences.claim_lists import of_kind
from propcal.documents.sentences.notes import all_alike_notes
from propcal.documents.words import sentence, sentence_if

say = partial(sentence, "next_steps")
say_if = partial(sentence_if, "next_steps")


class Corrected(NamedTuple):
    """A corrected score, and for how many groups it is worse and better than before."""

    name: str
    worse: int = 0
    better: int = 0


def cannot_tell(
    audit: Audit, *, unjudged: int, left_out: int, missing_excluded: bool
) -> list[str]:
    """What remains open: cells without enough data, groups that were not tested, and
    what no audit can tell.
    """
    unit = audit.identity.unit
    texts = []
    if unjudged:
        texts.append(say("unjudged_cells", n=unjudged, cells=len(audit.categories)))
    if left_out:
        why = f"too few {unit}"
        if missing_excluded:
            why += " or a missing value"
        texts.append(say("left_out_groups", n=left_out, why=why))
    if audit.settings["fitted_on_these"]:
        texts.append(say("others_than_fitted", unit=unit))
    return [*texts, say("outcome_recorded"), say("decision_fair")]


def next_steps(
    audit: Audit, corrected: Corrected | None, *, mostly_unjudged: bool
) -> list[str]:
    """What to do with a score, or with a corrected one."""
    unit = audit.identity.unit
    settings = audit.settings
    conclusion = audit.verdict.conclusion
    alike = all_alike_notes(settings["positives"], settings["people"])
    if alike:
        return [say("outcomes_alike", check=check) for check in alike]

    if audit.verdict.errors:
        named = bool(of_kind(audit.verdict.claims, "group"))
        if corrected is None:
            return error_found(unit, groups_named=named)
        return error_remains(corrected, groups_named=named)

    if conclusion == NONE_FOUND or conclusion.startswith(SHOWN):
        if corrected and settings["fitted_on_these"]:
            return [say("audit_on_others", corrected=corrected.name, unit=unit)]
        return _nothing_found(unit, corrected, mostly_unjudged=mostly_unjudged)
    if conclusion.startswith(NOT_SHOWN):
        return [say("more_for_this_margin", unit=unit, share=settings["within"])]
    return [say("collect_more", unit=unit)]


def error_found(unit: str, *, groups_named: bool) -> list[str]:
    """What to do with a score that is wrong."""
    for_whom = say_if(groups_named, "for_the_groups_named")
    decide = say("decide", for_whom=for_whom)
    return [decide, say("fit_a_correction", unit=unit), say("seek_advice")]


def error_remains(corrected: Corrected, *, groups_named: bool) -> list[str]:
    """What to do with a correction that leaves an error."""
    name, worse, better = corrected
    if worse and not better:
        return [say("only_worse", worse=worse)]
    if worse:
        return [say("worse_for_some", corrected=name, worse=worse)]
    if not better:
        return [say("better_for_nobody", corrected=name)]

    for_whom = say_if(groups_named, "or_do_not_use")
    remains = say("some_error_remains", corrected=name)
    return [remains, say("small_enough", for_whom=for_whom)]


def _nothing_found(
    unit: str, corrected: Corrected | None, *, mostly_unjudged: bool
) -> list[str]:
    """What to do if no error was found, or the score was shown to be right."""
    steps = []
    if corrected:
        steps.append(say("before_use", corrected=corrected.name, unit=unit))
        if corrected.worse:
            steps.append(say("some_further_off", worse=corrected.worse))
    elif mostly_unjudged:
        steps.append(say("not_alone"))
    else:
        steps.append(say("no_reason_to_correct"))
    return [*steps, say("look_at_the_limits", unit=unit), say("repeat_the_audit")]


def unchanged(audit: Audit, base: str) -> list[str]:
    """What to do with a correction that changes nobody: what the base needs."""
    if audit.verdict.errors:
        return [say("base_still_wrong", base=base, unit=audit.identity.unit)]
    return [say("use_the_base", base=base)]
