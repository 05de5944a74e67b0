"""Attacks on protected pages: nobody can work a small count out from what is shown."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from attack import Page, block, both, small_one, widths

from first_cases import first
from propcal import Groups, audit, compare
from propcal.auditing.intervals import exact_interval
from propcal.disclosure.protected import protected_audit
from propcal.errors import InputError


def people(n, seed, levels=(("A", "B", "C"), ("F", "M")), power=3.0):
    """Some levels are rare, and so is the outcome at low scores."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            f"attribute{i}": rng.choice(
                list(each), n, p=(w := np.arange(1, len(each) + 1) ** power) / w.sum()
            )
            for i, each in enumerate(levels)
        }
    )
    score = rng.beta(1.3, 4, n).round(3)
    return frame, score, (rng.random(n) < score).astype(int)


ONE, TWO, THREE = (("A", "B"),), (("A", "B", "C"), ("F", "M")), (("A", "B"), ("F", "M"), ("x", "y"))
CASES = [
    *((n, ONE, 2.0) for n in (150, 300, 800)),
    *((n, ONE, 6.0) for n in (1500, 10_000, 100_000)),
    *((n, (("A", "B", "C"),), 4.0) for n in (300, 3000, 30_000)),
    *((n, TWO, 3.0) for n in (500, 1500, 4000, 40_000)),
    *((n, THREE, 2.0) for n in (800, 3000)),
    *((n, THREE, 4.0) for n in (10_000, 60_000)),
    *((n, (("A", "B"), ("F", "M")), 3.0) for n in (400, 2000, 20_000)),
]


@pytest.mark.parametrize(
    "seed", first(6, [0, 3, 6, 9, 13, 17, *sorted({*range(len(CASES))} - {0, 3, 6, 9, 13, 17})])
)
def test_no_count_from_1_to_10_can_be_solved_for(seed):
    """Integer programming over all counts that a page tells, in groups, cells and histograms."""
    n, levels, power = CASES[seed]
    frame, score, y = people(n, seed, levels, power)
    a = audit(y, score, sensitive_features=frame, n_draws=100, gamma=0.001, n_bins=4)
    found = widths(a, most=10, pieces=False)
    assert found
    assert min(found) >= 3


@pytest.mark.parametrize(
    ("n", "levels", "power"), first(2, [(300, ONE, 2.0), (1500, ONE, 6.0), (700, TWO, 2.0)])
)
def test_nor_with_the_cells_behind_curves_and_measures(n, levels, power):
    """The attacker may even know where the cells end, and that they were not full a step before."""
    frame, score, y = people(n, 3, levels, power)
    a = audit(y, score, sensitive_features=frame, n_draws=100, gamma=0.001, n_bins=3)
    page = Page(a)
    assert len(page.edges) > len(page.bins)
    assert min(widths(a, most=6)) >= 3


def test_the_attack_succeeds_where_counts_are_not_protected():
    """With exact counts of all but the small ones it finds these."""
    frame, score, y = people(1500, 2, ONE, 6.0)
    a = audit(y, score, sensitive_features=frame, n_draws=100, gamma=0.001, n_bins=4)
    page = Page(a, pieces=False)
    exact = page.source.counts.totals.people[:, :, 0]
    for group in range(len(page.groups)):
        for outcome in (0, 1):
            if exact[outcome, group] > 10:
                row = page.chosen(outcome, group)
                page.tell(row, exact[outcome, group], exact[outcome, group])
    small = [page.range_of(row) for row, _ in page.small_counts() if row.sum() == len(page.bins) - 1]
    assert small
    assert all(low == high for low, high in small)


SCORES = np.array([0.05, 0.15, 0.35, 0.65])


def with_minors(minors, events, adult_events=(60, 80, 120, 93), adults=(500, 400, 400, 194)):
    """1,494 adults, and some minors, all of them at a score of 0.15."""
    score = np.concatenate([np.repeat(SCORES, adults), np.full(minors, 0.15)])
    y = np.concatenate(
        [np.arange(n) < k for n, k in zip(adults, adult_events)] + [np.arange(minors) < events]
    )
    age = np.repeat([40, 10], [sum(adults), minors])
    return audit(
        y.astype(int),
        score,
        sensitive_features=pd.DataFrame({"age": age}),
        groups=Groups(where={"adult": "age >= 18"}),
        n_draws=100,
        gamma=0.001,
        binning=[0, 0.1, 0.3, 0.5, 1],
    )


@pytest.mark.slow
def test_the_complement_of_a_named_condition_stays_unknown():
    """1,500 people, 1,494 adults: six minors, four with the outcome.

    Every other number of minors that the page allows gives the same page, letter by letter: whatever is
    recomputed for a candidate (chance levels, curve points, drawings) tells nothing.
    """
    page = with_minors(6, 4).to_html()
    same = [
        (minors, events)
        for minors, events in [(6, 4), (6, 2), (4, 2), (4, 0), (7, 5), (8, 4), (9, 7), (3, 1), (10, 6)]
        if with_minors(minors, events).to_html() == page
    ]
    assert (6, 4) in same
    assert len({minors for minors, _ in same}) >= 3
    assert len({events for _, events in same}) >= 3


