"""What the paper's algorithm can be told: ties at the cutoff, the smallest category,
sample and order.
"""

import numpy as np
import pytest

from propcal import MCBoost, PMCBoost
from propcal.cli import main
from propcal.errors import InputError

# (share with the outcome in percent, score, alpha): the gap is exactly alpha times the
# rate, or exactly alpha
PMC_TIES = [
    (40, 0.3, 0.25),
    (40, 0.36, 0.1),
    (50, 0.45, 0.1),
    (30, 0.27, 0.1),
    (20, 0.19, 0.05),
    (80, 0.84, 0.05),
    (60, 0.72, 0.2),
    (10, 0.11, 0.1),
    (70, 0.63, 0.1),
    (90, 0.801, 0.11),
]
MC_TIES = [
    (40, 0.3, 0.1),
    (30, 0.2, 0.1),
    (70, 0.6, 0.1),
    (60, 0.7, 0.1),
    (30, 0.35, 0.05),
    (80, 0.65, 0.15),
    (90, 0.89, 0.01),
    (20, 0.19, 0.01),
    (55, 0.85, 0.3),
    (35, 0.28, 0.07),
]


def fitted(cls, percent, score, alpha, **more):
    y = np.r_[np.ones(percent), np.zeros(100 - percent)]
    return cls.paper(alpha=alpha, **more).fit(np.full(100, score), y)


@pytest.mark.parametrize(
    ("cls", "tie"),
    [(PMCBoost, tie) for tie in PMC_TIES] + [(MCBoost, tie) for tie in MC_TIES],
)
def test_a_gap_that_equals_the_cutoff_leads_to_an_update(cls, tie):
    percent, score, alpha = tie
    model = fitted(cls, *tie)
    assert model.n_updates_ == 1
    assert model.predict([score])[0] == pytest.approx(percent / 100, abs=1e-9)
    closer = score + np.sign(percent / 100 - score) * 1e-8
    assert fitted(cls, percent, closer, alpha).n_updates_ == 0
    assert fitted(cls, *tie, order="worst").n_updates_ == 1


def test_a_cutoff_smaller_than_the_grid_still_ends():
    model = fitted(MCBoost, 40, 0.3, 1e-10)
    assert model.n_updates_ == 1
    assert model.converged_


def test_the_smallest_category_can_be_set():
    """Ten of 1,000 people are far off: they are corrected unless a category needs more
    than 1 %.
    """
    y = np.r_[np.tile([1, 0, 0, 0], 250)[:990], np.zeros(10)]
    score = np.r_[np.full(990, 0.25), np.full(10, 0.55)]
    assert PMCBoost.paper().fit(score, y).predict([0.55])[0] == 0
    kept = PMCBoost.paper(min_share=0.0101).fit(score, y)
    assert kept.predict([0.55])[0] == 0.55
    assert kept.correction_.about["min_share"] == 0.0101
    assert PMCBoost.paper(min_share=0.01).fit(score, y).predict([0.55])[0] == 0
    assert "min_share" not in PMCBoost.paper().fit(score, y).correction_.about
    with pytest.raises(InputError, match="min_share must be"):
        PMCBoost(min_share=2).settings()


@pytest.fixture
def people(tmp_path):
    import pandas as pd

    rng = np.random.default_rng(2)
    group, score = rng.choice(["a", "b", "c"], 3000), rng.random(3000).round(3)
    y = rng.random(3000) < score ** np.where(group == "a", 2.0, 0.8)
    path = tmp_path / "people.csv"
    pd.DataFrame({"group": group, "score": score, "y": y.astype(int)}).to_csv(
        path, index=False
    )
    return path


def updates(people, tmp_path, *options):
    from propcal import Correction

    path = tmp_path / "model.json"
    command = [
        "fit",
        str(people),
        "--score",
        "score",
        "--outcome",
        "y",
        "--groups",
        "group",
        "--paper",
    ]
    with pytest.raises(SystemExit) as ended:
        main([*command, *options, "--max-updates", "500", "--force", "-o", str(path)])
    assert ended.value.code == 0
    return Correction.load(path).update_list()


@pytest.mark.parametrize("option", [("--sample", "bootstrap"), ("--order", "random")])
def test_the_seed_of_the_command_decides_what_is_drawn(
    people, tmp_path, capsys, option
):
    first, again, other = (
        updates(people, tmp_path, *option, "--seed", seed) for seed in "112"
    )
    assert first == again != other
    assert first != updates(people, tmp_path)
    capsys.readouterr()


def test_options_of_the_command_are_those_of_the_estimator(people, tmp_path, capsys):
    small = updates(people, tmp_path, "--min-share", "0.05")
    assert small != updates(people, tmp_path)
    worst = updates(people, tmp_path, "--order", "worst")
    assert worst != small
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "fit",
                str(people),
                "--score",
                "score",
                "--outcome",
                "y",
                "--min-share",
                "3",
                "-o",
                "m.json",
            ]
        )
    assert ended.value.code == 2
    assert "--min-share must be" in capsys.readouterr().err


def test_a_fit_summary_has_no_cells_without_people():
    rng = np.random.default_rng(0)
    score = rng.choice([0.05, 0.15, 0.45, 0.95], 2000)
    y = (rng.random(2000) < score).astype(int)
    cells = PMCBoost(min_share=0).fit(score, y).fit_summary_.to_frame()
    assert len(cells) == 4
    assert cells.people.gt(0).all()
