"""Time and memory of fit and predict, relative to encoding the columns and np.lexsort
of the same data.

    python benchmarks/engine.py            # everything, about four minutes on 2 cores
    python benchmarks/engine.py --quick    # up to 10^6 rows

Writes benchmarks/results/engine.json and engine.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent / "results"
SIZES = [10_000, 100_000, 173_561, 1_000_000, 10_000_000]
SHAPES = {14: {"race": 7, "gender": 2}, 60: {"race": 5, "gender": 3, "insurance": 4}}


def people(n: int, shape: dict[str, int], seed: int = 0, categorical: bool = False):
    """Scores, outcomes and attributes; every group has its own miscalibration."""
    rng = np.random.default_rng(seed)
    score = rng.beta(1.5, 3.5, n)
    log_odds = np.log(score / (1 - score))
    columns = {}
    for name, levels in shape.items():
        share = np.linspace(2, 1, levels)
        code = rng.choice(levels, n, p=share / share.sum())
        names = np.array([f"{name} group {i}" for i in range(levels)], dtype=object)
        columns[name] = (
            pd.Categorical.from_codes(code, names) if categorical else names[code]
        )
        log_odds += (
            rng.normal(0, 0.4, levels)[code]
            + (rng.normal(1, 0.2, levels)[code] - 1) * log_odds
        )
    y = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(np.int64)
    return score, y, pd.DataFrame(columns)


def best(task, repeats: int, budget: float = 2.0) -> float:
    """The best time of several runs, or of fewer if a run is slow."""
    times: list[float] = []
    while len(times) < repeats and (not times or sum(times) < budget):
        began = time.perf_counter()
        task()
        times.append(time.perf_counter() - began)
    return min(times)


def encode(frame: pd.DataFrame) -> np.ndarray:
    """The usual solution: factorize each column and combine the codes."""
    code = np.zeros(len(frame), dtype=np.int64)
    for name in frame.columns:
        codes, levels = pd.factorize(frame[name])
        code = code * len(levels) + codes
    return code


def sort_baseline(score, frame):
    code = encode(frame)
    return np.lexsort((score, code))


def search_baseline(score, frame, maps):
    """Encode, then use one searchsorted for each pattern."""
    code = encode(frame)
    corrected = np.empty_like(score)
    for pattern in range(len(maps.starts) - 1):
        rows = np.flatnonzero(code == pattern)
        breaks = maps.begin[maps.starts[pattern] : maps.starts[pattern + 1]] / 2**32
        corrected[rows] = np.searchsorted(breaks, score[rows])
    return corrected


def grid(sizes: list[int]) -> list[dict]:
    from propcal import PMCBoost

    rows = []
    for n_patterns, shape in SHAPES.items():
        for n in sizes:
            score, y, frame = people(n, shape)
            repeats = 7 if n <= 200_000 else 3 if n <= 1_000_000 else 2
            baseline = best(lambda: sort_baseline(score, frame), repeats)
            for alpha in (0.1, 0.01, 0.001):
                for eta in (1.0, 0.1):
                    model = PMCBoost.paper(alpha=alpha, eta=eta)
                    model.fit(
                        score[:1000], y[:1000], sensitive_features=frame[:1000]
                    )  # load the kernel
                    fit = best(
                        lambda: model.fit(score, y, sensitive_features=frame), repeats
                    )
                    row = {
                        "patterns": n_patterns,
                        "rows": n,
                        "alpha": alpha,
                        "eta": eta,
                        "fit_s": fit,
                        "encode_lexsort_s": baseline,
                        "fit_ratio": fit / baseline,
                        "updates": model.n_updates_,
                        "sweeps": model.n_sweeps_,
                        "segments": model.correction_.n_segments,
                        "converged": model.converged_,
                    }
                    if alpha == 0.01 and eta == 1.0:
                        search = best(
                            lambda: search_baseline(
                                score, frame, model.correction_.maps
                            ),
                            repeats,
                        )
                        predict = best(
                            lambda: model.predict(score, sensitive_features=frame),
                            repeats,
                        )
                        row |= {
                            "predict_s": predict,
                            "encode_search_s": search,
                            "predict_ratio": predict / search,
                        }
                    rows.append(row)
                    print(json.dumps(row), flush=True)
    return rows


MEMORY = """
import sys; sys.path.insert(0, {here!r})
import numpy as np
from engine import people
from propcal import PMCBoost
score, y, frame = people({n}, {shape}, categorical={categorical})
passed = score.nbytes + y.nbytes + int(frame.memory_usage(index=False, deep=True).sum())
PMCBoost.paper().fit(score[:2000], y[:2000], sensitive_features=frame[:2000])
import ctypes, gc, pyarrow
gc.collect(); pyarrow.default_memory_pool().release_unused(); ctypes.CDLL("libc.so.6").malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")
def peak():
    return [int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith("VmHWM")][0]
