"""Checks the paper's claims about the hospital-admission experiment, each by a rule applied to the trials."""

from propcal.paper.claims.all_claims import CLAIMS, judge_all
from propcal.paper.claims.claim import AGREES, DIFFERS, NOT_YET, Claim, Judgement, judge

__all__ = ["AGREES", "CLAIMS", "DIFFERS", "NOT_YET", "Claim", "Judgement", "judge", "judge_all"]
