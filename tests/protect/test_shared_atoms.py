"""Atoms that may be shared: no cell tells of few people, and audits from them are close
to the exact ones.
"""

import json
from collections import defaultdict
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from propcal import Atoms, audit
from propcal.auditing.loss_intervals import shared_bounds
from propcal.auditing.statistics.measures import auroc, brier
from propcal.auditing.statistics.sample import Sample
from propcal.core.grid import from_grid, significant, to_grid
from propcal.core.loss_bounds import SCORE_BITS, are_coarse, score_ranges
from propcal.core.patterns import OTHER, SITE, patterns_of
from propcal.core.reduction import atoms_of_sums, sums_of_counts, without_keys
from propcal.errors import FileFormatError, InputError
from propcal.protect.shared_atoms import are_shared

COLUMNS = {"score": "score", "outcome": "y", "groups": ["race", "sex"]}


def people(n, seed, *, rare=0.004, rate=(1.3, 4), decimals=9):
    rng = np.random.default_rng(seed)
    race = rng.choice(["A", "B", "C", "canary-7f3a"], n, p=[0.6, 0.3, 0.1 - rare, rare])
    score = rng.beta(*rate, n).round(decimals)
    sex = rng.choice(["F", "M"], n)
    chance = score * np.where(race == "B", 1.2, 1.0)
    return pd.DataFrame(
        {
            "race": race,
            "sex": sex,
            "score": score,
            "y": (rng.random(n) < chance).astype(int),
        }
    )


SETS = [people(n, seed, rate=rate, decimals=d) for n, seed, rate, d in (
    (700, 1, (1.3, 4), 9), (3000, 2, (1.3, 4), 2), (20_000, 3, (1.3, 4), 9), (20_000, 4, (0.5, 20), 9),
    (8000, 5, (3, 2), 3), (20_000, 6, (1, 1), 9), (3000, 18, (1.3, 4), 1), (20_000, 19, (1.3, 9), 1),
    (700, 20, (1.3, 9), 1), (20_000, 21, (0.5, 20), 2),
)]  # fmt: skip


@pytest.mark.parametrize("frame", SETS, ids=range(len(SETS)))
def test_no_cell_and_no_group_has_fewer_than_11_people_with_the_outcome_or_without_it(
    frame,
):
    shared = Atoms.from_frame(frame, **COLUMNS).share()
    assert shared.positives.min() >= 11
    assert (shared.people - shared.positives).min() >= 11
    assert shared.n_people == len(frame)
    assert shared.positives.sum() == frame.y.sum()
    found = audit(shared, n_draws=100)  # nothing suppressed
    for table in (found.groups, found.categories):
        counted = table[table.people > 0]
        assert counted.people.min() >= 22
        assert counted.positives.min() >= 11
        assert (counted.people - counted.positives).min() >= 11


@pytest.mark.parametrize("frame", SETS, ids=range(len(SETS)))
def test_the_exact_numbers_are_within_what_the_audit_prints(frame):
    atoms = Atoms.from_frame(frame, **COLUMNS)
    shared = atoms.share()
    bounds = shared_bounds(shared)
    exact, merged = Sample.of(atoms), Sample.of(without_keys(shared))
    assert exact.observed == merged.observed
    assert merged.expected == pytest.approx(exact.expected, rel=bounds.ratio)
    for measure, (low, high) in ((auroc, bounds.auroc), (brier, bounds.brier)):
        assert low <= measure(exact).value <= high
    text = " ".join(audit(shared, n_draws=100).notes)
    few = "(some shared rows have few different scores)"
    if not are_coarse(shared).any():
        assert (
            "With exact scores, O/E ratios would differ by at most 0.2 %, AUROC would"
            in text
        )
    elif bounds.ratio < 1:
        assert (
            f"of all people would differ by at most {np.ceil(100 * bounds.ratio):.0f} %, those of gro"
            in text
        )
        assert few in text
    else:
        assert (
            f"With exact scores, O/E ratios could differ much {few}, AUROC would"
            in text
        )


def alert(flagged, people=565):
    """An alert of 0 or 1; 12 people had the outcome."""
    score = np.r_[np.zeros(people - flagged), np.ones(flagged)]
    return pd.DataFrame(
        {"score": score, "y": (np.arange(people) < 12).astype(int)[::-1]}
    )


def test_an_alert_does_not_tell_how_many_people_it_flagged():
    files = {}
    for flagged in (2, 4, 9, 16, 40):
        shared = Atoms.from_frame(alert(flagged), score="score", outcome="y").share()
        assert shared.people.tolist() == [565]
        files[flagged] = shared.score[0]
    few = significant(to_grid(np.array([5 / 565])), SCORE_BITS)[0] + 1
    assert files[2] == files[4] == files[9] == files[16] == few  # up to 17 count as 5
    assert from_grid(files[40]) == pytest.approx(40 / 565, abs=16 / 565)


