"""All tables from a store of trials: the paper's tables, our additions, and the verdicts on its claims."""

from __future__ import annotations

from os import PathLike

from propcal.paper.claims import judge_all
from propcal.paper.claims.claims_table import claims_table
from propcal.paper.experiment.settings import OURS
from propcal.paper.results.evidence import Evidence
from propcal.paper.results.paper_tables import TABLES, Table
from propcal.paper.results.table_1 import table_1

NAMES = ("table_1", *TABLES, "claims")
# The tables that a terminal shows; the others are only written to files.
PRINTED = (
    "table_1",
    "table_4",
    "table_4_by_sizes",
    "table_4_by_own",
    "table_5",
    "table_6",
    "table_6_with_ours",
    "accuracy",
    "base_models",
    "claims",
)


def all_tables(
    evidence: Evidence, cohort: str | PathLike[str] | None = None
) -> tuple[list[Table], list[str]]:
    """Every table in the order of the paper, and a sentence for each table that is not available."""
    first = table_1(evidence, cohort)
    leading = evidence.by(evidence.setup.rule)
    names = [name for name in TABLES if name != "table_6_with_ours" or OURS in evidence.methods]
    others = [*(TABLES[name](leading) for name in names), claims_table(judge_all(evidence))]
    return (others, [first]) if isinstance(first, str) else ([first, *others], [])
