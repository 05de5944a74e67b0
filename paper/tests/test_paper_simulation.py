"""The simulation study of the paper."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

from propcal.cli import app, main
from propcal.errors import InputError
from propcal_paper.simulation import SCENARIOS, plot_simulation, simulate


@pytest.fixture(scope="module")
def found():
    return simulate(n_data_sets=300, seed=3)


def test_rates_go_from_a_fifth_to_four_fifths_and_scores_stay_inside(found):
    assert found.rate[[0, 30, 60]] == pytest.approx([0.2, 0.5, 0.8])
    frame = found.to_frame()
    assert len(frame) == 300 * 61
    assert frame["score"].between(0.1, 0.9).all()


def test_every_model_is_alpha_multicalibrated_and_no_better(found):
    assert np.abs(found.delta["Random"]).max(axis=1) == pytest.approx(np.full(300, 0.1))
    # one group has the largest error, the others are spread evenly below it
    assert (np.isclose(np.abs(found.delta["Random"]), 0.1).sum(axis=1) == 1).all()
    assert np.quantile(np.abs(found.delta["Random"]), [0.25, 0.75]) == pytest.approx(
        [0.025, 0.075], abs=0.003
    )
    assert (found.delta["Random"] > 0).mean() == pytest.approx(0.5, abs=0.02)


def test_the_loss_is_the_observed_mean_error_over_the_true_rate(found):
    frame = found.to_frame()
    people = (frame["mc_loss"] + frame["score"]) * 1000
    below = (frame["score"] - frame["mc_loss"]) * 1000
    # one of both is the number of outcomes: a whole number, for a thousand people
    assert (
        np.minimum(abs(people - people.round()), abs(below - below.round())).max()
        < 1e-6
    )
    assert (frame["pmc_loss"] * frame["outcome_rate"]).to_numpy() == pytest.approx(
        frame["mc_loss"].to_numpy()
    )


def test_with_many_people_the_loss_is_that_of_the_drawn_errors():
    large = simulate(n_data_sets=5, n_people=10**9, seed=1)
    assert large.pmc_loss("Random") == pytest.approx(
        np.abs(large.delta["Random"]) / large.rate, abs=1e-3
    )


def test_scenarios_have_the_same_mc_and_run_as_they_are_called(found):
    table = found.scenarios()
    assert list(table["scenario"].unique()) == list(SCENARIOS)
    errors = {
        name: rows["delta"].to_numpy() for name, rows in table.groupby("scenario")
    }
    assert all(error.max() == pytest.approx(0.1) for error in errors.values())
    assert np.ptp(errors["Fixed"]) == 0
    assert (np.diff(errors["Increasing"]) > 0).all()
    assert errors["Decreasing"] == pytest.approx(errors["Increasing"][::-1])
    assert (table["observed_5"] < table["pmc"]).all()
    assert (table["pmc"] < table["observed_95"]).all()


def test_the_rank_correlation_is_spearmans(found):
    own = [
        spearmanr(found.rate, losses).statistic for losses in found.pmc_loss("Random")
    ]
    assert found.claim().loc["Random", "rank_correlation"] == pytest.approx(
        np.mean(own)
    )


def test_the_seed_decides_everything():
    assert (
        simulate(n_data_sets=3, seed=1)
        .to_frame()
        .equals(simulate(n_data_sets=3, seed=1).to_frame())
    )
    assert (
        not simulate(n_data_sets=3, seed=1)
        .to_frame()
        .equals(simulate(n_data_sets=3, seed=2).to_frame())
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"alpha": 0.3}, "alpha"),
        ({"n_groups": 72}, "n_groups must be .* at most 71"),
        ({"n_people": 0}, "people"),
    ],
)
def test_scores_outside_of_0_and_1_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        simulate(**wrong)


def test_the_picture_shows_every_data_set_and_the_scenarios(found):
    ax = plot_simulation(found).axes[0]
    points, *lines = ax.lines
    assert len(points.get_xdata()) == 300 * 61
    assert np.asarray(points.get_ydata()) == pytest.approx(
        found.pmc_loss("Random").ravel()
    )
    assert [line.get_ydata()[0] for line in lines] == pytest.approx([0.5, 0.05, 0.5])
    assert len({line.get_linestyle() for line in lines}) == 3  # not by colour alone


def test_the_command_writes_the_figure_and_its_numbers_and_says_what_they_show():
    arguments = ["paper", "simulation", "--data-sets", "50", "-o", "out"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "MC is 0.1 in every data set" in result.output
    assert "Agrees: the paper" in result.output
    assert len(pd.read_csv("out/simulation.csv")) == 50 * 61
    assert "out/simulation.png" in result.output


def test_the_command_replaces_nothing_unasked(capfd, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "simulation_claim.csv").write_text("mine")
    arguments = ["paper", "simulation", "--data-sets", "5", "-o", "out"]
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert (
        "simulation_claim.csv already exists. Use --force to replace it"
        in capfd.readouterr().err
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == [
        "simulation_claim.csv"
    ]
    with pytest.raises(SystemExit, match="0"):
        main([*arguments, "--force"])
    assert "Random" in (tmp_path / "out" / "simulation_claim.csv").read_text()