before = peak()
model = PMCBoost.paper(alpha=0.01).fit(score, y, sensitive_features=frame)
print(passed, peak() - before)
"""


def memory(sizes: list[int]) -> list[dict]:
    rows = []
    for n in sizes:
        for categorical in (False, True):
            code = MEMORY.format(
                here=str(Path(__file__).parent),
                n=n,
                shape=SHAPES[14],
                categorical=categorical,
            )
            out = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout
            passed, peak = map(int, out.split())
            kind = "categorical" if categorical else "text"
            rows.append(
                {
                    "rows": n,
                    "columns": kind,
                    "passed_mb": passed / 1e6,
                    "peak_mb": peak / 1e6,
                    "ratio": peak / passed,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


FIRST_FIT = """
import numpy as np
from propcal import PMCBoost
rng = np.random.default_rng(0)
score = rng.random(1000)
PMCBoost.paper().fit(score, rng.random(1000) < score, sensitive_features=rng.choice(["a", "b"], 1000))
"""


def seconds(code: str, **environment: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        env={**os.environ, **environment},
    )
    return time.perf_counter() - began


def start_up() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        cold = seconds(FIRST_FIT, NUMBA_CACHE_DIR=folder)
        warm = min(seconds(FIRST_FIT, NUMBA_CACHE_DIR=folder) for _ in range(5))
    numpy = min(seconds("import numpy") for _ in range(5))
    both = min(seconds("import numpy, propcal") for _ in range(5))
    return {
        "import_propcal_beyond_numpy_s": both - numpy,
        "first_fit_of_a_process_cold_s": cold,
        "first_fit_of_a_process_warm_s": warm,
    }


def report(result: dict) -> str:
    lines = [
        "# Engine benchmark",
        "",
        f"Made by `make bench` on {result['machine']}.",
        "",
    ]
    lines += ["| start-up | seconds |", "|---|---|"]
    lines += [f"| {name} | {value:.2f} |" for name, value in result["start_up"].items()]
    lines += [
        "",
        "| rows | group columns | passed, MB | peak above start, MB | ratio |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['rows']:,} | {r['columns']} | {r['passed_mb']:.0f} | {r['peak_mb']:.0f} | {r['ratio']:.2f} |"
        for r in result["memory"]
    ]
    lines += [
        "",
        "Ratios are to encoding + `np.lexsort` (fit), and encoding + a `searchsorted` per pattern (predict).",
        "",
        "| patterns | rows | alpha | eta | fit, s | fit ratio | predict ratio | updates | segments |"
        " converged |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in result["grid"]:
        predict = f"{r['predict_ratio']:.2f}" if "predict_ratio" in r else ""
        lines.append(
            f"| {r['patterns']} | {r['rows']:,} | {r['alpha']} | {r['eta']} | {r['fit_s']:.4f} | "
            f"{r['fit_ratio']:.2f} | {predict} | "
            f"{r['updates']:,} | {r['segments']:,} | {'yes' if r['converged'] else 'no'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="up to a million rows")
    arguments = parser.parse_args()
    sizes = [n for n in SIZES if n <= 1_000_000] if arguments.quick else SIZES
    warnings.simplefilter("ignore")
    result = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "start_up": start_up(),
        "memory": memory([n for n in sizes if n >= 1_000_000]),
        "grid": grid(sizes),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "engine.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "engine.md").write_text(report(result))
    print(report(result))


if __name__ == "__main__":
    main()