@pytest.mark.parametrize("parts", [10, 20, 100])
def test_few_different_scores_change_ratios_little(parts):
    everybody, groups = [], []
    for seed in range(40):
        frame = people(5000, seed, rare=0.0, rate=(1.3, 6))
        frame["score"] = (frame.score * parts).round() / parts
        exact = Atoms.from_frame(frame, **COLUMNS)
        shared = without_keys(exact.share())
        assert shared.patterns.levels == exact.patterns.levels  # nothing was folded
        sums = [
            atoms.pattern_sums(atoms.people * from_grid(atoms.score))
            for atoms in (exact, shared)
        ]
        everybody.append(sums[1].sum() / sums[0].sum() - 1)
        for level in product((0, 1), (0, 1)):
            inside = exact.patterns.table[:, level[0]] == level[1]
            groups.append(sums[1][inside].sum() / sums[0][inside].sum() - 1)
    assert np.abs(everybody).max() < 0.011
    assert np.abs(groups).max() < 0.023


def test_continuous_scores_keep_their_mean():
    frame = people(20_000, 17).assign(race="A", sex="F").sort_values("score")
    shared = Atoms.from_frame(frame, **COLUMNS).share()
    assert not are_coarse(shared).any()
    ends = np.concatenate([[0], np.cumsum(shared.people)])
    total = np.concatenate(
        [[0.0], np.cumsum(from_grid(to_grid(frame.score.to_numpy())))]
    )
    mean = to_grid(np.diff(total[ends]) / shared.people)
    assert np.abs(shared.score - significant(mean, SCORE_BITS)).max() <= 1


def test_a_sum_of_files_still_knows_coarse_means():
    parts = [
        Atoms.from_frame(people(3000, s, decimals=1), **COLUMNS, site=str(s)).share()
        for s in (1, 2)
    ]
    parts[0].save("a.atoms")
    n = [int(are_coarse(part).sum()) for part in parts]
    assert min(n) > 0
    assert are_coarse(Atoms.load("a.atoms") + parts[1]).sum() == sum(n)


def test_people_lie_in_the_range_of_their_cell():
    frame = people(20_000, 7).assign(race="A", sex="F")
    shared = Atoms.from_frame(frame, **COLUMNS).share()
    low, high = score_ranges(shared)
    exact = np.sort((frame.score * 2**32).to_numpy())
    ends = np.cumsum(shared.people)
    for begin, end, a, b in zip(np.concatenate([[0], ends[:-1]]), ends, low, high):
        assert a - 1 <= exact[begin]
        assert exact[end - 1] <= b + 1


def test_rare_levels_are_folded_for_everybody_and_not_named_in_the_file():
    frame = people(6000, 8, rare=0.002)
    shared = Atoms.from_frame(frame, **COLUMNS).share()
    levels = shared.patterns.levels[0]
    assert OTHER in levels
    assert "canary-7f3a" not in levels
    assert shared.shared.folded["race"] >= 2
    shared.save("a.atoms")
    assert b"canary" not in Path("a.atoms").read_bytes()
    header = json.loads(pq.read_schema("a.atoms").metadata[b"propcal"])
    assert header["personal_data"] is False
    assert header["shared"] == {"fewest": 11, "folded": shared.shared.folded}
    assert "left_out" not in header
    assert header["weighted_rows"] == 0


def test_a_rare_condition_costs_no_other_groups():
    frame = people(5000, 15, rare=0.0)
    frame["vip"] = ["yes"] + ["no"] * 4999
    shared = Atoms.from_frame(
        frame, score="score", outcome="y", groups=["race", "sex", "vip"]
    ).share()
    assert shared.shared.folded == {"vip": 2}
    assert len(without_keys(shared).patterns) == 6
    rng = np.random.default_rng(1)
    some = people(20_000, 16, rare=0.0).assign(
        pregnant=rng.choice(["no", "yes"], 20_000, p=[0.995, 0.005])
    )
    shared = Atoms.from_frame(
        some, score="score", outcome="y", groups=["race", "pregnant"]
    ).share()
    assert shared.shared.folded == {"pregnant": 2}


def test_the_same_people_give_the_same_file_in_any_order():
    frame = people(5000, 9)
    one = Atoms.from_frame(frame, **COLUMNS).share()
    other = Atoms.from_frame(frame.sample(frac=1, random_state=1), **COLUMNS).share()
    assert one.fingerprint() == other.fingerprint()


