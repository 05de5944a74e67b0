"""Atoms: reduction, adding up, files."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from propcal import Atoms, Groups
from propcal.core.grid import UNIT
from propcal.errors import FileFormatError, InputError

COLUMNS = ("score", "people", "weight", "weight_sq", "positives", "positives_sq")


def make(frame, **kw):
    return Atoms.from_frame(
        frame, score="score", outcome="y", groups=["race", "gender"], **kw
    )


def assert_same(a, b, exact=True):
    assert a.patterns.equals(b.patterns)
    assert np.array_equal(a.starts, b.starts)
    for name in COLUMNS:
        if exact:
            assert np.array_equal(getattr(a, name), getattr(b, name)), name
        else:
            assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-12)


def test_people_of_one_pattern_and_score_are_one_atom():
    frame = pd.DataFrame(
        {
            "race": list("aabb"),
            "gender": list("xxxx"),
            "score": [0.5, 0.5, 0.5, 0.25],
            "y": [1, 0, 1, 1],
        }
    )
    table = make(frame).to_frame()
    assert table[["race", "score", "people", "positives"]].values.tolist() == [
        ["a", 0.5, 2, 1],
        ["b", 0.25, 1, 1],
        ["b", 0.5, 1, 1],
    ]


@settings(max_examples=50, deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.integers(1, 20),
    st.sampled_from(["none", "whole", "survey"]),
    st.booleans(),
)
def test_two_halves_merge_into_the_same_atoms_as_the_whole(random, cut, weights, soft):
    rows = [
        {
            "race": random.choice(["a", "b", None]),
            "gender": random.choice(["F", "M"]),
            "score": random.choice([0.0, 1.0, 0.1, random.random()]),
            "y": random.random() if soft else random.randint(0, 1),
            "w": random.randint(0, 3) if weights == "whole" else random.random(),
        }
        for _ in range(21)
    ]
    rows[0]["w"] = rows[20]["w"] = 1  # no half is without weight
    frame = pd.DataFrame(rows)
    kw = {} if weights == "none" else {"weight": "w"}
    whole, halves = make(frame, **kw), make(frame[:cut], **kw) + make(frame[cut:], **kw)
    assert_same(whole, halves, exact=weights != "survey")
    shuffled = make(frame.sample(frac=1, random_state=1), **kw)
    assert_same(whole, shuffled, exact=weights != "survey")
    if weights != "survey":
        assert whole.fingerprint() == halves.fingerprint() == shuffled.fingerprint()


def test_whole_weights_are_frequencies_and_others_survey_weights(cohort):
    frame = cohort.assign(w=2.0)
    twice = make(pd.concat([cohort, cohort]))
    assert_same(make(frame, weight="w"), twice)
    survey = make(cohort.assign(w=1.5), weight="w")
    assert survey.n_people == 3000
    assert survey.weight.sum() == pytest.approx(4500)
    assert survey.weight_sq.sum() == pytest.approx(1.5**2 * 3000)
    assert survey.positives_sq.sum() == pytest.approx(1.5**2 * cohort.y.sum())


def test_rows_of_weight_zero_leave_no_trace(cohort):
    frame = cohort.assign(w=1)
    extra = pd.DataFrame(
        {"race": ["ghost"], "gender": ["F"], "score": [np.nan], "y": [7], "w": [0]}
    )
    assert_same(make(pd.concat([frame, extra]), weight="w"), make(frame))


def test_a_coarser_resolution_rounds_scores(cohort):
    atoms = make(cohort, resolution=2**-4)
    assert set(np.unique(atoms.score)) <= {k * UNIT // 16 for k in range(17)}
    assert atoms.n_people == 3000
    with pytest.raises(InputError, match="resolution"):
        make(cohort, resolution=0.01)


@pytest.mark.parametrize(
    ("fine", "coarse"), [(2**-32, 2**-4), (2**-12, 2**-5), (2**-4, 2**-32)]
)
def test_parts_of_different_resolution_are_pooled_at_the_coarser_one(
    cohort, fine, coarse
):
    edges = cohort.assign(
        score=np.resize([0.0, 1.0, 1 / 32, 31 / 32, 1 / 64, 0.5], len(cohort))
    )
    grid = min(fine, coarse)
    for frame in (cohort, edges):
        frame = frame.assign(
            score=np.floor(frame.score / grid + 0.5) * grid
        )  # what is known of scores
        merged = make(frame[:1700], resolution=fine) + make(
            frame[1700:], resolution=coarse
        )
        expected = make(frame, resolution=max(fine, coarse))
        assert merged.resolution == expected.resolution
        assert_same(merged, expected)
        assert merged.fingerprint() == expected.fingerprint()


def test_adding_atoms_of_other_attributes_is_refused(cohort):
    with pytest.raises(InputError, match="cannot be added"):
        make(cohort) + Atoms.from_frame(
            cohort, score="score", outcome="y", groups="race"
        )
    with pytest.raises(TypeError):
        make(cohort) + 1


def test_unused_categories_leave_no_trace(cohort):
    frame = cohort.assign(
        race=pd.Categorical(cohort.race, ["White", "Black", "Asian", "nobody"])
    )
    assert_same(make(frame), make(cohort))


def test_a_mistyped_column_is_told_with_the_nearest_name(cohort):
    with pytest.raises(InputError, match=r"no column 'scores'.*Did you mean 'score'"):
        Atoms.from_frame(cohort, score="scores", outcome="y")


def test_files_round_trip(tmp_path, cohort):
    rng = np.random.default_rng(0)
    for i, frame in enumerate(
        (cohort, cohort.assign(w=rng.random(3000)), cohort.assign(y=rng.random(3000)))
    ):
        atoms = make(frame, **({"weight": "w"} if "w" in frame else {}))
        atoms.save(tmp_path / f"{i}.atoms")
        assert_same(atoms, Atoms.load(tmp_path / f"{i}.atoms"))
    alone = Atoms.from_frame(cohort, score="score", outcome="y")
    alone.save(tmp_path / "alone")
    assert_same(alone, Atoms.load(tmp_path / "alone"))
    assert (
        json.loads(pq.read_schema(tmp_path / "alone").metadata[b"propcal"])[
            "personal_data"
        ]
        is True
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "0.atoms",
        "1.atoms",
        "2.atoms",
        "alone",
    ]


def test_level_names_that_look_like_columns_or_numbers_survive(tmp_path):
    frame = pd.DataFrame(
        {"people": ["1", "true", None], "score": [0.1, 0.2, 0.3], "y": [0, 1, 1]}
    )
    atoms = Atoms.from_frame(frame, score="score", outcome="y", groups=["people"])
    atoms.save(tmp_path / "a")
    assert_same(atoms, Atoms.load(tmp_path / "a"))


def test_files_that_are_no_atoms_are_refused(tmp_path, cohort):
    path = tmp_path / "x.atoms"
    make(cohort).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match="not a complete Parquet"):
        Atoms.load(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(FileFormatError, match="not an atoms file"):
        Atoms.load(path)
    with pytest.raises(FileNotFoundError):
        Atoms.load(tmp_path / "absent")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("score", -1, "out of range"),
        ("people", 0, "out of range"),
        ("positives", 10**6, "inconsistent"),
        ("weight", -1, "weight"),
    ],
)
def test_atoms_edited_into_nonsense_are_refused(
    tmp_path, cohort, column, value, message
):
    path = tmp_path / "x.atoms"
    make(cohort).save(path)
    table = pq.read_table(path)
    edited = table[column].to_numpy().copy()
    edited[5] = value
    table = table.set_column(table.column_names.index(column), column, pa.array(edited))
    pq.write_table(table, path)
    with pytest.raises(FileFormatError, match=message):
        Atoms.load(path)


def test_unsorted_or_newer_atoms_are_refused(tmp_path, cohort):
    path = tmp_path / "x.atoms"
    make(cohort).save(path)
    table = pq.read_table(path)
    pq.write_table(table.take(list(range(len(table)))[::-1]), path)
    with pytest.raises(FileFormatError, match="not sorted"):
        Atoms.load(path)
    header = json.dumps({"format": "propcal-atoms", "version": 99})
    pq.write_table(table.replace_schema_metadata({"propcal": header}), path)
    with pytest.raises(FileFormatError, match=r"version 99.*Upgrade"):
        Atoms.load(path)


def test_more_people_than_can_be_added_exactly_are_refused():
    frame = pd.DataFrame({"score": [0.5, 0.4], "y": [1, 0], "w": [2**31, 1]})
    with pytest.raises(InputError, match="can be added up exactly"):
        Atoms.from_frame(frame, score="score", outcome="y", weight="w")
    half = Atoms.from_frame(
        frame.assign(w=2**30 - 1), score="score", outcome="y", weight="w"
    )
    with pytest.raises(InputError, match="can be added up exactly"):
        half + half


def test_a_changed_file_is_noticed(tmp_path, cohort):
    path = tmp_path / "x.atoms"
    make(cohort).save(path)
    table = pq.read_table(path)
    scores = table["score"].to_numpy().copy()
    scores[7] += 1
    pq.write_table(table.set_column(2, "score", pa.array(scores)), path)
    with pytest.raises(FileFormatError, match="its content was changed"):
        Atoms.load(path)
    pq.write_table(table.append_column("note", pa.array(["x"] * len(table))), path)
    with pytest.raises(FileFormatError, match="its columns are not those of atoms"):
        Atoms.load(path)


def test_many_levels_of_several_sites_round_trip(tmp_path):
    def site(name):
        frame = pd.DataFrame(
            {
                "g": [f"{name}{i % 150}" for i in range(600)],
                "score": 0.5,
                "y": [0, 1] * 300,
            }
        )
        return Atoms.from_frame(frame, score="score", outcome="y", groups="g")

    both = site("a") + site("b")
    both.save(tmp_path / "a")
    assert_same(both, Atoms.load(tmp_path / "a"))
    assert_same(both, sum([site("a"), site("b")]))


def test_the_kind_of_weights_can_be_said(cohort):
    survey = [
        make(cohort[:50].assign(w=2), weight="w", weight_kind="survey"),
        make(cohort[50:].assign(w=0.5), weight="w"),
    ]
    whole = make(cohort.assign(w=[2] * 50 + [0.5] * 2950), weight="w")
    assert_same(survey[0] + survey[1], whole, exact=False)
    with pytest.raises(InputError, match="frequency weights must be whole"):
        make(cohort.assign(w=0.5), weight="w", weight_kind="frequency")


@pytest.mark.parametrize("weight", [1e14, 1e19, 1e300])
def test_weights_too_large_to_add_are_refused(cohort, weight):
    with pytest.raises(InputError, match=r"cannot be added up|can be added up exactly"):
        make(cohort.assign(w=weight), weight="w")


def test_an_attribute_called_score_is_not_overwritten():
    frame = pd.DataFrame({"s": [0.1, 0.2], "y": [0, 1], "score": ["a", "b"]})
    table = Atoms.from_frame(frame, score="s", outcome="y", groups="score").to_frame()
    assert table["attribute:score"].tolist() == ["a", "b"]
    assert table["score"].round(6).tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    "wrong", [{"score": [0.1]}, {"outcome": 5}, {"resolution": "a"}, {"weight": 3}]
)
def test_arguments_of_the_wrong_kind_are_told(cohort, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Atoms.from_frame(cohort, **{"score": "score", "outcome": "y", **wrong})


def test_attributes_are_added_up_by_name_not_by_place(cohort):
    half = len(cohort) // 2
    columns = {"score": "score", "outcome": "y"}
    words = Groups(columns=["race", "gender"], cuts={"score": [0.3]})
    turned = Groups(columns=["gender", "race"], cuts={"score": [0.3]})
    one = Atoms.from_frame(cohort[:half], groups=words, **columns)
    other = Atoms.from_frame(cohort[half:], groups=turned, **columns)
    whole = Atoms.from_frame(cohort, groups=words, **columns)
    assert (one + other).fingerprint() == whole.fingerprint()
    assert (other + one).patterns.attributes == ("gender", "race", "score")
