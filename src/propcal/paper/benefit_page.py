"""Writes a page for clinicians from stores of trials: whom post-processing helps, whom it harms, and when."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

import pandas as pd

from propcal.errors import InputError
from propcal.numbers import plural
from propcal.paper.benefit_answers import Answers
from propcal.paper.experiment.settings import BASE, MODEL_NAMES, OURS
from propcal.paper.figures.benefit_figure import NAMES, draw_benefit, draw_observed_to_expected
from propcal.paper.reproduction import experiment_command
from propcal.paper.results import benefit as b
from propcal.paper.results.evidence import Evidence
from propcal.plain_text import plain

PICTURES = ("benefit", "observed_to_expected")
SHOWN_MODEL = "RF"
MOST_DIGITS = 5  # a change that is smaller than these can show is written as 0


@dataclass(frozen=True)
class BenefitPage:
    """The content of the page: a store for each outcome, under the name that the page gives it."""

    stores: Mapping[str, Evidence]
    about: str = ""

    @cached_property
    def found(self) -> dict[str, pd.DataFrame]:
        """How each method changes the errors, for each outcome."""
        return {name: b.benefit(evidence) for name, evidence in self.stores.items()}

    @cached_property
    def by_alpha(self) -> dict[str, pd.DataFrame]:
        """How errors change at each alpha, for each outcome."""
        return {name: b.by_alpha(evidence) for name, evidence in self.stores.items()}

    @cached_property
    def ratios(self) -> dict[str, pd.DataFrame]:
        """O/E ratios of the subgroups of the last grouping, for each outcome."""
        finest = self._first.grouping_names[-1]
        return {name: b.observed_to_expected(e, self._model, finest) for name, e in self.stores.items()}

    @cached_property
    def all_ratios(self) -> pd.DataFrame:
        """O/E ratios of the subgroups of every outcome, base model and grouping."""
        return b.all_ratios(self.stores)

    @property
    def _first(self) -> Evidence:
        return next(iter(self.stores.values()))

    @property
    def _model(self) -> str:
        return SHOWN_MODEL if SHOWN_MODEL in self._first.models else self._first.models[0]

    def _commands(self) -> list[str]:
        """The commands that run the trials and write the page."""
        names = [f"outcome_{i + 1}.sqlite" for i in range(len(self.stores))]
        runs = [
            experiment_command(evidence, name)
            for evidence, name in zip(self.stores.values(), names)
            if not evidence.of_admissions
        ]
        options = [part for name in self.stores for part in ("--name", name)]
        if [*self.stores] == [_column(evidence) for evidence in self.stores.values()]:
            options = []
        return [*runs, shlex.join(["propcal", "paper", "benefit", *names, *options, "-o", "benefit.md"])]

    def figures(self) -> dict[str, Any]:
        """The two pictures by file name."""
        n = min(evidence.n_seeds for evidence in self.stores.values())
        change = (
            f"Change of the error in test sets. Points: medians over {plural(n, 'shuffle')}; "
            "lines: 95 % CI. An error is smaller after the correction if its point is to the left of 0."
        )
        ratio = (
            f"{MODEL_NAMES.get(self._model, self._model).capitalize()}; subgroups with at least "
            f"{100 * b.SETTING['gamma']:g} % of the {self._first.unit} of the test set. Points: medians over "
            f"{plural(n, 'shuffle')}; lines: from the 5th to the 95th percentile."
        )
        return {
            "benefit": draw_benefit(self.found, change),
            "observed_to_expected": draw_observed_to_expected(self.ratios, self._first.groupings[-1], ratio),
        }

    def markdown(self, images: str) -> str:
        """The page as Markdown; `images` is the path from the page to its pictures."""
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup, escape

        from propcal.output.report.render import markdown_text

        made = Environment(
            trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=markdown_text
        )
        made.filters["html"] = lambda name: escape(plain(name))  # between tags Markdown is not read
        text = (files("propcal.paper") / "templates" / "benefit.md").read_text(encoding="utf-8")
        page = made.from_string(text).render(
            stores=self.stores,
            about=self.about,
            answers=Answers(
                self.stores, self.found, self.by_alpha, self.ratios, self.all_ratios, self._model
            ),
            unit=self._first.unit,
            measures={name: words.format(unit=self._first.unit) for name, words in b.MEASURES.items()},
            tallies=_tallies(list(self.found.values())),
            verdicts=(b.HELPS, "no clear change", b.HARMS),
            alphas=_alphas(list(self.by_alpha.values())),
            yardsticks=list(b.YARDSTICKS),
            rows={name: _rows(frame) for name, frame in self.found.items()},
            alpha_rows={name: _alpha_rows(self.stores[name], f) for name, f in self.by_alpha.items()},
            auroc={name: _auroc(evidence) for name, evidence in self.stores.items()},
            commands=[Markup(plain(command)) for command in self._commands()],
            rate={name: _rate(evidence) for name, evidence in self.stores.items()},
            setting=b.SETTING,
            fewest=b.FEWEST,
            images=Markup(images),
        )
        return re.sub(r"\n{3,}", "\n\n", page).strip() + "\n"


def _short(n: Mapping[str, int]) -> str:
    """Numbers of comparisons: helps, no clear change, harms.

    >>> _short({"helps": 3, "no clear change": 4, "no change": 1, "harms": 2, "too few shuffles": 0})
    '3 / 5 / 2'
    """
    if n[b.TOO_FEW]:
        return b.TOO_FEW
    return f"{n[b.HELPS]} / {n[b.UNCLEAR] + n[b.UNCHANGED]} / {n[b.HARMS]}"


def _tallies(found: Sequence[pd.DataFrame]) -> list[tuple[str, ...]]:
    """A row for each method: how often it helps, does nothing, and harms by each measure."""
    there = [m for m in b.METHODS if any((frame["method"] == m).any() for frame in found)]
    return [(NAMES.get(m, m), *(_short(b.tally(found, m, measure)) for measure in b.MEASURES)) for m in there]


def _alphas(found: Sequence[pd.DataFrame]) -> list[tuple[str, ...]]:
    """A row for each method and alpha: the smallest cell of a fit, and how often it helps and harms."""
    rows = []
    for method, alpha, smallest, counts in b.alpha_tally(found):
        name = NAMES[OURS] if pd.isna(alpha) else method
        cell = "chosen by tests" if pd.isna(smallest) else f"{smallest:,.0f}"
        shown = "–" if pd.isna(alpha) else f"{alpha:g}"
        rows.append((name, shown, cell, *(_short(n) for n in counts.values())))
    return rows


def _rows(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """One row for each grouping, base model and method, with the measures side by side."""
    shown = []
    for key, part in frame.groupby(["groups", "model", "method"], sort=False):
        cells = []
        for measure in b.MEASURES:
            row = part[part["measure"] == measure].iloc[0]
            cells += [
                f"{_error(row['before'], measure)} → {_error(row['after'], measure)}",
                _change(row, shares=True),
            ]
        shown.append((*(str(name) for name in key[:2]), NAMES.get(str(key[2]), str(key[2])), *cells))
    return shown


def _error(value: float, measure: str) -> str:
    if value != value:  # not measured
        return "–"
    return f"{value:.4f}" if measure == b.PREDICTION else f"{100 * value:.1f} %"


def _change(row: Any, *, shares: bool = False) -> str:
    """The change of an error in percent with its interval, and the verdict if it is clear.

    With `shares`, also the percent of the shuffles in which the error got smaller and larger.
    """
    if pd.isna(row["change"]):
        return "–"
    digits = 0 if abs(row["change"]) >= 10 else 1 if abs(row["change"]) >= 1 else 2
    low, high = (_signed(row[name], digits) for name in ("low", "high"))
    interval = "" if pd.isna(row["low"]) else f" ({low} to {high})"
    said = f"{_signed(row['change'], digits)} %{interval}"
    if shares:
        said += f", {100 * row['better']:.0f} / {100 * row['worse']:.0f}"
    return f"{said}, {row['verdict']}" if row["verdict"] in (b.HELPS, b.HARMS) else said


def _signed(value: float, digits: int = 0) -> str:
    """A number with its sign, with more digits if it would be rounded to 0; 0 has no sign.

    >>> _signed(0.0), _signed(12.6), _signed(-0.24, 1), _signed(0.374), _signed(-0.0002, 2)
    ('0', '+13', '-0.2', '+0.4', '-0.0002')
    """
    if pd.isna(value) or round(value, MOST_DIGITS) == 0:
        return "0"
    while round(value, digits) == 0:
        digits += 1
    return f"{value:+.{digits}f}"


def _alpha_rows(evidence: Evidence, found: pd.DataFrame) -> list[tuple[str, ...]]:
    """The change by each yardstick for each grouping, base model, method and alpha."""
    shown: list[tuple[str, ...]] = []
    for groups in evidence.grouping_names:
        for model in evidence.models:
            own = found[(found["groups"] == groups) & (found["model"] == model)]
            for (method, alpha), part in own.groupby(["method", "alpha"], dropna=False):
                cells = {row["yardstick"]: _change(row) for row in part.to_dict("records")}
                name = NAMES[OURS] if method == OURS else f"{method}, alpha {alpha:g}"
                shown.append((groups, model, name, *(cells.get(key, "–") for key in b.YARDSTICKS)))
    return shown


def _auroc(evidence: Evidence) -> str:
    """The AUROC of the base models."""
    base = evidence.stored[evidence.stored["method"] == BASE]
    medians = base.groupby("model")["auroc"].median()
    return ", ".join(f"{model} {medians[model]:.2f}" for model in evidence.models if model in medians)


def _rate(evidence: Evidence) -> str:
    """The share of the rows of all test sets together with the outcome; the store has no rate of the data."""
    counts = evidence.curves[evidence.curves["method"] == BASE]
    people = counts["people"].sum()
    return f"{100 * counts['positives'].sum() / people:.1f} %" if people else "–"


def _column(evidence: Evidence) -> str:
    """The column of the outcome."""
    return str(evidence.about.get("columns", {}).get("outcome", "admitted"))


def outcome_names(names: Sequence[str], stores: Sequence[Evidence]) -> list[str]:
    """The names of the outcomes on the page: those given, one for each store, or their columns."""
    if names and len(names) != len(stores):
        raise InputError(
            f"--name: {plural(len(names), 'name')} for {plural(len(stores), 'store')}",
            next_step="Give it once for each store, in the same order, or leave it out",
            argument="--name",
        )
    found = list(names) or [_column(evidence) for evidence in stores]
    twice = next((name for i, name in enumerate(found) if name in found[:i]), None)
    if twice is not None:
        raise InputError(
            f"{found.count(twice)} of the outcomes have the name {twice!r}",
            argument="--name",
            next_step="Give each a name of its own with --name, once for each store",
        )
    return found
