"""Table 1: admissions by ethnoracial group and gender in any cohort, compared with the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from propcal.data.cohorts import TABLE_1
from propcal.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

OVERALL = "Overall"
GENDERS = ("F", "M", OVERALL)


def prevalence(visits: pd.DataFrame) -> pd.DataFrame:
    """Visits and admissions by group and gender, with those of the paper for comparison.

    Parameters
    ----------
    visits : pandas.DataFrame
        A cohort with the columns race, gender and admitted, such as `make_ed_visits` or `mimic_cohort`.

    Returns
    -------
    pandas.DataFrame
        Indexed by race and gender, each including "Overall". `visits`, `admitted` and `rate` are of the
        cohort; `published_visits`, `published_admitted` and `published_rate` are from Table 1. Groups that
        Table 1 does not have come last before the total, without published numbers. Visits with unknown
        gender or race only count in the totals.

    Examples
    --------
    >>> from propcal.data.cohorts import make_ed_visits
    >>> table = prevalence(make_ed_visits(seed=1))
    >>> table.loc[("White", "F"), ["visits", "published_visits", "published_admitted"]].astype(int).tolist()
    [50174, 50174, 18147]
    """
    import pandas as pd

    missing = [name for name in ("race", "gender", "admitted") if name not in visits]
    if missing:
        raise InputError(f"Table 1 needs the columns race, gender and admitted; {missing} is missing")
    more = sorted(set(visits["race"].dropna()) - set(TABLE_1))
    cells = visits.groupby(["race", "gender"], dropna=False)["admitted"].agg(["size", "sum"]).reset_index()
    rows = []
    for race in (*TABLE_1, *more, OVERALL):
        of_race = cells if race == OVERALL else cells[cells["race"] == race]
        for gender in GENDERS:
            chosen = of_race if gender == OVERALL else of_race[of_race["gender"] == gender]
            counts = (int(chosen["size"].sum()), int(chosen["sum"].sum()))
            rows.append((race, gender, *counts, *_published(race, gender)))
    names = ["race", "gender", "visits", "admitted", "published_visits", "published_admitted"]
    table = pd.DataFrame(rows, columns=names).set_index(["race", "gender"])
    for kind in ("", "published_"):
        n = table[f"{kind}visits"]
        table[f"{kind}rate"] = (table[f"{kind}admitted"] / n.where(n > 0)).astype(float)
    return table


def _published(race: str, gender: str) -> tuple[float, float]:
    """Visits and admissions in Table 1; NaN if it has none."""
    if race != OVERALL and race not in TABLE_1:
        return float("nan"), float("nan")
    groups = TABLE_1.values() if race == OVERALL else [TABLE_1[race]]
    cells = [cell for pair in groups for cell in (pair if gender == OVERALL else [pair["FM".index(gender)]])]
    return sum(visits for visits, _ in cells), sum(admitted for _, admitted in cells)


def prevalence_text(table: pd.DataFrame, name: str = "here") -> Table:
    """Table 1 for a terminal: for each group a line for the cohort and one for the paper.

    Parameters
    ----------
    table : pandas.DataFrame
        The result of `prevalence`.
    name : str
        The label of the cohort's lines.
    """
    from rich.table import Table
    from rich.text import Text

    shown = Table(
        title="Table 1: admitted/visits by ethnoracial group and gender",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    shown.add_column("", overflow="fold")
    for heading in ("women", "men", "overall"):
        shown.add_column(heading, justify="right", no_wrap=True, header_style="underline")
    for race in dict.fromkeys(table.index.get_level_values("race")):
        shown.add_row(Text(str(race), style="bold"))
        for label, kind in ((name, ""), ("published", "published_")):
            cells = [_cell(table.loc[(race, gender)], kind) for gender in GENDERS]
            shown.add_row(Text(f"  {label}"), *cells, style="dim" if kind else "")
    return shown


def _cell(row: Any, kind: str) -> str:
    visits, admitted, rate = row[f"{kind}visits"], row[f"{kind}admitted"], row[f"{kind}rate"]
    if visits != visits:  # nothing published
        return "-"
    percent = f"{100 * rate:.0f}%" if visits else "-"
    return f"{int(admitted)}/{int(visits)} {percent:>4}"