def test_exact_counts_give_another_page_for_every_candidate():
    assert len({with_minors(*each).to_html(suppress=0) for each in [(6, 4), (6, 2), (4, 2)]}) == 3


def test_limits_of_a_loss_lead_back_to_protected_counts_only():
    """Clopper and Pearson's limits can be inverted: what comes out is what is shown, and no exact count."""
    frame, score, y = people(6000, 5)
    a = audit(y, np.clip(score * 1.4, 0, 1), sensitive_features=frame, n_draws=100, gamma=0.02)
    shown = json.loads(a.to_json(suppress=11))
    eligible = sum(row["eligible"] and row["low"] is not None for row in shown["categories"])
    inverted = 0
    for row in shown["categories"]:
        if row["low"] is None or row["low"] in (0, -0.001) or row["high"] in (0, -0.001):
            continue
        n, k = row["people"], row["positives"]
        low, high = exact_interval(np.array([k / n]), np.array([float(n)]), 0.05 / eligible)
        for mine, told in ((low[0], row["low"]), (high[0], row["high"])):
            if abs(told) != 0.001 and told != 0:
                assert mine - row["mean_score"] == pytest.approx(told, abs=1e-9)
                inverted += 1
    assert inverted > 10
    assert all(row["high"] is None for row in shown["losses"])  # small cells could be worse


def test_before_and_after_are_two_binnings_of_the_same_people():
    """Both scores cut the same people into ranges: together, they must leave three values."""
    frame, score, y = people(400, 7, ONE, 2.0)
    other = np.clip(score * 1.5 + 0.02, 0, 1)
    c = compare({"a": score, "b": other}, y, sensitive_features=frame, n_draws=100, gamma=0.001, n_bins=3)
    content = json.loads(c.to_json(suppress=11))
    first, second = content["audits"].values()
    names = ("group", "people", "positives", "outcome_rate")
    assert [[g[n] for n in names] for g in first["groups"]] == [
        [g[n] for n in names] for g in second["groups"]
    ]
    pages = [Page(each, pieces=False) for each in c.audits.values()]
    joint = Page(next(iter(c.audits.values())), pieces=False)
    patterns, n_bins = joint.inside.shape[1], len(joint.bins) - 1
    rows, lows, highs = [], [], []
    for which, page in enumerate(pages):
        for row, low, high in zip(page.rows, page.low, page.high):
            cube = row.reshape(2, patterns, n_bins)
            axis = cube[:, :, :, None] if which == 0 else cube[:, :, None, :]
            rows.append(np.broadcast_to(axis, (2, patterns, n_bins, n_bins)).ravel())
            lows.append(low)
            highs.append(high)
    joint.rows, joint.low, joint.high = rows, lows, highs
    checked = 0
    for which, page in enumerate(pages):
        for row, count in page.small_counts():
            cube = row.reshape(2, patterns, n_bins)
            axis = cube[:, :, :, None] if which == 0 else cube[:, :, None, :]
            low, high = joint.range_of(np.broadcast_to(axis, (2, patterns, n_bins, n_bins)).ravel())
            assert low <= count <= high
            assert high - low >= 2
            checked += 1
    assert checked > 3


def test_words_give_no_count_away():
    frame, score, y = people(3000, 8)
    frame.loc[frame.index[:7], "attribute1"] = None
    score[:4] = 0.0
    y[:4] = 0
    a = audit(y, score, sensitive_features=frame, n_draws=100)
    shown = protected_audit(a, 11)
    text = " ".join([*shown.verdict.sentences, *shown.notes[:-2]])
    assert "attribute1 is missing for 7 people" in " ".join(a.notes)
    assert "attribute1 is missing for fewer than 21 people; they form" in text
    assert "Fewer than 11 people have a score of exactly 0 or 1" in text
    for number in re.findall(r"([\d,]+) people", text):
        assert int(number.replace(",", "")) in (21, 11, 50) or int(number.replace(",", "")) % 10 == 0
    assert a.settings["fingerprint"] not in a.to_html()


def test_what_is_embedded_and_drawn_comes_from_the_protected_audit():
    """A page made from the protected audit alone, without the exact one at hand, is the same."""
    from propcal.output.report.render import html
    from propcal.output.report.summary import summarise

    frame, score, y = people(2500, 9)
    a = audit(y, score, sensitive_features=frame, n_draws=100)
    shown = protected_audit(a, 11)
    assert shown._source is None
    assert html(summarise(shown, suppress=11, shown=shown)) == a.to_html()


