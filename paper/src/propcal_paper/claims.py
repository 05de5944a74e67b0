"""The paper's claims about the experiment, judged by their tests on all seeds and on
resamples of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import IntArray, plural
from propcal_paper import predicates
from propcal_paper.predicates import NOT_SETTLED, Case, NoVerdictError
from propcal_paper.settings import BASE, MC, MODELS, PMC, RULES, toml_file
from propcal_paper.tables import PaperTable, table_of
from propcal_paper.trial_store import Evidence

AGREES = "agrees"
DIFFERS = "differs"
UNDECIDED = "undecided"
VACUOUS = "vacuous"
CONTRADICTED = "the paper contradicts itself"
VERDICTS: dict[str, list[str]] = toml_file("words.toml")[
    "verdicts"
]  # of one claim, and of several
SURE = 0.9  # the share of resamples that must agree, or differ, for a verdict
N_DRAWS = 200
HOW: str = toml_file("words.toml")["claims"]["how"].format(
    n_draws=N_DRAWS, sure=100 * SURE
)


@dataclass(frozen=True)
class PaperClaim:
    """A claim of claims.toml, which describes the fields."""

    name: str
    place: str
    says: str
    rule: str
    why: str
    test: str
    options: Mapping[str, Any] = field(default_factory=dict)
    odd: str = ""
    contradicted: bool = False
    models: tuple[str, ...] = MODELS
    methods: tuple[str, ...] = (BASE, MC, PMC)
    by_losses: bool = True
    of_its_patients: bool = False

    def check(self, case: Case) -> tuple[bool | None, str]:
        """Whether the trials agree, None if there is nothing to compare; and the
        numbers.
        """
        agrees, numbers = getattr(predicates, self.test)(case, **self.options)
        return (None if agrees is None else bool(agrees)), numbers


def _claim(content: Mapping[str, Any]) -> PaperClaim:
    fields = {
        "options" if name == "with" else name: value for name, value in content.items()
    }
    reasons = toml_file("claims.toml")["why"]
    return PaperClaim(
        **fields | {"why": " ".join(reasons.get(key, key) for key in content["why"])}
    )


CLAIMS = tuple(map(_claim, toml_file("claims.toml")["claim"]))


@dataclass(frozen=True)
class Judgement:
    """A claim with its verdict, the numbers behind it and the number of seeds.

    `share` is the share of resamples of the seeds that agree; NaN if the claim is about
    every single fit or has no verdict. `vacuous` is the share of resamples in which
    there was nothing to compare. `here` is what the trials say where the paper
    contradicts itself.
    """

    claim: PaperClaim
    verdict: str
    numbers: str
    n_seeds: int = 0
    share: float = float("nan")
    vacuous: float = 0.0
    here: str = ""
    by_rule: Mapping[str, Judgement] = field(default_factory=dict)

    @property
    def depends_on_rule(self) -> bool:
        """Whether the rules by which losses are computed give different verdicts."""
        return len({(j.verdict, j.here) for j in self.by_rule.values()}) > 1

    def sure(self) -> str:
        """The verdict with the share of resamples that agree."""
        if self.here:
            said = f"{self.verdict} (here: {self.here})"
        else:
            said = self.verdict
        if np.isnan(self.share):
            return said
        said = f"{said}, {_percent(self.share)} of resamples agree"
        if self.vacuous and UNDECIDED in (self.verdict, self.here):
            said += f", {_percent(self.vacuous)} vacuous"
        return said


def judge_all(
    evidence: Evidence, n_draws: int = N_DRAWS, claims: Sequence[PaperClaim] = CLAIMS
) -> list[Judgement]:
    """Every claim with its verdict by the rule of the set-up, and by the others if it
    depends on losses.
    """
    first = evidence.setup.rule
    n = evidence.n_seeds
    draws = np.random.default_rng(0).integers(n, size=(n_draws, n))
    found: dict[str, dict[str, Judgement]] = {claim.name: {} for claim in claims}
    for rule in RULES:
        asked = [claim for claim in claims if claim.by_losses or rule == first]
        for one in _judge(asked, Case.of(evidence.by(rule)), draws) if asked else ():
            found[one.claim.name][rule] = one
    return [
        replace(
            found[claim.name][first],
            by_rule=found[claim.name] if claim.by_losses else {},
        )
        for claim in claims
    ]


def _judge(
    claims: Sequence[PaperClaim], case: Case, draws: IntArray
) -> list[Judgement]:
    """Decide claims by all seeds and by resamples of them, one in each row of
    `draws`.
    """
    first = {claim.name: _with_all_seeds(claim, case) for claim in claims}
    asked = [
        c
        for c in claims
        if c.models and first[c.name].verdict in (AGREES, DIFFERS, VACUOUS)
    ]
    flags: dict[str, list[bool | None]] = {claim.name: [] for claim in asked}
    for places in draws if asked else ():
        drawn = case.drawn(places)  # shared by all claims, which need the same medians
        for claim in asked:
            flags[claim.name].append(_flag(claim, drawn))
    return [
        _resampled(one, flags[name]) if name in flags else one
        for name, one in first.items()
    ]


def _with_all_seeds(claim: PaperClaim, case: Case) -> Judgement:
    evidence = case.evidence
    try:
        n_seeds = case.need(claim.models, claim.methods)
        agrees, numbers = claim.check(case)
    except NoVerdictError as missing:
        return Judgement(claim, missing.verdict, str(missing))
    if claim.of_its_patients and (evidence.generated or not evidence.of_admissions):
        return Judgement(claim, NOT_SETTLED, f"here {numbers}", n_seeds)
    return Judgement(
        claim, {None: VACUOUS, True: AGREES, False: DIFFERS}[agrees], numbers, n_seeds
    )


def _flag(claim: PaperClaim, case: Case) -> bool | None:
    try:
        return claim.check(case)[0]
    except NoVerdictError:
        return None


def _resampled(found: Judgement, flags: Sequence[bool | None]) -> Judgement:
    """The verdict after resampling the seeds."""
    share, vacuous = (
        float(np.mean([flag is value for flag in flags])) for value in (True, None)
    )
    verdict = _verdict(
        {AGREES: True, DIFFERS: False}.get(found.verdict), share, vacuous
    )
    share = float("nan") if verdict == VACUOUS else share
    if found.claim.contradicted:
        return replace(
            found, verdict=CONTRADICTED, share=share, vacuous=vacuous, here=verdict
        )
    return replace(found, verdict=verdict, share=share, vacuous=vacuous)


def _verdict(agrees: bool | None, share: float, vacuous: float) -> str:
    """The verdict of all seeds and of the resamples.

    >>> _verdict(True, 0.95, 0.0), _verdict(True, 0.7, 0.0), _verdict(False, 0.05, 0.0)
    ('agrees', 'undecided', 'differs')
    >>> _verdict(None, 0.0, 0.8)
    'vacuous'
    """
    if agrees is None:
        return VACUOUS if vacuous >= 0.5 else UNDECIDED
    if agrees and share >= SURE:
        return AGREES
    return DIFFERS if not agrees and share <= 1 - SURE else UNDECIDED


def _percent(share: float) -> str:
    """A share in percent, with a decimal where rounding would hide on which side of the
    limit it is.

    >>> _percent(0.895), _percent(0.105), _percent(0.9), _percent(0.654), _percent(0.004)
    ('89.5 %', '10.5 %', '90 %', '65 %', '0.4 %')
    """
    whole = round(100 * share)
    near = {0, 100, round(100 * SURE), round(100 * (1 - SURE))}
    hidden = whole in near and abs(100 * share - whole) > 1e-9
    return f"{100 * share:.1f} %" if hidden else f"{whole} %"


def claims_table(
    judged: Sequence[Judgement],
    others: Mapping[str, Sequence[Judgement]] = MappingProxyType({}),
) -> PaperTable:
    """One row for each claim; the CSV also has the rules, the reasons and
    inconsistencies in the paper.

    The verdicts of other runs, such as of simulated visits that are easier to predict,
    are columns as well.
    """
    beside = {
        f"in {name}": [j.verdict for j in found] for name, found in others.items()
    }
    rows = []
    for j in judged:
        said: dict[str, Any] = {"claim": j.claim.name}
        said |= {name: getattr(j.claim, name) for name in ("place", "says", "rule")}
        said |= {
            "verdict": j.verdict,
            "share_of_resamples": j.share,
            "numbers": j.numbers,
        }
        said |= {"n_seeds": j.n_seeds, "why": j.claim.why, "odd": j.claim.odd}
        for rule in RULES:
            one = j.by_rule.get(rule, j)
            said |= {
                f"{name}_{rule}": getattr(one, name)
                for name in ("verdict", "here", "share", "numbers")
            }
        rows.append(said)
    shown = {"verdict": [j.sure() for j in judged], **beside}
    shown |= {
        "the paper says": [j.claim.says for j in judged],
        "here": [_here(j) for j in judged],
    }
    known = {"counts": verdict_counts(judged), "by_rules": by_rules(judged), "how": HOW}
    return table_of(
        "claims", pd.DataFrame(rows).assign(**beside), pd.DataFrame(shown), **known
    )


def _here(j: Judgement) -> str:
    """The numbers, and the verdicts by the other rules if they differ."""
    others = "; ".join(
        f"by {RULES[rule]}: {one.sure()}" for rule, one in j.by_rule.items()
    )
    if j.depends_on_rule:
        return f"{j.numbers}; {others}"
    return j.numbers


def by_rules(judged: Sequence[Judgement]) -> str:
    """How many verdicts depend on the rule by which losses are computed."""
    n = sum(j.depends_on_rule for j in judged)
    several = sum(bool(j.by_rule) for j in judged)
    depend = f"{plural(n, 'verdict')} {'depends' if n == 1 else 'depend'} on the rule"
    return (
        f"{several} of them depend on losses and are judged by three rules; {depend}."
    )


def counts_by_rule(judged: Sequence[Judgement]) -> dict[str, Mapping[str, int]]:
    """The number of verdicts of each kind, by rule."""
    return {
        rule: Counter(j.by_rule.get(rule, j).verdict for j in judged) for rule in RULES
    }


def verdict_counts(judged: Sequence[Judgement]) -> str:
    """How many claims agree, differ, and so on, by the first rule."""
    n = Counter(j.verdict for j in judged)
    said = [words[n[v] > 1].format(n[v]) for v, words in VERDICTS.items() if n[v]]
    *first, last = said
    counts = f"{', '.join(first)} and {last}" if first else last
    return f"Of {len(judged)} claims, {counts}."
