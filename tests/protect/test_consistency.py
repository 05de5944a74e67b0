"""What is handed on agrees with itself and with the exact result: 200 random ones, read
as they are printed.

Each check takes what is printed and returns the problems that it finds.
"""

import re
from collections import defaultdict
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from printed_facts import CI, clean, data_in, printed, text_of
from random_results import drawn

from first_cases import first
from output.test_same_numbers import SIGNS
from propcal.documents.data import rounded


def number(text):
    """The number of a text, NaN for limits and dashes; counts have commas, and rates a
    percent sign.
    """
    text = text.replace(",", "").removesuffix(" %")
    return float(text) if re.fullmatch(r"[-+]?[\d.]+", text) else np.nan


def ends_of(text):
    return (
        [number(end) for end in text.split(" to ")]
        if " to " in text
        else [np.nan, np.nan]
    )


def half_unit(text):
    """By how much a printed number may be off."""
    decimals = text.removesuffix(" %").partition(".")[2]
    return 0.5001 * 10.0 ** -len(decimals)


def differing(p):
    """No two places give different values for one quantity; JSON has null for what is
    only known roughly.
    """
    places = defaultdict(lambda: defaultdict(list))
    for place, who, what, text in p.facts:
        places[who, what][text].append(place)
    for (who, what), found in places.items():
        if found.get("-") == ["JSON"] * len(found.get("-", ())) and any(
            text[0] in "<>≥" for text in found
        ):
            found.pop("-", None)
        if len(found) > 1:
            yield f"{who}: {what} is {dict(found)}"


SIDES = {"too high": -1, "too low": 1}


def contradicting(p):
    """Numbers of the same people agree with each other, with their intervals, and with
    their finding.
    """
    known = defaultdict(dict)
    for _, who, what, text in p.facts:
        if text != "-":
            known[who][what] = text
    for who, found in known.items():
        value = defaultdict(
            lambda: np.nan, {what: number(text) for what, text in found.items()}
        )
        for what in found:
            low, high = ends_of(found.get(what + CI, ""))
            room = (
                0.0101 if value[what] == 1 else 1e-9
            )  # an interval that excludes 1 does so in print
            if value[what] < low - room or value[what] > high + room:
                yield f"{who}: {what} {found[what]} is not in {found[what + CI]}"
        side = SIDES.get(found.get("finding"), 0)
        for what, middle in (("O/E", 1), ("gap", 0)):
            low, high = ends_of(found.get(what + CI, ""))
            limit = {"<": -1, ">": 1}.get(found.get(what, "-")[0], 0)
            wrong = (
                side * (value[what] - middle) < 0
                or side * limit < 0
                or (low <= middle <= high)
            )
            if side and (
                wrong or (low > middle and side < 0) or (high < middle and side > 0)
            ):
                yield f"{who}: {found['finding']}, but {what} {found.get(what)} ({found.get(what + CI)})"
            if (
                what == "gap"
                and found.get("finding") == "could be chance"
                and (low > 0 or high < 0)
            ):
                yield f"{who}: could be chance, but gap {found[what + CI]}"
        if "bar" in found and SIDES.get(found["bar"], 0) not in (
            side,
            0,
        ):  # grey if it is not named
            yield f"{who}: {found['finding']} in the table, {found['bar']} in the picture"
        if side and (
            value["adjusted p"] > 0.05 or found.get("adjusted p", "")[:1] == ">"
        ):
            yield f"{who}: {found['finding']}, p {found['adjusted p']}"
        yield from disagreeing_rates(who, found, value)


def disagreeing_rates(who, found, value):
    """Of each two of count, rate and ratio follows the third, as far as it is
    printed.
    """
    observed, predicted = value["observed"], value["predicted"]
    off, other = (half_unit(found.get(what, "")) for what in ("observed", "predicted"))
    least, most = (
        (observed - off) / (predicted + other),
        (observed + off) / max(predicted - other, 1e-9),
    )
    if value["O/E"] < least - 0.0051 or value["O/E"] > most + 0.0051:
        yield f"{who}: O/E {found['O/E']} of {found['observed']} and {found['predicted']}"
    if (
        value["people"] > 0
        and abs(100 * value["events"] / value["people"] - observed) > off
    ):
        yield f"{who}: observed {found['observed']} of {found['events']} / {found['people']}"
    if abs(observed - predicted - value["gap"]) > 0.62:
        yield f"{who}: gap {found['gap']} of {found['observed']} and {found['predicted']}"


