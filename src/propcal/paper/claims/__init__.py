"""The published claims about the hospital-admission experiment, each decided by a rule on the trials."""

from propcal.paper.claims.claim import AGREES, DIFFERS, NOT_YET, Claim, Judgement, judge
from propcal.paper.claims.listed import CLAIMS, judge_all

__all__ = ["AGREES", "CLAIMS", "DIFFERS", "NOT_YET", "Claim", "Judgement", "judge", "judge_all"]
