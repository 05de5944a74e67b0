"""Attacks on the section of groups found: small counts cannot be worked out from it."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from propcal import discover
from propcal.discovery.outcome_counts import DiscoverySource, OutcomeCounts
from propcal.output.report.discovery_section import discovery_section

RATES = ("observed", "predicted", "predicted_after", "value", "low", "high", "raw_value")
EXACT = ("people", "share", "events", *RATES)


def cohort(n=4000, seed=1):
    """A score that is too low for ward B; race goes with the ward."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(20, 90, n), "ward": rng.choice(list("ABC"), n)})
    race = np.where(rng.random(n) < np.where(frame["ward"] == "B", 0.6, 0.05), "Black", "White")
    score = rng.uniform(0.1, 0.5, n)
    y = (rng.random(n) < score + 0.25 * (frame["ward"] == "B")).astype(int)
    return frame.assign(race=race), score, y


@pytest.fixture(scope="module")
def found():
    frame, score, y = cohort()
    return discover(y, score, features=frame, protect=["race"], n_draws=24)


def counted(found, group, everybody):
    """The same discovery with other counts of people with and without the outcome."""

    def counts(pair, different=None):
        return OutcomeCounts(np.array(pair, float), np.array(different or pair, float), 0.3)

    source = found._source
    groups = tuple((counts(*group), basis) for _, basis in source.groups)
    return replace(found, _source=DiscoverySource(counts(*everybody), groups))


def page(found):
    return str(discovery_section(found, 11))


def test_the_section_is_computed_from_protected_counts_and_from_nothing_else(found):
    assert len(found) == 1
    unknown = replace(found.found[0], **dict.fromkeys(EXACT, float("nan")))
    blind = replace(found, found=(unknown,), overall={**found.overall, "people": 0.0, "events": 0.0})
    assert page(blind) == page(found)
    assert blind.to_json(suppress=11) == found.to_json(suppress=11)


def test_a_section_shows_blocks_near_the_exact_numbers(found):
    exact, shown = found.found[0], json.loads(found.to_json(suppress=11))["found"][0]
    assert shown["people"] % 10 == 0
    assert abs(shown["people"] - exact.people) <= 10
    assert shown["events"] % 10 == 5
    assert abs(shown["observed"] - exact.observed) < 0.01
    assert shown["value"] == pytest.approx(exact.value, rel=0.02)
    assert shown["low"] == pytest.approx(exact.low, rel=0.03)
    assert shown["high"] == pytest.approx(exact.high, rel=0.03)
    assert discovery_section(found, 0).rows[0][2] == f"{round(exact.people):,}"


@pytest.mark.parametrize("size", [(300, 1194), (411, 1083), (355, 645)])
def test_subtracting_a_group_from_everybody_leaves_several_values_for_the_few_others(found, size):
    """All but up to ten people with, and ten without the outcome are in the group."""
    pages = {}
    for events in range(11):
        for others in range(11):
            everybody = (size[0] + events, size[1] + others)
            shown = page(counted(found, (size,), (everybody,)))
            pages.setdefault(shown, []).append((events, others))
    for candidates in pages.values():
        assert len({events for events, _ in candidates}) >= 3 or len({o for _, o in candidates}) >= 3
    assert len(pages) <= 4  # at most one edge of a block for each outcome


def test_every_number_in_a_block_gives_the_same_section_letter_by_letter(found):
    everybody = ((900, 3100),)
    pages = {page(counted(found, ((events, 280),), everybody)) for events in range(41, 51)}
    assert len(pages) == 1
    small = {page(counted(found, ((events, 280),), everybody)) for events in range(1, 8)}
    assert len(small) == 1  # with the others, they are 281 to 287: one block


@pytest.mark.parametrize("earlier", ["recalibration of the whole score", "correction for the errors above"])
def test_rates_after_a_correction_do_not_tell_the_events_of_those_corrected_for(found, earlier):
    """One event more of them moves the events that are expected after the correction by up to one."""
    group = replace(found.found[0], corrected_for=earlier)
    shown = []
    for events in range(100, 140):
        own = counted(replace(found, found=(group,)), ((150, 250),), ((150 + events, 2000),))
        counts, basis = own._source.groups[0]
        moved = (events if earlier.startswith("correction") else events / 10) / 120
        source = replace(own._source, groups=((counts, replace(basis, then=moved)),))
        shown.append(
            json.loads(replace(own, _source=source).to_json(suppress=11))["found"][0]["predicted_after"]
        )
    assert min(shown.count(value) for value in shown[10:-10]) >= 9


