"""Calls that a type checker accepts, written as users write them."""

import pandas as pd

from propcal import (
    Discovery,
    Groups,
    MCBoost,
    PMCBoost,
    audit,
    compare,
    dc_loss,
    discover,
    mc_loss,
    pmc_loss,
)
from propcal.auditing.audit import Audit
from propcal.auditing.compare import Comparison


def by_name(frame: pd.DataFrame) -> tuple[float, Comparison, Discovery, Audit]:
    loss = pmc_loss(frame, score="risk", outcome="died", groups=["sex"], weight="w")
    model = PMCBoost(unseen="keep", order="random").fit(
        frame, score="risk", outcome="died", groups=["sex"]
    )
    corrected = frame.assign(corrected=model.predict(frame, score="risk"))
    both = compare(
        corrected,
        scores={"old": "risk", "new": "corrected"},
        outcome="died",
        groups="sex",
        cluster="family",
    )
    found = discover(frame, score="risk", outcome="died", features=["age", "ward"])
    wrong = audit(
        frame,
        score="risk",
        outcome="died",
        groups=Groups(columns=["sex"]),
        cluster="family",
    )
    return loss, both, found, wrong


def by_array(frame: pd.DataFrame) -> tuple[list[float], Comparison, Discovery, Audit]:
    sex = frame[["sex"]]
    losses = [
        loss(frame.died, frame.risk, sensitive_features=sex, missing="exclude")
        for loss in (mc_loss, dc_loss)
    ]
    model = MCBoost(sample="bootstrap", intersections=2).fit(
        frame.risk, frame.died, sensitive_features=sex
    )
    corrected = model.predict(frame.risk, sensitive_features=sex, invalid="null")
    both = compare(
        {"old": frame.risk, "new": corrected}, frame.died, sensitive_features=sex
    )
    found = discover(
        frame.died, frame.risk, features=frame[["age"]], weight_kind="survey"
    )
    return (
        losses,
        both,
        found,
        audit(
            score=frame.risk, outcome=frame.died, groups=sex, intersections=[["sex"]]
        ),
    )
