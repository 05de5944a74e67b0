"""Groups given as masks: columns of truth values that may overlap."""

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, Groups, PMCBoost, audit
from propcal.core.conditions import parse
from propcal.core.patterns import combinations_present
from propcal.errors import InputError


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n, k = 4000, 15
    masks = rng.random((n, k)) < np.linspace(0.1, 0.6, k)
    score = rng.uniform(0.1, 0.6, n)
    y = (
        rng.random(n) < np.where(masks[:, 9], np.minimum(1.5 * score, 0.95), score)
    ).astype(int)
    return masks, [f"mask {i}" for i in range(k)], score, y


def test_a_matrix_a_frame_and_a_dict_give_the_same_groups_and_fit(people):
    masks, names, score, y = people
    frame = pd.DataFrame(masks, columns=names)
    fits = []
    for data in (frame, {name: frame[name].to_numpy() for name in names}, masks):
        groups = Groups.from_masks(data, names=None if data is not masks else names)
        model = PMCBoost(groups=groups).fit(score, y, sensitive_features=data)
        assert [size.group.name for size in model.groups_] == names
        fits.append(model.predict(score, sensitive_features=data).tolist())
    assert fits[0] == fits[1] == fits[2]


def test_the_group_that_is_wrong_is_found_and_corrected(people):
    masks, names, score, y = people
    frame = pd.DataFrame(masks, columns=names)
    groups = Groups.from_masks(frame)
    found = audit(y, score, sensitive_features=frame, groups=groups, n_draws=100)
    assert found.verdict.conclusion == "miscalibrated"
    assert found.groups.query("rank == 1").group.tolist() == ["mask 9"]
    assert len(found.groups) == 16
    model = PMCBoost(groups=groups).fit(score, y, sensitive_features=frame)
    inside = masks[:, 9]
    corrected = model.predict(score, sensitive_features=frame)
    assert (
        abs(corrected[inside].mean() - y[inside].mean())
        < abs(score[inside].mean() - y[inside].mean()) / 4
    )


def test_masks_are_the_marginal_groups_of_truth_values(people):
    masks, names, score, y = people
    frame = pd.DataFrame(masks, columns=names)
    with pytest.raises(InputError, match=r"more than 5,000 combinations.*marginal"):
        PMCBoost().fit(score, y, sensitive_features=frame)
    marginal = PMCBoost(intersections="marginal").fit(
        score, y, sensitive_features=frame
    )
    assert set(names) <= {size.group.name for size in marginal.groups_}


def test_numbers_0_and_1_and_missing_values_are_truth_values():
    masks = pd.DataFrame(
        {"a": [1, 0, 1, 1], "b": pd.array([True, None, False, True], dtype="boolean")}
    )
    preview = Groups.from_masks(masks).preview(masks).set_index("group")
    assert preview.people.to_dict() == {"a": 3, "b": 2}


def test_what_is_no_mask_is_refused():
    with pytest.raises(InputError, match="column 'sex' must have only truth values"):
        Groups.from_masks({"sex": ["F", "M"]})
    with pytest.raises(InputError, match="column 'age' must have only truth values"):
        Groups.from_masks({"age": [1, 2]})
    with pytest.raises(InputError, match="3 names for 2 masks"):
        Groups.from_masks(np.ones((4, 2), dtype=bool), names=["a", "b", "c"])
    with pytest.raises(InputError, match="backquote"):
        Groups.from_masks({"a`b": [True, False]})


def test_each_mask_is_read_a_few_times_however_many_there_are(monkeypatch):
    """A thousand masks of a file took a million readings of their conditions."""
    from propcal.core import groups as module

    read = []
    monkeypatch.setattr(module, "parse", lambda text: read.append(text) or parse(text))
    rng = np.random.default_rng(0)
    masks = pd.DataFrame(
        rng.random((300, 80)) < 0.3, columns=[f"m{i}" for i in range(80)]
    )
    masks.assign(s=rng.random(300), y=rng.integers(0, 2, 300)).to_parquet(
        "masks.parquet"
    )
    atoms = Atoms.from_files(
        "masks.parquet", score="s", outcome="y", groups=Groups.from_masks(masks)
    )
    assert len(atoms.patterns.attributes) == 80
    assert len(read) <= 20 * 80


def test_patterns_of_more_masks_than_an_integer_has_digits_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    radix = rng.integers(1, 6, 150).tolist()
    rows = np.stack([rng.integers(0, base, 400) for base in radix], axis=1)[
        rng.integers(0, 200, 400)
    ]
    table, code = combinations_present([*rows.T], radix, len(rows))
    assert np.array_equal(table, np.unique(rows, axis=0))
    assert np.array_equal(table[code], rows)
