"""Attacks on the section of groups found: small counts cannot be worked out from it."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from attack import FEWEST, MOVED

from propcal import audit, discover
from propcal.auditing.headcount import Headcount
from propcal.documents.blocks import Document, Table
from propcal.documents.discovery import discovery_section
from propcal.numbers import ON_PAGE, Limit, known
from propcal.protect.protected_audits import protected_audit
from propcal.protect.protected_discovery import protected_discovery
from propcal.render.cells import cell
from propcal.render.markdown import markdown


def cohort(n=4000, seed=1):
    """A score that is too low for ward B; race goes with the ward."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"age": rng.integers(20, 90, n), "ward": rng.choice(list("ABC"), n)}
    )
    race = np.where(
        rng.random(n) < np.where(frame["ward"] == "B", 0.6, 0.05), "Black", "White"
    )
    score = rng.uniform(0.1, 0.5, n)
    y = (rng.random(n) < score + 0.25 * (frame["ward"] == "B")).astype(int)
    return frame.assign(race=race), score, y


@pytest.fixture(scope="module")
def found():
    frame, score, y = cohort()
    return discover(y, score, features=frame, protect=["race"], n_draws=24)


def headcount(pair, different=None, key=1):
    count = np.array(pair, float)[:, None]
    behind = count if different is None else np.array(different, float)[:, None]
    return Headcount(count, behind, np.array([0.3]), np.array([key], dtype=np.uint64))


def first_row(found, suppress):
    """The cells of the first group on the page."""
    (table,) = (
        block
        for block in discovery_section(found, suppress).blocks
        if isinstance(block, Table)
    )
    return [cell(column, table.rows[0], ON_PAGE) for column in table.columns]


def counted(found, group, everybody, key=1):
    """The same discovery with other counts of the group found and of everybody."""
    sets = (
        (headcount(*everybody, key=key + 1), None),
        (headcount(*group, key=key), None),
    )
    return replace(found, protection=None, _source=sets)


def test_a_section_shows_moved_counts_near_the_exact_numbers(found):
    assert len(found) == 1
    exact, shown = found.found[0], json.loads(found.to_json(suppress=11))["found"][0]
    assert abs(shown["people"] - exact.people) <= MOVED
    assert abs(shown["events"] - exact.events) <= MOVED
    assert shown["observed"] == pytest.approx(shown["events"] / shown["people"])
    assert shown["value"] == pytest.approx(exact.value, rel=0.02)
    assert shown["low"] == pytest.approx(exact.low, rel=0.03)
    assert shown["high"] == pytest.approx(exact.high, rel=0.03)
    assert shown["p_value"] == round(exact.p_value, 3)
    assert first_row(found, 0)[2] == f"{round(exact.people):,}"


def test_everybody_has_the_same_count_as_in_the_report_that_the_section_is_part_of(
    found,
):
    frame, score, y = cohort()
    everybody = protected_audit(
        audit(y, score, sensitive_features=frame[["ward"]], n_draws=100), 11
    )
    shown = protected_discovery(found, 11)
    assert shown.overall["people"] == everybody.groups["people"].iloc[0]
    assert shown.settings["people"] == shown.overall["people"]


@pytest.mark.parametrize("size", [(300, 1194), (411, 1083), (355, 645)])
def test_subtracting_a_group_from_everybody_leaves_several_values_for_the_few_others(
    found, size
):
    """All but up to ten people with, and ten without the outcome are in the group."""
    rng = np.random.default_rng(0)
    for events in range(11):
        for others in range(1, 11):
            everybody = (size[0] + events, size[1] + others)
            shown = protected_discovery(
                counted(found, (size,), (everybody,), key=int(rng.integers(0, 2**62))),
                11,
            )
            own, whole = shown.found[0], shown.overall
            if not known(own.people):  # withheld
                continue
            left = whole["events"] - own.events
            assert min(left + 2 * MOVED, 10) - max(left - 2 * MOVED, 0) + 1 >= 3
            assert own.events <= whole["events"]
            assert own.people <= whole["people"]


def test_small_counts_are_shown_as_limits(found):
    plain = replace(
        found, found=tuple(replace(group, corrected_for="") for group in found.found)
    )
    shown = protected_discovery(counted(plain, ((7, 280),), ((900, 3100),)), 11).found[
        0
    ]
    assert repr(shown.events) == f"< {FEWEST}"
    assert not known(shown.value)
    assert isinstance(shown.p_value, Limit)
    assert abs(shown.people - 287) <= MOVED
    none = first_row(counted(plain, ((7, 8),), ((900, 3100),)), 11)
    assert none[2:7] == ["< 21", "–", "–", "–", "–"]


def test_many_visits_of_few_people_are_suppressed(found):
    few = counted(found, ((300, 280), (4, 30)), ((900, 3100),))
    assert first_row(few, 11)[2:7] == ["–"] * 5


def test_different_people_are_counted_behind_repeat_visits():
    frame, score, y = cohort(n=3000)
    twice = pd.concat([frame, frame], ignore_index=True)
    person = np.tile(np.arange(len(frame)), 2)
    found = discover(
        np.tile(y, 2),
        np.tile(score, 2),
        features=twice[["age", "ward"]],
        cluster=person,
        n_draws=24,
    )
    own = found._source[1][0]
    assert own.people.tolist() == (2 * own.different).tolist()


def test_nothing_else_on_the_page_tells_an_exact_count(found):
    frame, score, y = cohort()
    more = frame.assign(id=np.arange(len(y)), died=y)
    with pytest.warns(UserWarning, match="a leak"):
        own = discover(y, score, features=more, protect=["race"], n_draws=24)
    shown = protected_discovery(own, 11)
    told = {
        shown.overall["people"],
        shown.overall["events"],
        shown.found[0].people,
        shown.found[0].events,
    }
    told |= set(shown.protection.table["people"])
    exact = {
        len(y),
        int(y.sum()),
        *(own.protection.table["people"].astype(int)),
        round(own.found[0].people),
    }
    text = markdown(Document("", "", [discovery_section(own, 11)]))
    assert exact - told
    assert not (exact - told) & {
        int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d", text)
    }


def with_counts(found, pair):
    """The same discovery with other counts of the first protected group."""
    _, *others = found.protection._source
    sets = ((headcount(pair), None), *others)
    return replace(found, protection=replace(found.protection, _source=sets))


def test_small_protected_groups_have_no_numbers(found):
    shown = json.loads(with_counts(found, [6, 300]).to_json(suppress=11))
    assert shown["protected"][0]["people"] is None
    assert any("numbers are suppressed" in sentence for sentence in shown["sentences"])
    assert shown["protected"][1]["people"] is not None


def test_the_repair_on_a_page_is_near_the_exact_one_and_agrees_with_the_rates_beside_it(
    found,
):
    exact = found.protection.to_frame().set_index("group").loc["race Black"]
    shown = json.loads(found.to_json(suppress=11))["protected"][0]
    assert shown["before"] == pytest.approx(
        shown["observed"] - shown["predicted"], abs=6e-4
    )
    error = (exact["before_high"] - exact["before_low"]) / 3.92
    for name in ("before", "after", "reading"):
        assert abs(shown[name] - exact[name]) < error / 2
        assert shown[f"{name}_high"] - shown[f"{name}_low"] == pytest.approx(
            3.92 * error, rel=0.1
        )
    assert abs(shown["removed"] - exact["removed"]) < 0.1
    assert shown["before"] - shown["after"] == pytest.approx(
        exact["before"] - exact["after"], abs=2e-3
    )
