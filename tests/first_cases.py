"""Cases of a test of which only the first few belong to the fast tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def first(n: int, cases: Iterable[Any]) -> list[Any]:
    """The cases; all but the first n are slow ones (make test-slow)."""
    cases = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*case, marks=[pytest.mark.slow] * (i >= n))
        for i, case in enumerate(cases)
    ]