def test_nothing_exact_remains():
    frame = people(5000, 10)
    atoms = Atoms.from_frame(frame, **COLUMNS)
    shared = atoms.share()
    assert not {*atoms.score.tolist()} & {*shared.score.tolist()}
    assert shared.fingerprint() not in (atoms.fingerprint(), atoms.people_fingerprint())
    gone = Atoms.from_frame(
        frame.assign(y=frame.y.where(frame.index % 9 > 0)), **COLUMNS, drop_missing=True
    )
    assert gone.left_out.people
    assert gone.share().left_out.people == 0


def test_shared_files_add_up_and_say_that_they_are_shared():
    parts = [
        Atoms.from_frame(people(4000, s), **COLUMNS, site=f"site {s}").share()
        for s in (1, 2)
    ]
    for i, part in enumerate(parts):
        part.save(f"{i}.atoms")
    total = Atoms.load("0.atoms") + Atoms.load("1.atoms")
    assert total.n_people == 8000
    assert SITE in total.patterns.attributes
    assert total.shared is not None
    assert any(
        "These are shared atoms" in note for note in audit(total, n_draws=100).notes
    )
    assert without_keys(total).shared is not None
    exact = Atoms.from_frame(people(4000, 3), **COLUMNS)
    assert (without_keys(total) + exact).shared is None  # which may not be shared
    assert not are_shared(exact, 11)
    assert are_shared(total, 11)
    assert not are_shared(total, 12)


def test_repeat_visits_need_as_many_people():
    frame = people(6000, 11, rare=0.0).sort_values(
        ["race", "sex", "score"], ignore_index=True
    )
    frame["id"] = frame.index // 4  # four rows each, of similar scores
    # eighty visits of three people
    few = frame[:80].assign(race="D", id=frame.index[:80] % 3, y=np.arange(80) % 2)
    whole = pd.concat([frame, few], ignore_index=True)
    shared = Atoms.from_frame(whole, **COLUMNS, cluster="id").share()
    assert "cluster bucket" not in shared.patterns.attributes
    assert "D" not in shared.patterns.levels[shared.patterns.attributes.index("race")]
    without = Atoms.from_frame(whole.drop(columns="id"), **COLUMNS).share()
    assert "D" in without.patterns.levels[without.patterns.attributes.index("race")]
    levels = shared.patterns.levels[shared.patterns.attributes.index("race")]
    race = whole["race"].where(whole["race"].isin(levels), OTHER)
    low, high = (from_grid(end) for end in score_ranges(shared))
    names = shared.patterns.attributes
    for i, row in enumerate(shared.patterns.table[shared.pattern_index()]):
        own = {name: shared.patterns.levels[a][row[a]] for a, name in enumerate(names)}
        there = (
            (race == own["race"])
            & (whole["sex"] == own["sex"])
            & whole["score"].between(low[i], high[i])
        )
        for outcome in (0, 1):
            assert whole[there & (whole["y"] == outcome)]["id"].nunique() >= 11


def test_rows_that_count_several_times_may_be_one_person():
    frame = people(3000, 14, rare=0.0)
    frame["n"] = 1
    few = frame[:4].assign(race="D", n=20, y=[0, 1, 0, 1])  # eighty people in four rows
    whole = pd.concat([frame, few], ignore_index=True)
    shared = Atoms.from_frame(whole, **COLUMNS, weight="n").share()
    assert "D" not in shared.patterns.levels[shared.patterns.attributes.index("race")]


def test_what_cannot_be_shared_is_refused():
    frame = people(1000, 12)
    with pytest.raises(InputError, match="soft labels"):
        Atoms.from_frame(frame.assign(y=0.5), **COLUMNS).share()
    with pytest.raises(InputError, match="survey weights"):
        Atoms.from_frame(frame.assign(w=1.5), **COLUMNS, weight="w").share()
    with pytest.raises(InputError, match="too few people to share anything"):
        Atoms.from_frame(frame[:15], **COLUMNS).share()
    small = pd.concat([frame.assign(at="big"), frame[:12].assign(at="small")])
    with pytest.raises(InputError, match="too few people at site 'small'"):
        Atoms.from_frame(small, **COLUMNS, site="at").share()


def test_a_malformed_header_is_refused():
    Atoms.from_frame(people(3000, 13), **COLUMNS).share().save("a.atoms")
    table = pq.read_table("a.atoms")
    header = json.loads(table.schema.metadata[b"propcal"])
    for shared in (
        None,
        {},
        {"fewest": 1, "folded": {}},
        {"fewest": 11, "folded": {"none": 1}},
        {"fewest": 11},
    ):
        pq.write_table(
            table.replace_schema_metadata(
                {"propcal": json.dumps(header | {"shared": shared})}
            ),
            "b.atoms",
        )
        with pytest.raises(FileFormatError, match="shared"):
            Atoms.load("b.atoms")


