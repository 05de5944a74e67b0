"""A stand-in for `propcal.audit`, so that the command line is tested apart from the statistics."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pandas as pd

from propcal.core.groups import Groups
from propcal.metrics import category_table, dc_of, mc_of, pmc_of

MEASURES = ("intercept", "slope", "ici", "e50", "e90", "emax", "brier", "log_loss", "auroc")


@dataclass
class FakeAudit:
    losses: pd.DataFrame
    debiased: pd.DataFrame
    categories: pd.DataFrame
    groups: pd.DataFrame
    settings: dict
    notes: list = field(default_factory=lambda: ["a note about the data"])
    verdict: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            conclusion="miscalibrated beyond noise",
            text="The score is wrong for some groups by more than noise allows.",
            tests=pd.DataFrame(),
        )
    )

    def to_json(self):
        return json.dumps({"verdict": self.verdict.conclusion, "losses": self.losses["value"].to_dict()})


def fake_audit(atoms, **settings):
    """Losses, categories and groups of atoms; intervals are invented."""
    gamma = settings.get("gamma", 0.05)
    words = {key: settings[key] for key in ("intersections", "missing") if key in settings}
    table = category_table(atoms, min_people=settings.get("min_people", 30))
    value = np.array([mc_of(table), pmc_of(table, 0.1), dc_of(table, 0.1)])
    losses = pd.DataFrame(
        {
            "value": value,
            "where": "race=Asian, scores in [0.5, 0.6)",
            "floor_median": value / 4,
            "floor_95": value / 3,
            "p_value": 0.001,
            "low": value / 2,
            "high": value * 2,
        },
        index=["mc", "pmc", "dc"],
    )
    debiased = pd.DataFrame(
        {"mean_square": [0.01, np.nan], "rms": [0.1, np.nan], "low": [0.05, np.nan], "high": [0.15, np.nan]},
        index=["mc", "pmc"],
    )
    categories = table.to_frame()
    half = 2 / np.sqrt(categories["people"].clip(lower=1))
    categories = categories.assign(
        low=categories["gap"] - half, high=categories["gap"] + half, detectable_gap=half, reason=""
    )
    return FakeAudit(losses, debiased, categories, _groups(atoms, gamma, words), settings)


def _groups(atoms, gamma, words):
    people = atoms.pattern_sums(atoms.people)
    rows = [{"group": "everybody", "people": int(people.sum()), "share": 1.0, "kept": True, "reason": ""}]
    for size in Groups(**words).sizes(atoms.patterns, people, atoms.pattern_sums(atoms.weight), gamma=gamma):
        kept = not size.left_out
        name = size.group.name
        rows.append(
            {"group": name, "people": size.people, "share": size.share, "kept": kept, "reason": size.left_out}
        )
    frame = pd.DataFrame(rows).assign(positives=1, outcome_rate=0.25, mean_score=0.2)
    for name in ("observed_expected", *MEASURES):
        frame[name], frame[f"{name}_low"], frame[f"{name}_high"] = 1.25, 1.1, 1.4
    return frame


def fake_compare(scores, y, *, sensitive_features, groups, sample_weight=None, cluster=None, **settings):
    """Two audits of the same numbers, and a difference."""
    from propcal.data.people import rows_to_atoms

    audits, base = {}, next(iter(scores.values()))
    for name, score in scores.items():
        score = score if score is base else score.apply(base, sensitive_features)
        audits[name] = fake_audit(rows_to_atoms(score, y, sensitive_features, groups=groups), **settings)
    row = {"score": "corrected", "measure": "pmc", "group": "everybody", "base": 0.4, "value": 0.1}
    differences = pd.DataFrame([{**row, "difference": -0.3, "low": -0.4, "high": -0.2}])
    return SimpleNamespace(audits=audits, differences=differences, notes=["a note about both"])
