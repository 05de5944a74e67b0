"""All claims with their verdicts, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from propcal.numbers import are
from propcal.paper.claims.claim import AGREES, DIFFERS, NOT_YET, Judgement
from propcal.paper.results.paper_tables import Table


def claims_table(judged: Sequence[Judgement]) -> Table:
    """A row for each claim; the rules, and what is odd about a claim, are in the CSV."""
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
    title = "What the paper claims, and what these trials say"
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
    """The numbers, and those by the paper's size of a category where they lead to another verdict."""
    return f"{j.numbers}; {j.second_opinion()}" if j.depends_on_sizes else j.numbers


def by_sizes(judged: Sequence[Judgement]) -> str:
    """How many verdicts hang on the size from which a category counts."""
    twice = [j for j in judged if j.by_paper is not None]
    n = sum(j.depends_on_sizes for j in twice)
    return (
        f"{len(twice)} of them depend on losses and are judged a second time by the paper's size of a "
        f"category; {are(n, 'of these verdict')} another then."
    )


def verdict_counts(judged: Sequence[Judgement]) -> str:
    """How many claims agree, differ, or cannot be said yet."""
    n = Counter(j.verdict for j in judged)
    words = {AGREES: "agree", DIFFERS: "differ", NOT_YET: NOT_YET}
    said = ", ".join(f"{n[verdict]} {word}" for verdict, word in words.items())
    return (
        f"Of {len(judged)} claims {said}. Each verdict follows from a rule, not from a test of significance."
    )
