"""Cases of answers.py about numbers and messages: bounds, groups, old files, wrong
calls.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from answers_cases import facts, newcomers, people

import propcal
from propcal import (
    Atoms,
    Correction,
    Groups,
    MCBoost,
    PMCBoost,
    audit,
    bounds,
    compare,
    pmc_loss,
)
from propcal.datasets import make_ed_visits

GRID = (0, 0.01, 0.1, 0.3, 0.5, 0.9, 1, 1.5, -0.1, "a", None, float("nan"))
BOUNDS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("dc_from_pmc", "privacy_from_pmc", "mc_from_pmc"), (GRID,)),
    **dict.fromkeys(("pmc_alpha_for_mc", "generalization_gap"), (GRID,)),
    **dict.fromkeys(("dc_from_mc", "mc_from_dc", "mc_alpha_for_pmc"), (GRID, GRID)),
    "mc_from_binned": (GRID, (1, 5, 10, 0, 2.5)),
    "pmc_from_binned": (
        (0, 0.1, 2),
        (1, 10, 0),
        (0.01, 0.1, 1, 0),
        ("uniform", "geometric", "odd"),
    ),
    "dc_from_binned_pmc": (
        (0, 0.1, 2),
        (1, 10, 0),
        (0.01, 0.1, 1, 0),
        ("uniform", "geometric", "odd"),
    ),
    "max_updates": ((0.01, 0.1, 0), (1, 10, 0), (0.05, 1, 2), (0.1, 1, 0)),
    "max_steps": ((0.01, 0.1, 0), (1, 10), (0.05, 1), (0.1, 1), (1, 23, 0)),
}


def bound_grids(ask: Any) -> None:
    for name, grids in BOUNDS.items():
        ask(
            name,
            lambda: {
                point: said(lambda: getattr(bounds, name)(*point))
                for point in product(*grids)
            },
        )


def said(compute: Callable[[], Any]) -> Any:
    """The result of a call, or its error message."""
    try:
        return compute()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def surface(ask: Any) -> None:
    """Public names, arguments and their defaults."""
    ask("version", lambda: propcal.__version__)
    ask("names", lambda: sorted(propcal.__all__))
    for name in sorted(propcal.__all__):
        thing = getattr(propcal, name)
        if inspect.isclass(thing):
            methods = [m for m in METHODS if hasattr(thing, m)]
            ask(
                name,
                lambda: {
                    m: arguments(getattr(thing, m)) for m in ["__init__", *methods]
                },
            )
        elif callable(thing):
            ask(name, lambda: arguments(thing))
    ask(
        "paper's settings",
        lambda: [PMCBoost.paper().get_params(), MCBoost.paper().get_params()],
    )
    ask("default settings", lambda: [PMCBoost().get_params(), MCBoost().get_params()])
    ask("no such name", lambda: propcal.nothing)


METHODS = (
    "fit",
    "fit_atoms",
    "predict",
    "predict_proba",
    "raw_score",
    "paper",
    "apply",
    "explain",
    "to_sql",
)
METHODS += (
    "to_frame",
    "to_json",
    "from_json",
    "load",
    "save",
    "plot",
    "from_frame",
    "from_files",
    "preview",
)


def arguments(function: Any) -> list[str]:
    return [
        f"{p.kind} {p.name}={p.default!r}"
        for p in inspect.signature(function).parameters.values()
    ]


CONDITIONS = (
    *(
        "age >= 75",
        "age > 40 and age <= 65",
        "not (icu or gender = F)",
        "race in [Asian, White]",
        "icu",
    ),
    *(
        "race is missing",
        "not race is missing",
        "`lactate` > 2.5",
        'insurance = "Medicare"',
        "ward = 1",
    ),
    *(
        "race != White",
        "acuity in [1, 2] or ward is missing",
        "age = 1e1",
        "icu = true",
        "gender = 'F'",
    ),
    *(
        "age >=",
        "and",
        "(age > 5",
        "age > old",
        "race in []",
        "age > 5 age",
        "",
        "nothing = 1",
        "race",
    ),
    *(
        "gender > F",
        "age is",
        "lactate = 2.5 and",
        "not",
        "`age > 5",
        "'age' = 5",
        "age == 5",
        "icu = maybe",
    ),
)


def group_words(ask: Any) -> None:
    """Definitions of groups and conditions, valid and invalid."""
    frame = people(900, 12)
    for text in CONDITIONS:
        ask(
            f"where {text}",
            lambda: Groups(columns=[], where={"x": text}).preview(
                frame, "y", gamma=0.01
            ),
        )
    choices: tuple[dict[str, Any], ...] = (
        {"columns": ["race", "gender"]},
        {"columns": ["race"], "cuts": {"age": [18, 40, 65], "lactate": [1.25, 2]}},
        {"columns": ["race", "icu", "ward"], "intersections": 2, "missing": "exclude"},
        {"columns": ["race", "icu"], "depth": {"icu": 1}},
        {"columns": ["race", "icu"], "intersections": [["icu", "race"], ["icu"]]},
        {"columns": ["race", "race"]},
        {"columns": "race"},
        {"columns": ["rase"]},
        {"columns": ["age"]},
        {"columns": ["person"]},
        {"columns": ["race"], "missing": "error"},
        {"cuts": {"age": []}},
        {"cuts": {"age": [40, 40]}},
        {"cuts": {"age": [65, 40]}},
        {"cuts": {"race": [4]}, "columns": []},
        {"cuts": {"age": ["x"]}},
        {"cuts": {"age": [float("nan")]}},
        {"cuts": [1]},
        {"where": {"": "age > 5"}},
        {"where": {"age": "age > 5"}, "cuts": {"age": [40]}},
        {"where": {"race": "age > 5"}, "columns": ["race"]},
        {"where": {"x": 5}},
        {"intersections": "some"},
        {"intersections": 0},
        {"intersections": []},
        {"intersections": ["race"]},
        {"intersections": [["sex"]], "columns": ["race"]},
        {"intersections": [["race"], ["race"]], "columns": ["race"]},
        {"depth": {"sex": 1}, "columns": ["race"]},
        {"depth": {"race": 0}},
        {"missing": "drop"},
    )
    for chosen in choices:
        ask(
            f"Groups({chosen})",
            lambda: Groups(**chosen).preview(frame, "y", sample_weight=frame["count"]),
        )


# a file as written by version 1, and changes to it
VERSION_1 = """{"format": "propcal-correction", "version": 1, "unit": "2**-32",
  "about": {"method": "PMCBoost", "alpha": 0.1, "gamma": 0.05, "rho": 0.1, "eta": 1.0},
  "attributes": ["race", "age"], "derived": {"age": {"column": "age", "cuts": [40, 65]}},
  "bins": {"kind": "uniform", "divisor": 2, "edges": [0, 2147483648, 4294967296]},
  "groups": [[["race", "Asian"]], [["race", null]], [["age", "under 40"]], [["race", "Asian"],
    ["age", "65 or over"]], []],
  "patterns": [["Asian", "under 40"], ["Asian", "65 or over"], ["White", "40 to under 65"],
    [null, "under 40"]],
  "unseen": "replay",
  "updates": [[0, 0, 601295421], [1, 0, 558345748], [2, 1, -450971566], [3, 0, 408021893], [4, 1, -5]]}"""
EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "nothing": dict,
    "version 2": lambda c: c.update(version=2, start=[]),
    "version 2, no start": lambda c: c.update(version=2),
    "version 9": lambda c: c.update(version=9),
    "version of text": lambda c: c.update(version="1"),
    "format": lambda c: c.update(format="x"),
    "unit": lambda c: c.update(unit="percent"),
    "unseen": lambda c: c.update(unseen="shrug"),
    "unseen keep": lambda c: c.update(unseen="keep"),
    "no patterns": lambda c: c.pop("patterns"),
    "one entry more": lambda c: c.update(code="x"),
    "a group too many": lambda c: c["updates"].append([99, 0, 5]),
    "a bin too many": lambda c: c["updates"].append([0, 7, 5]),
    "a large shift": lambda c: c["updates"].append([0, 0, 2**34]),
    "half a shift": lambda c: c["updates"].append([0, 0, 0.5]),
    "updates": lambda c: c.update(updates=7),
    "edges fall": lambda c: c["bins"]["edges"].reverse(),
    "edges": lambda c: c["bins"]["edges"].pop(),
    "kind of bins": lambda c: c["bins"].update(kind="odd"),
    "a group of nobody": lambda c: c["groups"].append([["race", "Martian"]]),
    "an attribute of nobody": lambda c: c["groups"].append([["shoe", "44"]]),
    "a group twice": lambda c: c["groups"].append(c["groups"][0]),
    "a pattern twice": lambda c: c["patterns"].append(c["patterns"][0]),
    "a short pattern": lambda c: c["patterns"].append(["White"]),
    "alpha": lambda c: c["about"].update(alpha="low"),
    "guard": lambda c: c["about"].update(guard=-1),
    "method": lambda c: c["about"].update(method=[1]),
    "cuts": lambda c: c["derived"]["age"].update(cuts=[65, 40]),
    "start": lambda c: c.update(version=2, start=[[[], [1, 2]]]),
    "a start": lambda c: c.update(
        version=2, start=[[[], [999] * 193], [[["race", "Asian"]], [-7000] * 193]]
    ),
    "a start twice": lambda c: c.update(version=2, start=[[[], [1000] * 193]] * 2),
}


def old_files(ask: Any) -> None:
    """Corrections and atoms of older versions, and damaged files."""
    new = newcomers(5, "beta")
    for name, edit in EDITS.items():
        content = json.loads(VERSION_1)
        edit(content)
        Path("c.json").write_text(json.dumps(content))
        c = ask(f"{name}: repr", lambda: Correction.load("c.json"))
        if c is not None:
            ask(f"{name}: written again", c.to_json)
            ask(f"{name}: scores", lambda: c.apply(new.score, new))
            ask(f"{name}: frame", c.to_frame)
            ask(f"{name}: SQL", lambda: str(c.to_sql("duckdb", score="risk")))
            ask(f"{name}: sentences", lambda: c.explain(new.score, new).sentences())
    texts = (
        "",
        "[1, 2]",
        "{",
        VERSION_1[:300],
        VERSION_1.replace("1,", "NaN,", 1),
        "\ufeff" + VERSION_1,
    )
    for i, text in enumerate(texts):
        ask(f"text {i}", lambda: Correction.from_json(text).to_json())
    frame = people(400, 3)
    roles = {
        "score": "score",
        "outcome": "y",
        "groups": Groups(columns=["race"], cuts={"age": [40]}),
    }
    Atoms.from_frame(frame, **roles).save("x.atoms")
    table = pq.read_table("x.atoms")
    header = json.loads(table.schema.metadata[b"propcal"])
    ask("header of atoms", lambda: header)
    changes: dict[str, dict[str, Any]] = {
        **{f"without {key}": {key: None} for key in header},
        **{"version 99": {"version": 99}, "resolution 40": {"resolution_bits": 40}},
        **{"resolution 4": {"resolution_bits": 4}, "rows": {"weighted_rows": -1}},
    }
    for name, change in changes.items():
        kept = {
            key: value
            for key, value in {**header, **change}.items()
            if value is not None
        }
        pq.write_table(
            table.replace_schema_metadata({"propcal": json.dumps(kept)}), "y.atoms"
        )
        ask(f"atoms {name}", lambda: facts(Atoms.load("y.atoms")))
    pq.write_table(table.slice(5), "y.atoms")
    ask("atoms, some", lambda: Atoms.load("y.atoms"))
    pq.write_table(table.replace_schema_metadata({}), "y.atoms")
    ask("atoms, no header", lambda: Atoms.load("y.atoms"))
    ask("atoms, no file", lambda: Atoms.load("nothing.atoms"))
    ask("atoms, a JSON file", lambda: Atoms.load("c.json"))


def wrong_settings(ask: Any) -> None:
    """Invalid arguments."""
    frame = people(300, 8)
    values: dict[str, tuple[Any, ...]] = {
        "alpha": (0, -0.1, 1.1, float("nan"), "0.1", None, True, np.ones(3)),
        "gamma": (0, 1.5, float("inf"), 0.95),
        "rho": (0, 1.01),
        "eta": (0, 2.5),
        "n_bins": (0, -1, 2.5, 10**7),
        "max_updates": (-1, 0.5),
        "order": ("best", 1),
        "sample": ("half", True),
        "unseen": ("ignore",),
        "missing": ("drop", "error"),
        "intersections": ("none", 0, 1.5, [], [["sex"]]),
        "binning": ("log", [0, 2], 5, [0, 0.5, 0.5, 1], [0.1, 1], "quantiles"),
        "start": ("rough", None),
        "guard": ("some", -1, float("nan"), True),
        "groups": ("race", 5),
        "random_state": ("a",),
    }
    features = frame[["race", "gender"]]
    for name, wrong in values.items():
        for value in wrong:
            model = PMCBoost(
                **{name: value},
                **({"order": "random"} if name == "random_state" else {}),
            )
            ask(
                f"{name}={value!r}",
                lambda: model.fit(frame.score, frame.y, sensitive_features=features),
            )
            shared = {"sensitive_features": features, "n_draws": 100, name: value}
            ask(
                f"audit {name}={value!r}", lambda: audit(frame.y, frame.score, **shared)
            )


def wrong_data(ask: Any) -> None:
    """Invalid data, and the messages about them."""
    f = people(300, 9)
    s, y, g = f.score.to_numpy(), f.y.to_numpy(), f[["race", "gender"]]
    few = lambda values, what: np.where(np.arange(300) < 3, what, values)  # noqa: E731
    rows: dict[str, tuple[Any, Any, Any, Any]] = {
        "percentages": (s * 100, y, g, None),
        "log-odds": (few(s, -0.5), y, g, None),
        "above 1": (few(s, 1.0000001), y, g, None),
        "missing scores": (few(s, np.nan), y, g, None),
        "infinite scores": (few(s, np.inf), y, g, None),
        "scores of text": (s.astype(str), y, g, None),
        "two dimensions": (s.reshape(150, 2), y, g, None),
        "one number": (0.5, y, g, None),
        "ragged": ([[0.1], [0.2, 0.3]], y, g, None),
        "outcomes 1 and 2": (s, y + 1, g, None),
        "missing outcomes": (s, few(y, np.nan), g, None),
        "outcomes of text": (s, np.where(y == 1, "yes", "no"), g, None),
        "nobody": (s, y * 0, g, None),
        "all": (s, y * 0 + 1, g, None),
        "fewer outcomes": (s, y[:150], g, None),
        "fewer groups": (s, y, g[:150], None),
        "fewer weights": (s, y, g, np.ones(10)),
        "no rows": ([], [], [], None),
        "negative weights": (s, y, g, few(np.ones(300), -1)),
        "missing weights": (s, y, g, few(np.ones(300), np.nan)),
        "infinite weights": (s, y, g, few(np.ones(300), np.inf)),
        "weights 0": (s, y, g, np.zeros(300)),
        "huge weights": (s, y, g, np.full(300, 1e300)),
        "many numbers": (s, y, np.arange(300), None),
        "fractions": (s, y, s, None),
        "identifiers": (
            s,
            y,
            pd.DataFrame({"id": [f"x{i}" for i in range(300)]}),
            None,
        ),
        "dates": (
            s,
            y,
            pd.DataFrame({"when": pd.date_range("2020", periods=300)}),
            None,
        ),
        "three dimensions": (s, y, np.zeros((300, 2, 2)), None),
        "a number for groups": (s, y, 5, None),
        "a column twice": (s, y, pd.DataFrame(np.c_[g, g], columns=list("aabb")), None),
        "lists": (s, y, {"g": [[1, 2]] * 300}, None),
        "names 1 and '1'": (s, y, {1: g.race, "1": g.race}, None),
        "20 attributes": (
            s,
            y,
            pd.DataFrame({f"a{i}": g.gender for i in range(20)}),
            None,
        ),
        "truth values": (s.astype(np.float32), y.astype(bool), {"g": g.race}, None),
        "intervals": (
            s,
            y,
            pd.DataFrame({"age": pd.cut(f.age, [0, 40, 65, 100])}),
            None,
        ),
        "a list": (s.tolist(), y.tolist(), g.race.tolist(), np.ones(300)),
    }
    for name, (score, outcome, groups, weight) in rows.items():
        whose = {"sensitive_features": groups, "sample_weight": weight}
        ask(
            f"{name}: fit",
            lambda: repr(PMCBoost.paper().fit(score, outcome, **whose).correction_),
        )
        ask(f"{name}: loss", lambda: pmc_loss(outcome, score, **whose))
        ask(
            f"{name}: audit",
            lambda: audit(outcome, score, **whose, n_draws=100).verdict.text,
        )
    model = PMCBoost().fit(s, y, sensitive_features=g)
    c, atoms = (
        model.correction_,
        Atoms.from_frame(f, score="score", outcome="y", groups=["race"]),
    )
    both = {"base": s, "other": s**2}
    calls: dict[str, Callable[[], Any]] = {
        "not fitted": lambda: PMCBoost().predict([0.5]),
        "no such column": lambda: c.apply(s, f[["race"]]),
        "order of arguments": lambda: c.apply(s, "score"),
        "no frame": lambda: c.apply("score"),
        "n_updates": lambda: c.apply(s, g, n_updates=-1),
        "unseen": lambda: c.apply(s, g, unseen="ignore"),
        "other codes": lambda: c.apply(s, g.assign(race="x", gender=7)),
        "frame's kind": lambda: c.to_frame("odd"),
        "person": lambda: c.explain(s[:3], g[:3]).sentence(3),
        "dialect": lambda: c.to_sql("oracle", score="s"),
        "form": lambda: c.to_sql(score="s", form="odd"),
        "types": lambda: c.to_sql(score="s", types={"race": "odd"}),
        "types of nothing": lambda: c.to_sql(score="s", types={"shoe": "text"}),
        "columns": lambda: c.to_sql(score="s", columns={"shoe": "x"}),
        "NUL": lambda: c.to_sql(score="s\0"),
        "folder": lambda: c.save("no/such/folder.json"),
        "audit without score": lambda: audit(y),
        "audit of atoms and score": lambda: audit(atoms, s),
        "audit's correction": lambda: audit(y, s, correction=5),
        "audit's frame": lambda: audit(y, s, n_draws=100).to_frame("odd"),
        "audit's draws": lambda: audit(y, s, n_draws=20),
        "audit's seed": lambda: audit(y, s, random_state="a"),
        "audit's weights": lambda: audit(
            y, s, sample_weight=s, weight_kind="frequency"
        ),
        "audit's clusters": lambda: audit(y, s, cluster=f.person[:5]),
        "suppress": lambda: audit(y, s, n_draws=100).to_json(suppress=-1),
        "min_share": lambda: pmc_loss(y, s, min_share=-1),
        "min_people": lambda: pmc_loss(y, s, min_people=0),
        "compare one": lambda: compare({"base": s}, y),
        "compare a list": lambda: compare([s, s], y),
        "compare with": lambda: compare(both, y, nothing=1),
        "compare atoms": lambda: compare(both, atoms),
        "compare, correction first": lambda: compare(
            {"a": model, "b": s}, y, sensitive_features=g
        ),
        "atoms' correction": lambda: c.apply_to_atoms(atoms),
        "fit_atoms": lambda: PMCBoost().fit_atoms(s),
        "atoms of others": lambda: (
            atoms + Atoms.from_frame(f, score="score", outcome="y", groups="icu")
        ),
        "atoms and 1": lambda: atoms + 1,
        "atoms' score": lambda: Atoms.from_frame(f, score="scor", outcome="y"),
        "atoms' outcome": lambda: Atoms.from_frame(f, score="score", outcome=5),
        "atoms' roles": lambda: Atoms.from_frame(f, score="score", outcome="score"),
        "atoms' resolution": lambda: Atoms.from_frame(
            f, score="score", outcome="y", resolution=0.01
        ),
        "atoms' weight": lambda: Atoms.from_frame(
            f, score="score", outcome="y", weight="race"
        ),
        "atoms' frame": lambda: Atoms.from_frame([1], score="score", outcome="y"),
        "few visits": lambda: make_ed_visits(5),
    }
    for name, call in calls.items():
        ask(name, call)


CASES: dict[str, Callable[[Any], None]] = {
    "surface": surface,
    "bounds": bound_grids,
    "groups in words": group_words,
    "old files": old_files,
    "wrong settings": wrong_settings,
    "wrong data": wrong_data,
}
