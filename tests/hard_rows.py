"""Rows on which engines are known to disagree, and what it means that their atoms are
the same. For tests.
"""

from decimal import Decimal

import numpy as np
import pyarrow as pa

from propcal import Groups
from propcal.core.atoms import SUMS

UNIT = 2.0**-32


def hard_scores():
    """Edges of ten bins and of coarser grids, one unit and one last digit to either
    side, halves of units.
    """
    edges = np.concatenate(
        [np.arange(11) / 10, np.arange(17) / 16, [1 / 3, 2.0**-16, 2.0**-17]]
    )
    near = [edges, edges + UNIT, edges - UNIT, edges + UNIT / 2, edges - UNIT / 2]
    near += [
        np.nextafter(edges, 2),
        np.nextafter(edges, -2),
        [-0.0, 5e-324, 1 - 2.0**-53],
    ]
    found = np.concatenate(near)
    return found[(found >= 0) & (found <= 1)]


def hard_table(n=2400, seed=3):
    """Columns of every kind on which engines are known to disagree."""
    rng = np.random.default_rng(seed)
    score = np.resize(hard_scores(), n)
    rng.shuffle(score)

    def some(values, kind=None):
        return pa.array([values[i] for i in rng.integers(0, len(values), n)], kind)

    return pa.table(
        {
            "score": score,
            "single": score.astype(np.float32),
            "decimal": pa.array(
                [Decimal(int(v)) / 1000 for v in rng.integers(0, 1001, n)],
                pa.decimal128(9, 4),
            ),
            "truth": some([True, False]),
            "y": rng.integers(0, 2, n),
            "label": some([0.0, 1.0, 0.5, 0.1, 1e-12]),
            "weight": rng.integers(0, 4, n),
            "survey": rng.random(n) * 3,
            "text": some(["a", "1", "true", "missing", "nan", "02", None]),
            "whole": some([1, 2, 20, None], pa.int64()),
            "small": some([0, 1, 255], pa.uint8()),
            "real": some([1.0, 2.0, -0.0, 0.0, float("nan"), None]),
            "sex": some([True, False]),
            "flag": some([True, False, None]),
            "money": some(
                [Decimal("1.00"), Decimal("2.50"), Decimal("-0.00"), None],
                pa.decimal128(6, 2),
            ),
            "coin": some(
                [Decimal("1.00"), Decimal("20.00"), Decimal("-0.00"), None],
                pa.decimal128(6, 2),
            ),
            "ward": some(["ICU", "CCU", "long name", None]).dictionary_encode(),
            "age": some(
                [
                    17.999999999999996,
                    18.0,
                    40.0,
                    64.5,
                    65.0,
                    90.25,
                    float("nan"),
                    float("inf"),
                    None,
                ]
            ),
            "fee": some(
                [Decimal("0.30"), Decimal("0.29"), Decimal("70.10"), None],
                pa.decimal128(8, 2),
            ),
            "answer": some(["true", "false", None]),
            "nothing": pa.nulls(n, pa.string()),
        }
    )


PLAIN = ["text", "whole", "small", "real", "flag", "coin", "ward", "nothing"]
WORDS = Groups(
    columns=["text"],
    cuts={"age": [18, 40, 65], "fee": [0.3, 70.1], "whole": [2]},
    where={
        "old": "age >= 65 or (age < 18 and text = a)",
        "unknown": "age is missing and real is not missing",
        "one": "whole = 1.0 and not text in [1, '02']",
        "real one": "real = 1 or real != 2",
        "money": "money in [2.50, 7]",
        "single": "single = 0.1",
        "flagged": "flag",
        "unflagged": "flag = 0",
        "answered": "answer",
        "answered 1": "answer != 1",
        "ward": "ward not in [ICU, 'long name']",
        "cheap": "fee <= 0.3 and money > 1",
        "nobody": "whole = 2.5 or text = 7 or small > 300",
    },
)
ROLES = [
    {"score": "score", "outcome": "y"},
    {"score": "score", "outcome": "y", "resolution": 2**-16},
    {"score": "score", "outcome": "truth", "resolution": 2**-4},
    {"score": "single", "outcome": "label"},
    {"score": "decimal", "outcome": "y", "weight": "weight"},
    {"score": "score", "outcome": "label", "weight": "weight"},
    {"score": "truth", "outcome": "y", "weight": "survey"},
    {"score": "y", "outcome": "truth", "weight": "weight", "weight_kind": "survey"},
]


def assert_same(found, expected):
    """Atom by atom; sums of survey weights up to the order in which they were added."""
    assert found.patterns.equals(expected.patterns)
    assert found.patterns.levels == expected.patterns.levels
    assert found.resolution_bits == expected.resolution_bits
    for name in ("starts", "score", *SUMS):
        a, b = getattr(found, name), getattr(expected, name)
        assert a.dtype == b.dtype, name
        if name in SUMS and a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=0, err_msg=name)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)