def test_small_counts_are_shown_as_limits(found):
    plain = replace(found, found=tuple(replace(group, corrected_for="") for group in found.found))
    row = discovery_section(counted(plain, ((7, 280),), ((900, 3100),)), 11).rows[0]
    assert row[3].startswith("< ")
    assert row[5].startswith("< ")
    assert row[6] == "–"
    none = discovery_section(counted(plain, ((7, 8),), ((900, 3100),)), 11).rows[0]
    assert none[2:7] == ("< 21", "–", "–", "–", "–")


def test_many_visits_of_few_people_are_suppressed(found):
    few = counted(found, ((70, 280), (4, 30)), ((900, 3100),))
    row = discovery_section(few, 11).rows[0]
    assert row[2:7] == ("–",) * 5
    assert "70" not in "".join(row[2:7])


def test_slopes_have_one_digit_and_intervals_that_are_not_narrower(found):
    slope = {"measure": "calibration slope", "corrected_for": ""}
    wide = replace(found.found[0], **slope, value=0.2345, low=0.1777, high=0.2918)
    row = discovery_section(replace(found, found=(wide,)), 11).rows[0]
    assert row[5:7] == ("slope 0.2", "0.1 to 0.3")
    assert discovery_section(replace(found, found=(wide,)), 0).rows[0][5:7] == ("slope 0.23", "0.18 to 0.29")


def test_different_people_are_counted_behind_repeat_visits():
    frame, score, y = cohort(n=3000)
    twice = pd.concat([frame, frame], ignore_index=True)
    person = np.tile(np.arange(len(frame)), 2)
    found = discover(
        np.tile(y, 2), np.tile(score, 2), features=twice[["age", "ward"]], cluster=person, n_draws=24
    )
    counts = found._source.groups[0][0]
    assert counts.people.tolist() == (2 * counts.different).tolist()


def test_nothing_else_on_the_page_tells_an_exact_count(found):
    frame, score, y = cohort()
    more = frame.assign(id=np.arange(len(y)), died=y)
    with pytest.warns(UserWarning, match="a leak"):
        own = discover(y, score, features=more, protect=["race"], n_draws=24)
    text = page(own)
    exact = {len(y), int(y.sum()), *(own.protection.table["people"].astype(int)), round(own.found[0].people)}
    exact = {count for count in exact if count % 10}
    assert exact
    assert not exact & {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d", text)}


def with_counts(found, pair, **changes):
    """The same discovery with other counts of the first protected group, and changes of its exact numbers."""
    basis, table = list(found.protection._basis), found.protection.to_frame()
    counts = np.array(pair, float)
    basis[0] = replace(basis[0], counts=OutcomeCounts(counts, counts, 0.3))
    for name, value in changes.items():
        table.loc[0, name] = value
    return replace(found, protection=replace(found.protection, table=table, _basis=tuple(basis)))


def test_small_protected_groups_have_no_numbers(found):
    shown = json.loads(with_counts(found, [6, 300]).to_json(suppress=11))
    assert shown["protected"][0]["people"] is None
    assert any("numbers are suppressed" in sentence for sentence in shown["sentences"])
    assert shown["protected"][1]["people"] is not None


def test_what_corrections_leave_does_not_tell_the_events_of_a_protected_group(found):
    """A correction that reads a group expects its exact number of events, and leaves no gap."""
    shown = set()
    for events in range(111, 121):
        observed = events / (events + 300)
        exact = {"observed": observed, "predicted": 0.3, "before": observed - 0.3, "reading": 1e-5}
        own = with_counts(found, [events, 300], after=observed - 0.36, **exact)
        row = json.loads(own.to_json(suppress=11))["protected"][0]
        shown.add(json.dumps(row))
    assert len(shown) <= 3  # all events of the block; the group found moves the gap by less than two steps


def test_the_repair_on_a_page_is_near_the_exact_one(found):
    exact = found.protection.to_frame().set_index("group").loc["race Black"]
    shown = json.loads(found.to_json(suppress=11))["protected"][0]
    error = (exact["before_high"] - exact["before_low"]) / 3.92
    for name in ("before", "after", "reading"):
        assert abs(shown[name] - exact[name]) < error
        assert shown[f"{name}_high"] - shown[f"{name}_low"] == pytest.approx(3.92 * error, rel=0.1)
    assert abs(shown["removed"] - exact["removed"]) < 0.15