def impossible(p):
    """No part is larger than its whole, with the outcome or without it, or above any
    threshold.
    """
    tables = []  # sets of people: those that are compared, and their conditions
    for of, audit in p.audits.items():
        wholes = {row["group"]: row for row in audit["groups"]}
        tables.append((f"{of}", audit["groups"]))
        ranges = defaultdict(list)
        for bars in audit["distribution"]:
            for low, n, events in zip(
                bars["score_from"], bars["people"], bars["positives"]
            ):
                row = {"group": bars["group"], "people": n, "positives": events}
                ranges[low].append(row)
                if exceeds(row, wholes[bars["group"]]):
                    yield f"{bars['group']}{of}: more people from {low:.6g} on than in all: {row}"
        tables += [(f"{of} from {low:.6g}", rows) for low, rows in ranges.items()]
        for one in audit["net_benefit"]:
            yield from at_thresholds(one, wholes[one["group"]])
    for period in p.json.get("settings", {}).get("periods", ()):
        tables.append(
            (
                f" in {period}",
                [row for row in p.json["periods"] if row["period"] == period],
            )
        )
    for name, rows in tables:
        conditions = [
            set() if row["group"] == "everybody" else {*row["group"].split(" & ")}
            for row in rows
        ]
        for part, own in zip(rows, conditions):
            for whole, some in zip(rows, conditions):
                if some < own and exceeds(part, whole):
                    counts = [
                        (row["people"], row["positives"]) for row in (part, whole)
                    ]
                    yield f"{part['group']} in {whole['group']}{name}: {counts[0]} of {counts[1]}"
    total = re.search(
        r"sites? together \((?:about )?([\d,]+) patients", " ".join(p.sentences)
    )
    for row in p.json.get("sites", ()):
        if (row["people"] or 0) > number(total[1]):
            yield f"{row['site']}: {row['people']} of {total[1]}"


def exceeds(part, whole):
    counts = [[row["people"], row["positives"]] for row in (part, whole)]
    (n, events), (most, all_events) = [
        [np.nan if x is None else x for x in row] for row in counts
    ]
    return (
        n > most or events > all_events or n - events > most - all_events or events > n
    )


def at_thresholds(one, whole):
    if whole["people"] is None or whole["positives"] is None:
        return
    share = [
        np.array(one[x], dtype=float) for x in ("sensitivity", "specificity", "treated")
    ]
    right, wrong = (
        share[0] * whole["positives"],
        (1 - share[1]) * (whole["people"] - whole["positives"]),
    )
    for counts in (right, wrong, share[2] * whole["people"]):
        told = counts[np.isfinite(counts)]
        if (
            np.abs(told - told.round()).max(initial=0) > 1e-6
            or (np.diff(told) > 1e-6).any()
            or (told < -1e-6).any()
        ):
            yield f"{one['group']}: {told} people at thresholds"


RATIO, THREE = r"-?\d+\.\d\d", r"\d+\.\d{3}"
RATE = r"([<>] )?(\d\d+\.\d|[1-9]\.\d|0\.[1-9]\d|0\.0\d\d|0\.0|1\.0) %"
FORMS = {
    "people|events": r"([<>] )?[\d,]+",
    "observed|predicted": RATE,
    "adjusted p": r"[01]\.\d{3}|[<>] 0\.\d{2,3}",
}
FORMS |= {
    "(O/E|intercept|slope)": rf"([<>] )?{RATIO}",
    "(O/E|intercept|slope), (95 % CI|new site)": rf"{RATIO} to {RATIO}",
}
FORMS |= {
    "AUROC|Brier score|log loss": THREE,
    "(AUROC|Brier score|log loss), (95 % CI|new site)": f"{THREE} to {THREE}",
}
FORMS |= {
    "gap": r"([<>] )?[-+]?\d+",
    "gap, 95 % CI": r"[-+]?\d+\.\d to [-+]?\d+\.\d",
    ".*per 100": r"-?\d+\.\d",
}
FORMS |= {
    ".* loss": r"(≥ )?\d+\.\d{3}",
    "typical gap": r"\d+\.\d",
    ".*, %": r"\d+\.\d",
    ".*(%|per 100), 95 % CI": r"-?\d+\.\d to -?\d+\.\d",
}
FORMS |= {
    "evidence now|highest": r"([<>≥] )?([\d,]{2,}|\d\.\d|0\.\d\d|\d)",
    "mean squared( relative)? gap": r"\d+\.\d{4}",
}


