"""Table 1 for the visits behind a store of trials, if these are available."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from propcal.errors import InputError
from propcal.numbers import IN_PAPER
from propcal.paper.experiment.settings import BASE
from propcal.paper.results.evidence import Evidence
from propcal.paper.results.paper_tables import Table

if TYPE_CHECKING:
    import pandas as pd

MISSING = "Table 1 is not shown"
FEWEST = 11  # the numbers of a group with fewer people in a test set are not shown


def table_1(evidence: Evidence, cohort: str | PathLike[str] | None = None) -> Table | str:
    """Admissions by group and gender with the published ones, or a sentence on why they are not available.

    Parameters
    ----------
    evidence : Evidence
        Its store records whether the visits were simulated, and their fingerprint.
    cohort : path, optional
        The file of visits; without it, visits are simulated again. A file with other visits is refused.
    """
    from propcal.paper.experiment.visits import visits_of

    if not evidence.of_admissions:
        return _rates(evidence)
    if cohort is None and not evidence.generated:
        return f"{MISSING}: the visits come from a file. Name it with --cohort FILE."
    rows = evidence.about.get("rows")
    visits = visits_of(cohort, rows if isinstance(rows, int) else None)
    if visits.about()["fingerprint"] != evidence.about.get("fingerprint"):
        if cohort is None:
            return (
                f"{MISSING}: the visits of the trials were simulated by another version of propcal or of a "
                "library, and cannot be simulated again."
            )
        raise InputError(
            f"--cohort {cohort} has other visits than those of the trials",
            argument="--cohort",
        )
    return _table(visits.frame)


def _table(visits: pd.DataFrame) -> Table:
    from propcal.paper.cohort.prevalence import GENDERS, prevalence, prevalence_text

    found = prevalence(visits)
    rows = []
    for race in dict.fromkeys(found.index.get_level_values("race")):
        cells = [str(race)]
        for gender in GENDERS:
            row = found.loc[(race, gender)]
            cells += [_cell(row, prefix) for prefix in ("", "published_")]
        rows.append(tuple(cells))
    headings = ("group", "women", "paper", "men", "paper", "overall", "paper")
    title = "Table 1: admitted / visits by ethnoracial group and gender"
    drawing = prevalence_text(found)
    return Table("table_1", title, (), found.reset_index(), headings, tuple(rows), 1, drawing)


def _rates(evidence: Evidence) -> Table | str:
    """Observed rates by group for any other cohort, from the counts of the base model's test sets."""
    counts = evidence.curves[evidence.curves["method"] == BASE]
    if counts.empty:
        return f"{MISSING}: the store has no counts of groups yet."
    keys = ["seed", "model", "setting"]
    counts = counts.merge(evidence.stored[[*keys, "groups", "n_test"]], on=keys)
    counts = counts[counts["model"] == counts["model"].iloc[0]]
    sums = counts.groupby(["groups", "group_name"])[["people", "positives"]].sum()
    n_seeds = counts.groupby("groups")["seed"].nunique()
    found = sums.reset_index()
    found["people_per_test_set"] = found["people"] / found["groups"].map(n_seeds)
    found["share"] = found["people_per_test_set"] / counts["n_test"].mean()
    found["rate"] = found["positives"] / found["people"]
    rows = []
    for groups in evidence.grouping_names:
        for _, row in found[found["groups"] == groups].iterrows():
            numbers = (
                f"{row['people_per_test_set']:,.0f}",
                *(f"{100 * row[name]:.1f} %" for name in ("share", "rate")),
            )
            if row["people_per_test_set"] < FEWEST:
                numbers = (f"fewer than {FEWEST}", IN_PAPER.unknown, IN_PAPER.unknown)
            rows.append((groups, row["group_name"], *numbers))
    headings = ("grouping", "group", f"{evidence.unit} in a test set", "share", "observed rate")
    title = f"Table 1: observed rates by group ({evidence.about['columns']['outcome']})"
    note = "Mean of the test sets; the paper's Table 1 is about its own patients."
    return Table("table_1", title, (note,), found, headings, tuple(rows))


def _cell(row: Any, prefix: str) -> str:
    visits, admitted = (row[f"{prefix}{name}"] for name in ("visits", "admitted"))
    if visits != visits:  # nothing published
        return IN_PAPER.unknown
    rate = f" ({100 * admitted / visits:.0f}%)" if visits else ""
    return f"{admitted:.0f}/{visits:.0f}{rate}"
