"""Writes the reproduction page from a template and a store of trials."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from propcal import __version__, datasets
from propcal.building_blocks import escaped, plain
from propcal_paper import settings as s
from propcal_paper.results import claims
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.figures import pictures
from propcal_paper.results.significance import tests, too_few
from propcal_paper.results.tables import all_tables

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

        environment = Environment(
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
            finalize=escaped,
        )
        template = files("propcal_paper") / "templates" / "reproduction.md"
        page = environment.from_string(template.read_text(encoding="utf-8"))
        text = page.render(self._known(images, folder))
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

    def _known(self, images: str, folder: str) -> dict[str, Any]:
        """What the template is filled with."""
        from markupsafe import Markup

        evidence = self.evidence
        missing = evidence.missing()
        few = too_few(tests(evidence.trials))
        if few:
            missing.append(few)
        shown = [table for table in self.tables if table.name in SHOWN]
        store = "experiment.sqlite"
        if evidence.of_admissions:
            store = "admissions.sqlite"
        return {
            "e": evidence,
            "page": self,
            "columns": self._columns(),
            "claims": claims,
            "signs": SIGNS,
            "s": s,
            "whole": evidence.about.get("rows") == datasets.N_VISITS,
            "hours": in_hours(evidence.processor_seconds()),
            "missing": missing,
            "shown": [Markup(table.markdown()) for table in shown],
            "images": Markup(images),
            "folder": Markup(folder),
            "command": Markup(plain(command_of(evidence, store))),
            "store": Markup(store),
            "version": __version__,
        }

    def _columns(self) -> dict[str, list[claims.Judgement]]:
        """The verdicts by each rule, and those of other runs, by the heading of their
        column.
        """
        columns = {}
        for rule, words in s.RULES.items():
            columns[words] = [one.by_rule.get(rule, one) for one in self.judged]
        for name, of_other in self.beside.items():
            columns[f"in {name}"] = of_other
        return columns


def command_of(evidence: Evidence, store: str) -> str:
    """The command that runs the trials of a store."""
    if evidence.of_admissions:
        words = ["propcal", "paper", "admissions"]
        options = _options_of_admissions(evidence)
    else:
        words = ["propcal", "paper", "experiment", "FILE"]
        options = _options_of_cohort(evidence)
    options += [
        ("--trials", str(evidence.n_seeds)),
        ("--setup", evidence.setup.name),
    ]
    if evidence.generated:
        options.append(("--surrogate", evidence.about.get("surrogate", "weak")))
    if evidence.of_admissions and evidence.columns.person:
        options.append(("--split", "patient"))
    rows = evidence.about.get("rows")
    if isinstance(rows, int) and rows != datasets.N_VISITS:
        options.append(("--rows", str(rows)))
    if evidence.models != s.MODELS:
        options.append(("--models", ",".join(evidence.models)))
    for flag, value in options:
        words += [flag, value]
    return shlex.join([*words, "-o", store])


def _options_of_admissions(evidence: Evidence) -> list[tuple[str, str]]:
    if evidence.generated:
        return []
    return [("--cohort", "cohort.parquet")]


def _options_of_cohort(evidence: Evidence) -> list[tuple[str, str]]:
    """How the columns of a cohort are named."""
    columns = evidence.columns
    options = [("--outcome", columns.outcome)]
    options += [("--groups", ",".join(names)) for names in columns.groupings]
    options.append(("--features", ",".join(columns.features)))
    if columns.text:
        options.append(("--text", ",".join(columns.text)))
    if columns.person:
        options.append(("--cluster", columns.person))
    if evidence.about.get("positive"):
        options.append(("--positive", evidence.about["positive"]))
    options += [("--na", code) for code in evidence.about.get("na", [])]
    return options


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
