"""Nothing that is shown gives a hidden count away: we try to solve for it, and must fail."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from propcal import Groups, audit, compare
from propcal.auditing.measures import auroc_influence, brier, log_loss
from propcal.auditing.sample import Sample
from propcal.disclosure.suppressed import suppressed
from propcal.disclosure.suppression import hidden
from propcal.numbers import risk_range
from propcal.output.report.render import html, markdown
from propcal.output.report.summary import summarise

FEWEST = 11


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


class World:
    """Unknown numbers of people of every pattern, bin and outcome; what is shown is a set of equations."""

    def __init__(self, counts):
        self.counts = counts
        self.shape = counts.people.shape
        self.rows, self.values = [], []

    def say(self, patterns, bins, people, positives):
        """People with and without the outcome add up to what is shown."""
        for outcome, total in ((0, positives), (1, None if positives is None else people - positives)):
            row = np.zeros((2, *self.shape))
            row[outcome][np.ix_(patterns, bins)] = 1
            self.rows.append(row.ravel())
            self.values.append(total)

    def say_sum(self, patterns, bins, people):
        row = np.zeros((2, *self.shape))
        row[:, patterns[:, None] & bins[None, :]] = 1
        self.rows.append(row.ravel())
        self.values.append(people)

    def range_of(self, outcome, patterns, bins):
        """Fewest and most people that a hidden count may be."""
        goal = np.zeros((2, *self.shape))
        goal[outcome][np.ix_(patterns, bins)] = 1
        equations = LinearConstraint(np.array(self.rows), self.values, self.values)
        ends = []
        most = Bounds(0, 2 * self.counts.people.sum())
        for sign in (1, -1):
            found = milp(
                sign * goal.ravel(), constraints=equations, bounds=most, integrality=np.ones(goal.size)
            )
            assert found.status == 0, found.message
            ends.append(round(sign * found.fun))
        return ends


def told_by(a, content):
    """Put every count that the JSON shows, or that can be computed from it, into equations."""
    counts = a._counts
    world = World(counts)
    every = np.ones(counts.people.shape[1], dtype=bool)
    for row, group in enumerate(content["groups"]):
        if group["people"] is not None:
            world.say(counts.inside[row], every, group["people"], round(group["positives"]))
            assert group["positives"] == pytest.approx(group["outcome_rate"] * group["people"], abs=1e-6)
    for place, category in enumerate(content["categories"]):
        g, b = counts.category_group[place], counts.category_bin[place]
        if category["people"] is not None:
            bins = np.arange(len(every)) == b
            world.say(counts.inside[g], bins, category["people"], round(category["positives"]))
    listed = set(zip(counts.category_group.tolist(), counts.category_bin.tolist()))
    for g in set(counts.category_group.tolist()):
        for b in range(len(every)):
            if (g, b) not in listed:  # a category that is not listed has nobody
                world.say(counts.inside[g], np.arange(len(every)) == b, 0, 0)
    by_name = {group["group"]: row for row, group in enumerate(content["groups"])}
    for bars in content["distribution"]:
        inside = counts.inside[by_name[bars["group"]]]
        for b, (number, positives) in enumerate(zip(bars["people"], bars["positives"])):
            assert bars["score_from"][b] == pytest.approx(counts.edges[b], abs=1e-8)
            if number is not None:
                world.say(inside, np.arange(len(every)) == b, round(number), round(positives))
    for curve in content["net_benefit"]:
        row = by_name[curve["group"]]
        group = content["groups"][row]
        negatives = group["people"] - group["positives"]
        for t, right, right_not in zip(curve["threshold"], curve["sensitivity"], curve["specificity"]):
            edge = np.flatnonzero(np.abs(counts.edges - t) < 1e-8)
            if len(edge):  # finer thresholds are shown of everybody only, and tested apart
                ones = round((right or 0) * group["positives"])
                zeros = round((1 - (right_not if right_not is not None else 1)) * negatives)
                world.say(counts.inside[row], np.arange(len(every)) >= edge[0], ones + zeros, ones)
            else:
                assert row == 0
    for note in content["notes"]:
        for name, mask in counts.missing.items():
            if found := re.match(rf"{re.escape(name)} is missing for ([\d,]+) people", note):
                world.say_sum(mask, every, int(found[1].replace(",", "")))
    return world


def attack(a, fewest=FEWEST, most=60):
    """The narrowest range that any hidden small count can be confined to, and how many there are."""
    content = json.loads(a.to_json(suppress=fewest))
    world, counts = told_by(a, content), a._counts
    every = np.ones(counts.people.shape[1], dtype=bool)
    small = []
    for outcome in (0, 1):
        for row in range(len(counts.inside)):
            total = counts.outcome[outcome][counts.inside[row]].sum()
            if 0 < total < fewest:
                assert content["groups"][row]["people"] is None
                small.append((outcome, counts.inside[row], every, total))
        for place, (g, b) in enumerate(zip(counts.category_group, counts.category_bin)):
            number = counts.outcome[outcome][counts.inside[g], b].sum()
            if 0 < number < fewest:
                assert content["categories"][place]["people"] is None
                small.append((outcome, counts.inside[g], np.arange(len(every)) == b, number))
    rng = np.random.default_rng(0)
    chosen = [small[i] for i in rng.permutation(len(small))[:most]]
    widths = []
    for outcome, inside, bins, number in chosen:
        low, high = world.range_of(outcome, inside, bins)
        assert low <= number <= high
        widths.append(high - low)
    return widths


CASES = {
    "two attributes": {"n": 4000, "seed": 1},
    "few people": {"n": 500, "seed": 2},
    "one attribute, two levels": {"n": 1500, "seed": 3, "levels": (("A", "B"),), "power": 6.0},
    "one attribute, a tiny level": {"n": 3000, "seed": 4, "levels": (("tiny", "B", "C"),), "power": 7.0},
    "three attributes": {
        "n": 6000,
        "seed": 5,
        "levels": (("A", "B", "C"), ("F", "M"), ("x", "y")),
        "power": 2.0,
    },
    "nothing but everybody": {"n": 300, "seed": 6, "levels": ()},
}


@pytest.mark.parametrize("case", CASES)
def test_no_hidden_count_can_be_solved_for(case):
    frame, score, y = people(**CASES[case])
    features = frame if len(frame.columns) else None
    a = audit(y, score, sensitive_features=features, n_draws=100, gamma=0.02)
    widths = attack(a)
    assert widths, "the case has no small counts"
    assert min(widths) >= 1
    assert np.median(widths) >= 9  # most could be anything from 1 to 10


@pytest.mark.parametrize("seed", range(3))
def test_nor_with_missing_values_other_bins_and_groups_in_words(seed):
    frame, score, y = people(2500, seed + 20)
    frame.loc[np.random.default_rng(seed).random(len(frame)) < 0.004, "attribute1"] = None
    frame["age"] = np.random.default_rng(seed).integers(18, 95, len(frame))
    words = Groups(
        columns=["attribute0", "attribute1"],
        where={"old": "age >= 90"},
        missing="exclude" if seed == 0 else "level",
        intersections=2,
    )
    a = audit(
        y,
        score,
        sensitive_features=frame,
        groups=words,
        n_draws=100,
        gamma=0.02,
        binning="quantile" if seed else "uniform",
        n_bins=5,
    )
    widths = attack(a, most=40)
    assert min(widths, default=1) >= 1


def test_hiding_only_the_small_counts_would_have_given_them_away():
    """The attack works: it finds counts where complementary cells are shown."""
    frame, score, y = people(4000, 1)
    a = audit(y, score, sensitive_features=frame, n_draws=100, gamma=0.02)
    counts = a._counts
    content = json.loads(a.to_json())
    content["net_benefit"], content["distribution"] = [], []
    target = None
    for place, (g, b) in enumerate(zip(counts.category_group, counts.category_bin)):
        numbers = counts.outcome[:, counts.inside[g], b].sum(axis=1)
        if np.any((numbers > 0) & (numbers < FEWEST)):
            content["categories"][place]["people"] = None
            if target is None:
                target = (counts.inside[g], np.arange(counts.people.shape[1]) == b)
    ranges = []
    world = told_by(a, content)
    for g, b in set(zip(counts.category_group.tolist(), counts.category_bin.tolist())):
        numbers = counts.outcome[:, counts.inside[g], b].sum(axis=1)
        if 0 < numbers[0] < FEWEST:
            low, high = world.range_of(0, counts.inside[g], np.arange(counts.people.shape[1]) == b)
            ranges.append(high - low)
    assert min(ranges) == 0


def test_thresholds_of_everybody_keep_enough_people_apart():
    frame, score, y = people(4000, 1)
    a = audit(y, score, sensitive_features=frame, n_draws=100)
    s = suppressed(a, FEWEST)
    curve = s.net_benefit[s.net_benefit["group"] == "everybody"]
    n, positives = len(y), y.sum()
    cumulated = np.column_stack(
        [curve["sensitivity"] * positives, (1 - curve["specificity"]) * (n - positives)]
    )
    steps = -np.diff(np.vstack([[positives, n - positives], cumulated, [0, 0]]), axis=0)
    steps = steps.round(6)
    inner = np.isin(curve["threshold"].round(6), a.settings["edges"], invert=True)
    assert inner.any()
    for i in np.flatnonzero(inner):
        for step in (steps[i], steps[i + 1]):
            assert np.all((step == 0) | (step >= FEWEST))


def numbers_in(text):
    return {float(x.replace(",", "").replace("−", "-")) for x in re.findall(r"[−-]?\d[\d,]*\.?\d*", text)}


def test_page_and_markdown_show_no_number_that_the_json_hides():
    """People, rates and gaps of hidden categories and groups stand nowhere: tables, titles, attributes."""
    frame, score, y = people(4000, 1)
    a = audit(y, score, sensitive_features=frame, n_draws=100, gamma=0.02)
    summary = summarise(a, suppress=FEWEST)
    shown = suppressed(a, FEWEST)
    gone = shown.categories["people"].isna().to_numpy()
    assert gone.any()
    for row, hide in zip(summary.categories, gone):
        assert (row.people == "–") == hide
        if hide:
            assert {row.expected, row.observed, row.gap, row.gap_interval, row.detectable} == {"–"}
    cells = [cell for line in summary.heat for cell in line.cells if cell.category >= 0]
    for cell in cells:
        if gone[cell.category]:
            assert not numbers_in(cell.text + cell.told)
            assert cell.key == ""
    page = html(summary)
    for place in np.flatnonzero(gone):
        row = re.search(rf'<tr data-category="{place}">(.*?)</tr>', page).group(1)
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row)[2:]
        assert all(cell == "–" for cell in cells)
    embedded = json.loads(re.search(r'id="audit-data">(.*?)</script>', page).group(1))
    for kind in ("categories", "groups"):
        hidden_rows = [row["people"] is None for row in embedded[kind]]
        assert hidden_rows == getattr(shown, kind)["people"].isna().tolist()
    assert embedded["settings"]["fingerprint"] is None
    assert "hidden" in page
    assert "– " in markdown(summary)


def test_a_comparison_hides_the_same_people_in_both_scores():
    frame, score, y = people(3000, 7)
    scores = {"base": score, "other": np.clip(score * 1.3, 0, 1)}
    c = compare(scores, y, sensitive_features=frame, n_draws=100, gamma=0.02)
    content = json.loads(c.to_json(suppress=FEWEST))
    first, second = content["audits"].values()
    gone = [group["people"] is None for group in first["groups"]]
    assert gone == [group["people"] is None for group in second["groups"]]
    found = hidden([a._counts for a in c.audits.values()], FEWEST)
    assert found.totals.tolist() == gone
    names = {group["group"] for group, hide in zip(first["groups"], gone) if hide}
    for row in content["differences"]:
        assert row["group"] not in names or row["value"] is None
    for a, one in zip(c.audits.values(), (first, second)):
        world = told_by(a, one)
        for g, b in list(zip(a._counts.category_group, a._counts.category_bin))[:80]:
            number = a._counts.outcome[0][a._counts.inside[g], b].sum()
            if 0 < number < FEWEST:
                low, high = world.range_of(0, a._counts.inside[g], np.arange(10) == b)
                assert high > low


def test_losses_and_texts_tell_no_gap_of_a_hidden_category():
    for seed in range(6):
        frame, score, y = people(1500, seed)
        a = audit(y, np.clip(score * 1.6, 0, 1), sensitive_features=frame, n_draws=100, gamma=0.02)
        s = suppressed(a, FEWEST)
        groups, ranges = s.categories["group"].map(a.labels), s.categories["bin"].map(risk_range)
        shown = set(zip(groups, ranges, s.categories["people"].notna()))
        for name in ("mc", "pmc"):
            where = a.losses.loc[name, "where"]
            group, _, label = where.rpartition(", predicted risk ")
            assert np.isnan(s.losses.loc[name, "value"]) == ((group, label, False) in shown)
        if "clearest gap" in s.verdict.text:
            place = r"clearest gap is in (.*) at predicted risk (\S+ %)"
            group, label = re.search(place, s.verdict.text).groups()
            assert (group, label, True) in shown


def test_nothing_is_hidden_unless_asked_in_python_and_with_0():
    frame, score, y = people(500, 2)
    a = audit(y, score, sensitive_features=frame, n_draws=100)
    assert a.to_json() == a.to_json(suppress=0) == a.to_json(suppress=None)
    assert suppressed(a, 0) is a


@pytest.mark.parametrize("wrong", [-1, 2.5, "few"])
def test_suppress_must_be_a_number_of_people(wrong):
    frame, score, y = people(500, 2)
    a = audit(y, score, sensitive_features=frame, n_draws=100)
    with pytest.raises(ValueError, match="suppress"):
        a.to_html(suppress=wrong)


def test_measures_of_a_whole_group_do_not_give_its_hidden_parts_away():
    """A points score has few values: measures of a group, in full, would tell how many have the rarest.

    Every way to divide the hidden people between the two hidden values is tried against all that is shown.
    """
    rng = np.random.default_rng(1)
    levels = np.array([0.05, 0.15, 0.25, 0.45, 0.65, 0.85])
    sizes = {"A": [900, 600, 300, 120, 60, 30], "B": [500, 300, 150, 70, 25, 7]}
    score = np.concatenate([np.repeat(levels, n) for n in sizes.values()])
    group = np.repeat(list(sizes), [sum(n) for n in sizes.values()])
    y = (rng.random(len(score)) < score).astype(int)
    shown = json.loads(audit(y, score, sensitive_features=group).to_json(suppress=11))
    for row in shown["groups"][1:]:
        own = [c for c in shown["categories"] if c["group"] == row["group"] and c["people"] is not None]
        people, positives = ([c[name] for c in own] for name in ("people", "positives"))
        left, events = row["people"] - sum(people), round(row["positives"] - sum(positives))
        assert len(own) == 4
        possible = [
            (rare, hit)
            for rare in range(left + 1)
            for hit in range(max(0, events - left + rare), min(rare, events) + 1)
            if fits(row, levels, [*people, left - rare, rare], [*positives, events - hit, hit])
        ]
        for which in (0, 1):
            counts = {pair[which] for pair in possible}
            assert max(counts) - min(counts) >= 5


def fits(row, levels, people, positives):
    """Whether measures of such people round to those that are shown."""
    n, p = np.array(people, dtype=float), np.array(positives, dtype=float)
    sample = Sample(levels, n.astype(int), n, n, p, p, None)
    found = {
        "mean_score": sample.expected / sample.total,
        "observed_expected": sample.observed / sample.expected,
        "brier": brier(sample).value,
        "log_loss": log_loss(sample).value,
        "auroc": auroc_influence(sample)[0],
    }
    return all(abs(value - row[name]) <= 0.005 + 1e-9 for name, value in found.items())


def test_one_person_with_many_rows_is_one_person():
    rng = np.random.default_rng(0)
    many = pd.DataFrame({"g": np.repeat(["A", "B"], 3000), "s": rng.random(6000), "id": np.arange(6000)})
    many["y"] = (rng.random(6000) < many.s).astype(int)
    one = pd.DataFrame({"g": "C", "s": 0.3, "id": -1, "y": 1}, index=range(200))
    rows = pd.concat([many, one])
    a = audit(rows.y, rows.s, sensitive_features=rows[["g"]], cluster=rows.id, gamma=0.01)
    assert a.groups.set_index("group").finding["g=C"] == "not enough data"  # not "within noise"
    shown = json.loads(a.to_json(suppress=11))
    assert next(row for row in shown["groups"] if row["group"] == "g=C")["people"] is None
    assert "are suppressed" in shown["notes"][-1]
    plain = json.loads(
        audit(many.y, many.s, sensitive_features=many[["g"]], cluster=many.id).to_json(suppress=11)
    )
    assert plain["settings"]["people"] == 6000  # people who come once are hidden no further
