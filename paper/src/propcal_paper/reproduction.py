"""Writes the reproduction page from a template and a store of trials; its tables are
CSV files beside it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from propcal import __version__, datasets
from propcal.building_blocks import plain
from propcal_paper import claims
from propcal_paper import settings as s
from propcal_paper.figures import pictures
from propcal_paper.results import tests, too_few
from propcal_paper.tables import all_tables
from propcal_paper.trial_store import Evidence

SIGNS = dict(zip(claims.VERDICTS, "✓✗~∅!M–?"))
SHOWN = ("table_1", "table_4", "table_5", "table_6")


class Reproduction:
    """The content of the page, and the tables that are written beside it.

    `about` is a paragraph about the data. The verdicts of `others` are columns of the
    table of claims.
    """

    def __init__(
        self,
        evidence: Evidence,
        cohort: Any = None,
        about: str = "",
        others: Sequence[Evidence] = (),
    ) -> None:
        self.evidence = evidence
        self.about = about
        self.drawn, self.lacking = pictures(evidence)
        tables, self.lacking_tables = all_tables(evidence, cohort)
        self.judged = claims.judge_all(evidence)
        self.beside = {other.name: claims.judge_all(other) for other in others}
        self.tables = [*tables, claims.claims_table(self.judged, self.beside)]

    def markdown(self, images: str = "images", folder: str = "tables") -> str:
        """The page as Markdown; `images` and `folder` are the paths from the page to
        figures and tables.
        """
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup

        from propcal.building_blocks import escaped

        made = Environment(
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
            finalize=escaped,
        )
        text = (files("propcal_paper") / "templates" / "reproduction.md").read_text(
            encoding="utf-8"
        )
        evidence = self.evidence
        columns = {
            words: [j.by_rule.get(rule, j) for j in self.judged]
            for rule, words in s.RULES.items()
        }
        columns |= {f"in {name}": found for name, found in self.beside.items()}
        if evidence.of_admissions:
            store = "admissions.sqlite"
        else:
            store = "experiment.sqlite"
        page = made.from_string(text).render(
            e=evidence,
            page=self,
            columns=columns,
            claims=claims,
            signs=SIGNS,
            s=s,
            whole=evidence.about.get("rows") == datasets.N_VISITS,
            hours=in_hours(evidence.processor_seconds()),
            missing=[
                *evidence.missing(),
                *filter(None, [too_few(tests(evidence.trials))]),
            ],
            shown=[
                Markup(table.markdown()) for table in self.tables if table.name in SHOWN
            ],
            images=Markup(images),
            folder=Markup(folder),
            command=Markup(plain(command_of(evidence, store))),
            store=Markup(store),
            version=__version__,
        )
        return re.sub(r"\n{3,}", "\n\n", page).strip() + "\n"


def command_of(evidence: Evidence, store: str) -> str:
    """The command that runs the trials of a store."""
    about, columns, rows = evidence.about, evidence.columns, evidence.about.get("rows")
    words = ["propcal", "paper", "admissions"]
    options = [("--cohort", "" if evidence.generated else "cohort.parquet")]
    if not evidence.of_admissions:
        words = ["propcal", "paper", "experiment", "FILE"]
        options = [("--outcome", columns.outcome)]
        options += [("--groups", ",".join(names)) for names in columns.groupings]
        options += [
            ("--features", ",".join(columns.features)),
            ("--text", ",".join(columns.text)),
        ]
        options += [
            ("--cluster", columns.person or ""),
            ("--positive", about.get("positive", "")),
        ]
        options += [("--na", code) for code in about.get("na", [])]
    options += [("--trials", str(evidence.n_seeds)), ("--setup", evidence.setup.name)]
    options += [
        ("--surrogate", about.get("surrogate", "weak") if evidence.generated else "")
    ]
    options += [
        ("--split", "patient" if evidence.of_admissions and columns.person else "")
    ]
    options += [
        (
            "--rows",
            str(rows) if isinstance(rows, int) and rows != datasets.N_VISITS else "",
        )
    ]
    options += [
        ("--models", ",".join(evidence.models) if evidence.models != s.MODELS else "")
    ]
    said = [
        word
        for option in options
        if option[1] or option[0] in ("--features", "--na")
        for word in option
    ]
    return shlex.join([*words, *said, "-o", store])


def in_hours(seconds: float) -> str:
    """A time as people say it.

    >>> in_hours(5400), in_hours(90), in_hours(12.3)
    ('1.5 h', '2 min', '12 s')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
