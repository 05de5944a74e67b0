"""Loading and scoring a correction needs numpy alone, little time and little memory; as
in a service.
"""

import json
import os
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from propcal import Correction, Groups, PMCBoost
from propcal.core.correction.map_compiler import MAX_PYTHON_STEPS, MapCompiler
from propcal.core.correction.update_pieces import move_segments
from propcal.core.groups import membership
from propcal.reading.frames import plain_column

HEAVY = "scipy pandas pyarrow numba llvmlite narwhals duckdb sklearn polars typer rich jinja2"
SERVICE = """
import sys, time
from propcal import Correction
correction = Correction.load(sys.argv[1])
person = {"race": "White", "gender": "F", "age": 71}
person = {name: person[name] for name in correction.reads}
one = correction.score_one(0.3, **person)
detail = correction.score_one(0.3, **person, detail=True)
import numpy as np
people = {"race": np.array(["White", "Asian"]), "gender": ["F", None], "age": np.array([71.0, 18.0])}
both = correction.apply(np.array([0.3, 0.6]), people)
listed = correction.apply([0.3, 0.6], {name: list(values) for name, values in people.items()})
assert one == both[0] == listed[0] == detail.score
heavy = [name for name in HEAVY.split() if name in sys.modules]
spent, status = time.process_time(), open("/proc/self/status").read()
print(spent, int(status.split("VmHWM:")[1].split()[0]) / 1024, *heavy)
"""


@pytest.fixture(scope="module")
def corrections(cohort):
    rng = np.random.default_rng(0)
    people = cohort.assign(age=rng.integers(18, 95, len(cohort)))
    groups = Groups(columns=["race", "gender"], cuts={"age": [40, 65]})
    columns = people[["race", "gender", "age"]]
    both = (PMCBoost(groups=groups), PMCBoost.paper(groups=groups, monotone=True))
    return [
        model.fit(people.score**2, people.y, sensitive_features=columns).correction_
        for model in both
    ]


@pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="memory is read from /proc"
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_service_imports_numpy_alone_and_stays_small(corrections, which, tmp_path):
    correction = corrections[which]
    assert len(correction.updates) > 5 or correction.start is not None
    correction.save(tmp_path / "model.json")
    program = SERVICE.replace("HEAVY", repr(HEAVY))
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}
    environment.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # an installed package has bytecode
    seconds, sizes = [], []
    for _ in range(4):
        words = [sys.executable, "-c", program, str(tmp_path / "model.json")]
        done = subprocess.run(
            words, capture_output=True, text=True, check=True, env=environment
        )
        spent, size, *heavy = done.stdout.split()
        assert heavy == []
        seconds.append(float(spent))
        sizes.append(float(size))
    assert min(sizes) <= 60  # MB
    assert min(seconds) <= 0.25 + (
        0.15 if os.getloadavg()[0] > 2 else 0
    )  # of CPU, which a busy machine slows


VALUES = {
    "texts": ["a", "b", "", "1", " 1.0", "TRUE", "é", "007"],
    "mixed": ["a", 1, 1.0, True, None, float("nan"), "true", 10**30],
    "whole": np.array([0, 1, 2, -3, 1, 0, 7, 1]),
    "small": np.array([1, 0, 1, 200, 0, 1, 1, 0], dtype=np.uint8),
    "floats": np.array([0.1, -0.0, 1.0, np.nan, 1e-9, 0.5, 2.5, 1e22]),
    "single": np.array([0.1, 1, 0.3, np.nan, 0.5, 0.1, 2, 3], dtype=np.float32),
    "truths": np.array([True, False] * 4),
    "unicode": np.array(["a", "bb", "1.50", "a ", "", "x", "y", "true"]),
    "objects": np.array([1, "1", None, 2.5, True, "a", 0, 1.0], dtype=object),
    "numbers": [1, None, 2.5, 3, float("nan"), 0, 40, 65],
}


@pytest.mark.parametrize("name", VALUES)
def test_plain_columns_are_scored_as_arrow_scores_them(name):
    values = VALUES[name]
    levels = [["a"], ["1"], ["true"], ["0.1"], ["0"], ["2.5"], [None], ["1.5"], [""]]
    content = {
        "format": "propcal-correction", "version": 4, "unit": "2**-32", "about": {}, "attributes": ["g"],
        "derived": {}, "bins": {"kind": "uniform", "divisor": 1, "edges": [0, 1 << 32]},
        "groups": [[["g", level]] for (level,) in levels], "patterns": levels, "unseen": "keep", "start": [],
        "updates": [[i, 0, (i + 1) << 26] for i in range(len(levels))], "monotone": False,
    }  # fmt: skip
    correction = Correction.from_json(json.dumps(content))
    score = np.full(8, 0.25)
    assert plain_column(values) is not None
    by_numpy = correction.apply(score, {"g": values})
    by_arrow = correction.apply(score, {"g": pd.Series(list(values), dtype=object)})
    assert by_numpy.tolist() == by_arrow.tolist()
    assert by_numpy.tolist() == [
        correction.score_one(0.25, g=value) for value in values
    ]
    if name in ("whole", "small", "floats", "single", "truths", "numbers"):
        content |= {
            "derived": {"g": {"column": "x", "cuts": [0.3, 40.0]}},
            "updates": [],
        }
        content |= {
            "patterns": [["under 0.3"], ["40 or over"]],
            "groups": [[["g", "under 0.3"]]],
        }
        content["updates"] = [[0, 0, 1 << 26]]
        cut = Correction.from_json(json.dumps(content))
        series = pd.Series(
            values, dtype=None if isinstance(values, np.ndarray) else float
        )
        assert (
            cut.apply(score, {"x": values}).tolist()
            == cut.apply(score, {"x": series}).tolist()
        )


@pytest.mark.parametrize(
    "values",
    [
        [Decimal(1)],
        np.array(["2020-01-01"], "M8[D]"),
        [b"a"],
        np.array([b"a"]),
        pd.Series(["a"]),
    ],
)
def test_other_values_go_through_arrow(values):
    assert plain_column(values) is None


def test_python_and_numba_compile_the_same_maps(corrections):
    correction = corrections[1]
    inside = membership(correction.groups, correction.patterns)
    edges = correction.bins.edges
    for members in inside.T:
        own = np.ascontiguousarray(
            correction.updates[members[correction.updates[:, 0]]][:, 1:]
        )
        plain, plain_steps = move_segments.in_python(own, edges, 1 << 22, 1 << 30)
        fast, fast_steps = move_segments(own, edges, 1 << 22, 1 << 30)
        assert np.array_equal(plain[:, :4], fast[:, :4])
        assert plain_steps == fast_steps
    maps = MapCompiler(inside, correction.updates, edges).maps()
    assert len(maps.begin) > len(correction.patterns)


def test_a_large_correction_is_left_to_numba(monkeypatch):
    called = []

    def kernel(self, *arguments):
        called.append(1)
        return move_segments.in_python(*arguments)

    monkeypatch.setattr(type(move_segments), "__call__", kernel)
    half = 1 << 31
    edges = np.array([0, half, 2 * half])
    everybody = np.ones((1, 1), dtype=bool)
    up_and_down = np.array([[0, 0, half], [0, 1, -half]])
    few = np.tile(up_and_down, (1000, 1))
    MapCompiler(everybody, few, edges).maps()
    assert not called
    many = np.tile(up_and_down, (MAX_PYTHON_STEPS // 2, 1))
    MapCompiler(everybody, many, edges).maps()
    assert called
