"""Cases of answers.py on inputs and outputs: frames of every kind, files, classifiers,
plots.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from answers_cases import LOSSES, MC_PAPER, PAPER, facts, newcomers, people

from propcal import (
    Atoms,
    Groups,
    MCBoost,
    MulticalibratedClassifier,
    PMCBoost,
    audit,
    compare,
    displays,
    loss_scorer,
    pmc_loss,
)
from propcal.datasets import make_ed_visits


def frames(ask: Any) -> None:
    """One correction on every kind of frame."""
    import dask
    import dask.dataframe as dd
    import duckdb
    import polars as pl
    import pyarrow as pa

    frame, new = (
        people(2000, 77).drop(columns="insurance"),
        newcomers(78, "beta").drop(columns="insurance"),
    )
    groups = Groups(
        columns=["race", "icu", "acuity"],
        cuts={"age": [40]},
        where={"sick": "lactate > 3"},
    )
    c = (
        PMCBoost(groups=groups)
        .fit(frame.score, frame.y, sensitive_features=frame)
        .correction_
    )
    connection = duckdb.connect()
    kinds: dict[str, Callable[[Any], Any]] = {
        "pandas": lambda f: f,
        "nullable pandas": lambda f: f.convert_dtypes(),
        "polars": pl.from_pandas,
        "lazy polars": lambda f: pl.from_pandas(f).lazy(),
        "pyarrow": lambda f: pa.Table.from_pandas(f, preserve_index=False),
        "DuckDB": lambda f: connection.from_arrow(
            pa.Table.from_pandas(f, preserve_index=False)
        ),
        "Dask": lambda f: dd.from_pandas(f, npartitions=3),
        "batches": lambda f: pa.Table.from_pandas(f, preserve_index=False).to_reader(
            100
        ),
    }
    read: dict[str, Callable[[Any], Any]] = {
        "lazy polars": lambda f: f.collect(),
        "DuckDB": lambda f: f.to_arrow_table(),
        "Dask": lambda f: f.compute(),
        "batches": lambda f: f.read_all(),
    }
    roles = {"score": "score", "outcome": "y", "groups": groups}
    same = lambda f: f  # noqa: E731
    with dask.config.set(scheduler="synchronous"):
        for kind, make in kinds.items():
            ask(
                f"{kind}, scored",
                lambda: read.get(kind, same)(c.apply("score", make(new))),
            )
            ask(
                f"{kind}, atoms",
                lambda: Atoms.from_frame(make(frame), **roles).to_frame(),
            )
            ask(
                f"{kind}, weighted",
                lambda: facts(Atoms.from_frame(make(frame), **roles, weight="count")),
            )
            coarse = {**roles, "outcome": "soft", "resolution": 2**-8}
            ask(
                f"{kind}, coarse and soft",
                lambda: facts(Atoms.from_frame(make(frame), **coarse)),
            )
            ask(f"{kind}, no such column", lambda: c.apply("skore", make(new)))
            ask(
                f"{kind}, no such group",
                lambda: Atoms.from_frame(make(frame), **{**roles, "groups": "rce"}),
            )
            ask(
                f"{kind}, taken name",
                lambda: c.apply("score", make(new), column="race"),
            )


def files(ask: Any) -> None:
    """Atoms of files."""
    frame = people(3000, 91)
    frame[:1400].to_csv("a.csv", index=False)
    frame[1400:].to_csv("b.csv", index=False)
    frame.fillna({"race": "NA"}).to_csv("na.csv", index=False, sep=";")
    frame.to_csv("whole.csv.gz", index=False)
    for i in (0, 1):
        frame[i::2].to_parquet(f"part-{i}.parquet")
    words = Groups(
        columns=["race", "ward"],
        cuts={"age": [40, 65]},
        where={"old": "age > 80 or icu"},
    )
    sources: dict[str, Any] = {
        "CSV": ["a.csv", "b.csv"],
        "gzip": "whole.csv.gz",
        "Parquet": "part-*.parquet",
    }
    ways: dict[str, dict[str, Any]] = {
        "plain": {"groups": ["race", "gender", "acuity"]},
        "words": {"groups": words, "weight": "count"},
        "survey": {
            "groups": "icu",
            "weight": "survey",
            "threads": 1,
            "resolution": 2**-12,
        },
        "soft": {"outcome": "soft", "groups": ["insurance"], "resolution": 2**-8},
        "clusters": {"groups": ["race"], "cluster": "person"},
        "no groups": {"memory_limit": "1GB"},
        "wrong": {"groups": ["gendre"]},
    }
    for kind, source in sources.items():
        for way, roles in ways.items():
            use = {"score": "score", "outcome": "y", **roles}
            atoms = ask(f"{kind}, {way}", lambda: Atoms.from_files(source, **use))
            if atoms is not None:
                ask(f"{kind}, {way}, as frame", atoms.to_frame)
    roles = {"score": "score", "outcome": "y", "groups": "race"}
    ask(
        "a text for missing",
        lambda: Atoms.from_files("na.csv", na=["NA"], **roles).to_frame(),
    )
    ask("no file", lambda: Atoms.from_files("no-*.csv", **roles))
    ask(
        "two kinds",
        lambda: facts(Atoms.from_files(["a.csv", "part-1.parquet"], **roles)),
    )


def classifiers(ask: Any) -> None:
    """A logistic regression with its correction."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.model_selection import GridSearchCV

    frame, names = people(1500, 55), ["gender_f", "icu"]
    X = (
        frame[["age", "acuity", "icu"]]
        .assign(gender_f=frame.gender == "F", risk=frame.score)
        .astype(float)
    )
    base, passed = LogisticRegression(max_iter=500), frame[["race", "gender"]]
    words = PMCBoost.paper(groups=Groups(columns=names, cuts={"age": [50]}))
    models: dict[str, tuple[Any, dict[str, Any]]] = {
        "columns": (MulticalibratedClassifier(base, sensitive_features=names), {}),
        "passed": (
            MulticalibratedClassifier(base, PAPER(), cv=3),
            {"sensitive_features": passed},
        ),
        "words": (MulticalibratedClassifier(base, words), {}),
        "ridge": (
            MulticalibratedClassifier(
                RidgeClassifier(), MC_PAPER(), sensitive_features="icu"
            ),
            {},
        ),
        "frozen": (
            MulticalibratedClassifier(FrozenEstimator(base.fit(X, frame.y)), PAPER()),
            {},
        ),
        "weighted": (
            MulticalibratedClassifier(base, sensitive_features=names),
            {"sample_weight": frame["count"]},
        ),
        "twice": (
            MulticalibratedClassifier(base, sensitive_features=names),
            {"sensitive_features": passed},
        ),
        "no probabilities": (MulticalibratedClassifier(object()), {}),
    }
    for name, (model, given) in models.items():
        ask(f"{name}: fit", lambda: type(model.fit(X, frame.y, **given)).__name__)
        ask(
            f"{name}: correction",
            lambda: [model.correction_.to_json(), repr(model.certificate_)],
        )
        own = {
            key: value for key, value in given.items() if key == "sensitive_features"
        }
        ask(f"{name}: probabilities", lambda: model.predict_proba(X, **own))
        ask(f"{name}: classes", lambda: model.predict(X, **own))
        ask(f"{name}: raw scores", lambda: model.raw_score(X))
        ask(f"{name}: explanation", lambda: model.explain(X, **own).sentences()[:50])
    for loss in LOSSES:
        scorer = loss_scorer(loss, sensitive_features=names, min_people=20)
        ask(f"scorer {loss.__name__}", lambda: scorer(models["columns"][0], X, frame.y))
    scorer = loss_scorer(pmc_loss, sensitive_features=names)
    search = GridSearchCV(
        models["columns"][0], {"calibrator": [PAPER(), MCBoost()]}, scoring=scorer, cv=2
    )
    ask("search", lambda: search.fit(X, frame.y).cv_results_["mean_test_score"])


