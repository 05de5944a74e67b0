"""The sentences of the page for clinicians: for whom a correction helps, when it harms, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.numbers import listed
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
        """How often the paper's method helps, and where it helps most."""
        said = f"At alpha {b.SETTING['alpha']:g}, PMCBoost {self._counted(PMC, b.HELPS, 'lowered')}."
        best = self._extreme(PMC, b.AVERAGE, b.HELPS)
        if best is not None:
            said += (
                f" The average error fell most for {_where(best)}: from {100 * best['before']:.1f} % to "
                f"{100 * best['after']:.1f} %."
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
            said.append(
                f"For {outcome}, the {MODEL_NAMES.get(self.model, self.model)} predicted too {side} most of "
                f'all for the subgroup "{subgroup(str(worst.name))}": O/E ratio {worst[BASE]:.2f} before, '
                f"{listed(after)}."
            )
        return said

    def harms(self) -> str:
        """How often the paper's method harms at the alpha of the comparison, and at each alpha."""
        said = f"At alpha {b.SETTING['alpha']:g}, PMCBoost {self._raised(PMC)}."
        every = pd.concat(list(self.by_alpha.values()), ignore_index=True)
        own = every[(every["method"] == PMC) & (every["yardstick"] == b.PREDICTION)]
        counts = {a: int((own.loc[np.isclose(own["alpha"], a), "verdict"] == b.HARMS).sum()) for a in ALPHAS}
        low = own[np.isclose(own["alpha"], ALPHAS[0])]
        worst = f", by up to {low['change'].max():.1f} %" if counts[ALPHAS[0]] else ""
        return (
            f"{said} With smaller alpha it follows chance: it raised the prediction error in "
            f"{counts[0.01]} of {self.n} comparisons at alpha 0.01, and in {counts[0.001]} at alpha "
            f"0.001{worst}. A fit with alpha 0.001 corrects cells of a single patient, whose outcome is "
            "chance, and drives some predicted risks to nearly 0 or 1. If cells down to 0.05 % of the "
            f"patients count as well, PMCBoost raised the largest error in {self._small_cells(every)}."
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
        said = f"propcal's default {self._counted(OURS, b.HELPS, 'lowered')}. It {self._raised(OURS)}."
        bad = own[own["verdict"] == b.HARMS]
        if len(bad):
            places = [
                f"{row['measure']} {row['change']:+.1f} % for {_where(row)}" for row in bad.to_dict("records")
            ]
            said += f" These are: {'; '.join(places)}."
        return f"{said} {self._all_cells()} {self._idle()}"

    def _all_cells(self) -> str:
        """How often our method raises the largest error if small cells count as well."""
        every = pd.concat(list(self.by_alpha.values()), ignore_index=True)
        own = every[(every["method"] == OURS) & (every["yardstick"] == b.ALL_CELLS)]
        n = {verdict: int((own["verdict"] == verdict).sum()) for verdict in (b.HELPS, b.HARMS)}
        return (
            f"If cells down to 0.05 % of the patients count as well, the largest error fell in {n[b.HELPS]} "
            f"and rose in {n[b.HARMS]} of {len(own)} comparisons."
        )

    def _idle(self) -> str:
        """How often our method leaves the model alone."""
        fits = pd.concat([e.stored[e.stored["method"] == OURS] for e in self.stores.values()])
        idle = int((fits["n_updates"] == 0).sum())
        if not idle:
            return f"Its tests found miscalibration in all {len(fits):,} fits."
        return (
            f"It left the score unchanged in {idle:,} of {len(fits):,} fits, because its tests found no "
            "miscalibration there."
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
        (first, n), *others = counts.items()
        parts = [f"the {first} in {n} of {self.n} comparisons", *(f"the {m} in {k}" for m, k in others)]
        return f"{verb} {listed(parts)}"

    def _extreme(self, method: str, measure: str, verdict: str) -> Any:
        """The comparison with the largest decrease of an error among those with a verdict."""
        every = pd.concat([f.assign(outcome=name) for name, f in self.found.items()], ignore_index=True)
        own = every[
            (every["method"] == method) & (every["measure"] == measure) & (every["verdict"] == verdict)
        ]
        return None if own.empty else own.sort_values("change").iloc[0].to_dict()


def _where(row: Mapping[Any, Any]) -> str:
    """A comparison in words."""
    groups = str(row["groups"]).replace(" x ", " × ").replace("_", " ")
    return f"{row['outcome']}, {MODEL_NAMES.get(str(row['model']), row['model'])}, {groups}"
