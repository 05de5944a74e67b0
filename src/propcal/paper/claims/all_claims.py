"""All claims, in the order of the paper, judged by each of the three rules for losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from propcal.paper.claims.alpha_claims import ALPHA_CLAIMS
from propcal.paper.claims.change_claims import CHANGE_CLAIMS
from propcal.paper.claims.claim import N_DRAWS, Case, Claim, Judgement, judge_claims
from propcal.paper.claims.step_claims import STEP_CLAIMS
from propcal.paper.claims.win_claims import WIN_CLAIMS
from propcal.paper.experiment.setups import RULES
from propcal.paper.results.evidence import Evidence

CLAIMS = (*CHANGE_CLAIMS, *STEP_CLAIMS, *ALPHA_CLAIMS, *WIN_CLAIMS)


def judge_all(
    evidence: Evidence, n_draws: int = N_DRAWS, claims: Sequence[Claim] = CLAIMS
) -> list[Judgement]:
    """Every claim with its verdict by the rule of the set-up, and by the others if it depends on losses."""
    first, n = evidence.setup.rule, evidence.n_seeds
    draws = np.random.default_rng(0).integers(n, size=(n_draws, n))
    found: dict[str, dict[str, Judgement]] = {claim.name: {} for claim in claims}
    for rule in RULES:
        asked = [claim for claim in claims if claim.by_losses or rule == first]
        for one in judge_claims(asked, Case.of(evidence.by(rule)), draws) if asked else ():
            found[one.claim.name][rule] = one
    return [
        replace(found[claim.name][first], by_rule=found[claim.name] if claim.by_losses else {})
        for claim in claims
    ]
