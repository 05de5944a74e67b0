"""The paper's claims about the experiment, judged on all seeds and on resamples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import IntArray, plural
from propcal_paper.results import predicates
from propcal_paper.results.claim_case import NOT_SETTLED, Case, NoVerdictError
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.printed_tables import PaperTable, table_of
from propcal_paper.settings import BASE, MC, MODELS, PMC, RULES, toml_file

AGREES = "agrees"
DIFFERS = "differs"
UNDECIDED = "undecided"
VACUOUS = "vacuous"
CONTRADICTED = "the paper contradicts itself"
WORDS = toml_file("words.toml")
VERDICTS: dict[str, list[str]] = WORDS["verdicts"]  # of one claim, and of several
SURE = 0.9  # the share of resamples that must agree, or differ, for a verdict
N_DRAWS = 200
HOW: str = WORDS["claims"]["how"].format(n_draws=N_DRAWS, sure=100 * SURE)


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


def _claim(content: dict[str, Any]) -> PaperClaim:
    """A claim of claims.toml."""
    reasons = toml_file("claims.toml")["why"]
    why = [reasons.get(reason, reason) for reason in content["why"]]
    fields = content | {"why": " ".join(why), "options": content.get("with", {})}
    fields.pop("with", None)
    return PaperClaim(**fields)


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
        return len({(one.verdict, one.here) for one in self.by_rule.values()}) > 1

    def sure(self) -> str:
        """The verdict with the share of resamples that agree."""
        said = self.verdict
        if self.here:
            said += f" (here: {self.here})"
        if np.isnan(self.share):
            return said
        said += f", {_percent(self.share)} of resamples agree"
        if self.vacuous and UNDECIDED in (self.verdict, self.here):
            said += f", {_percent(self.vacuous)} vacuous"
        return said


def judge_all(
    evidence: Evidence, n_draws: int = N_DRAWS, claims: Sequence[PaperClaim] = CLAIMS
) -> list[Judgement]:
    """Every claim with its verdict by the rule of the set-up, and by the others if it
    depends on losses.
    """
    first_rule = evidence.setup.rule
    n_seeds = evidence.n_seeds
    draws = np.random.default_rng(0).integers(n_seeds, size=(n_draws, n_seeds))
    by_rule: dict[str, dict[str, Judgement]] = {claim.name: {} for claim in claims}
    for rule in RULES:
        asked = [claim for claim in claims if claim.by_losses or rule == first_rule]
        if not asked:
            continue
        for judged in _judge(asked, Case.of(evidence.by(rule)), draws):
            by_rule[judged.claim.name][rule] = judged

    judgements = []
    for claim in claims:
        found = by_rule[claim.name]
        others = found if claim.by_losses else {}
        judgements.append(replace(found[first_rule], by_rule=others))
    return judgements


def _judge(
    claims: Sequence[PaperClaim], case: Case, draws: IntArray
) -> list[Judgement]:
    """Decide claims by all seeds and by resamples of them, one in each row of
    `draws`.
    """
    judgements = [_with_all_seeds(claim, case) for claim in claims]
    answers: dict[str, list[bool | None]] = {}
    resampled = []
    for judged in judgements:
        if judged.claim.models and judged.verdict in (AGREES, DIFFERS, VACUOUS):
            resampled.append(judged.claim)
            answers[judged.claim.name] = []
    for places in draws if resampled else ():
        drawn = case.drawn(places)  # shared by all claims, which need the same medians
        for claim in resampled:
            answers[claim.name].append(_answer(claim, drawn))

    found = []
    for judged in judgements:
        name = judged.claim.name
        found.append(_resampled(judged, answers[name]) if name in answers else judged)
    return found


def _with_all_seeds(claim: PaperClaim, case: Case) -> Judgement:
    evidence = case.evidence
    try:
        n_seeds = case.need(claim.models, claim.methods)
        agrees, numbers = claim.check(case)
    except NoVerdictError as missing:
        return Judgement(claim, missing.verdict, str(missing))
    of_other_patients = evidence.generated or not evidence.of_admissions
    if claim.of_its_patients and of_other_patients:
        return Judgement(claim, NOT_SETTLED, f"here {numbers}", n_seeds)
    verdict = {None: VACUOUS, True: AGREES, False: DIFFERS}[agrees]
    return Judgement(claim, verdict, numbers, n_seeds)


def _answer(claim: PaperClaim, case: Case) -> bool | None:
    """Whether a resample agrees; None without a verdict."""
    try:
        return claim.check(case)[0]
    except NoVerdictError:
        return None


def _resampled(found: Judgement, answers: Sequence[bool | None]) -> Judgement:
    """The verdict after resampling the seeds."""
    share = float(np.mean([answer is True for answer in answers]))
    vacuous = float(np.mean([answer is None for answer in answers]))
    agrees = {AGREES: True, DIFFERS: False}.get(found.verdict)
    verdict = _verdict(agrees, share, vacuous)
    if verdict == VACUOUS:
        share = float("nan")
    here = ""
    if found.claim.contradicted:
        here = verdict
        verdict = CONTRADICTED
    return replace(found, verdict=verdict, share=share, vacuous=vacuous, here=here)


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
    if not agrees and share <= 1 - SURE:
        return DIFFERS
    return UNDECIDED


def _percent(share: float) -> str:
    """A share in percent, with a decimal where rounding would hide on which side of the
    limit it is.

    >>> _percent(0.895), _percent(0.105), _percent(0.9)
    ('89.5 %', '10.5 %', '90 %')
    >>> _percent(0.654), _percent(0.004)
    ('65 %', '0.4 %')
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
    shown = pd.DataFrame()
    shown["verdict"] = [judged_claim.sure() for judged_claim in judged]
    frame = pd.DataFrame([_row(judged_claim) for judged_claim in judged])
    for name, of_other in others.items():
        verdicts = [judged_claim.verdict for judged_claim in of_other]
        shown[f"in {name}"] = verdicts
        frame[f"in {name}"] = verdicts
    shown["the paper says"] = [judged_claim.claim.says for judged_claim in judged]
    shown["here"] = [_here(judged_claim) for judged_claim in judged]
    known = {"counts": verdict_counts(judged), "by_rules": by_rules(judged), "how": HOW}
    return table_of("claims", frame, shown, **known)