def pictures(ask: Any) -> None:
    """The content of plots, without their pixels."""
    frame = people(2000, 33)
    whose = {"sensitive_features": frame[["race", "gender"]], "n_draws": 100}
    a = audit(frame.y, frame.score, **whose)
    model = PMCBoost().fit(
        frame.score, frame.y, sensitive_features=whose["sensitive_features"]
    )
    for kind in (
        "forest",
        "calibration",
        "heatmap",
        "dc",
        "decision",
        "distribution",
        "pie",
    ):
        ask(f"audit, {kind}", lambda: shown(a.plot(kind)))
    ask(
        "audit, one group",
        lambda: shown(a.plot("calibration", ["race=Asian"], width=3.5)),
    )
    both = compare({"base": frame.score, "PMCBoost": model}, frame.y, **whose)
    ask("comparison", lambda: shown(both.plot()))
    ask("correction", lambda: shown(model.correction_.plot()))
    ask(
        "explanation",
        lambda: shown(model.correction_.explain(frame.score[:3], frame[:3]).plot(1)),
    )
    for name in displays.__all__:
        display = getattr(displays, name)
        result = both if name == "BeforeAfterDisplay" else a
        ask(f"{name}, drawn", lambda: shown(display(result).plot().ax_))
        ask(f"{name}, numbers", lambda: display(result).frame)
        ask(f"{name} of nothing", lambda: display(5))


