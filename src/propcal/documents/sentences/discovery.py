"""What a search for groups found, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from propcal.auditing.names import CHANCE
from propcal.discovery.discovery import Discovery
from propcal.discovery.finding_rows import AFTER, FoundGroup
from propcal.discovery.people import LEAK
from propcal.discovery.search import WHOLE
from propcal.documents.sentences.claim_lists import split
from propcal.documents.words import sentence, sentence_if
from propcal.numbers import in_parentheses, known
from propcal.options import Identity

MOST_NOT_SEARCHED = 5  # columns that are named
OFTEN = 0.5  # share of resamples in which a group that is certain is found again
HARDLY_EVER = 0.005
IN_PRINT = 0.0005  # smaller differences of rates do not show in print

Row = Mapping[str, Any]

say = partial(sentence, "discovery")
say_if = partial(sentence_if, "discovery")


def overall(found: Discovery) -> list[str]:
    """Whether the score as a whole is miscalibrated, if that was found."""
    who = found.identity
    whole = found.overall
    if found.enough and whole["found"]:
        also = say_if(found.found, "also_after_correction")
        return [say("miscalibrated", who=who, whole=whole, also=also)]
    if any(group.corrected_for == WHOLE for group in found.found):
        return [say("right_after_correction", who=who)]
    return []


def how_many(found: Discovery, events: float) -> str:
    """How many groups were found, among whom."""
    settings = found.settings
    people = found.identity.count(settings["people"])
    searched = say("searched", people=people, features=settings["features"])
    if not found.enough:
        return say("not_enough", searched=searched, events=events)

    score = "recalibrated score" if found.overall["found"] else "score"
    if found.found:
        n = len(found.found)
        return say("groups_found", n=n, score=score, searched=searched)
    return say("none_found", score=score, searched=searched, depth=settings["depth"])


def other_groups(found: Discovery) -> list[str]:
    """That there may be others, if any was found."""
    if not found.found:
        return []
    min_share = found.settings["min_share"]
    return [say("other_groups", min_share=min_share, who=found.identity)]


def not_searched(left_out: Mapping[str, str]) -> list[str]:
    """Columns that were left out: leaks come first, and all of them are named."""
    leaks, others = split(left_out.items(), lambda item: LEAK in item[1])
    columns = [*leaks, *others]
    n_named = max(MOST_NOT_SEARCHED, len(leaks))
    texts = [
        say("not_searched", column=column, why=why) for column, why in columns[:n_named]
    ]
    more = len(columns) - n_named
    if more > 0:
        texts.append(say("others_not_searched", n=more))
    return texts


def finding(group: FoundGroup, people: float, who: Identity) -> str:
    """One group: what the test says, and whether interval and resamples agree with
    it.
    """
    doubts = ""
    if known(group.low) and group.low <= 1 <= group.high:
        doubts += say("size_uncertain")
    if group.again < OFTEN:
        share = say("hardly_any")
        if group.again >= HARDLY_EVER:
            share = say("only", share=group.again)
        doubts += f" {say('members_uncertain', how_many=share)}"
    about = {"direction": _direction(group), "rates": _rates(group), "doubts": doubts}
    return say("finding", group=group, people=who.count(people), **about)


def _direction(group: FoundGroup) -> str:
    """How the score is wrong, and how the raw score is if that differs."""
    if AFTER not in group.error:
        return say("off", group=group)
    if group.raw_error == CHANCE:
        raw = say("raw_could_be_chance")
    else:
        raw = say("raw_error", group=group)
    error = group.error.replace(AFTER, "")
    return say("off_after_correction", group=group, error=error, raw=raw)


def _rates(group: FoundGroup) -> str:
    """Observed and predicted rates, and the evidence behind them."""
    interval = say_if(known(group.low), "after_selection", group=group)
    again = say_if(group.again >= OFTEN, "found_again", share=group.again)
    evidence = in_parentheses(_measured(group, group.value), interval, again)
    if not known(group.observed):
        return say("rates_suppressed", evidence=evidence)
    if group.two_scores:
        raw = in_parentheses(_measured(group, group.raw_value))
        return say("rates_of_both", group=group, raw=raw, evidence=evidence)
    return say("rates", group=group, evidence=evidence)


def _measured(group: FoundGroup, value: float) -> str:
    return say_if(known(value), "measured", group=group, value=value)


def repairs(rows: Sequence[Row], by: str, columns: str) -> list[str]:
    """How much of each protected group's error is removed by a correction for the
    groups found, or for the score as a whole.
    """
    if not rows:
        return [say("nobody_to_judge", columns=columns)]
    shown, suppressed = split(rows, lambda row: known(row["before"]))
    texts = [say("suppressed", row=row) for row in suppressed]
    unclear = []
    for row in shown:
        if row["clear"]:
            texts.append(_repair(row, by, columns))
        else:
            unclear.append(row["group"])
    if unclear:
        texts.append(say("could_be_chance", groups=unclear))
    for row in shown:
        if abs(row["after"]) > abs(row["before"]) + IN_PRINT:
            texts.append(_further_off(row))
    return texts


def _repair(row: Row, by: str, columns: str) -> str:
    """What two corrections would leave of the error of one group."""
    corrected = "the groups found" if by == "groups" else "the score as a whole"
    if by == "nothing":
        correction = say("nothing_to_correct")
    elif row["after"] == row["before"]:
        correction = say("not_changed", corrected=corrected)
    else:
        correction = say("would_leave", corrected=corrected, left=_left(row, "after"))
    left = _left(row, "reading", "_reading")
    reading = say("reading_would_leave", columns=columns, left=left)
    uncertain = say_if(not known(row["removed"]), "share_uncertain")
    parts = {"correction": correction, "reading": reading, "uncertain": uncertain}
    return say("repair", row=row, before=_gap(row, "before"), **parts)


def _further_off(row: Row) -> str:
    """That a correction takes the predictions for one group further away."""
    clear = row["after_low"] > IN_PRINT or row["after_high"] < -IN_PRINT
    chance = say_if(not clear, "rest_could_be_chance")
    gaps = {"before": _gap(row, "before"), "after": _gap(row, "after")}
    return say("further_off", row=row, chance=chance, **gaps)


def _gap(row: Row, name: str) -> str:
    ends = {"low": row[f"{name}_low"], "high": row[f"{name}_high"]}
    return say("gap", value=row[name], **ends)


def _left(row: Row, gap: str, which: str = "") -> str:
    """The mean size of the error left among new people and the share removed, or the
    gap if that is all.
    """
    removed = row[f"removed{which}"]
    if not known(removed):
        return _gap(row, gap)
    low = row[f"removed{which}_low"]
    high = row[f"removed{which}_high"]
    left = row[f"left{which}"]
    return say("error_left", left=left, removed=removed, low=low, high=high)