def overlong(p):
    """Every number has the digits of its kind, and sentences have none that tables
    would not have.
    """
    for place, who, what, text in p.facts:
        form = next(
            (form for kinds, form in FORMS.items() if re.fullmatch(kinds, what)), ""
        )
        if form and text != "-" and not re.fullmatch(form, text):
            yield f"{place}: {what} of {who} is {text}"
    for sentence in p.sentences:
        told = re.sub(r"95 % CI of the change [^)]*", "", sentence)
        yield from (
            f"{long} in: {sentence}" for long in re.findall(r"\d\.\d{4,}", told)
        )


STRANGE = r"\b1 (more )?(groups|subgroups|cells|patients|sites|events|combinations)\b|\bthe 1 of\b|\bnan\b|\bNone\b"
STRANGE += r"|(use|in|with|comparison:) corrected\b|[-+]0\.?0*(?![\d.])|\b0 (more|put right|still off|new)\b"


def strange(p):
    """Words agree with numbers, names are used, and pages have the sentences and the
    data of JSON.
    """
    page, markdown = (
        text_of(p.html),
        re.sub(r"\\(.)", r"\1", unescape(p.markdown)).translate(SIGNS),
    )
    for place, text in (
        ("page", page),
        ("Markdown", markdown),
        ("JSON", " ".join(p.sentences)),
    ):
        for found in re.finditer(STRANGE, text):
            yield f"{place}: {text[max(found.start() - 40, 0) : found.end() + 40]!r}"
    shown = (
        [*p.audits.values()][-1]["verdict"]["sentences"]
        if p.audits
        else p.json["sentences"]
    )
    for sentence in map(clean, shown):
        if sentence not in page.replace("\u00a0", " ") or (
            markdown and sentence not in markdown
        ):
            yield f"not on the page: {sentence}"
    embedded = data_in(p.html, "audit-data|course-data")
    if embedded is not None and embedded != rounded(p.json):
        yield "the page embeds other data"
    identity = ([*p.audits.values()] or [p.json])[0]["identity"]
    if identity["score"] and identity["score"] not in " ".join(shown):
        yield f"{identity['score']} is not named: {shown}"


CHECKS = (differing, contradicting, impossible, overlong, strange)


def problems(p):
    return [problem for check in CHECKS for problem in check(p)]


@pytest.mark.parametrize("seed", first(8, range(200)))
def test_everything_that_is_handed_on_agrees(seed):
    p = printed(drawn(seed))
    assert len(p.facts) > 20
    assert problems(p) == []


@pytest.fixture(scope="module")
def audited():
    return printed(drawn(0))


PLACES = ["AUROC</span>.*?value.>", "class=.said.", "bar-text.>"]
PLACES += [
    "id=.groups-table.*?<td class=.n.>",
    "id=.categories-table.*?<td class=.n.>.*?<td class=.n.>",
    ">scores from<.*?<td>.*?<td>.*?<td>",
]


@pytest.mark.parametrize("place", PLACES)
def test_one_changed_digit_of_a_page_is_found(audited, place):
    html = audited.html
    start = re.search(place, html, re.DOTALL).end()
    digit = re.compile(r"(?<=[\d.])\d(?=[^\w.,])").search(html, start)
    changed = f"{html[: digit.start()]}{(int(digit[0]) + 5) % 10}{html[digit.end() :]}"
    assert problems(replace(audited, html=changed))


def test_other_findings_counts_and_digits_are_found(audited):
    for change in (
        {"finding": "too low"},
        {"people": 10**6},
        {"positives": 0},
        {"observed_expected": 0.5},
        {"observed_expected_low": 3.0},
        {"auroc": 0.9998},
    ):
        first_row, *others = audited.json["groups"]
        changed = {**audited.json, "groups": [{**first_row, **change}, *others]}
        assert problems(replace(audited, json=changed)), change
    longer = re.sub(r'(<span class="figure-value">\d\.\d\d)', r"\g<1>41", audited.html)
    assert [*overlong(replace(audited, html=longer))]
    assert [
        *strange(
            replace(
                audited, html=audited.html.replace("</main>", "1 more groups</main>")
            )
        )
    ]
