"""A reader written from docs/reference/correction-file.md scores as propcal does, to
the last bit.
"""

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from correction_reader import Reader

from propcal import Correction, Groups, MCBoost, PMCBoost
from propcal.core.correction.points_table import FeaturePoints, PointsTable

ONE = 2**32
WORDS = Groups(
    columns=["race"],
    cuts={"age": [18, 40.5, 65], "pressure": [100.25]},
    where={
        "elderly": "age >= 75 and (insurance = Medicare or insurance = 'Dual \"and\" O\\'Neil')",
        "ward": "not `the ward` in [1, 2.0, '03'] and race is not missing",
        "flagged": "flag or code != 1.50",
        "other": "insurance not in [Medicare, 'None'] or not (age < 30 and code = 1)",
    },
    intersections=2,
)


def people(n, seed):
    """Generated people with every kind of column that a correction reads, and a score
    that is wrong.
    """
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "race": rng.choice(
                ["Asian", "Black", "White", None], n, p=[0.2, 0.2, 0.5, 0.1]
            ),
            "gender": rng.choice(["F", "M"], n),
            "age": rng.choice([*range(95), 40.5, np.nan], n),
            "pressure": rng.choice([90.0, 100.25, 100.2499999, 130.0, np.nan], n),
            "insurance": rng.choice(
                ["Medicare", 'Dual "and" O\'Neil', "None", None], n
            ),
            "the ward": rng.choice([1.0, 2.0, 3.0, 4.5, np.nan], n),
            "flag": rng.random(n) < 0.3,
            "code": rng.choice(["1", "1.50", "1.5", None], n),
            "level": rng.choice([1.0, 2.0, 1e3, np.nan], n, p=[0.3, 0.3, 0.3, 0.1]),
        }
    )
    frame["score"] = rng.beta(1, 3, n)
    factor = np.where(frame.gender == "F", 0.5, 1.4) * np.where(
        frame.race == "Asian", 1.6, 1.0
    )
    frame["y"] = (rng.random(n) < np.clip(frame.score * factor, 0, 1)).astype(int)
    return frame


FITS = {
    "default": (PMCBoost(), ["race", "gender"]),
    "paper": (PMCBoost.paper(alpha=0.05, gamma=0.02), ["race", "gender", "level"]),
    "mcboost": (MCBoost(alpha=0.02), ["race", "gender"]),
    "geometric": (
        PMCBoost.paper(binning="geometric", n_bins=5, eta=0.5, alpha=0.05),
        ["gender", "level"],
    ),
    "quantile": (PMCBoost.paper(binning="quantile", alpha=0.03), ["race"]),
    "edges": (MCBoost.paper(binning=[0, 0.1, 0.35, 1], alpha=0.01), ["flag", "level"]),
    "words": (PMCBoost(groups=WORDS, gamma=0.01), None),
    "words, paper": (PMCBoost.paper(groups=WORDS, gamma=0.01, alpha=0.08), None),
    "everybody": (PMCBoost(), []),
}


@pytest.fixture(scope="module")
def corrections():
    past = people(4000, seed=1)
    found = {}
    for name, (cal, columns) in FITS.items():
        chosen = past.drop(columns=["score", "y"]) if columns is None else past[columns]
        cal.fit(
            past.score,
            past.y,
            sensitive_features=chosen if len(chosen.columns) else None,
        )
        found[name] = cal.correction_
    assert any(c.start is not None for c in found.values())
    assert all(len(c.updates) for name, c in found.items() if "paper" in name)
    return found


