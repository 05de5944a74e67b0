"""All claims, in the order of the paper."""

from __future__ import annotations

from dataclasses import replace

from propcal.paper.claims.alpha_claims import ALPHA_CLAIMS
from propcal.paper.claims.change_claims import CHANGE_CLAIMS
from propcal.paper.claims.claim import Case, Judgement, judge
from propcal.paper.claims.step_claims import STEP_CLAIMS
from propcal.paper.claims.win_claims import WIN_CLAIMS
from propcal.paper.results.evidence import Evidence

CLAIMS = (*CHANGE_CLAIMS, *STEP_CLAIMS, *ALPHA_CLAIMS, *WIN_CLAIMS)


def judge_all(evidence: Evidence) -> list[Judgement]:
    """Every claim with its verdict; claims about losses also with the paper's definition of the losses."""
    case, by_paper = Case(evidence), Case(evidence.by_the_papers_sizes())
    judged = ((claim, judge(claim, case)) for claim in CLAIMS)
    return [
        replace(found, by_paper=judge(claim, by_paper)) if claim.by_losses else found
        for claim, found in judged
    ]
