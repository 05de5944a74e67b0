"""The logistic curve as a table in units of the grid, the same on every machine."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache

import numpy as np

from propcal.core.grid import UNIT, IntArray

TABLE_PER_UNIT, TABLE_REACH = 64, 22  # 64 values of the logistic curve per unit; at -22 it is one grid unit


@cache
def logistic_table() -> IntArray:
    """The logistic curve from -22 to 22 in units of the grid, computed with 40 decimal digits."""
    n = TABLE_PER_UNIT * TABLE_REACH
    with localcontext() as context:
        context.prec = 40
        step, odds = (Decimal(1) / TABLE_PER_UNIT).exp(), Decimal(1)
        upper = [UNIT // 2]
        for _ in range(n):
            odds *= step
            upper.append(int((UNIT * odds / (1 + odds)).to_integral_value()))
    return np.array([UNIT - value for value in upper[:0:-1]] + upper, dtype=np.int64)
