"""Checks the paper's claims about the experiment, each by a rule applied to trials and their resamples."""

from propcal.paper.claims.all_claims import CLAIMS, judge_all
from propcal.paper.claims.claim import (
    AGREES,
    CONTRADICTED,
    DIFFERS,
    NOT_ASKED,
    NOT_YET,
    UNDECIDED,
    VACUOUS,
    VERDICTS,
    Claim,
    Judgement,
)

__all__ = [
    "AGREES",
    "CLAIMS",
    "CONTRADICTED",
    "DIFFERS",
    "NOT_ASKED",
    "NOT_YET",
    "UNDECIDED",
    "VACUOUS",
    "VERDICTS",
    "Claim",
    "Judgement",
    "judge_all",
]
