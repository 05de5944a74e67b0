"""The table of all claims with their verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from propcal.numbers import plural
from propcal.paper.claims.claim import AGREES, DIFFERS, NOT_YET, Judgement
from propcal.paper.results.paper_tables import Table


def claims_table(judged: Sequence[Judgement]) -> Table:
    """One row for each claim; the CSV also has the rules and inconsistencies in the paper."""
    columns = {
        "claim": [j.claim.name for j in judged],
        "place": [j.claim.place for j in judged],
        "says": [j.claim.says for j in judged],
        "rule": [j.claim.rule for j in judged],
        "verdict": [j.verdict for j in judged],
        "numbers": [j.numbers for j in judged],
        "n_seeds": [j.n_seeds for j in judged],
        "verdict_by_paper_sizes": [j.by_paper.verdict if j.by_paper else "" for j in judged],
        "numbers_by_paper_sizes": [j.by_paper.numbers if j.by_paper else "" for j in judged],
        "odd": [j.claim.odd for j in judged],
    }
    rows = tuple((j.verdict, j.claim.says, _here(j)) for j in judged)
    title = "The paper's claims, and the verdict of these trials"
    return Table(
        "claims",
        title,
        (verdict_counts(judged), by_sizes(judged)),
        pd.DataFrame(columns),
        ("verdict", "the paper says", "here"),
        rows,
        n_texts=3,
    )


def _here(j: Judgement) -> str:
    """The numbers, and those by the paper's size rule if they lead to a different verdict."""
    return f"{j.numbers}; {j.second_opinion()}" if j.depends_on_sizes else j.numbers


def by_sizes(judged: Sequence[Judgement]) -> str:
    """How many verdicts depend on the size rule for categories."""
    twice = [j for j in judged if j.by_paper is not None]
    n = sum(j.depends_on_sizes for j in twice)
    return (
        f"{len(twice)} of them depend on losses and are also judged by the paper's size rule, which changes "
        f"{plural(n, 'verdict')}."
    )


def verdict_counts(judged: Sequence[Judgement]) -> str:
    """How many claims agree, differ, or cannot be judged yet."""
    n = Counter(j.verdict for j in judged)
    words = {AGREES: "agree", DIFFERS: "differ", NOT_YET: NOT_YET}
    said = ", ".join(f"{n[verdict]} {word}" for verdict, word in words.items())
    return f"Of {len(judged)} claims, {said}. Each verdict follows from a rule, not from a significance test."