def _row(judged: Judgement) -> dict[str, Any]:
    """A claim in the CSV."""
    claim = judged.claim
    row: dict[str, Any] = {
        "claim": claim.name,
        "place": claim.place,
        "says": claim.says,
        "rule": claim.rule,
        "verdict": judged.verdict,
        "share_of_resamples": judged.share,
        "numbers": judged.numbers,
        "n_seeds": judged.n_seeds,
        "why": claim.why,
        "odd": claim.odd,
    }
    for rule in RULES:
        by_rule = judged.by_rule.get(rule, judged)
        row[f"verdict_{rule}"] = by_rule.verdict
        row[f"here_{rule}"] = by_rule.here
        row[f"share_{rule}"] = by_rule.share
        row[f"numbers_{rule}"] = by_rule.numbers
    return row


def _here(judged: Judgement) -> str:
    """The numbers, and the verdicts by the other rules if they differ."""
    if not judged.depends_on_rule:
        return judged.numbers
    parts = [judged.numbers]
    for rule, by_rule in judged.by_rule.items():
        parts.append(f"by {RULES[rule]}: {by_rule.sure()}")
    return "; ".join(parts)


def by_rules(judged: Sequence[Judgement]) -> str:
    """How many verdicts depend on the rule by which losses are computed."""
    n_judged = sum(bool(one.by_rule) for one in judged)
    n_depend = sum(one.depends_on_rule for one in judged)
    depend = "depends" if n_depend == 1 else "depend"
    verdicts = f"{plural(n_depend, 'verdict')} {depend} on the rule"
    judged_by = f"{n_judged} of them depend on losses and are judged by three rules"
    return f"{judged_by}; {verdicts}."


def counts_by_rule(judged: Sequence[Judgement]) -> dict[str, Mapping[str, int]]:
    """The number of verdicts of each kind, by rule."""
    counts: dict[str, Mapping[str, int]] = {}
    for rule in RULES:
        verdicts = [one.by_rule.get(rule, one).verdict for one in judged]
        counts[rule] = Counter(verdicts)
    return counts


def verdict_counts(judged: Sequence[Judgement]) -> str:
    """How many claims agree, differ, and so on, by the first rule."""
    n_of = Counter(one.verdict for one in judged)
    counted = []
    for verdict, (of_one, of_several) in VERDICTS.items():
        n = n_of[verdict]
        if n:
            counted.append((of_several if n > 1 else of_one).format(n))
    *first, last = counted
    if first:
        last = f"{', '.join(first)} and {last}"
    return f"Of {len(judged)} claims, {last}."
