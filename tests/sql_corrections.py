"""Corrections to be written as SQL, and the scores that a database gives by it. For
tests.
"""

import struct
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa

from propcal import Groups, PMCBoost

HOSTILE = [
    "it's",
    'say "hi"',
    "a;b -- c",
    "/* x */",
    "back\\slash",
    "\\",
    "\\'",
    "`tick`",
    "[br]ac]ket]",
    "new\nline",
    "\\\nnext",
    "",
    " ",
    "a ",
    "A",
    "a",
    "${spark.app.name}",
    "%s {x} :y ?",
    "Ünïcode 🙂",
    "nan",
    "NULL",
    "x" * 3000,
]


def people(n=3000, seed=1):
    """People with levels of text, numbers and truths, some missing, and a score that is
    wrong for some.
    """
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "race": rng.choice(["Asian", "Black", None], n, p=[0.3, 0.6, 0.1]),
            "ward": rng.choice([1, 2, 3], n),
            "age": np.where(
                rng.random(n) < 0.1, np.nan, rng.integers(10, 95, n) / 2 + 10
            ),
            "icu": rng.random(n) < 0.3,
        }
    )
    score = rng.beta(1, 3, n)
    risk = (
        score
        * np.where(frame["race"] == "Asian", 1.6, 0.8)
        * np.where(frame["icu"], 1.3, 0.9)
    )
    return frame, score, (rng.random(n) < np.clip(risk, 0, 1)).astype(int)


def fitted(groups, method=PMCBoost, seed=1, **settings):
    frame, score, y = people(seed=seed)
    return (
        method(groups=groups, **settings)
        .fit(score, y, sensitive_features=frame)
        .correction_
    )


def score_in(db, export, table):
    """The corrected scores of a table with columns id and risk, and the scores as the
    database has them.
    """
    db.load("people", table)
    db.drop("propcal_lookup")
    for statement in export.setup:
        db.run(statement)
    rows = sorted(db.rows(export.query), key=lambda row: row[0])
    assert [row[0] for row in rows] == list(range(table.num_rows))
    return [row[1] for row in rows], [row[-1] for row in rows]


def bits(values):
    return [None if v is None else struct.pack("<d", v).hex() for v in values]


def each_with_every(attributes, scores):
    """A table of the scores, twice, beside the rows of attributes in a random order."""
    place = np.arange(2 * len(scores)) % attributes.num_rows
    table = attributes.take(pa.array(np.random.default_rng(0).permutation(place)))
    table = table.add_column(0, "risk", [pa.array(np.tile(scores, 2))])
    return table.add_column(0, "id", [pa.array(np.arange(len(place)))])


def combinations(**levels):
    """A table of all combinations of values, each column of the type of its array."""
    place = list(product(*[range(len(values)) for values in levels.values()]))
    return pa.table(
        {
            name: values.take(pa.array(i))
            for (name, values), i in zip(levels.items(), zip(*place))
        }
    )


def texts(*values):
    return pa.array(values, pa.string())


def hostile():
    """A correction whose columns and levels are what no database expects, and a table
    of theirs.
    """
    rng = np.random.default_rng(3)
    name, condition = 'we"ird `na[m]e`; --\\', "it's\n{x}"
    frame = pd.DataFrame(
        {name: rng.choice(HOSTILE, 6000), "other\nname": rng.choice(["a", "b"], 6000)}
    )
    score = rng.random(6000)
    right = np.where(frame[name].str.len() > 4, 0.6, 1.0) * np.where(
        frame["other\nname"] == "a", 0.4, 1.0
    )
    y = (rng.random(6000) < right * score).astype(int)
    groups = Groups(
        where={condition: "`other\nname` in ['a', 'it\\'s; \\\\']"}, intersections=1
    )
    model = PMCBoost.paper(groups=groups, alpha=0.3, gamma=0.01)
    return name, model.fit(score, y, sensitive_features=frame).correction_