def hard_scores(correction, rng, n):
    """Scores of 0 and 1, on and beside every breakpoint, and anywhere."""
    begin = np.unique(correction._pieces[1])
    places = np.concatenate([begin + off for off in (-1, 0, 1)])
    places = np.clip(places, 0, ONE) / ONE
    between = [
        0.0,
        1.0,
        5e-324,
        (0.5 - 2**-54) / ONE,
        0.5 / ONE,
        1.5 / ONE,
        np.nextafter(1, 0),
        0.1 + 0.2,
    ]
    chosen = rng.choice(places, min(len(places), n - n // 4), replace=False)
    return np.concatenate([between, chosen, rng.random(n)])[:n]


def rows_of(frame):
    """Dicts of plain Python values."""
    return [
        dict(zip(frame.columns, row))
        for row in zip(*(frame[name].tolist() for name in frame.columns))
    ]


def new_people(correction, n, seed):
    """People with unseen levels, unseen combinations and missing values, and the hard
    scores.
    """
    rng = np.random.default_rng(seed)
    frame = people(n, seed)
    frame.loc[rng.random(n) < 0.1, "race"] = "asian"
    frame.loc[rng.random(n) < 0.1, "gender"] = None
    frame.loc[rng.random(n) < 0.1, "level"] = 2.5
    frame.loc[rng.random(n) < 0.1, "level"] = 7.0
    frame["score"] = hard_scores(correction, rng, n)
    return frame.drop(columns="y")


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("unseen", ["replay", "keep"])
def test_a_reader_written_from_the_page_agrees_to_the_last_bit(
    corrections, name, unseen
):
    correction = corrections[name]
    frame = new_people(correction, 1500, seed=len(name))
    reader = Reader(correction.to_json())
    theirs = [reader.score(row["score"], row, unseen) for row in rows_of(frame)]
    ours = correction.apply(frame.score, frame, unseen=unseen)
    assert theirs == ours.tolist()
    if name != "everybody":
        assert (
            0 < np.mean(ours == frame.score) < 1
        )  # some were changed and some were not


@pytest.mark.parametrize("name", ["default", "words, paper"])
def test_points_agree_to_the_last_bit(corrections, name):
    correction = replace(
        corrections[name],
        points=PointsTable(
            (
                FeaturePoints(
                    "age", (-350, 12, 0, 1801), cuts=(18.0, 40.5, 65.0), missing=7
                ),
                FeaturePoints("gender", (-55,), levels=("F",), other=31),
                FeaturePoints("level", (9999, -9999), levels=("1", "1000")),
            )
        ),
    )
    frame = new_people(correction, 1500, seed=8)
    reader = Reader(correction.to_json())
    ours = correction.apply(frame.score, frame)
    assert [reader.score(row["score"], row) for row in rows_of(frame)] == ours.tolist()


@pytest.mark.slow
def test_version_1_is_read_as_a_file_without_a_smooth_map(corrections):
    for name in ("paper", "words, paper"):
        correction = corrections[name]
        content = json.loads(correction.to_json()) | {"about": {}}
        assert (content["version"], content.pop("start"), content.pop("monotone")) == (
            4,
            [],
            False,
        )
        text = json.dumps(content | {"version": 1})
        frame = new_people(correction, 600, seed=3)
        ours = Correction.from_json(text).apply(frame.score, frame)
        assert [
            Reader(text).score(row["score"], row) for row in rows_of(frame)
        ] == ours.tolist()
        assert ours.tolist() == correction.apply(frame.score, frame).tolist()


def test_shifts_at_their_limits_agree(corrections):
    """Terms that add up to more than the limit, a map that would fall, no term at all,
    large updates.
    """
    rng = np.random.default_rng(5)
    content = json.loads(corrections["default"].to_json()) | {"about": {}}
    most = 10 * 2**20
    content["start"] = [
        [[["race", "Asian"]], [most] * 193],
        [[["gender", "F"]], rng.integers(-most, most + 1, 193).tolist()],
        [[["race", "Asian"], ["gender", "F"]], [most, -most] * 96 + [most]],
        [[["race", None]], [-most] * 193],
    ]
    sizes = rng.choice([2**33, 2**31, 2**28, 2**20, 1], 40) * rng.choice([-1, 1], 40)
    places = zip(
        rng.integers(0, len(content["groups"]), 40).tolist(),
        rng.integers(0, 10, 40).tolist(),
    )
    content["updates"] = [
        [group, place, size] for (group, place), size in zip(places, sizes.tolist())
    ]
    text = json.dumps(content)
    correction, reader = Correction.from_json(text), Reader(text)
    frame = new_people(correction, 2000, seed=6)
    ours = correction.apply(frame.score, frame)
    assert [reader.score(row["score"], row) for row in rows_of(frame)] == ours.tolist()


def test_levels_are_the_same_text_whatever_their_type(corrections):
    correction, reader = corrections["paper"], Reader(corrections["paper"].to_json())
    for values in (
        [1, 2, 1000],
        [1.0, 2.0, 1e3],
        ["1", "2", "1000"],
        [Decimal("1.00"), Decimal(2), Decimal("1E+3")],
    ):
        frame = pd.DataFrame(
            {"race": "Asian", "gender": "F", "level": values, "score": 0.2}
        )
        ours = correction.apply(frame.score, frame)
        assert [reader.score(0.2, row) for row in rows_of(frame)] == ours.tolist()
        assert (
            ours.tolist()
            == correction.apply(
                [0.2] * 3, frame.assign(level=["1", "2", "1000"])
            ).tolist()
        )


def test_the_reader_refuses_what_the_page_says_it_must(corrections):
    content = json.loads(corrections["default"].to_json()) | {"about": {}}
    for other in ({"version": 5}, {"format": "other"}, {"version": 1}):
        with pytest.raises(ValueError, match=r"version"):
            Reader(json.dumps(content | other))
    reader = Reader(json.dumps(content | {"unseen": "error"}))
    with pytest.raises(LookupError):
        reader.score(0.5, {"race": "asian", "gender": "F"})
