"""What a search for groups found: sentences and a table, for a page of its own or a section of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from propcal.auditing.audit_tables import row_dicts
from propcal.discovery.discovery import Discovery
from propcal.discovery.finding_rows import AFTER, COULD_BE_CHANCE, RATIO, FoundGroup, whole
from propcal.discovery.input_rows import LEAK
from propcal.discovery.protected_groups import Protection
from propcal.discovery.search_rounds import WHOLE
from propcal.documents.blocks import At, Block, Document, Items, Paragraphs, Section, Verdict
from propcal.documents.charts import SIDES, Chart, Forest, ForestRow, ratio_axis
from propcal.documents.words import table, words
from propcal.identity import Identity
from propcal.numbers import (
    IN_SENTENCE,
    Limit,
    capital,
    in_parentheses,
    known,
    listed,
    p_equals,
    plural,
    without_limits,
)
from propcal.protect.discoveries import protected_discovery

MOST_NAMED = 5  # columns that a sentence names
STABLE = 0.5  # share of resamples that must find mostly the same people for a description to be certain
PRINTED = 0.0005  # smaller differences of rates do not show in percentage points
NO_GROUP = "No group described by the searched columns was"
OTHERS = (
    "Other groups may also be wrong: small errors can be missed, and groups with less than about {share:g} % "
    "of the {unit} are not searched for (min_share)."
)

Row = dict[str, Any]


def discovery_document(found: Discovery, suppress: int = 0, title: str | None = None) -> Document:
    """The document of a search, from protected counts; 0 protects nothing."""
    shown = protected_discovery(found, suppress)
    repaired = [] if shown.protection is None else shown.protection.sentences
    further = {"Protected groups": repaired, "Columns that were not searched": not_searched(shown)}
    steps = [Items("", [words("next_steps", name) for name in ("found_why", "found_correct")])]
    tone = "wrong" if shown.found or shown.overall["found"] else "few" if _protected_off(shown) else "noise"
    sentences = [*overall(shown), *([_others(shown)] if shown.found else [])]
    return Document(
        brand="Search for groups",
        title=title or shown.identity.title or "Groups found by a search",
        about=[("Score", shown.identity.score)] if shown.identity.score else [],
        blocks=[
            Verdict(tone if shown.enough else "few", how_many(shown), sentences, subject=""),
            Paragraphs([finding(group, shown.identity) for group in shown.found], places=At.TEXT),
            *([Section("next", "What to do next", steps, places=At.PAGE)] if shown.found else []),
            Section("groups", "Groups found", _table(found, shown, suppress), places=At.PAGE | At.CARD),
            *(
                Section(f"further-{i}", heading, [Paragraphs(texts)])
                for i, (heading, texts) in enumerate(further.items())
                if texts
            ),
        ],
    )


def discovery_section(found: Discovery, suppress: int = 11) -> Section:
    """The groups found as a part of the report of an audit."""
    shown = protected_discovery(found, suppress)
    blocks = [Paragraphs(shown.around_groups), *_table(found, shown, suppress)]
    return Section("discovery", "Groups found by a search", blocks, "Groups found")


def _protected_off(found: Discovery) -> bool:
    """Whether the score is clearly wrong for a protected group, whose columns need not be searched."""
    return found.protection is not None and any(row["clear"] for row in row_dicts(found.protection.table))


def _table(found: Discovery, shown: Discovery, suppress: int) -> list[Block]:
    """The groups, with what a reader must know of their numbers; only that if there are none."""
    groups = shown.found
    rows = [
        vars(group)
        | {"words": group.words, "people": whole(group.people), "digits": group.digits}
        | {"outcome_rate": group.observed, "mean_score": group.predicted}
        for group in groups
    ]
    said = {
        "protected": shown is not found and bool(groups),
        "small": any(isinstance(group.value, Limit) or not known(group.value) for group in groups),
        "corrected": any(group.two_scores for group in groups),
        "slopes": any(group.measure != RATIO for group in groups),
    }
    found_groups = table("found", rows, unit=shown.identity.unit, fewest=suppress, **said)
    if not groups:
        return [Paragraphs([found_groups.note])]
    forest = discovery_chart(shown)
    return [*([forest] if isinstance(forest, Forest) else []), found_groups]


def discovery_chart(found: Discovery) -> Chart:
    """O/E ratios of the groups, with their intervals."""
    rows = []
    for group in found.found:
        value, low, high = without_limits([group.value, group.low, group.high])
        if group.measure == RATIO and known(value):
            rows.append(ForestRow(group.name, value, low, high, look="high" if value < 1 else "low"))
    if not rows:
        none = f"{NO_GROUP} found for whom the score is wrong by more than chance explains."
        return "No group has an O/E ratio to show." if found.found else none
    corrected = any(group.two_scores for group in found.found)
    after = "once the errors named before are corrected for" if corrected else ""
    description = "O/E ratio of each group with its 95 % confidence interval after selection"
    description += f", {after}." if after else "."
    axis = ratio_axis([end for row in rows for end in (row.low, row.high)])
    return Forest("forest-found", "O/E ratio", description, axis, rows, ends=SIDES, note=capital(after))


def discovery_sentences(found: Discovery, groups: Sequence[FoundGroup]) -> tuple[str, ...]:
    """What was found, with a sentence for each of these groups."""
    findings = [finding(group, found.identity) for group in groups]
    repaired = [] if found.protection is None else found.protection.sentences
    others = [_others(found)] if found.found else []
    return (*overall(found), how_many(found), *findings, *others, *repaired, *not_searched(found))


def _others(found: Discovery) -> str:
    return OTHERS.format(share=100 * found.settings["min_share"], unit=found.identity.unit)


def overall(found: Discovery) -> list[str]:
    """Whether the score as a whole is miscalibrated, if that was found."""
    subject, whole_score = found.identity.subject, found.overall
    if found.enough and whole_score["found"]:
        observed, predicted = (IN_SENTENCE.percent(whole_score[name]) for name in ("observed", "predicted"))
        return [
            f"{subject} as a whole is miscalibrated ({p_equals(whole_score['p_value'])}; observed "
            f"{observed}, predicted {predicted}): one smooth curve for everybody improves it"
            + (", also after correction for the groups below." if found.found else ".")
            + " Fitting a correction (PMCBoost, propcal fit) recalibrates it as a whole as well."
        ]
    if any(group.corrected_for == WHOLE for group in found.found):
        return [
            f"{subject} was recalibrated as a whole before the search. Once the groups below are corrected, "
            "no error of the whole is left to show."
        ]
    return []


def how_many(found: Discovery) -> str:
    """How many groups were found."""
    settings, n = found.settings, len(found.found)
    searched = f"{found.identity.count(settings['people'])}, {plural(settings['features'], 'feature')}"
    if not found.enough:
        events = whole(found.overall["events"])
        counted = f"{IN_SENTENCE.count(events)} {'event' if events == 1 else 'events'}"
        return f"There are not enough data to search ({searched}, {counted})."
    subject = "the recalibrated score" if found.overall["found"] else "the score"
    wrong = f"found for whom {subject} is wrong by more than chance explains ({searched}"
    if n:
        return f"{plural(n, 'group')} {'was' if n == 1 else 'were'} {wrong})."
    depth = plural(settings["depth"], "condition")
    return f"{NO_GROUP} {wrong}, up to {depth}). This is not proof of calibration."


def not_searched(found: Discovery) -> list[str]:
    """Columns that were left out: leaks come first, and all of them are named."""
    leaks_first = sorted(found.left_out.items(), key=lambda one: LEAK not in one[1])
    n_leaks = sum(LEAK in why for why in found.left_out.values())
    named = leaks_first[: max(MOST_NAMED, n_leaks)]
    more = len(leaks_first) - len(named)
    was = "was" if more == 1 else "were"
    sentences = [f"Not searched: {name} ({why})." for name, why in named]
    return [*sentences, f"{plural(more, 'further column')} {was} not searched."] if more else sentences


def finding(group: FoundGroup, identity: Identity) -> str:
    """One group: what the test says, and whether interval and resamples agree with it."""
    who = f"{group.name} ({identity.count(whole(group.people))})"
    return " ".join([f"{who}: {_direction(group)}. {_rates(group)}.", *_doubts(group)])


def _direction(group: FoundGroup) -> str:
    p = f"(adjusted {p_equals(group.p_value)})"
    if AFTER not in group.error:
        return f"the score is {group.error} {p}"
    chance = group.raw_error == COULD_BE_CHANCE
    raw = "the error of the raw score could be chance" if chance else f"the raw score is {group.raw_error}"
    return f"after {group.corrected_for}, the score would be {group.error.removesuffix(AFTER)} {p}; {raw}"


def _rates(group: FoundGroup) -> str:
    interval = IN_SENTENCE.interval(group.low, group.high, group.digits)
    evidence = in_parentheses(
        _measured(group, group.value),
        f"95 % CI after selection {interval}" if known(group.low) else "",
        f"found again in {100 * group.again:.0f} % of resamples" if group.again >= STABLE else "",
    )
    if not known(group.observed):
        return f"Rates are suppressed{evidence}"
    names = ("observed", "predicted", "predicted_after")
    observed, predicted, after = (IN_SENTENCE.percent(getattr(group, name)) for name in names)
    rates = f"Observed {observed}, predicted {predicted}"
    if not group.two_scores:
        return f"{rates}{evidence}"
    raw = in_parentheses(_measured(group, group.raw_value))
    return f"{rates}{raw}; after {group.corrected_for}, predicted {after}{evidence}"


def _measured(group: FoundGroup, value: float) -> str:
    return f"{group.measure} {IN_SENTENCE.decimal(value, group.digits)}" if known(value) else ""


def _doubts(group: FoundGroup) -> list[str]:
    """Where the interval or the resamples do not agree with the test."""
    sentences = []
    if known(group.low) and group.low <= 1 <= group.high:
        sentences.append("How large the error is remains uncertain: its interval includes 1.")
    if group.again < STABLE:
        share = f"only {100 * group.again:.0f} %" if group.again >= 0.005 else "hardly any"
        sentences.append(
            f"Who exactly is concerned is uncertain: {share} of resamples find mostly these people."
        )
    return sentences


def repairs(protection: Protection) -> list[str]:
    """How much of each protected group's error is removed."""
    columns, rows = listed(list(protection.columns)), row_dicts(protection.table)
    if not rows:
        return [f"No group of {columns} has enough people to say how much of an error is removed."]
    shown = [row for row in rows if known(row["before"])]
    few = [row["group"] for row in rows if not known(row["before"])]
    sentences = [f"{group}: numbers are suppressed, because a count is small." for group in few]
    sentences += [_repair(row, protection.by, columns) for row in shown if row["clear"]]
    unclear = [row["group"] for row in shown if not row["clear"]]
    if unclear:
        sentences.append(
            f"The error before correction could be chance for {listed(unclear)} (5 % level for all "
            "protected groups together), so that no share of it is given."
        )
    return sentences + [_worse(row) for row in shown if abs(row["after"]) > abs(row["before"]) + PRINTED]


