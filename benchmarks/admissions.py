"""Times the hospital-admission experiment: one post-processing fit with its evaluation,
and one unit.

python benchmarks/admissions.py

A unit is one base model and one shuffle of 173,561 simulated visits, with all 84
settings. Writes benchmarks/results/admissions.json."""

from __future__ import annotations

import json
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter, process_time

import pandas as pd

from propcal.datasets import make_ed_visits
from propcal_paper.running.trials import Plan, Unit, run_unit
from propcal_paper.settings import ADMISSIONS, BASE, MODELS, grid
from propcal_paper.setups import setup_of


def seconds(values: pd.Series) -> dict:
    return {
        "median_s": round(float(values.median()), 4),
        "largest_s": round(float(values.max()), 4),
    }


def main() -> None:
    visits = make_ed_visits()
    units, trials = {}, []
    for model in MODELS:
        began, cpu = perf_counter(), process_time()
        rows, _ = run_unit(
            visits, Plan(ADMISSIONS, setup_of("printed")), Unit(0, model, tuple(grid()))
        )
        found = pd.DataFrame(rows)
        units[model] = {
            "wall_s": round(perf_counter() - began, 1),
            "cpu_s": round(process_time() - cpu, 1),
            "training_s": round(
                float(found.fit_seconds[found.method == BASE].iloc[0]), 1
            ),
        }
        trials.append(found[found.method != BASE])
        print(model, units[model], flush=True)
    both = pd.concat(trials)
    both["total"] = both.fit_seconds + both.evaluation_seconds
    methods = {
        name: seconds(part.total) for name, part in both.groupby("method", sort=False)
    }
    for name, told in methods.items():
        print(
            f"{name}: fit and evaluation {told['median_s']:.3f} s, at most {told['largest_s']:.3f} s"
        )
    result = {
        "visits": len(visits),
        "test_visits": int(both.n_test.iloc[0]),
        "fit_and_evaluation": methods,
        "units": units,
        "peak_memory_MB": round(getrusage(RUSAGE_SELF).ru_maxrss / 1024),
    }
    path = Path(__file__).with_name("results") / "admissions.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"peak memory {result['peak_memory_MB']:,} MB; written: {path}")


if __name__ == "__main__":
    main()
