"""All claims, in the order of the paper's parts."""

from __future__ import annotations

from propcal.paper.claims.alpha_claims import ALPHA_CLAIMS
from propcal.paper.claims.change_claims import CHANGE_CLAIMS
from propcal.paper.claims.claim import Case, Judgement, judge
from propcal.paper.claims.step_claims import STEP_CLAIMS
from propcal.paper.claims.win_claims import WIN_CLAIMS
from propcal.paper.results.evidence import Evidence

CLAIMS = (*CHANGE_CLAIMS, *STEP_CLAIMS, *ALPHA_CLAIMS, *WIN_CLAIMS)


def judge_all(evidence: Evidence) -> list[Judgement]:
    """Every claim with its verdict."""
    case = Case(evidence)
    return [judge(claim, case) for claim in CLAIMS]