def test_shown_counts_are_blocks_of_the_exact_ones():
    frame, score, y = people(5000, 10)
    a = audit(y, score, sensitive_features=frame, n_draws=100, gamma=0.01)
    shown = json.loads(a.to_json(suppress=11))
    exact = json.loads(a.to_json())
    for kind in ("groups", "categories"):
        for row, true in zip(shown[kind], exact[kind], strict=True):
            counts = true["positives"], true["people"] - true["positives"]
            small = small_one(row["people"], row["positives"])
            if small is not None:
                assert counts[small] <= 10
                low, high = block(row["people"])
                assert low <= true["people"] <= high
                continue
            for told, count in zip(both(row["people"], row["positives"]), counts, strict=True):
                low, high = block(told)
                assert low <= count <= high


def test_one_person_with_many_visits_is_one_person():
    rng = np.random.default_rng(0)
    many = pd.DataFrame({"g": np.repeat(["A", "B"], 3000), "s": rng.random(6000), "id": np.arange(6000)})
    many["y"] = (rng.random(6000) < many.s).astype(int)
    one = pd.DataFrame({"g": "C", "s": 0.3, "id": -1, "y": 1}, index=range(200))
    rows = pd.concat([many, one])
    a = audit(rows.y, rows.s, sensitive_features=rows[["g"]], cluster=rows.id, gamma=0.01)
    assert a.groups.set_index("group").finding["g=C"] == "not enough data"
    shown = json.loads(a.to_json(suppress=11))
    group = next(row for row in shown["groups"] if row["group"] == "g=C")
    assert group["people"] is None
    assert group["outcome_rate"] is None
    assert "From 0 to 10 patients" in " ".join(shown["notes"])
    assert shown["settings"]["people"] == pytest.approx(6200, abs=10)


def seen(frame, **settings):
    """The JSON of a protected audit, and all that its curves and thresholds tell."""
    a = audit(frame.y, frame.risk, sensitive_features=frame[["g"]], n_draws=100, **settings)
    return json.loads(a.to_json(suppress=11))


def test_whether_a_group_is_tested_does_not_tell_its_counts():
    """10 events and 40 non-events are the fewest people that are tested; 7 to 9 events look the same."""
    rng = np.random.default_rng(1)
    others = pd.DataFrame({"risk": rng.uniform(0.01, 0.6, 600).round(4), "g": "A"})
    others["y"] = (rng.random(600) < others.risk).astype(int)
    told = set()
    for events in (7, 8, 9, 10):
        few = pd.DataFrame({"risk": 0.3, "g": "Z", "y": [1] * events + [0] * 40})
        content = seen(pd.concat([others, few], ignore_index=True))
        row = next(group for group in content["groups"] if group["group"] == "g=Z")
        told.add((row["people"], row["positives"], row["kept"], row["finding"], row["reason"]))
        told |= {(cell["bin"], cell["eligible"]) for cell in content["categories"] if cell["group"] == "g=Z"}
    assert len([each for each in told if len(each) == 5]) == 1
    bins = [each[0] for each in told if len(each) == 2]
    assert len(bins) == len(set(bins))


def test_steps_of_curves_do_not_tell_the_total():
    """A has 109 events and Z one; with 110 and none, or 102 and 8, no step of a curve gives it away."""

    def steps(own, other):
        rng = np.random.default_rng(4)
        scores = [rng.beta(a, b, n).clip(0.01, 0.99).round(4) for a, b, n in [(3, 3, 110), (2, 5, 451)]]
        frame = pd.DataFrame({"risk": np.concatenate(scores), "y": [1] * 110 + [0] * 451})
        frame["g"] = ["A"] * own + ["Z"] * other + ["A"] * 391 + ["Z"] * 60
        found = seen(frame)
        sizes = []
        for curve in found["net_benefit"]:
            share = -np.diff([1, *curve["sensitivity"], 0])
            sizes.append(len(set(share[share > 1e-6].round(4))))
        return [group["positives"] for group in found["groups"]], len(found["net_benefit"]), sizes[0]

    assert len({str(steps(110 - few, few)) for few in (0, 1, 4, 8)}) == 1


def test_ranges_of_equally_many_people_do_not_tell_small_counts():
    """In quantile bins it is known that a range has 200 people; 190 beside "< 11" would tell the rest."""
    rng = np.random.default_rng(3)
    told = set()
    for events in (4, 7, 10):
        score = np.linspace(0.005, 0.6, 2003).round(6)
        y = np.zeros(2003, dtype=int)
        y[rng.choice(200, events, replace=False)] = 1
        y[300 + rng.choice(1600, 352 - events, replace=False)] = 1
        found = seen(pd.DataFrame({"risk": score, "y": y, "g": "A"}), binning="quantile")
        told.add((found["distribution"][0]["people"][0], found["distribution"][0]["positives"][0]))
    assert len(told) == 1


@pytest.mark.parametrize("value", [2, 3, 4])
def test_blocks_that_protect_nobody_are_refused(value):
    frame, score, y = people(500, 0, ONE)
    with pytest.raises(InputError, match="suppress must be 0, or at least 5"):
        audit(y, score, sensitive_features=frame, n_draws=100).to_html(suppress=value)
