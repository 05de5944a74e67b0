"""The sentences of the page for clinicians: for whom a correction helps, when it harms, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.numbers import listed, plural
from propcal.paper.experiment.settings import ALPHAS, BASE, MODEL_NAMES, OURS, PMC
from propcal.paper.figures.benefit_figure import NAMES
from propcal.paper.results import benefit as b
from propcal.paper.results.calibration_by_group import subgroup
from propcal.paper.results.evidence import Evidence

Frames = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Answers:
    """Sentences from the results, each a frame for each outcome (see `propcal.paper.results.benefit`)."""

    stores: Mapping[str, Evidence]
    found: Frames
    by_alpha: Frames
    ratios: Frames
    all_ratios: pd.DataFrame
    model: str

    @property
    def too_few(self) -> str:
        """A sentence if there are too few shuffles for a verdict; otherwise an empty text."""
        fewest = min(evidence.n_seeds for evidence in self.stores.values())
        if fewest >= b.FEWEST:
            return ""
        return f"There are too few shuffles for a verdict: {fewest}, and {b.FEWEST} are needed."

    @property
    def n(self) -> int:
        """The number of comparisons: outcomes times base models times groupings."""
        one = (frame[["model", "groups"]].drop_duplicates() for frame in self.found.values())
        return sum(len(pairs) for pairs in one)

    def helps(self) -> str:
        """Whom the paper's method helps, how often, and where most."""
        counted = self._counted(PMC, b.HELPS, "lowered")
        said = f"{self._whom()} At alpha {b.SETTING['alpha']:g}, PMCBoost {counted}."
        best = self._extreme(PMC, b.AVERAGE, b.HELPS)
        if best is not None:
            said += (
                f" The average error fell most for {_where(best)}: from {100 * best['before']:.1f} % to "
                f"{100 * best['after']:.1f} %."
            )
        return said

    def _whom(self) -> str:
        """Which subgroups the scores misjudge, and how many of them come closer to an O/E ratio of 1."""
        off = b.far_off(self.all_ratios)
        large = f"with at least {100 * b.SETTING['gamma']:g} % of the {self.unit}"
        by = f"{100 * b.OFF:g} %"
        if off.empty:
            return f"Before correction, the O/E ratio of no subgroup {large} was off by {by} or more."
        n = len(off)
        high, low = int((off[BASE] < 1).sum()), int((off[BASE] > 1).sum())
        side = "too high" if high > 2 * low else "too low" if low > 2 * high else "too high or too low"
        pairs = off.groupby(level=["outcome", "model"]).size()
        place: Any = pairs.idxmax()
        most = f"{pairs.max()} of the {n} are for {place[0]}, {MODEL_NAMES.get(place[1], place[1])}."
        closer = {
            name: int(((off[m] - 1).abs() < (off[BASE] - 1).abs()).sum())
            for m, name in ((PMC, f"{PMC} at alpha {b.SETTING['alpha']:g}"), (OURS, NAMES[OURS]))
            if off[m].notna().any()
        }
        many = {name: f"all {n}" if k == n else f"{k} of the {n}" for name, k in closer.items()}
        came = "; ".join(f"with {name}, {many[name]} came closer to 1" for name in many)
        came = f" {came[0].upper()}{came[1:]}." if came else ""
        return (
            f"Mostly patients for whom the score predicts {side}. Over all outcomes, models and groupings, "
            f"{plural(n, 'O/E ratio')} of subgroups {large} {'was' if n == 1 else 'were'} off by {by} or "
            f"more before correction: {high} too high, {low} too low; {most}{came}"
        )

    @property
    def unit(self) -> str:
        """What a row is, in the plural."""
        return next(iter(self.stores.values())).unit

    @property
    def _attributes(self) -> tuple[str, ...]:
        """The attributes of the subgroups in `ratios`."""
        return next(iter(self.stores.values())).groupings[-1]

    def not_drawn(self) -> str:
        """What the picture of O/E ratios leaves out."""
        first = next(iter(self.stores.values()))
        *others, shown = first.grouping_names
        said = f"The picture shows the {MODEL_NAMES.get(self.model, self.model)}, by {_in_words(shown)}."
        either = ""
        if others:
            said += f" Subgroups by {listed([_in_words(name) for name in others])} are not drawn."
            either = " either"
        if small := b.left_out(first, self.model, shown):
            names = listed([f'"{subgroup(name, self._attributes)}"' for name in small])
            said += (
                f" Subgroups with less than {100 * b.SETTING['gamma']:g} % of the {self.unit} are not "
                f"drawn{either}: {names}. Nothing can be concluded about them from the picture."
            )
        return said

    def subgroups(self) -> list[str]:
        """For each outcome, the subgroup that the base model misjudges most, before and after."""
        said = []
        for outcome, frame in self.ratios.items():
            table = frame.pivot(index="group", columns="method", values="ratio")
            if BASE not in table or table.empty:
                continue
            worst = table.loc[np.log(table[BASE]).abs().idxmax()]
            side = "high" if worst[BASE] < 1 else "low"
            after = [
                f"{worst[method]:.2f} after {name}"
                for method, name in ((PMC, "PMCBoost"), (OURS, NAMES[OURS]))
                if method in worst and not pd.isna(worst[method])
            ]
            group = subgroup(str(worst.name), self._attributes)
            said.append(
                f"For {outcome}, the {MODEL_NAMES.get(self.model, self.model)} was furthest from observed in "
                f'the subgroup "{group}", where it predicted too {side}: O/E ratio '
                f"{worst[BASE]:.2f} before, "
                f"{listed(after)}."
            )
        return said

    def harms(self) -> str:
        """How often the paper's method harms at the alpha of the comparison, and at each alpha."""
        every = pd.concat(list(self.by_alpha.values()), ignore_index=True)
        said = f"{_when(every)} At alpha {b.SETTING['alpha']:g}, PMCBoost {self._raised(PMC)}."
        own = every[(every["method"] == PMC) & (every["yardstick"] == b.PREDICTION)]
        counts = {a: int((own.loc[np.isclose(own["alpha"], a), "verdict"] == b.HARMS).sum()) for a in ALPHAS}
        low = own[np.isclose(own["alpha"], ALPHAS[0])]
        worst = f", by up to {low['change'].max():.1f} %" if counts[ALPHAS[0]] else ""
        return (
            f"{said} With a smaller alpha it fits chance: it raised the prediction error in "
            f"{counts[0.01]} of {self.n} comparisons at alpha 0.01, and in {counts[0.001]} at alpha "
            f"0.001{worst}. A fit with alpha 0.001 corrects cells with a single row of the data, whose "
            "outcome is chance, and drives some predicted risks to nearly 0 or 1. If cells down to 0.05 % of "
            f"the {self.unit} count as well, PMCBoost raised the largest error in {self._small_cells(every)}."
        )

    def _small_cells(self, every: pd.DataFrame) -> str:
        """How often PMCBoost raises the largest error among all cells, by alpha."""
        own = every[(every["method"] == PMC) & (every["yardstick"] == b.ALL_CELLS)]
        counts = [
            (alpha, int((own.loc[np.isclose(own["alpha"], alpha), "verdict"] == b.HARMS).sum()))
            for alpha in reversed(ALPHAS)
        ]
        (first, n), *others = counts
        parts = [f"{n} of {self.n} comparisons at alpha {first:g}", *(f"{k} at {a:g}" for a, k in others)]
        return listed(parts)

    def ours(self) -> str:
        """Whether our method harms, where, and how often it leaves the model alone."""
        every = pd.concat([f.assign(outcome=name) for name, f in self.found.items()], ignore_index=True)
        own = every[every["method"] == OURS]
        if own.empty:
            return "There are no trials of propcal's default yet."
        bad = own[own["verdict"] == b.HARMS]
        small = self._in_small_cells(OURS)
        rose = small[small["verdict"] == b.HARMS]
        where = f"cells with at least {100 * b.SMALLEST_CELL:g} % of the {self.unit}"
        if len(bad):
            lead = f"Yes, also in {where}."
        elif len(rose):
            lead = f"Not in {where}, but in smaller cells it can."
        else:
            lead = "In none of the comparisons clearly."
        said = f"{lead} It {self._counted(OURS, b.HELPS, 'lowered')}, and {self._raised(OURS)}."
        if len(bad):
            places = [
                f"{row['measure']} {row['change']:+.1f} % for {_where(row)}" for row in bad.to_dict("records")
            ]
            said += f" These are: {'; '.join(places)}."
        return f"{said} {self._all_cells(small)} {self._idle()}"

    def _in_small_cells(self, method: str) -> pd.DataFrame:
        """The changes of the largest error of a method if small cells count as well, worst first."""
        every = pd.concat([f.assign(outcome=name) for name, f in self.by_alpha.items()], ignore_index=True)
        own = every[(every["method"] == method) & (every["yardstick"] == b.ALL_CELLS)]
        return own.sort_values("change", ascending=False)

    def _all_cells(self, own: pd.DataFrame) -> str:
        """How often our method raises the largest error if small cells count too, where and by how much."""
        n = {verdict: int((own["verdict"] == verdict).sum()) for verdict in (b.HELPS, b.HARMS)}
        said = (
            f"If cells down to 0.05 % of the {self.unit} count as well, the largest error fell clearly in "
            f"{n[b.HELPS]} and rose clearly in {n[b.HARMS]} of {len(own)} comparisons"
        )
        rose = own[own["verdict"] == b.HARMS].to_dict("records")
        if not rose:
            return f"{said}."
        other = self._in_small_cells(PMC)
        other = other[np.isclose(other["alpha"], b.SETTING["alpha"])]
        raised = int((other["verdict"] == b.HARMS).sum())
        sizes = "; ".join(f"{_size(row)} for {_where(row)}" for row in rose)
        same = [_there(row, other) for row in rose]
        return (
            f"{said}: {sizes}. PMCBoost at alpha {b.SETTING['alpha']:g} raised it clearly in "
            f"{raised or 'none'} of the {len(other)}; where propcal's default raised it, PMCBoost changed it "
            f"by {'; '.join(same)}."
        )

    def _idle(self) -> str:
        """How often our method leaves the model alone."""
        fits = pd.concat([e.stored[e.stored["method"] == OURS] for e in self.stores.values()])
        idle = int((fits["n_updates"] == 0).sum())
        if not idle:
            return f"The tests of propcal's default found miscalibration in all {len(fits):,} fits."
        return (
            f"propcal's default left the score unchanged in {idle:,} of {len(fits):,} fits, because its "
            "tests found no miscalibration there."
        )

    def _raised(self, method: str) -> str:
        """How often a method harms, by each measure."""
        frames = list(self.found.values())
        if not any(b.tally(frames, method, measure)[b.HARMS] for measure in b.MEASURES):
            return f"raised none of the three errors clearly in any of the {self.n} comparisons"
        return self._counted(method, b.HARMS, "raised")

    def _counted(self, method: str, verdict: str, verb: str) -> str:
        """How often, by each measure.

        For example: lowered the largest error in 4 of 12 comparisons, the average error in 9, and ...
        """
        frames = list(self.found.values())
        counts = {measure: b.tally(frames, method, measure)[verdict] for measure in b.MEASURES}
        whole = [measure for measure, n in counts.items() if n == self.n]
        some = [f"the {measure} in {n}" for measure, n in counts.items() if n < self.n]
        some = [f"{part} of {self.n} comparisons" if not i else part for i, part in enumerate(some)]
        if whole:
            n_all = f"all {self.n}" if some else f"all {self.n} comparisons"
            some.append(f"{listed([f'the {measure}' for measure in whole])} in {n_all}")
        return f"{verb} {listed(some)}"

    def _extreme(self, method: str, measure: str, verdict: str) -> Any:
        """The comparison with the largest decrease of an error among those with a verdict."""
        every = pd.concat([f.assign(outcome=name) for name, f in self.found.items()], ignore_index=True)
        own = every[
            (every["method"] == method) & (every["measure"] == measure) & (every["verdict"] == verdict)
        ]
        return None if own.empty else own.sort_values("change").iloc[0].to_dict()


