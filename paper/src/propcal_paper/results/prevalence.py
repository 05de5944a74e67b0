"""Table 1: visits and admissions by group, or the observed rates of another cohort."""

from __future__ import annotations

from os import PathLike
from typing import Any

import pandas as pd

from propcal import datasets
from propcal.building_blocks import FEWEST_SHOWN
from propcal_paper.errors import refused
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.medians import in_order
from propcal_paper.results.printed_tables import PRINTED, WORDS, PaperTable, table_of
from propcal_paper.running.cohort_files import visits_of
from propcal_paper.settings import BASE

OVERALL = "Overall"
GENDERS = {"F": "women", "M": "men", OVERALL: "overall"}
NOT_SHOWN = "Table 1 is not shown"


def table_1(
    evidence: Evidence, cohort: str | PathLike[str] | None = None
) -> PaperTable | str:
    """Admissions by group and gender with the published ones, or a sentence on why they
    are not available.

    Parameters
    ----------
    evidence : Evidence
        Its store records whether the visits were simulated, and their fingerprint.
    cohort : path, optional
        The file of visits; without it, visits are simulated again. A file with other
        visits is refused.
    """
    if not evidence.of_admissions:
        rates = _rates(evidence)
        return rates or f"{NOT_SHOWN}: the store has no counts of groups yet."
    if cohort is None and not evidence.generated:
        return f"{NOT_SHOWN}: the visits come from a file. Name it with --cohort FILE."

    rows = evidence.about.get("rows")
    n_rows = rows if isinstance(rows, int) else None
    # stores before 0.3 do not name it
    surrogate = str(evidence.about.get("surrogate", "weak"))
    visits = visits_of(cohort, n_rows, surrogate=surrogate)
    if visits.about["fingerprint"] == evidence.about.get("fingerprint"):
        return prevalence_table(prevalence(visits.frame))
    if cohort is not None:
        raise refused("other visits", cohort=cohort)
    return f"{NOT_SHOWN}: {WORDS['table_1']['changed']}"


def _rates(evidence: Evidence) -> PaperTable | None:
    """Observed rates by group for any other cohort, from the counts of the base model's
    test sets.
    """
    counts = evidence.counts[evidence.counts["method"] == BASE]
    if counts.empty:
        return None
    counts = counts[counts["model"] == counts["model"].iloc[0]]
    each = counts.groupby(["groups", "group_name"])
    found = each[["people", "positives"]].sum().reset_index()
    n_seeds = counts.groupby("groups")["seed"].nunique()
    found["people_per_test_set"] = found["people"] / found["groups"].map(n_seeds)
    found["share"] = found["people_per_test_set"] / counts["n_test"].mean()
    found["rate"] = found["positives"] / found["people"]

    rows = in_order(evidence, found, ["groups"])
    few = rows["people_per_test_set"] < FEWEST_SHOWN
    people = rows["people_per_test_set"].map("{:,.0f}".format)
    percents = (100 * rows[["share", "rate"]]).map("{:.1f} %".format)
    percents = percents.mask(few, PRINTED.unknown)
    shown = pd.DataFrame({"grouping": rows["groups"], "group": rows["group_name"]})
    unit = evidence.columns.unit
    shown[f"{unit} in a test set"] = people.mask(few, f"fewer than {FEWEST_SHOWN}")
    shown["share"] = percents["share"]
    shown["observed rate"] = percents["rate"]
    outcome = evidence.columns.outcome
    return table_of("table_1_rates", found, shown, "table_1", outcome=outcome)


def prevalence(visits: pd.DataFrame) -> pd.DataFrame:
    """Visits and admissions by group and gender, with those of the paper for
    comparison.

    Parameters
    ----------
    visits : pandas.DataFrame
        A cohort with the columns race, gender and admitted, such as `make_ed_visits` or
        `mimic_cohort`.

    Returns
    -------
    pandas.DataFrame
        Indexed by race and gender, each including "Overall". `visits`, `admitted` and
        `rate` are of the cohort; `published_visits`, `published_admitted` and
        `published_rate` are from Table 1. Groups that Table 1 does not have come last
        before the total, without published numbers. Visits with unknown gender or race
        only count in the totals.

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> table = prevalence(make_ed_visits(seed=1))
    >>> columns = ["visits", "published_visits", "published_admitted"]
    >>> table.loc[("White", "F"), columns].astype(int).tolist()
    [50174, 50174, 18147]
    """
    missing = [name for name in ("race", "gender", "admitted") if name not in visits]
    if missing:
        raise refused("table 1", missing=missing)
    by = ["race", "gender"]
    each = visits.groupby(by, dropna=False)["admitted"]
    cells = each.agg(visits="size", admitted="sum").reset_index()

    races = [*datasets.TABLE_1]
    races += sorted({*visits["race"].dropna()} - {*races})
    places = pd.MultiIndex.from_product([[*races, OVERALL], GENDERS], names=by)
    found = _with_totals(cells).reindex(places, fill_value=0)
    found = found.join(_with_totals(_published_counts()).add_prefix("published_"))
    for kind in ("", "published_"):
        n_visits = found[f"{kind}visits"]
        rate = found[f"{kind}admitted"] / n_visits.where(n_visits > 0)
        found[f"{kind}rate"] = rate.astype(float)
    return found


def _published_counts() -> pd.DataFrame:
    """Visits and admissions of the paper's cohort."""
    rows = []
    for race, of_genders in datasets.TABLE_1.items():
        for gender, counts in zip("FM", of_genders):
            rows.append((race, gender, *counts))
    return pd.DataFrame(rows, columns=["race", "gender", "visits", "admitted"])


def _with_totals(cells: pd.DataFrame) -> pd.DataFrame:
    """Visits and admissions by race and gender, with those of all races and of all
    genders.
    """
    all_races = cells.assign(race=OVERALL)
    all_genders = cells.assign(gender=OVERALL)
    everybody = all_races.assign(gender=OVERALL)
    every_row = pd.concat([cells, all_races, all_genders, everybody])
    return every_row.groupby(["race", "gender"]).sum()


def prevalence_table(found: pd.DataFrame, name: str = "here") -> PaperTable:
    """Table 1: for each group a row of the cohort, called `name`, and one of the
    paper.
    """
    rows = []
    for race in dict.fromkeys(found.index.get_level_values("race")):
        of_race: Any = found.loc[race]
        here = [_admissions(of_race.loc[gender]) for gender in GENDERS]
        rows.append((str(race), name, *here))
        published = of_race.filter(like="published_")
        published.columns = published.columns.str.removeprefix("published_")
        printed = [_admissions(published.loc[gender]) for gender in GENDERS]
        rows.append(("", "paper", *printed))
    shown = pd.DataFrame(rows, columns=["group", "", *GENDERS.values()])
    return table_of("table_1", found.reset_index(), shown)


def _admissions(row: Any) -> str:
    """Admissions and visits of a group, with the rate."""
    if pd.isna(row["visits"]):
        return PRINTED.unknown
    counts = f"{row['admitted']:.0f}/{row['visits']:.0f}"
    if not row["visits"]:
        return counts
    return f"{counts} ({100 * row['rate']:.0f}%)"
