"""Misspelt options: strict mypy reports a comment that is not needed, hence each call
that it accepts.
"""

import pandas as pd

from propcal import Atoms, Correction, Groups, PMCBoost, audit, discover, mc_loss


def misspelt(frame: pd.DataFrame, correction: Correction) -> None:
    PMCBoost(unseen="kep")  # type: ignore[arg-type]
    PMCBoost(order="cylic")  # type: ignore[arg-type]
    PMCBoost(sample="boot")  # type: ignore[arg-type]
    PMCBoost(intersections="al")  # type: ignore[arg-type]
    PMCBoost(missing="levels")  # type: ignore[arg-type]
    Groups(missing="levels")  # type: ignore[arg-type]
    Atoms.from_frame(frame, score="risk", outcome="died", weight_kind="surveys")  # type: ignore[arg-type]
    correction.apply(frame.risk, unseen="kep")  # type: ignore[call-overload]
    audit(frame.died, frame.risk, weight_kind="surveys")  # type: ignore[call-overload]
    audit(frame, score="risk", outcome="died", missing="levels")  # type: ignore[call-overload]
    discover(frame.died, frame.risk, features=frame, weight_kind="surveys")  # type: ignore[call-overload]
    mc_loss(frame.died, frame.risk, intersections="al")  # type: ignore[call-overload]
    PMCBoost().predict(frame, score="risk", invalid="nul")  # type: ignore[call-overload]