def _when(every: pd.DataFrame) -> str:
    """At which alpha the paper's method harms by any measure."""
    own = every[(every["method"] == PMC) & (every["verdict"] == b.HARMS)]
    bad = [alpha for alpha in ALPHAS if np.isclose(own["alpha"], alpha).any()]
    if not bad:
        return "At no alpha clearly."
    if bad == list(ALPHAS[: len(bad)]):
        return f"When alpha is {bad[-1]:g} or less."
    return f"At alpha {listed([f'{alpha:g}' for alpha in bad])}."


def _size(row: Mapping[Any, Any]) -> str:
    """A rise with its interval, and the errors themselves."""
    return (
        f"by {row['change']:.0f} % (95 % CI {row['low']:.0f} to {row['high']:.0f}; median from "
        f"{100 * row['before']:.0f} % to {100 * row['after']:.0f} %)"
    )


def _there(row: Mapping[Any, Any], other: pd.DataFrame) -> str:
    """The change by another method for the same outcome, base model and grouping."""
    same = (other[name] == row[name] for name in ("outcome", "model", "groups"))
    found = other[np.logical_and.reduce([*same])]
    if found.empty:
        return "not measured"
    one = found.iloc[0]
    return f"{one['change']:+.0f} % (95 % CI {one['low']:+.0f} to {one['high']:+.0f})"


def _where(row: Mapping[Any, Any]) -> str:
    """A comparison in words."""
    model = MODEL_NAMES.get(str(row["model"]), row["model"])
    return f"{row['outcome']}, {model}, {_in_words(str(row['groups']))}"


def _in_words(groups: str) -> str:
    return groups.replace(" x ", " × ").replace("_", " ")
