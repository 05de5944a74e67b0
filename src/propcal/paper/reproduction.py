"""Writes the reproduction page (docs/reproduction.md) from a template and a store of trials."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import ceil
from pathlib import Path

from propcal import __version__
from propcal.data.cohorts import N_VISITS
from propcal.paper.claims import (
    AGREES,
    CONTRADICTED,
    DIFFERS,
    NOT_ASKED,
    NOT_YET,
    UNDECIDED,
    VACUOUS,
    VERDICTS,
    Judgement,
    judge_all,
)
from propcal.paper.claims.claims_table import HOW, by_rules, counts_by_rule, verdict_counts
from propcal.paper.experiment.settings import MODELS, N_SEEDS, RULE, SIZES_RULE
from propcal.paper.experiment.setups import RULES
from propcal.paper.figures import PaperFigure, pictures
from propcal.paper.results.evidence import Evidence
from propcal.paper.results.paper_tables import TABLES, Table
from propcal.paper.results.seed_intervals import tests, too_few
from propcal.paper.results.table_1 import table_1
from propcal.plain_text import plain

IMAGES = Path("images") / "reproduction"
SIGNS = {
    AGREES: "✓",
    DIFFERS: "✗",
    UNDECIDED: "~",
    VACUOUS: "∅",
    CONTRADICTED: "!",
    NOT_ASKED: "–",
    NOT_YET: "?",
}
# The tables on the page; `propcal paper tables` writes the longer ones to files.
SHOWN = (
    "table_4",
    "table_4_by_sizes",
    "table_4_by_own",
    "table_4_by_alpha",
    "table_5",
    "table_6",
    "table_6_with_ours",
    "accuracy",
    "base_models",
    "best_alpha",
)


@dataclass(frozen=True)
class Reproduction:
    """The content of the page."""

    evidence: Evidence
    tables: Sequence[Table]
    judged: Sequence[Judgement]
    drawn: Sequence[PaperFigure]
    lacking: Sequence[str]
    no_table_1: str = ""
    about: str = ""

    @classmethod
    def of(
        cls, evidence: Evidence, cohort: str | os.PathLike[str] | None = None, about: str = ""
    ) -> Reproduction:
        """Compute tables, verdicts and figures; `about` is a paragraph about the data."""
        drawn, lacking = pictures(evidence)
        first = table_1(evidence, cohort)
        leading = evidence.by(evidence.setup.rule)
        tables = [TABLES[name](leading) for name in SHOWN]
        absent = first if isinstance(first, str) else ""
        tables = tables if isinstance(first, str) else [first, *tables]
        return cls(evidence, tables, judge_all(evidence), drawn, lacking, absent, about)

    def _command(self) -> str:
        """The command that runs the trials."""
        rows, models = self.evidence.about.get("rows"), self.evidence.models
        options = [] if self.evidence.generated else ["--cohort cohort.parquet"]
        options += [f"--trials {self.evidence.n_seeds}"]
        options += [f"--rows {rows}"] if isinstance(rows, int) and rows != N_VISITS else []
        options += [f"--models {','.join(models)}"] if models != MODELS else []
        if not self.evidence.of_admissions:
            return experiment_command(self.evidence, self._store)
        if self.evidence.setup.name != "printed":
            options.append(f"--setup {self.evidence.setup.name}")
        return f"propcal paper admissions {' '.join(options)} -o {self._store}"

    @property
    def _store(self) -> str:
        """A name for the store in the commands."""
        return "admissions.sqlite" if self.evidence.of_admissions else "experiment.sqlite"

    def markdown(self, images: str = IMAGES.as_posix()) -> str:
        """The page as Markdown; `images` is the path from the page to its figures."""
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup

        from propcal.output.report.render import markdown_text

        made = Environment(
            trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=markdown_text
        )
        text = (files("propcal.paper") / "templates" / "reproduction.md").read_text(encoding="utf-8")
        trials = self.evidence.stored
        page = made.from_string(text).render(
            e=self.evidence,
            about=self.about,
            store=Markup(self._store),
            hours={name: in_hours(s) for name, s in self.evidence.processor_seconds().items()},
            in_all=in_hours(sum(self.evidence.processor_seconds().values())),
            n_trials=len(trials),
            n_seeds_paper=N_SEEDS,
            seconds=trials.loc[trials["n_updates"] > 0, "fit_seconds"].median(),
            rule=RULE,
            n_test=int(trials["n_test"].median()),
            smallest=ceil(trials["n_test"].median() * RULE["alpha"] * RULE["gamma"] / RULE["n_bins"]),
            smallest_paper=ceil(trials["n_test"].median() * SIZES_RULE["min_share"]),
            tables=[Markup(table.markdown()) for table in self.tables],
            no_table_1=self.no_table_1,
            whole=self.evidence.about.get("rows") == N_VISITS,
            judged=self.judged,
            signs=SIGNS,
            counted=verdict_counts(self.judged),
            by_rules=by_rules(self.judged),
            rules=RULES,
            counts=counts_by_rule(self.judged),
            verdicts=VERDICTS,
            how=HOW,
            few=too_few(tests(self.evidence.trials)),
            drawn=self.drawn,
            lacking=self.lacking,
            images=Markup(images),
            command=Markup(plain(self._command())),
            version=__version__,
        )
        return re.sub(r"\n{3,}", "\n\n", page).strip() + "\n"


def experiment_command(evidence: Evidence, store: str) -> str:
    """The command that runs the trials of a cohort file."""
    about = evidence.about
    columns = about["columns"]
    features = [name for names in columns["features"] for name in names]
    options = ["--outcome", columns["outcome"]]
    for names in columns["groupings"]:
        options += ["--groups", ",".join(names)]
    options += ["--features", ",".join(features)]
    options += ["--text", ",".join(columns["features"][2])] if columns["features"][2] else []
    options += ["--cluster", columns["person"]] if columns["person"] else []
    options += ["--positive", about["positive"]] if "positive" in about else []
    for text in about.get("na", []):
        options += ["--na", text]
    options += ["--rows", str(about["rows"])] if isinstance(about.get("rows"), int) else []
    options += ["--models", ",".join(evidence.models)] if evidence.models != MODELS else []
    options += ["--trials", str(evidence.n_seeds), "--setup", evidence.setup.name, "-o", store]
    return shlex.join(["propcal", "paper", "experiment", "FILE", *options])


def in_hours(seconds: float) -> str:
    """A time as people say it.

    >>> in_hours(5400), in_hours(90), in_hours(12.3)
    ('1.5 h', '2 min', '12 s')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def images_from(page: Path, folder: Path) -> str:
    """The folder of the figures as written in links on the page."""
    return Path(os.path.relpath(folder, page.parent)).as_posix()
