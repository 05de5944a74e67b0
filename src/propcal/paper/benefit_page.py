"""Writes a page for clinicians from stores of trials: whom post-processing helps, whom it harms, and when."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pandas as pd

from propcal.numbers import plural
from propcal.paper.experiment.settings import BASE, MC, OURS, PMC
from propcal.paper.figures.benefit_figure import draw_benefit, draw_observed_to_expected
from propcal.paper.results import benefit as b
from propcal.paper.results.evidence import Evidence

PICTURES = ("benefit", "observed_to_expected")
NAMES = {MC: "MCBoost", PMC: "PMCBoost", OURS: "propcal's default"}
SHOWN_MODEL = "RF"


@dataclass(frozen=True)
class BenefitPage:
    """The content of the page: a store for each outcome, under the name that the page gives it."""

    stores: Mapping[str, Evidence]
    about: str = ""

    def found(self) -> dict[str, pd.DataFrame]:
        """How each method changes the errors, for each outcome."""
        return {name: b.benefit(evidence) for name, evidence in self.stores.items()}

    def figures(self) -> dict[str, Any]:
        """The two pictures by file name."""
        first = next(iter(self.stores.values()))
        n = min(evidence.n_seeds for evidence in self.stores.values())
        seeds = f"{plural(n, 'shuffle')} of the patients into training, fitting and test data"
        finest = first.grouping_names[-1]
        model = SHOWN_MODEL if SHOWN_MODEL in first.models else first.models[0]
        change = (
            f"Change of {b.MEASURES[b.LARGEST]}, in patients of the test set. Points: medians over {seeds}; "
            f"lines: 95 % CI. MCBoost and PMCBoost as in the paper, alpha {b.SETTING['alpha']:g}."
        )
        ratio = (
            f"Observed / expected events in subgroups with at least {100 * b.SETTING['gamma']:g} % of the "
            f"patients, base model {model}. Points: medians over {seeds}; lines: from the 5th to the 95th "
            "percentile."
        )
        tables = {name: b.observed_to_expected(e, model, finest) for name, e in self.stores.items()}
        return {
            "benefit": draw_benefit(self.found(), b.LARGEST, change),
            "observed_to_expected": draw_observed_to_expected(tables, ratio),
        }

    def markdown(self, images: str) -> str:
        """The page as Markdown; `images` is the path from the page to its pictures."""
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup

        from propcal.output.report.render import markdown_text

        made = Environment(
            trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=markdown_text
        )
        text = (files("propcal.paper") / "templates" / "benefit.md").read_text(encoding="utf-8")
        found = self.found()
        methods = [m for m in b.METHODS if any((frame["method"] == m).any() for frame in found.values())]
        page = made.from_string(text).render(
            stores=self.stores,
            about=self.about,
            found=found,
            methods=methods,
            names=NAMES,
            measures=b.MEASURES,
            sentences=[self._sentence(found, method) for method in methods],
            by_alpha={name: _alpha_rows(evidence) for name, evidence in self.stores.items()},
            rows={name: _rows(frame) for name, frame in found.items()},
            auroc={name: _auroc(evidence) for name, evidence in self.stores.items()},
            setting=b.SETTING,
            fewest=b.FEWEST,
            images=Markup(images),
        )
        return re.sub(r"\n{3,}", "\n\n", page).strip() + "\n"

    def _sentence(self, found: Mapping[str, pd.DataFrame], method: str) -> str:
        """How often a method helps and harms, by both measures."""
        parts = []
        for measure in b.MEASURES:
            n = b.tally(list(found.values()), method, measure)
            listed = [f"{verdict} in {count}" for verdict, count in n.items() if count]
            parts.append(f"{measure}: {', '.join(listed)} of {sum(n.values())} comparisons")
        return f"{NAMES[method]}. By the {'. By the '.join(parts)}."


def _rows(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """One row for each grouping, base model and method, with both measures side by side."""
    keys = ["groups", "model", "method"]
    shown = []
    for key, part in frame.groupby(keys, sort=False):
        cells = []
        for measure in b.MEASURES:
            row = part[part["measure"] == measure].iloc[0]
            cells += [
                f"{100 * row['before']:.1f} %",
                f"{100 * row['after']:.1f} %",
                _change(row),
                row["verdict"],
            ]
        shown.append((*(str(name) for name in key[:2]), NAMES[str(key[2])], *cells))
    return shown


def _change(row: Any) -> str:
    if pd.isna(row["change"]):
        return "–"
    low, high = (_signed(row[name]) for name in ("low", "high"))
    interval = "" if pd.isna(row["low"]) else f" ({low} to {high})"
    return f"{_signed(row['change'])} %{interval}"


def _signed(value: float) -> str:
    """A whole number with its sign, and 0 without.

    >>> _signed(-0.2), _signed(12.6)
    ('0', '+13')
    """
    return "0" if pd.isna(value) or round(value) == 0 else f"{value:+.0f}"


def _alpha_rows(evidence: Evidence) -> list[tuple[str, ...]]:
    """The change of the largest error of PMCBoost by alpha, in larger and in all cells, and ours."""
    found = b.by_alpha(evidence)
    shown: list[tuple[str, ...]] = []
    for groups in evidence.grouping_names:
        for model in evidence.models:
            own = found[(found["groups"] == groups) & (found["model"] == model)]
            for method in (PMC, OURS):
                part = own[own["method"] == method].sort_values("alpha")
                for alpha in part["alpha"].drop_duplicates():
                    same = part[part["alpha"].isna()] if pd.isna(alpha) else part[part["alpha"] == alpha]
                    cells: list[str] = []
                    for kind in ("larger", "all"):
                        rows = same[same["cells"] == kind]
                        cells += (
                            [_change(rows.iloc[0]), str(rows.iloc[0]["verdict"])] if len(rows) else ["–"] * 2
                        )
                    name = NAMES[method] + ("" if pd.isna(alpha) else f", alpha {alpha:g}")
                    shown.append((groups, model, name, *cells))
    return shown


def _auroc(evidence: Evidence) -> str:
    """The AUROC of the base models."""
    base = evidence.stored[evidence.stored["method"] == BASE]
    medians = base.groupby("model")["auroc"].median()
    return ", ".join(f"{model} {medians[model]:.2f}" for model in evidence.models if model in medians)


def outcome_names(names: Sequence[str], stores: Sequence[Evidence]) -> list[str]:
    """The names of the outcomes on the page: those given, or their columns."""
    return [
        name or str(evidence.about.get("columns", {}).get("outcome", "admitted"))
        for name, evidence in zip([*names, *[""] * (len(stores) - len(names))], stores)
    ]
