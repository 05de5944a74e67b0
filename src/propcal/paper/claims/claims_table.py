"""The table of all claims with their verdicts by each rule, and the counts of the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from propcal.numbers import listed, plural
from propcal.paper.claims.claim import (
    AGREES,
    CONTRADICTED,
    DIFFERS,
    N_DRAWS,
    NOT_ASKED,
    NOT_YET,
    SURE,
    UNDECIDED,
    VACUOUS,
    VERDICTS,
    Judgement,
)
from propcal.paper.experiment.setups import RULES
from propcal.paper.results.paper_tables import Table

HOW = (
    f"Seeds are resampled {N_DRAWS} times. A claim agrees if its rule holds with all seeds and in at least "
    f"{100 * SURE:.0f} % of the resamples. It differs if its rule fails with all seeds and in at least "
    f"{100 * SURE:.0f} % of the resamples. Otherwise it is undecided. It is vacuous if there is "
    "nothing to compare: at least half of the fits behind a number made no update, so that its median change "
    "is 0, or what the claim is about did not occur."
)


# The verdicts of one claim, and of several.
_WORDS = {
    AGREES: ("{} agrees", "{} agree"),
    DIFFERS: ("{} differs", "{} differ"),
    UNDECIDED: ("{} is undecided", "{} are undecided"),
    VACUOUS: ("{} is vacuous", "{} are vacuous"),
    CONTRADICTED: ("on {} the paper contradicts itself",) * 2,
    NOT_ASKED: ("{} cannot be asked here",) * 2,
    NOT_YET: ("{} cannot be judged yet",) * 2,
}


def claims_table(judged: Sequence[Judgement]) -> Table:
    """One row for each claim; the CSV also has the rules, the reasons and inconsistencies in the paper."""
    columns = {
        "claim": [j.claim.name for j in judged],
        "place": [j.claim.place for j in judged],
        "says": [j.claim.says for j in judged],
        "rule": [j.claim.rule for j in judged],
        "verdict": [j.verdict for j in judged],
        "share_of_resamples": [j.share for j in judged],
        "numbers": [j.numbers for j in judged],
        "n_seeds": [j.n_seeds for j in judged],
        "why": [j.claim.why for j in judged],
        "odd": [j.claim.odd for j in judged],
    }
    for rule in RULES:
        own = [j.by_rule.get(rule, j) for j in judged]
        columns[f"verdict_{rule}"] = [j.verdict for j in own]
        columns[f"share_{rule}"] = [j.share for j in own]
        columns[f"numbers_{rule}"] = [j.numbers for j in own]
    rows = tuple((j.sure(), j.claim.says, _here(j)) for j in judged)
    return Table(
        "claims",
        "The paper's claims, and the verdict of these trials",
        (verdict_counts(judged), by_rules(judged), HOW),
        pd.DataFrame(columns),
        ("verdict", "the paper says", "here"),
        rows,
        n_texts=3,
    )


def _here(j: Judgement) -> str:
    """The numbers, and the verdicts by the other rules if they differ."""
    return f"{j.numbers}; {other_rules(j)}" if j.depends_on_rule else j.numbers


def other_rules(j: Judgement) -> str:
    """The verdict by each rule; empty if the claim does not depend on losses."""
    return "; ".join(f"by {RULES[rule]}: {one.sure()}" for rule, one in j.by_rule.items())


def by_rules(judged: Sequence[Judgement]) -> str:
    """How many verdicts depend on the rule by which losses are computed."""
    several = [j for j in judged if j.by_rule]
    n = sum(j.depends_on_rule for j in several)
    return (
        f"{len(several)} of them depend on losses and are judged by three rules; {plural(n, 'verdict')} "
        f"{'depends' if n == 1 else 'depend'} on the rule."
    )


def counts_by_rule(judged: Sequence[Judgement]) -> dict[str, Mapping[str, int]]:
    """The number of verdicts of each kind, by rule."""
    return {rule: Counter(j.by_rule.get(rule, j).verdict for j in judged) for rule in RULES}


def verdict_counts(judged: Sequence[Judgement]) -> str:
    """How many claims agree, differ, and so on, by the first rule."""
    n = Counter(j.verdict for j in judged)
    said = listed([_WORDS[v][n[v] > 1].format(n[v]) for v in VERDICTS if n[v]])
    return f"Of {len(judged)} claims, {said}."
