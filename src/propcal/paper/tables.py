"""All tables of a store: the paper's, ours beside them, and the verdicts on its claims."""

from __future__ import annotations

from propcal.paper.claims import judge_all
from propcal.paper.claims.as_table import claims_table
from propcal.paper.results.evidence import Evidence
from propcal.paper.results.tables import TABLES, Table

NAMES = (*TABLES, "claims")
# What a terminal shows; the others are written only.
PRINTED = ("table_4", "table_5", "table_6", "table_6_with_ours", "claims")


def all_tables(evidence: Evidence) -> list[Table]:
    """Every table, in the order of the paper."""
    return [*(make(evidence) for make in TABLES.values()), claims_table(judge_all(evidence))]
