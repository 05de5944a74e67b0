"""Cases of answers.py on simulated people: fits, audits, comparisons, atoms."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from propcal import (
    Atoms,
    Correction,
    Groups,
    MCBoost,
    PMCBoost,
    audit,
    compare,
    dc_loss,
    displays,
    mc_loss,
    pmc_loss,
)

DIALECTS = ("duckdb", "sqlite", "postgres", "spark", "tsql", "snowflake", "bigquery")
FRAMES = (
    "losses",
    "debiased",
    "categories",
    "groups",
    "curves",
    "net_benefit",
    "distribution",
)
SHARED = (
    "alpha",
    "gamma",
    "rho",
    "n_bins",
    "binning",
    "intersections",
    "missing",
    "groups",
)
SCORES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "beta": lambda rng, n: rng.beta(1.5, 4, n),
    "tied": lambda rng, n: rng.beta(1.5, 4, n).round(2),
    "tenths": lambda rng, n: rng.integers(0, 11, n) / 10,
    "ends": lambda rng, n: np.clip(rng.normal(0.4, 0.4, n), 0, 1),
    "alike": lambda rng, n: rng.choice([0.3], n),
    "few": lambda rng, n: rng.choice([0.1, 0.25, 0.6], n),
    "rare": lambda rng, n: rng.beta(1, 30, n),
    "high": lambda rng, n: rng.beta(5, 1.5, n),
    "float32": lambda rng, n: rng.random(n).astype(np.float32),
}


def people(
    n: int, seed: int, kind: str = "beta", *, right: bool = False
) -> pd.DataFrame:
    """People with attributes of every type and a score that is miscalibrated for some,
    unless `right`.
    """
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "race": rng.choice(
                ["Asian", "Black", "White", None], n, p=[0.15, 0.25, 0.5, 0.1]
            ),
            "gender": rng.choice(["F", "M"], n),
            "icu": rng.random(n) < 0.3,
            "acuity": rng.integers(1, 5, n),
            "ward": rng.choice([1.0, 2.0, 3.0, np.nan], n, p=[0.4, 0.3, 0.2, 0.1]),
            "insurance": pd.Categorical(
                rng.choice(["Medicare", "Medicaid", "Other"], n),
                ["Other", "Medicaid", "Medicare", "none"],
            ),
            "age": rng.integers(18, 96, n),
            "lactate": np.where(
                rng.random(n) < 0.1, np.nan, rng.gamma(2, 1, n).round(2)
            ),
            "person": [f"p{i}" for i in rng.integers(0, max(n // 3, 2), n)],
            "score": SCORES[kind](rng, n),
            "count": rng.integers(0, 4, n),
            "survey": rng.gamma(2, 1, n),
        }
    )
    factor = np.where(frame.gender == "F", 0.6, 1.3) * np.where(
        frame.race == "Asian", 1.5, 1.0
    )
    risk = np.clip(
        frame.score * (1.0 if right else factor * np.where(frame.icu, 1.2, 1.0)), 0, 1
    )
    return frame.assign(y=(rng.random(n) < risk).astype(int), soft=risk.round(3))


def newcomers(seed: int, kind: str) -> pd.DataFrame:
    """Other people, some of them with levels that did not occur in fitting."""
    new = people(240, seed + 1, kind)
    strange = {"race": "Martian", "gender": "X", "acuity": 9, "ward": 7.0, "age": 17}
    for i, (column, level) in enumerate(strange.items()):
        new.loc[new.index % 13 == i, column] = level
    new["insurance"] = new.insurance.astype(object).where(
        new.index % 7 > 0, "Uninsured"
    )
    return new


def study(
    ask: Any,
    n: int = 1200,
    kind: str = "beta",
    right: bool = False,
    columns: tuple[str, ...] = ("race", "gender"),
    method: Any = PMCBoost,
    outcome: str = "y",
    weight: str | None = None,
    audited: dict[str, Any] | None = None,
    resolution: float | None = None,
    clustered: bool = False,
    **settings: Any,
) -> None:
    """All results for one data set and one setting."""
    seed = zlib.crc32(ask.case.encode())
    frame, new = people(n, seed, kind, right=right), newcomers(seed, kind)
    features, y, weights = (
        frame[list(columns)],
        frame[outcome],
        frame[weight] if weight else None,
    )
    rule = {name: settings[name] for name in SHARED if name in settings}
    paper = getattr(method, "__name__", "") == "paper"
    rule |= {"alpha": 0.1} if paper and "alpha" not in rule else {}
    whose = {"sensitive_features": features, "sample_weight": weights}
    every = seed % 3 == 0  # slow parts are only run in every third case
    model = ask("fit", lambda: method(**settings).fit(frame.score, y, **whose))
    if model is not None:
        fitted(ask, model, frame, new, columns)
        as_sql(ask, model.correction_, DIALECTS if every else DIALECTS[seed % 7 :][:1])
        corrected = model.predict(frame.score, sensitive_features=features)
        ask(
            "losses after",
            lambda: [loss(y, corrected, **whose, **rule) for loss in LOSSES],
        )
    ask("losses", lambda: [loss(y, frame.score, **whose, **rule) for loss in LOSSES])
    ask(
        "losses by people",
        lambda: [f(y, frame.score, **whose, **rule, min_people=40) for f in LOSSES],
    )
    rule |= {"n_draws": 100, **(audited or {})}
    cluster = {"cluster": frame.person} if clustered else {}
    a = ask("audit", lambda: audit(y, frame.score, **whose, **cluster, **rule))
    if a is not None:
        audits(ask, a, model)
    if a is not None and every:
        ask("page with all counts", lambda: a.to_html(suppress=0))
        ask("audit as JSON, suppressed", lambda: a.to_json(suppress=11))
    if model is not None and every:
        arguments = {**whose, **cluster, **rule}
        scores = {"base": frame.score, "corrected": model}
        scores |= {"squared": frame.score**2} if seed % 2 else {}
        both = ask("compare", lambda: compare(scores, y, **arguments))
        if both is not None:
            compares(ask, both, model)
        ask(
            "audit corrected",
            lambda: audit(y, frame.score, correction=model, **arguments).to_json(),
        )
    words = settings.get("groups")
    groups = list(columns) if words is None or words.columns is None else words
    roles = {"score": "score", "outcome": outcome, "groups": groups, "weight": weight}
    roles |= {"cluster": "person" if clustered else None, "resolution": resolution}
    atoms_of(ask, frame, method(**settings), rule, roles, compared=every)


LOSSES = (mc_loss, pmc_loss, dc_loss)


def fitted(
    ask: Any, model: Any, frame: Any, new: Any, columns: tuple[str, ...]
) -> None:
    """A fitted method and its correction."""
    c, told, own = model.correction_, model.certificate_, frame[list(columns)]
    text = ask("correction", c.to_json)
    ask("correction read again", lambda: Correction.from_json(text).to_json())
    ask("correction as text", lambda: [repr(c), c._repr_html_()])
    ask("correction as frame", c.to_frame)
    ask(
        "correction's facts",
        lambda: [c.attributes, c.reads, c.n_updates, c.n_segments, dict(c.about)],
    )
    ask("updates", lambda: [tuple(update) for update in model.updates_])
    ask("updates as frame", lambda: c.to_frame("updates"))
    ask("fit's facts", lambda: [model.n_updates_, model.n_sweeps_, model.converged_])
    ask("groups", lambda: [repr(model.groups_), model.groups_.to_frame()])
    ask("predictions", lambda: model.predict(frame.score, sensitive_features=own))
    ask(
        "predictions of others",
        lambda: model.predict(new.score, sensitive_features=new),
    )
    for k in (0, 1, 2, 7):
        ask(
            f"first {k} updates",
            lambda: model.predict(new.score, sensitive_features=new, n_updates=k),
        )
    for unseen in ("replay", "keep", "error"):
        ask(f"unseen {unseen}", lambda: c.apply(new.score, new, unseen=unseen))
    ask("a column", lambda: c.apply("score", new.iloc[::3], column="better"))
    again = pickle.loads(pickle.dumps(model))
    ask("pickled", lambda: again.predict(new.score, sensitive_features=new))
    ask(
        "certificate",
        lambda: [
            told.sentences(),
            told.listed(),
            told.notes,
            repr(told),
            told._repr_html_(),
        ],
    )
    ask("certificate as frame", told.to_frame)
    why = ask("explanation", lambda: c.explain(new.score[:40], new[:40]))
    if why is not None:
        ask("explanation as frame", why.to_frame)
        ask(
            "explanation in words",
            lambda: [*why.sentences(), why._repr_html_(), why.steps_of(3)],
        )


def as_sql(ask: Any, c: Any, dialects: Any) -> None:
    """A correction as SQL."""
    for dialect in dialects:
        for form in ("lookup", "values"):
            options = {
                "form": form,
                "table": "clinic.visits",
                "unseen": "keep" if form == "values" else None,
            }
            ask(
                f"SQL {dialect} {form}",
                lambda: str(c.to_sql(dialect, score="score", **options)),
            )
    ask(
        "SQL, a NULL for others",
        lambda: str(c.to_sql("sqlite", score="risk", unseen="error")),
    )
    ask("SQL as frame", lambda: c.to_sql(score="score").to_frame())


def audits(ask: Any, a: Any, model: Any) -> None:
    """An audit in all its forms."""
    ask("audit as JSON", a.to_json)
    ask(
        "verdict",
        lambda: [a.verdict.conclusion, a.verdict.text, str(a.verdict), a.verdict.tests],
    )
    ask("notes and settings", lambda: [a.notes, a.settings])
    ask("audit in a notebook", a._repr_html_)
    for name in FRAMES:
        ask(f"audit's {name}", partial(a.to_frame, name))
    ask("page", lambda: a.to_html(correction=model, title="A page"))
    ask("Markdown", a.to_markdown)
    ask("DC by bin", lambda: displays.DCByBinDisplay(a).frame)


def compares(ask: Any, c: Any, model: Any) -> None:
    ask("comparison as JSON", lambda: [c.to_json(), c.to_json(suppress=11)])
    ask("comparison as frame", c.to_frame)
    ask(
        "comparison in words",
        lambda: [c.base, c.notes, c._repr_html_(), c.to_markdown()],
    )
    ask(
        "comparison's page",
        lambda: c.to_html(correction=model, certificate=model.certificate_),
    )


def atoms_of(
    ask: Any,
    frame: Any,
    model: Any,
    rule: Any,
    roles: dict[str, Any],
    *,
    compared: bool,
) -> None:
    """The same people as atoms: at once, in parts and from a file."""
    atoms = ask("atoms", lambda: Atoms.from_frame(frame, **roles))
    if atoms is None:
        return
    ask("atoms as frame", atoms.to_frame)
    ask("atoms' facts", lambda: facts(atoms))
    ask(
        "fit to atoms",
        lambda: [model.fit_atoms(atoms).correction_.to_json(), model.n_sweeps_],
    )
    ask("certificate of atoms", lambda: repr(model.certificate_))
    ask("correction of atoms", lambda: model.correction_.apply_to_atoms(atoms))
    if compared:
        ask("audit of atoms", lambda: audit(atoms, **rule).to_json())
        both = {"score": None, "corrected": model}
        ask("comparison of atoms", lambda: compare(both, atoms, **rule).to_json())
    ask("atoms of halves", lambda: halves(frame, roles).to_frame())
    ask("file of atoms", lambda: (atoms.save("x.atoms"), Path("x.atoms").read_bytes()))
    ask("atoms read again", lambda: facts(Atoms.load("x.atoms")))


def facts(atoms: Any) -> list[Any]:
    """Properties of atoms, and two hashes of their content."""
    own = [
        repr(atoms),
        len(atoms),
        atoms.n_people,
        atoms.resolution,
        atoms.weighted_rows,
    ]
    kind = [atoms.frequencies, atoms.soft, atoms.soft_labels]
    return [*own, *kind, atoms.fingerprint(), atoms.people_fingerprint()]


def halves(frame: Any, roles: dict[str, Any]) -> Any:
    kind = {"weight_kind": "survey"} if roles["weight"] == "survey" else {}
    half = len(frame) // 2
    return sum(
        Atoms.from_frame(part, **roles, **kind) for part in (frame[:half], frame[half:])
    )


WORDS = Groups(
    columns=["gender"],
    cuts={"age": [40, 65], "lactate": [1.5]},
    where={
        "elderly Medicare": "age >= 75 and insurance = Medicare",
        "in care": "icu or not ward = 1",
    },
    depth={"age": 1},
)
LISTED = Groups(
    columns=["race", "gender", "icu"],
    intersections=[["race"], ["race", "gender"], ["icu"]],
)
EXCLUDED = Groups(
    columns=["race", "ward"], missing="exclude", where={"no race": "race is missing"}
)
READ = ("gender", "age", "lactate", "insurance", "icu", "ward")
PAPER, MC_PAPER = PMCBoost.paper, MCBoost.paper
STUDIES: dict[str, dict[str, Any]] = {
    "default": {"n": 3000},
    "paper": {"n": 3000, "method": PAPER},
    "MCBoost": {"n": 3000, "method": MCBoost},
    "MCBoost, paper": {"n": 3000, "method": MC_PAPER},
    "200 people": {"n": 200},
    "200 people, paper": {"n": 200, "method": PAPER},
    "40 people": {"n": 40, "method": PAPER},
    "5,000 people": {"n": 5000, "columns": ("race", "gender", "insurance")},
    "5,000 people, paper": {
        "n": 5000,
        "columns": ("race", "gender", "insurance"),
        "method": PAPER,
    },
    "50,000 people": {"n": 50_000},
    "50,000 people, paper": {"n": 50_000, "method": PAPER, "kind": "tied"},
    "everybody": {"columns": ()},
    "everybody, paper": {"columns": (), "method": PAPER},
    "alpha 0.01": {"alpha": 0.01, "method": PAPER},
    "alpha 0.3": {"alpha": 0.3, "method": PAPER, "kind": "tied"},
    "alpha 0.2, guarded": {"alpha": 0.2, "start": "identity"},
    "gamma 0.2": {"gamma": 0.2},
    "gamma 0.001": {"gamma": 0.001, "columns": ("race", "acuity"), "method": PAPER},
    "rho 0.01": {"rho": 0.01, "kind": "rare", "method": PAPER},
    "rho 0.5": {"rho": 0.5},
    "one bin": {"n_bins": 1},
    "one bin, paper": {"n_bins": 1, "method": MC_PAPER},
    "three bins": {"n_bins": 3, "method": PAPER},
    "40 bins": {"n_bins": 40, "n": 4000, "method": PAPER},
    "geometric": {"binning": "geometric", "kind": "rare", "n": 4000},
    "geometric, paper": {"binning": "geometric", "method": PAPER, "n_bins": 5},
    "quantile": {"binning": "quantile"},
    "quantile, tied": {"binning": "quantile", "kind": "few", "method": PAPER},
    "quantile, MCBoost": {
        "binning": "quantile",
        "n_bins": 4,
        "method": MC_PAPER,
        "weight": "count",
    },
    "edges": {"binning": [0, 0.05, 0.2, 0.5, 1]},
    "edges, paper": {"binning": [0, 0.3, 1], "method": PAPER},
    "eta 0.3": {"eta": 0.3, "method": PAPER},
    "eta 1.7": {"eta": 1.7, "method": PAPER, "max_updates": 60},
    "eta 0.5, guarded": {"eta": 0.5, "start": "identity", "guard": 1.0},
    "marginal": {"intersections": "marginal", "columns": ("race", "gender", "icu")},
    "pairs": {
        "intersections": 2,
        "columns": ("race", "gender", "icu", "acuity"),
        "method": PAPER,
    },
    "listed": {"intersections": [["race"], ["race", "gender"]]},
    "listed in words": {
        "groups": LISTED,
        "columns": ("race", "gender", "icu"),
        "method": PAPER,
    },
    "12 updates": {"max_updates": 12, "method": PAPER, "alpha": 0.02},
    "no updates": {"max_updates": 0, "method": PAPER},
    "random order": {"order": "random", "random_state": 3, "method": PAPER},
    "random order, default": {
        "order": "random",
        "random_state": 5,
        "start": "identity",
        "guard": 0.5,
    },
    "worst first": {"order": "worst", "method": PAPER},
    "worst first, MCBoost": {"order": "worst", "method": MC_PAPER, "alpha": 0.02},
    "bootstrap": {
        "sample": "bootstrap",
        "random_state": 1,
        "method": PAPER,
        "max_updates": 400,
    },
    "bootstrap, random": {
        "sample": "bootstrap",
        "order": "random",
        "random_state": 2,
        "max_updates": 300,
    },
    "bootstrap, weighted": {
        "sample": "bootstrap",
        "random_state": 2,
        "weight": "count",
        "max_updates": 300,
    },
    "missing excluded": {"missing": "exclude", "columns": ("race", "ward")},
    "missing refused": {"missing": "error"},
    "missing nowhere": {"missing": "error", "columns": ("gender", "icu")},
    "unseen kept": {"unseen": "keep", "columns": ("race", "acuity")},
    "unseen refused": {"unseen": "error", "method": PAPER},
    "guard None": {"guard": None},
    "guard 2.5": {"guard": 2.5, "start": "identity"},
    "guard 1": {"guard": 1, "method": MCBoost, "alpha": 0.01},
    "identity, guarded": {"start": "identity", "n": 4000},
    "smooth, paper": {"start": "smooth", "method": PAPER},
    "words": {"groups": WORDS, "columns": READ, "n": 2500},
    "words, paper": {"groups": WORDS, "columns": READ, "method": PAPER},
    "words, excluded": {"groups": EXCLUDED, "columns": ("race", "ward")},
    "counts": {"weight": "count"},
    "counts, paper": {"weight": "count", "method": PAPER},
    "survey": {"weight": "survey"},
    "survey, paper": {"weight": "survey", "method": PAPER, "columns": ("race", "icu")},
    "counts taken for survey weights": {
        "weight": "count",
        "audited": {"weight_kind": "survey"},
    },
    "soft": {"outcome": "soft"},
    "soft, paper": {"outcome": "soft", "method": PAPER},
    "soft, weighted": {"outcome": "soft", "weight": "survey", "method": MC_PAPER},
    "truth values and numbers": {"columns": ("icu", "acuity", "ward")},
    "truth values and numbers, paper": {"columns": ("icu", "ward"), "method": PAPER},
    "categorical": {"columns": ("insurance", "race")},
    "tied": {"kind": "tied"},
    "tenths": {"kind": "tenths", "method": PAPER},
    "scores 0 and 1": {"kind": "ends"},
    "scores 0 and 1, paper": {"kind": "ends", "method": PAPER, "alpha": 0.02},
    "all alike": {"kind": "alike"},
    "few scores": {"kind": "few"},
    "rare": {"kind": "rare", "n": 5000},
    "high": {"kind": "high"},
    "float32": {"kind": "float32"},
    "right": {"right": True, "n": 3000},
    "right, paper": {"right": True, "n": 3000, "method": PAPER},
    "clusters": {"clustered": True},
    "clusters, weighted": {"clustered": True, "weight": "survey", "method": PAPER},
    "coarse": {"resolution": 2**-6},
    "coarse, paper": {"resolution": 2**-10, "method": PAPER, "weight": "count"},
    "few people judged": {
        "audited": {"min_people": 5, "random_state": 7, "min_share": 0.001}
    },
}


CASES: dict[str, Callable[[Any], None]] = {
    f"people: {name}": partial(study, **settings) for name, settings in STUDIES.items()
}
