"""What scoring costs a service: time and memory to start, microseconds for a person, rows per second.

python benchmarks/service.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from propcal import Correction, PMCBoost
from propcal.datasets import load_doctor_visits

START = """
import sys, time
from propcal import Correction
correction = Correction.load(sys.argv[1])
correction.score_one(0.41, plan="free care")
if len(sys.argv) > 2:
    import numpy as np
    correction.apply(np.array([0.3, 0.6]), {"plan": ["free care", "pays 25 %"]})
status = open("/proc/self/status").read()
heavy = {"scipy", "pandas", "pyarrow", "numba", "narwhals", "duckdb", "sklearn"} & {*sys.modules}
print(time.process_time(), int(status.split("VmHWM:")[1].split()[0]) / 1024, *sorted(heavy))
"""


def start(path, *more):
    """CPU seconds (best of five) and MB of a new process, and the heavy libraries that it imported."""
    found = []
    for _ in range(5):
        words = [sys.executable, "-c", START, str(path), *more]
        found.append(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    return min(float(one[0]) for one in found), min(float(one[1]) for one in found), found[0][2:]


def microseconds(call, n=20_000):
    best = float("inf")
    for _ in range(5):
        began = perf_counter()
        for _ in range(n):
            call()
        best = min(best, (perf_counter() - began) / n)
    return 1e6 * best


def main():
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp()
    path = Path(tempfile.mkdtemp()) / "model.json"
    columns = {"outcome": "frequent", "groups": ["plan", "limited"], "cluster": "person"}
    PMCBoost().fit(load_doctor_visits(), score="risk", **columns).correction_.save(path)
    for name, more in (("load and score_one", ()), ("and apply", ("apply",))):
        seconds, size, heavy = start(path, *more)
        print(
            f"{name}: {seconds:.2f} s of CPU, {size:.0f} MB, imports numpy{''.join(f', {h}' for h in heavy)}"
        )
    correction, rng = Correction.load(path), np.random.default_rng(0)
    calls = {
        "a person": lambda: correction.score_one(0.41, plan="pays 25 %"),
        "a person in detail": lambda: correction.score_one(0.41, plan="pays 25 %", detail=True),
        "an unseen level": lambda: correction.score_one(0.41, plan="new", detail=True),
        "an unseen numpy integer": lambda: correction.score_one(0.41, plan=np.int64(7), detail=True),
    }
    for name, call in calls.items():
        print(f"{name}: {microseconds(call):.1f} microseconds")
    n = 1_000_000
    score, plan = (
        rng.random(n),
        rng.choice(["free care", "pays 25 %", "pays 50 %", "pays 95 % or all"], n).tolist(),
    )
    began = perf_counter()
    correction.apply(score, {"plan": plan})
    print(f"arrays: {n / (perf_counter() - began) / 1e6:.1f} million rows a second")


if __name__ == "__main__":
    main()
