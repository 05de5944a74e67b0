"""One colour for each method and measure, the same in every figure of the paper."""

from __future__ import annotations

from propcal.output.plots.axes import COLORS

BASE_COLOR = "0.4"
PMC_COLOR, MC_COLOR, OURS_COLOR, DC_COLOR = COLORS[:4]
