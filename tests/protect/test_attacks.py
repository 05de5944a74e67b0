"""Attacks on protected pages: nobody can work a small count out from what is shown."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from attack import FEWEST, MOVED, Page, people, random_people, widths

from first_cases import first
from propcal import Groups, audit, compare
from propcal.errors import InputError
from propcal.numbers import Limit, known
from propcal.protect.protected_audits import protected_audit
from propcal.protect.release import protected

ONE, TWO, THREE = (
    (("A", "B"),),
    (("A", "B", "C"), ("F", "M")),
    (("A", "B"), ("F", "M"), ("x", "y")),
)
CASES = [
    *((n, ONE, 2.0) for n in (150, 300, 800)),
    *((n, ONE, 6.0) for n in (1500, 10_000, 100_000)),
    *((n, (("A", "B", "C"),), 4.0) for n in (300, 3000, 30_000)),
    *((n, TWO, 3.0) for n in (500, 1500, 4000, 40_000)),
    *((n, THREE, 2.0) for n in (800, 3000)),
    *((n, THREE, 4.0) for n in (10_000, 60_000)),
    *((n, (("A", "B"), ("F", "M")), 3.0) for n in (400, 2000, 20_000)),
]


def audited(frame, score, y, **more):
    return audit(
        y,
        score,
        sensitive_features=frame,
        **{"n_draws": 100, "gamma": 0.001, "n_bins": 4} | more,
    )


@pytest.mark.parametrize(
    "seed", first(6, [0, 3, 6, 9, 13, 17, *sorted({*range(20)} - {0, 3, 6, 9, 13, 17})])
)
def test_no_small_count_can_be_solved_for(seed):
    """Integer programming over all counts that a page tells, in groups, cells and
    histograms.
    """
    n, levels, power = CASES[seed]
    found = widths(audited(*people(n, seed, levels, power)))
    assert found
    assert min(found) >= 3
    assert np.mean(np.array(found) >= 5) >= 0.9


@pytest.mark.parametrize("seed", first(2, range(30)))
def test_nor_among_many_races(seed):
    found = widths(audited(*random_people(seed)), most=30)
    assert min(found) >= 3
    assert np.mean(np.array(found) >= 5) >= 0.9  # of 30; over all data sets, 95 %


@pytest.mark.parametrize("seed", first(1, range(6)))
def test_nor_with_the_shares_at_every_threshold(seed):
    a = audited(
        *people(500 + 300 * seed, seed, (("A", "B"), ("F", "M")), 2.0), n_bins=3
    )
    assert min(widths(a, most=8, thresholds=True)) >= 3


def test_the_attack_succeeds_where_counts_are_not_protected():
    """With exact counts of all but the small ones it finds these."""
    a = audited(*people(1500, 2, ONE, 6.0))
    page = Page(a)
    for g in range(len(page.counts.groups)):
        for outcome in (0, 1):
            count = page.counts.totals.people[outcome, g, 0]
            if count >= FEWEST:
                page.tell(page.chosen(outcome, g), count, count)
    small = [
        page.range_of(row)
        for row, _ in page.small_counts()
        if row.sum() == len(page.bins) - 1
    ]
    assert small
    assert all(low == high for low, high in small)


def test_a_neighbour_is_withheld_where_moved_counts_alone_would_tell():
    """A small count and one other: subtraction leaves five values, or the other is not
    shown.
    """
    from propcal.auditing.headcount import Headcount
    from propcal.protect.disclosure_rule import Rule
    from propcal.protect.shown_counts import Sets

    rng, withheld = np.random.default_rng(0), 0
    for _ in range(400):
        events = np.array([rng.integers(0, 4), rng.integers(11, 60)], dtype=float)
        parts = np.array([events, np.full(2, 200.0)])
        both = np.concatenate([parts.sum(axis=1, keepdims=True), parts], axis=1)
        key = rng.integers(0, 2**63, 3).astype(np.uint64)
        sets = Sets([Headcount(both, both, np.full(3, 0.1), key)])
        sets.add_sums([0], [[1], [2]])
        shown = sets.shown(Rule(11))
        total, other = shown.events[0], shown.events[2]
        withheld += np.isnan(other)
        if np.isfinite(other):
            left = total - other
            assert min(left + 2 * MOVED, 10) - max(left - 2 * MOVED, 0) + 1 >= 5
    assert 0 < withheld < 200


def test_no_group_is_withheld_where_a_cell_or_a_smaller_group_would_do():
    """What is withheld is needed: showing any of it again would leave fewer values."""
    from propcal.auditing.headcount import Headcount
    from propcal.protect.disclosure_rule import Rule
    from propcal.protect.shown_counts import Sets
    from propcal.protect.withheld_sets import Disclosed, Hidden, withheld_neighbours

    checked = 0
    for seed in range(6):
        frame, score, y = people(500 + 150 * seed, seed, TWO)
        counts = audited(frame, score, y, n_bins=10)._source.counts
        sets = Sets()
        sets.add_ranges(counts, sets.add(counts.totals))
        sums = [
            (total, parts)
            for total, parts in sets.sums
            if not {total, *parts} & {*sets.cheap[0]}
        ]
        headcount = Headcount.joined([counts.totals, counts.ranges])
        exact = np.rint(np.array([*headcount.people, headcount.people.sum(axis=0)]))
        shown = Sets([headcount]).shown(Rule(11))  # without sums, nothing is withheld
        told = Disclosed(shown.people, shown.events, shown.small, shown.few, Rule(11))
        withheld = withheld_neighbours(told, exact, sums)
        hidden = Hidden(told, exact, sums)

        def fewest(some, hidden=hidden):
            return hidden.values(hidden.net.tightened(hidden.bounds(some)))

        left = fewest(withheld)
        for i in np.flatnonzero(withheld):
            again = withheld.copy()
            again[i] = False
            assert (fewest(again) < left).any()
            checked += 1
    assert checked > 5


@pytest.mark.parametrize(
    ("seed", "large"),
    [(0, "attribute0=B & attribute1=M"), (3, "attribute0=D & attribute1=M")],
)
def test_a_large_group_beside_a_small_one_is_shown(seed, large):
    """It has hundreds of people; the sum of both leaves four values for the small
    count.
    """
    a = audited(*random_people(seed))
    rows = [
        each.groups.set_index("group").loc[large]
        for each in (a, protected_audit(a, 11))
    ]
    assert rows[0]["people"] > 100
    assert abs(rows[1]["people"] - rows[0]["people"]) <= MOVED
    assert min(widths(a, most=12)) >= 3


SCORES = np.linspace(0.02, 0.7, 1494)


def with_minors(minors, events):
    """1,494 adults, and some minors, all of them at scores near 0.15."""
    score = np.concatenate([SCORES, 0.15 + 0.001 * np.arange(minors)])
    y = np.concatenate(
        [np.random.default_rng(0).random(1494) < SCORES, np.arange(minors) < events]
    )
    age = np.repeat([40, 10], [1494, minors])
    return audit(
        y.astype(int),
        score,
        sensitive_features=pd.DataFrame({"age": age}),
        groups=Groups(where={"adult": "age >= 18"}),
        n_draws=100,
        gamma=0.001,
        binning=[0, 0.1, 0.3, 0.5, 1],
    )


@pytest.mark.parametrize(
    ("minors", "events"), [(6, 4), (1, 1), (1, 0), (3, 0), (10, 5), (9, 9)]
)
def test_the_complement_of_a_named_condition_stays_unknown(minors, events):
    """1,500 people, 1,494 adults: subtracting leaves several values for the minors, in
    all and in cells.
    """
    a = with_minors(minors, events)
    patterns = a._source.people.patterns
    page = Page(a, patterns=patterns)
    (minor,) = np.flatnonzero(~page.inside[1])
    for low, high in ((0.0, 1.0), (0.1, 0.3)):
        for outcome, true in ((0, events), (1, minors - events)):
            middles = (page.edges[1:] + page.edges[:-1]) / 2
            row = np.zeros(page.shape)
            row[np.ix_([outcome], [minor], (middles > low) & (middles < high))] = 1
            ends = page.range_of(row.ravel())
            assert ends[0] <= true <= ends[1]
            assert ends[1] - ends[0] + 1 >= 3


def test_intervals_lead_back_to_shown_counts_only():
    """Audits whose shown counts and statistics agree have the same intervals, whatever
    the exact counts.
    """
    frame, score, y = people(6000, 5)
    a = protected_audit(audited(frame, np.clip(score * 1.4, 0, 1), y, gamma=0.02), 11)
    rows = a.categories[
        [not isinstance(x, Limit) for x in a.categories["positives"]]
    ].dropna(subset=["low"])
    assert len(rows) > 10
    by_counts = rows.groupby(["people", "positives"])["rate_low"].nunique()
    assert by_counts.max() == 1
    for _, row in a.groups.dropna(subset=["observed_expected_low"]).iterrows():
        # the width of an interval tells events to about one digit of a variance ratio,
        # not a count
        spread = (
            np.log(row["observed_expected_high"] / row["observed_expected_low"]) / 3.92
        ) ** 2
        candidates = [
            events
            for events in range(
                max(int(row["positives"]) - 2, 11), int(row["positives"]) + 3
            )
            for effect in np.arange(0.1, 3, 0.1)
            if abs(effect * (1 - events / row["people"]) / events / spread - 1) < 0.08
        ]
        assert len(set(candidates)) == 5


def test_before_and_after_show_the_same_people_with_the_same_counts():
    frame, score, y = people(1500, 7, TWO)
    other = np.clip(score * 1.5 + 0.02, 0, 1)
    c = compare(
        {"a": score, "b": other},
        y,
        sensitive_features=frame,
        n_draws=100,
        gamma=0.001,
        n_bins=3,
    )
    one, two = json.loads(c.to_json(suppress=11))["audits"].values()
    names = ("group", "people", "positives", "outcome_rate")
    assert [[g[n] for n in names] for g in one["groups"]] == [
        [g[n] for n in names] for g in two["groups"]
    ]


@pytest.mark.parametrize("seed", first(1, range(6)))
def test_before_and_after_are_two_binnings_of_the_same_people(seed):
    """Both scores cut the same people into ranges: together, they must leave three
    values.
    """
    frame, score, y = people(400, 7 + seed, ONE, 2.0)
    other = np.clip(score * 1.5 + 0.02, 0, 1)
    c = compare(
        {"a": score, "b": other},
        y,
        sensitive_features=frame,
        n_draws=100,
        gamma=0.001,
        n_bins=3,
    )
    pages = [Page(each) for each in c.audits.values()]
    joint = Page(next(iter(c.audits.values())))
    patterns, n_bins = joint.inside.shape[1], len(joint.bins) - 1

    def both(row, which):
        cube = row.reshape(2, patterns, n_bins)
        axis = cube[:, :, :, None] if which == 0 else cube[:, :, None, :]
        return np.broadcast_to(axis, (2, patterns, n_bins, n_bins)).ravel()

    joint.rows = [
        both(row, which) for which, page in enumerate(pages) for row in page.rows
    ]
    joint.low, joint.high = (
        [x for page in pages for x in getattr(page, end)] for end in ("low", "high")
    )
    checked = 0
    for which, page in enumerate(pages):
        for row, count in page.small_counts():
            low, high = joint.range_of(both(row, which))
            assert low <= count <= high
            assert high - low + 1 >= 3
            checked += 1
    assert checked > 3


def test_one_person_more_draws_anew_whatever_the_outcome():
    """Two pages that differ by one person do not tell whether that person had the
    outcome.
    """
    frame, score, y = people(2000, 3, TWO)
    differences = {0: [], 1: []}
    base = protected_audit(audited(frame, score, y), 11).groups.iloc[0]
    for k in range(40):
        for outcome in (0, 1):
            more = pd.concat([frame, frame.iloc[[k]]], ignore_index=True)
            a = audited(more, np.append(score, 0.3 + 0.001 * k), np.append(y, outcome))
            shown = protected_audit(a, 11).groups.iloc[0]
            differences[outcome].append(int(shown["positives"] - base["positives"]))
    # an attacker who calls a difference of at least 1 an event is right little more
    # often than by chance
    right = np.mean([d >= 1 for d in differences[1]] + [d < 1 for d in differences[0]])
    assert right < 0.85
    assert len(set(differences[0])) >= 4
    assert len(set(differences[0]) & set(differences[1])) >= 3


def test_the_same_people_have_the_same_numbers_in_any_order_and_on_any_page():
    frame, score, y = people(3000, 4, TWO)
    order = np.random.default_rng(1).permutation(len(y))
    one = protected_audit(audited(frame, score, y), 11).groups.set_index("group")[
        "people"
    ]
    two = protected_audit(
        audited(frame.iloc[order], score[order], y[order]), 11
    ).groups.set_index("group")
    assert one.astype(str).to_dict() == two["people"].astype(str).to_dict()
    alone = protected_audit(
        audited(frame[["attribute0"]], score, y, n_bins=7), 11
    ).groups.set_index("group")
    common = {
        group: count
        for group, count in alone["people"].to_dict().items()
        if known(count)
    }
    assert {group: one[group] for group in common} == common


def test_moved_counts_are_unbiased_and_depend_on_the_key_alone():
    from propcal.protect.disclosure_rule import moved

    keys = np.random.default_rng(0).integers(0, 2**63, 100_000).astype(np.uint64)
    by = moved(keys, 0)
    assert np.abs(by).max() == MOVED
    assert abs(by.mean()) < 0.012  # three standard errors
    assert abs(np.corrcoef(by, moved(keys, 1))[0, 1]) < 0.01
    assert abs(np.corrcoef(by[1:], by[:-1])[0, 1]) < 0.01
    next_to = moved(np.arange(100_000, dtype=np.uint64), 0)
    assert abs(np.corrcoef(next_to[1:], next_to[:-1])[0, 1]) < 0.01
    assert np.array_equal(by, moved(keys[::-1], 0)[::-1])


def is_number(x):
    return known(x) and not isinstance(x, Limit)


def tied_cells(seed):
    """The cells of a page in which everybody has the same score: what is shown, and the
    truth.
    """
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"ward": rng.integers(0, 20, 4000).astype(str)})
    score = np.where(rng.random(4000) < 0.4, 0.6, 0.2)
    y = (rng.random(4000) < score).astype(int)
    shown = protected_audit(audited(frame, score, y, n_bins=2), 11)
    for bar in shown.distribution.itertuples():
        if bar.group != "everybody" and all(
            map(is_number, (bar.people, bar.positives))
        ):
            tied = 0.6 if bar.score_from else 0.2
            inside = (frame["ward"] == bar.group.removeprefix("ward=")) & (
                score == tied
            )
            yield tied, (bar.people, bar.positives), (inside.sum(), y[inside].sum())


def share_worked_out(seed):
    """How often the counts before they were moved are the only ones that would be shown
    as they are.
    """
    from propcal.core.atoms import person_hash
    from propcal.core.grid import to_grid
    from propcal.protect.disclosure_rule import moved

    right = []
    for tied, (people_shown, events_shown), truth in tied_cells(seed):
        keys = [person_hash(to_grid(np.array([tied])), outcome) for outcome in (0, 1)]
        found = []
        for n, e in np.ndindex(5, 5):
            count, events = int(people_shown) - MOVED + n, int(events_shown) - MOVED + e
            with (
                pytest.MonkeyPatch.context() as attacker
            ):  # who has propcal, and not the secret
                attacker.delenv("PROPCAL_SECRET", raising=False)
                key = keys[1] * np.uint64(events) + keys[0] * np.uint64(count - events)
                told = count + moved(key, 0)[0], events + moved(key, 1)[0]
            if told == (people_shown, events_shown):
                found.append((count, events))
        right.append(found == [truth])
    return np.mean(right)


def test_a_secret_keeps_others_from_working_out_how_counts_were_moved(monkeypatch):
    monkeypatch.delenv("PROPCAL_SECRET", raising=False)
    assert np.mean([share_worked_out(seed) for seed in range(3)]) > 0.25
    monkeypatch.setenv("PROPCAL_SECRET", "a long text of this hospital")
    assert np.mean([share_worked_out(seed) for seed in range(3)]) < 0.06


def test_the_same_secret_gives_the_same_numbers_and_is_written_nowhere(monkeypatch):
    frame, score, y = people(3000, 4, TWO)
    a, pages = audited(frame, score, y), []
    for secret in (
        "",
        "of the north",
        "of the north",
        "of the south",
        "\udce9 and more" * 20,
    ):
        monkeypatch.setenv("PROPCAL_SECRET", secret)
        pages.append(a.to_json(suppress=11))
        assert secret == "" or "north" not in pages[-1] + a.to_html()
    monkeypatch.delenv("PROPCAL_SECRET")
    assert a.to_json(suppress=11) == pages[0]
    assert pages[1] == pages[2]
    assert len({*pages}) == 4


def few_valued(seed):
    """565 people of a group with an alert of 0 or 1, among others; few in the group
    have an alert.
    """
    rng = np.random.default_rng(seed)
    group = np.repeat(["A", "B"], [3000, 565])
    score = np.where(group == "A", rng.random(3565) < 0.3, 0).astype(float)
    score[3000 : 3000 + rng.integers(1, 11)] = 1.0
    y = (rng.random(3565) < np.where(score == 1, 0.4, 0.06)).astype(int)
    return pd.DataFrame({"group": group}), score, y


@pytest.mark.parametrize("seed", range(20))
def test_a_mean_score_does_not_tell_how_many_had_an_alert(seed):
    """For each number of alerts from 1 to 10, the predicted rate of the page must be
    about as likely.
    """
    frame, score, y = few_valued(seed)
    shown = protected_audit(audited(frame, score, y, n_bins=2), 11).groups.set_index(
        "group"
    )
    row = shown.loc["group=B"]
    alerts = int(score[3000:].sum())
    assert alerts < FEWEST
    assert np.isnan(row["mean_score"])
    assert np.isnan(row["observed_expected"])
    for name in (
        "auroc",
        "brier",
        "slope",
        "intercept",
        "log_loss",
        "ici",
    ):  # two of them would tell counts
        assert np.isnan(row[name])


def test_words_give_no_count_away():
    frame, score, y = people(3000, 8)
    frame.loc[frame.index[:7], "attribute1"] = None
    score[:4] = 0.0
    y[:4] = 0
    a = audit(y, score, sensitive_features=frame, n_draws=100)
    shown = protected_audit(a, 11)
    text = " ".join([*shown.verdict.sentences, *shown.notes[:-1]])
    assert "attribute1 is missing for 7 people" in " ".join(a.notes)
    assert "attribute1 is missing for fewer than 21 people; they form" in text
    assert "Fewer than 21 people have a score of exactly 0 or 1" in text
    told = {
        int(number.replace(",", "")) for number in re.findall(r"([\d,]+) people", text)
    }
    exact = {*a.groups["people"], *a.groups["positives"].astype(int)}
    assert not {n for n in told if n in exact} - {50, *shown.groups["people"]}
    assert a.settings["fingerprint"] not in a.to_html()


def test_what_is_embedded_and_drawn_comes_from_the_protected_audit():
    """A page made from the protected audit alone, without the exact one at hand, is the
    same.
    """
    frame, score, y = people(2500, 9)
    a = audit(y, score, sensitive_features=frame, n_draws=100)
    shown = protected_audit(a, 11)
    assert shown._source is None
    assert shown.to_html(suppress=11) == a.to_html()


def test_shown_counts_are_the_exact_ones_moved_by_at_most_two():
    frame, score, y = people(5000, 10)
    a = audit(y, score, sensitive_features=frame, n_draws=100, gamma=0.01)
    shown, moved = protected_audit(a, 11), []
    for kind in ("groups", "categories"):
        for (_, row), (_, true) in zip(
            getattr(shown, kind).iterrows(), getattr(a, kind).iterrows()
        ):
            small = min(true["positives"], true["people"] - true["positives"]) < FEWEST
            assert isinstance(row["positives"], Limit) == small
            if not small and known(row["people"]):  # or a neighbour of a small count
                moved += [
                    row["people"] - true["people"],
                    row["positives"] - true["positives"],
                ]
    assert len(moved) > 60
    assert set(moved) == {-2, -1, 0, 1, 2}


def test_one_person_with_many_visits_is_one_person():
    rng = np.random.default_rng(0)
    many = pd.DataFrame(
        {"g": np.repeat(["A", "B"], 3000), "s": rng.random(6000), "id": np.arange(6000)}
    )
    many["y"] = (rng.random(6000) < many.s).astype(int)
    one = pd.DataFrame({"g": "C", "s": 0.3, "id": -1, "y": 1}, index=range(200))
    rows = pd.concat([many, one])
    a = audit(
        rows.y, rows.s, sensitive_features=rows[["g"]], cluster=rows.id, gamma=0.01
    )
    assert a.groups.set_index("group").finding["g=C"] == "not enough data"
    shown = json.loads(a.to_json(suppress=11))
    group = next(row for row in shown["groups"] if row["group"] == "g=C")
    assert group["people"] is None
    assert group["outcome_rate"] is None
    assert shown["settings"]["people"] == pytest.approx(6200, abs=2)


@pytest.mark.parametrize("value", [1, 2, 3, 4])
def test_thresholds_that_protect_nobody_are_refused(value):
    frame, score, y = people(500, 0, ONE)
    with pytest.raises(InputError, match="suppress must be 0, or at least 5"):
        audit(y, score, sensitive_features=frame, n_draws=100).to_html(suppress=value)


def test_quantile_ranges_of_equally_many_people_do_not_tell_small_counts():
    """It is known that a range has 200 people; the page must not tell how many of them
    had no event.
    """
    told = set()
    for events in (4, 7, 10):
        rng = np.random.default_rng(3)
        score, y = np.linspace(0.005, 0.6, 2003).round(6), np.zeros(2003, dtype=int)
        y[rng.choice(200, events, replace=False)] = 1
        y[300 + rng.choice(1600, 352 - events, replace=False)] = 1
        a = audit(
            y,
            score,
            sensitive_features=pd.DataFrame({"g": ["A"] * 2003}),
            binning="quantile",
            n_draws=100,
        )
        bar = protected(a, 11).distribution.iloc[0]
        assert abs(bar["people"] - 200) <= 3
        told.add(repr(bar["positives"]))
    assert told == {"< 11"}


def test_a_p_value_tells_no_more_of_few_events_than_the_finding():
    """By exact p-values, the number of events of s could be read from the headline."""
    rng = np.random.default_rng(1)
    n = 3000
    group = np.repeat(["a", "b", "s"], [1800, 1030, 170])
    risk = 1 / (1 + np.exp(-rng.normal(-2.2, 0.6, n)))
    y = (rng.random(n) < risk).astype(int)
    told = set()
    for events in range(2, 8):
        y[group == "s"] = np.arange(170) < events
        page = json.loads(
            audit(y, risk, sensitive_features={"g": group}).to_json(suppress=11)
        )
        (claim,) = [
            one
            for one in page["verdict"]["claims"]
            if one["who"] == "g=s" and one["kind"] == "group"
        ]
        first = (
            page["verdict"]["text"].split(".")[0]
            + page["verdict"]["text"].split(".")[1][:2]
        )
        told.add((first, claim["p_value"]))
    assert len(told) == 1


def test_intercepts_do_not_tell_how_counts_were_moved():
    """Scores moved by the exact intercept of a group add up to its events."""
    exact, others = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        group = np.repeat(["a", "b", "s"], [450, 280, 70])
        risk = 1 / (1 + np.exp(-rng.normal(-2, 0.6, 800)))
        y = (rng.random(800) < risk).astype(int)
        page = json.loads(
            audit(y, risk, sensitive_features={"g": group}, n_draws=100).to_json(
                suppress=11
            )
        )
        for name in "ab":
            (row,) = [one for one in page["groups"] if one["group"] == f"g={name}"]
            own = risk[group == name]  # the attacker even knows all scores
            moved = 1 / (1 + np.exp(-(np.log(own / (1 - own)) + row["intercept"])))
            exact.append(round(moved.sum()) == y[group == name].sum())
            others.append(abs(moved.sum() - row["positives"]) < 2.5)
    assert np.mean(exact) < 0.5
    assert np.mean(others) > 0.9  # intercept and counts of one row agree
