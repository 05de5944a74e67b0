"""The pictures of the theory are those of propcal.bounds."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from propcal import bounds
from propcal.cli import app
from propcal.errors import InputError
from propcal_paper.theory import (
    constraints,
    crossing,
    discretisation,
    plot_constraints,
    plot_discretisation,
    plot_relations,
    relations,
)


def test_pmc_allows_less_than_mc_and_the_same_everywhere_below_rho():
    frame = constraints(alpha=0.2, rho=0.1).set_index("outcome_rate")
    assert (frame["pmc_high"] <= frame["mc_high"]).all()
    assert (frame["pmc_low"] >= frame["mc_low"]).all()
    below = frame.loc[frame.index < 0.1]
    assert (below["pmc_high"] - below.index).to_numpy() == pytest.approx(
        np.full(len(below), 0.02)
    )
    assert frame.loc[0.5, "pmc_high"] == pytest.approx(0.6)
    assert frame.loc[1.0, "pmc_low"] == pytest.approx(frame.loc[1.0, "mc_low"])
    with pytest.raises(InputError, match="rho"):
        constraints(rho=0)


def test_relations_are_the_theorems():
    frame = relations(n=101)
    for _, row in frame.iterrows():
        x, at = float(row["x"]), float(row["at"])
        if (row["panel"], row["given"]) == ("DC", "MC"):
            expected = bounds.dc_from_mc(x, at)
        elif row["panel"] == "DC":
            expected = bounds.dc_from_pmc(x)
        elif row["given"] == "DC":
            expected = bounds.mc_from_dc(x, at)
        else:
            expected = bounds.mc_from_pmc(x)
        assert row["implied"] == expected
    assert sorted(frame.loc[frame["given"] == "MC", "at"].unique()) == [
        0.01,
        0.1,
        0.3,
        1.0,
    ]
    assert sorted(frame.loc[frame["given"] == "DC", "at"].unique()) == [
        0.0,
        0.05,
        0.17,
        0.5,
    ]


def test_alpha_pmc_implies_alpha_mc():
    line = (
        relations(n=101)
        .query("panel == 'MC' and given == 'PMC'")
        .set_index("x")["implied"]
    )
    assert (line == line.index).all()


def test_below_the_crossing_pmc_implies_the_smaller_mc():
    at = crossing(0.17)
    assert bounds.mc_from_pmc(at - 0.01) < bounds.mc_from_dc(at - 0.01, 0.17)
    assert bounds.mc_from_pmc(at + 0.01) > bounds.mc_from_dc(at + 0.01, 0.17)
    assert [round(crossing(delta), 2) for delta in (0.05, 0.17, 0.5)] == [
        0.33,
        0.65,
        1.2,
    ]
    assert crossing(0) == 0  # a model calibrated overall: DC implies less everywhere


def test_geometric_bins_imply_less_than_uniform_ones():
    frame = discretisation().pivot_table(
        index=["rho", "n_bins"], columns="binning", values="pmc"
    )
    assert (frame["geometric"] < frame["uniform"]).all()
    assert frame.loc[(0.1, 10), "geometric"] == bounds.pmc_from_binned(
        0.1, 10, 0.1, "geometric"
    )


def test_pictures_draw_these_numbers_and_stay_where_they_mean_something():
    frame = relations()
    left, right = plot_relations(frame).axes
    assert left.get_xlim() == right.get_xlim() == right.get_ylim() == (0, 1)
    drawn = {line.get_label(): np.asarray(line.get_ydata()) for line in right.lines}
    assert drawn["PMC"][40] == pytest.approx(bounds.mc_from_pmc(0.2))
    assert drawn["DC, δ = 0.17"][40] == pytest.approx(bounds.mc_from_dc(0.2, 0.17))
    ax = plot_constraints(constraints(), alpha=0.2, rho=0.1).axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "0.2-MC",
        "0.2-PMC",
        "calibrated",
    ]
    ax = plot_discretisation(discretisation()).axes[0]
    assert len(ax.lines) == 4 * 2 + 2


def test_the_command_writes_three_pictures_with_their_numbers():
    result = CliRunner().invoke(app, ["paper", "theory", "-o", "out"])
    assert result.exit_code == 0, result.output
    for name in ("constraints", "relations", "discretisation"):
        assert f"out/theory_{name}.png" in result.output
        assert len(pd.read_csv(f"out/theory_{name}.csv")) > 100
    assert "0.38-PMC with geometric bins, 1.10-PMC with uniform ones" in result.output
