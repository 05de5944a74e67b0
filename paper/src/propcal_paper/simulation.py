"""The simulation study: models with the same MC and different proportional errors.

Everybody in a group S_i has the same score, R_i = p_i - Delta_i, where p_i is the
group's outcome rate, from 0.2 in steps of 0.01. In each data set one randomly chosen
group has |Delta| = alpha, the others have a draw from Uniform(0, alpha), and all signs
are random: this is an alpha-multicalibrated model. Then the outcomes of `n_people`
people in each group are drawn. The PMC loss of a group is its observed absolute mean
error, |mean of y - R_i|, divided by the true rate p_i, as described in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import FloatArray, check_number, tidy
from propcal_paper.figure_parts import (
    COLUMN,
    DRAWN_AS,
    SMALL,
    PaperFigure,
    entry,
    panels,
)
from propcal_paper.settings import toml_file

FIRST_RATE = 0.2
STEP = 0.01
LOOKS: dict[str, dict[str, Any]] = DRAWN_AS["scenarios"]
RANDOM = "Random"
SCENARIOS = tuple(LOOKS)
# The paper does not say how |Delta| increases or decreases; its public code uses equal
# steps from 0.01 to 0.1.
LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Simulation:
    """The simulated data sets and their losses.

    Attributes
    ----------
    rate : array of shape (n_groups,)
        True outcome rate p_i of each group.
    delta : dict of arrays
        "Random": true error p_i - R_i in each data set, of shape (n_data_sets,
        n_groups); and |Delta| of each group in the three scenarios.
    mc_loss : dict of arrays of shape (n_data_sets, n_groups)
        Observed absolute mean error of each group, by the same names.
    alpha : float
    n_people : int
        People in each group.
    """

    rate: FloatArray
    delta: dict[str, FloatArray]
    mc_loss: dict[str, FloatArray]
    alpha: float
    n_people: int

    def pmc_loss(self, name: str) -> FloatArray:
        """The observed absolute mean error of each group as a share of its true
        rate.
        """
        return self.mc_loss[name] / self.rate

    def to_frame(self) -> pd.DataFrame:
        """One row for each random data set and group (the gray points in the
        figure).
        """
        delta = self.delta[RANDOM]
        data_set, group = np.indices(delta.shape) + 1
        outcome_rate = np.broadcast_to(self.rate, delta.shape).round(10)

        frame = pd.DataFrame({"data_set": data_set.ravel(), "group": group.ravel()})
        frame["outcome_rate"] = outcome_rate.ravel()
        frame["score"] = (self.rate - delta).ravel()
        frame["mc_loss"] = self.mc_loss[RANDOM].ravel()
        frame["pmc_loss"] = self.pmc_loss(RANDOM).ravel()
        return frame

    def scenarios(self) -> pd.DataFrame:
        """One row for each scenario and group: the lines in the figure, and observed
        values around them.
        """
        frames = []
        for name in SCENARIOS:
            delta = self.delta[name]
            observed = self.pmc_loss(name)
            frame = pd.DataFrame({"group": np.arange(1, len(self.rate) + 1)})
            frame.insert(0, "scenario", name)
            frame["outcome_rate"] = self.rate.round(10)
            frame["delta"] = delta
            frame["pmc"] = delta / self.rate
            frame["observed_median"] = np.quantile(observed, 0.5, axis=0)
            frame["observed_5"] = np.quantile(observed, 0.05, axis=0)
            frame["observed_95"] = np.quantile(observed, 0.95, axis=0)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def claim(self) -> pd.DataFrame:
        """The paper's claim in numbers: MC, and how PMC depends on the outcome rate.

        Returns
        -------
        pandas.DataFrame
            Indexed by scenario, with "Random" for the gray points. `mc` is the largest
            |Delta| of a data set (the same for all of them), `pmc` the median over data
            sets of the largest observed PMC loss. `rank_correlation` is the mean over
            data sets of Spearman's correlation between PMC loss and outcome rate: below
            0, groups with low rates are worse off. `lowest_fifth` and `highest_fifth`
            are the mean PMC losses of the groups with the lowest and highest rates.
        """
        fifth = max(1, len(self.rate) // 5)
        rows = {}
        for name, delta in self.delta.items():
            pmc_loss = self.pmc_loss(name)
            row: dict[str, float] = {}
            row["mc"] = np.abs(delta).max()
            row["pmc"] = np.median(pmc_loss.max(axis=1))
            row["rank_correlation"] = _rank_correlation(pmc_loss)
            row["lowest_fifth"] = pmc_loss[:, :fifth].mean()
            row["highest_fifth"] = pmc_loss[:, -fifth:].mean()
            rows[name] = row
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("scenario")

    def sentences(self) -> list[str]:
        """The claim in words with numbers."""
        claim = self.claim()
        words = toml_file("words.toml")["simulation"]
        known = {
            "n_data_sets": len(self.delta[RANDOM]),
            "n_groups": len(self.rate),
            "n_people": self.n_people,
            "alpha": self.alpha,
            "first": self.rate[0],
            "last": self.rate[-1],
            "verdict": "Agrees" if _agrees(claim) else "Differs",
        }
        sentences = [line.format(**known) for line in words["before"]]
        for name, row in claim.iterrows():
            sentences.append(words["row"].format(name=str(name).lower(), **row))
        sentences += [line.format(**known) for line in words["after"]]
        return sentences


def _agrees(claim: pd.DataFrame) -> bool:
    """Whether PMC loss falls with the outcome rate, except where errors increase."""
    correlation = claim["rank_correlation"]
    falls = (correlation < 0).to_dict()
    as_published = {
        RANDOM: True,
        "Fixed": True,
        "Increasing": False,
        "Decreasing": True,
    }
    return falls == as_published and bool(correlation["Increasing"] != 0)


def simulate(
    n_groups: int = 61,
    alpha: float = 0.1,
    n_data_sets: int = 1000,
    n_people: int = 1000,
    seed: int = 0,
) -> Simulation:
    """Simulate the data sets of the study.

    Parameters
    ----------
    n_groups : int, default=61
        Number of groups; the outcome rate of the i-th is 0.2 + 0.01 (i - 1). With alpha
        = 0.1 at most 71 are possible, because scores cannot exceed 1.
    alpha : float, default=0.1
        Multicalibration of the simulated models; at most 0.2, because scores cannot be
        negative.
    n_data_sets : int, default=1000
    n_people : int, default=1000
        People in each group of a data set.
    seed : int, default=0

    Examples
    --------
    >>> simulation = simulate(n_data_sets=200, seed=1)
    >>> claim = simulation.claim()
    >>> claim["mc"].round(6).tolist()
    [0.1, 0.1, 0.1, 0.1]
    >>> (claim["rank_correlation"] < 0).to_dict()
    {'Random': True, 'Fixed': True, 'Increasing': False, 'Decreasing': True}
    """
    check_number("alpha", alpha, above=0, at_most=FIRST_RATE)
    most = int((1 - alpha - FIRST_RATE) / STEP + 1e-9) + 1  # no score above 1
    check_number("n_groups", n_groups, at_least=2, at_most=most, whole=True)
    check_number("n_data_sets", n_data_sets, at_least=1, whole=True)
    check_number("n_people", n_people, at_least=1, whole=True)
    check_number("seed", seed, at_least=0, whole=True)

    rate = FIRST_RATE + STEP * np.arange(n_groups, dtype=np.float64)
    rng = np.random.default_rng(seed)
    shape = (n_data_sets, n_groups)
    size = rng.uniform(0, alpha, shape)
    largest = rng.integers(0, n_groups, n_data_sets)
    size[np.arange(n_data_sets), largest] = alpha
    random_delta = size * _signs(rng, shape)

    delta = {RANDOM: random_delta}
    mc_loss = {RANDOM: _observed(rng, rate, random_delta, n_people)}
    for name, size_of_group in _scenario_sizes(alpha, n_groups).items():
        delta[name] = size_of_group
        signed = size_of_group * _signs(rng, shape)
        mc_loss[name] = _observed(rng, rate, signed, n_people)
    return Simulation(rate, delta, mc_loss, alpha, n_people)


def _scenario_sizes(alpha: float, n_groups: int) -> dict[str, FloatArray]:
    """|Delta| of each group in the three scenarios."""
    constant = np.full(n_groups, alpha)
    increasing = np.linspace(LEAST_SHARE * alpha, alpha, n_groups)
    return dict(zip(SCENARIOS, (constant, increasing, increasing[::-1])))


def _signs(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _observed(
    rng: np.random.Generator, rate: FloatArray, delta: FloatArray, n_people: int
) -> FloatArray:
    """The observed absolute mean error of each group, with simulated outcomes."""
    observed = rng.binomial(n_people, np.broadcast_to(rate, delta.shape)) / n_people
    return np.abs(observed - (rate - delta))


def _rank_correlation(pmc_loss: FloatArray) -> float:
    """Spearman's correlation with the outcome rate, averaged over data sets (rates are
    sorted).
    """
    ranks = pd.DataFrame(pmc_loss.T).rank()
    rate_ranks = pd.Series(range(len(ranks)))
    with np.errstate(invalid="ignore"):  # undefined if all values are equal
        correlation = ranks.corrwith(rate_ranks)
    return float(correlation.fillna(0.0).mean())


TABLES = ("simulation", "simulation_scenarios", "simulation_claim")


def picture_of(simulation: Simulation) -> PaperFigure:
    """The figure with its numbers."""
    points = simulation.to_frame()
    claim = simulation.claim().reset_index()
    numbers = dict(zip(TABLES, (points, simulation.scenarios(), claim)))
    title = "PMC loss of groups by outcome rate"
    return PaperFigure("simulation", title, plot_simulation(simulation), numbers)


def plot_simulation(simulation: Simulation) -> Any:
    """Gray points for each group of each data set, and lines for the three
    scenarios.
    """
    figure, [[ax]] = panels(COLUMN, 0.85 * COLUMN)
    parts = DRAWN_AS["parts"]
    points = simulation.to_frame()
    n_data_sets = len(simulation.delta[RANDOM])

    # rates are 0.01 apart; spread the points sideways to avoid stripes
    aside = np.random.default_rng([2023, 61]).uniform(-0.005, 0.005, len(points))
    opacity = min(1.0, max(0.1, 100 / n_data_sets))
    look = {**parts["points"], "ms": 2.5, "mew": 0, "alpha": opacity}
    # tens of thousands of vector points would make a large file
    ax.plot(points["outcome_rate"] + aside, points["pmc_loss"], rasterized=True, **look)

    entries = [entry(f"{n_data_sets:,} random data sets", ms=5, **parts["points"])]
    scenarios = simulation.scenarios()
    for name, look in LOOKS.items():
        rows = scenarios[scenarios["scenario"] == name]
        line = {**parts["scenario"], **look}
        ax.plot(rows["outcome_rate"], rows["pmc"], markevery=10, **line)
        entries.append(entry(f"{name.lower()} error |Δ|", **line))

    tidy(ax, xlabel="outcome rate of the group", ylabel="PMC loss of the group")
    ax.set_xlim(simulation.rate[0] - 0.01, simulation.rate[-1] + 0.01)
    bound_at_lowest_rate = simulation.alpha / simulation.rate[0]
    ax.set_ylim(0, 1.02 * max(points["pmc_loss"].max(), bound_at_lowest_rate))
    ax.legend(
        handles=entries,
        title=f"every model is {simulation.alpha:g}-MC",
        fontsize=SMALL,
        title_fontsize=SMALL,
        **parts["legend_inside"],
    )
    return figure