# An attack: how many people have a score? The attacker knows the algorithm, and which
# scores occur.


def files_of(scores, negatives, positives):
    """What is shared of each of many files: rows of people without and with the
    outcome, by score.
    """
    n, k = positives.shape
    levels = (tuple(f"{i:07}" for i in range(n)),)
    patterns, code = patterns_of(
        ("file",), levels, [np.repeat(np.arange(n), k)], n * k, {}
    )
    sums = sums_of_counts((negatives + positives).ravel(), positives.ravel())
    shared = atoms_of_sums(
        patterns, code, np.tile(to_grid(np.array(scores)), n), sums
    ).share()
    cells = np.stack([shared.score, shared.people, shared.positives], axis=1)
    return [cells[a:b].tobytes() for a, b in zip(shared.starts, shared.starts[1:])]


def divided(people, scores):
    """All ways to divide people among scores."""
    ends = np.array(list(combinations(range(people + scores - 1), scores - 1)))
    return np.diff(ends, axis=1, prepend=-1, append=people + scores - 1) - 1


@pytest.mark.parametrize(
    ("scores", "people", "events"),
    [
        ([0, 1], 60, 20),
        ([0, 1], 150, 30),
        ([0.1, 0.2, 0.3], 34, 14),
        ([0, 0.45, 0.5], 40, 12),
        (
            [0.31, 0.35, 0.45],
            45,
            22,
        ),  # the second must fill a cell, and what is left over joins it
    ],
    ids=str,
)
def test_every_file_that_few_people_could_give_leaves_five_numbers_possible(
    scores, people, events
):
    negatives, positives = (
        divided(people - events, len(scores)),
        divided(events, len(scores)),
    )
    pairs = np.array(list(product(range(len(negatives)), range(len(positives)))))
    negatives, positives = negatives[pairs[:, 0]], positives[pairs[:, 1]]
    there = (negatives + positives > 0).all(axis=1)
    negatives, positives = negatives[there], positives[there]
    possible = defaultdict(list)
    for file, counts in zip(
        files_of(scores, negatives, positives), (negatives + positives).tolist()
    ):
        possible[file].append(counts)
    for counts in possible.values():
        for at_score in zip(*counts):
            assert min(at_score) > 10 or len({*at_score}) >= 5


def few_scores(seed):
    """A file of 2 to 12 different scores, some of them of 1 to 10 people."""
    rng = np.random.default_rng(seed)
    while True:
        k = rng.integers(2, 13)
        scores = np.sort(rng.choice(101, k, replace=False)) / 100
        if rng.random() >= 0.5:
            scores = np.arange(k) / (k - 1)
        share = rng.permutation(rng.uniform(0.2, 0.8) ** np.arange(k))
        people = rng.multinomial(rng.integers(40, 600), share / share.sum())
        scores, people = scores[people > 0], people[people > 0]
        positives = rng.binomial(people, np.clip(scores, 0.02, 0.95))
        if (
            min(positives.sum(), (people - positives).sum()) >= 11
            and 0 < people.min() < 11 < people.max()
        ):
            return scores, people - positives, positives


def others(negatives, positives, i, j):
    """Files in which some of the people at the scores i and j change places, so that 1
    to 20 are at i.
    """
    people = negatives + positives
    for number in range(1, min(20, people[i] + people[j] - 1) + 1):
        moved = number - people[i]
        source = j if moved > 0 else i
        fewest, most = (
            max(0, abs(moved) - negatives[source]),
            min(abs(moved), positives[source]),
        )
        for events in {fewest, (fewest + most) // 2, most}:
            change = np.zeros((2, len(people)), dtype=np.int64)
            change[:, i] = np.sign(moved) * np.array([abs(moved) - events, events])
            change[:, j] = -change[:, i]
            yield negatives + change[0], positives + change[1]


def test_someone_who_knows_all_numbers_but_two_cannot_tell_a_small_one():
    fewest = []
    for seed in range(40):
        scores, negatives, positives = few_scores(seed)
        people = negatives + positives
        left = []
        for i in np.flatnonzero(people < 11):
            tried = [
                f
                for j in range(len(people))
                if j != i
                for f in others(negatives, positives, i, j)
            ]
            without, having = (
                np.array([(negatives, positives), *tried])[:, side] for side in (0, 1)
            )
            file, *found = files_of(scores, without, having)
            left.append(
                len({n for n, f in zip((without + having)[1:, i], found) if f == file})
            )
        fewest.append(min(left))
    assert min(fewest) >= 3
    assert np.mean(np.array(fewest) >= 5) >= 0.95
