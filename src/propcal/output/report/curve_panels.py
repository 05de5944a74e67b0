"""Calibration curves of the groups as small multiples, the groups that the verdict names first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from propcal.output.report.page_tables import LOOKS, SYMBOLS
from propcal.output.report.pictures import GroupPictures

AT_ONCE = 12


@dataclass(frozen=True)
class Panel:
    """One group's curve and band, drawn as in the large picture, and whether it is shown at once."""

    name: str
    symbol: str
    look: str
    finding: str
    curve: str
    band: str
    told: str
    at_once: bool


def curve_panels(groups: pd.DataFrame, drawn: Sequence[GroupPictures]) -> list[Panel]:
    """Groups that have a curve: those named, then those that are off, then the others, the largest first."""
    kept = groups[groups["kept"].astype(bool)].iloc[1:]
    order = kept.assign(
        named=kept["rank"].where(kept["rank"] > 0, len(kept) + 1), off=kept["finding"].isin(SYMBOLS)
    ).sort_values(["named", "off", "share"], ascending=[True, False, False], kind="stable")
    lines = {picture.name: picture for picture in drawn}
    found = [
        (lines[label], finding)
        for label, finding in zip(order["label"], order["finding"])
        if label in lines and lines[label].lines["calibration"]
    ]
    return [
        Panel(
            name=picture.name,
            symbol=SYMBOLS.get(finding, ""),
            look=LOOKS.get(finding, "few"),
            finding=finding,
            curve=picture.lines["calibration"],
            band=picture.lines["calibration-band"],
            told=picture.told["calibration"],
            at_once=i < AT_ONCE,
        )
        for i, (picture, finding) in enumerate(found)
    ]