def shown(axes: Any) -> list[Any]:
    """Texts and numbers of all axes of a figure."""
    import matplotlib.pyplot as plt
    from matplotlib.text import Text

    figure = axes.figure
    texts = [text.get_text() for text in figure.findobj(Text)]
    lines = [np.asarray(line.get_xydata()) for ax in figure.axes for line in ax.lines]
    points = [np.asarray(c.get_offsets()) for ax in figure.axes for c in ax.collections]
    plt.close(figure)
    return [texts, lines, points]


def cohorts(ask: Any) -> None:
    for n, seed in ((100, 0), (5000, 1), (20_000, 2)):
        ask(f"{n} visits, seed {seed}", lambda: make_ed_visits(n, seed=seed))
    visits = make_ed_visits(20_000, seed=3)
    score = visits.groupby("acuity", dropna=False).admitted.transform("mean")
    groups = visits[["race", "gender", "insurance"]]
    model = ask(
        "fit", lambda: PMCBoost().fit(score, visits.admitted, sensitive_features=groups)
    )
    ask("correction", lambda: [model.correction_.to_json(), repr(model.certificate_)])
    ask(
        "audit",
        lambda: audit(
            visits.admitted, score, sensitive_features=groups, correction=model
        ),
    )


def spark(ask: Any) -> None:
    """Frames of Spark; needs Java."""
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    build = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = build.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    columns = ["race", "gender", "icu", "acuity", "age", "score", "y", "count"]
    frame = people(2000, 77)[columns]
    there = session.createDataFrame(
        frame.astype(object).where(frame.notna(), None).to_dict("records")
    )
    groups = Groups(columns=["race", "icu", "acuity"], cuts={"age": [40]})
    c = (
        PMCBoost(groups=groups)
        .fit(frame.score, frame.y, sensitive_features=frame)
        .correction_
    )
    ask("scored", lambda: c.apply("score", there).select("corrected").toPandas())
    roles = {"score": "score", "outcome": "y", "groups": groups, "weight": "count"}
    ask("atoms", lambda: Atoms.from_frame(there, **roles).to_frame())
    session.stop()


CASES: dict[str, Callable[[Any], None]] = {
    "generated visits": cohorts,
    "frames": frames,
    "files": files,
    "classifiers": classifiers,
    "pictures": pictures,
}
SPARK: dict[str, Callable[[Any], None]] = {"Spark": spark}