def _repair(row: Row, by: str, columns: str) -> str:
    corrected = "the groups found" if by == "groups" else "the score as a whole"
    if by == "nothing":
        repaired = "Nothing was found to correct for, so that nothing of it is removed."
    elif row["after"] == row["before"]:
        repaired = f"A correction for {corrected} does not change it."
    else:
        repaired = f"Among new people, a correction for {corrected} would leave {_left(row, 'after')}."
    shared = known(row["removed"])
    return (
        f"{row['group']}: observed minus predicted {_gap(row, 'before')}. {repaired} "
        f"A correction that reads {columns} would leave {_left(row, 'reading')}."
        + ("" if shared else " The error is too uncertain to say which share is removed.")
    )


def _worse(row: Row) -> str:
    sure = row["after_low"] > PRINTED or row["after_high"] < -PRINTED
    return (
        f"{row['group']}: the correction takes predicted further from observed rates, from "
        f"{_gap(row, 'before')} to {_gap(row, 'after')}"
        + ("." if sure else "; what is left could be chance.")
    )


def _gap(row: Row, name: str) -> str:
    gap, low, high = (IN_SENTENCE.points(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return f"{gap} points (95 % CI {low} to {high})"


def _left(row: Row, name: str) -> str:
    """The mean size of the error left among new people and the share removed, or the gap if that is all."""
    which = "" if name == "after" else "_reading"
    if not known(row[f"removed{which}"]):
        return _gap(row, name)
    size = IN_SENTENCE.decimal(100 * row[f"left{which}"], 1)
    share, low, high = (round(100 * row[f"removed{which}{end}"]) + 0 for end in ("", "_low", "_high"))
    return f"an error of about {size} points; about {share} % (95 % CI {low} to {high} %) is removed"
