"""All claims, in the order of the paper, judged by each of the three rules for losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from propcal.paper.claims.alpha_claims import ALPHA_CLAIMS
from propcal.paper.claims.change_claims import CHANGE_CLAIMS
from propcal.paper.claims.claim import N_DRAWS, Case, Judgement, judge, resampled
from propcal.paper.claims.step_claims import STEP_CLAIMS
from propcal.paper.claims.win_claims import WIN_CLAIMS
from propcal.paper.experiment.setups import RULES
from propcal.paper.results.evidence import Evidence

CLAIMS = (*CHANGE_CLAIMS, *STEP_CLAIMS, *ALPHA_CLAIMS, *WIN_CLAIMS)


def judge_all(evidence: Evidence, n_draws: int = N_DRAWS) -> list[Judgement]:
    """Every claim with its verdict by the rule of the set-up, and by the others if it depends on losses."""
    cases = {rule: Case.of(evidence.by(rule)) for rule in RULES}
    first = evidence.setup.rule
    n = cases[first].cube.n_seeds
    draws = np.random.default_rng(0).integers(n, size=(n_draws, n))
    by_losses = [claim for claim in CLAIMS if claim.by_losses]
    flags = {
        rule: resampled(CLAIMS if rule == first else by_losses, case, draws) for rule, case in cases.items()
    }
    found = []
    for claim in CLAIMS:
        rules = cases if claim.by_losses else [first]
        each = {rule: judge(claim, cases[rule], flags[rule].get(claim.name, [])) for rule in rules}
        found.append(replace(each[first], by_rule=each if claim.by_losses else {}))
    return found
