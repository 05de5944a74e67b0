"""What people feel: commands from start to end, each in a new process, and the time that goes into imports.

    python benchmarks/felt.py             # best of 5, about two minutes
    python benchmarks/felt.py --cold      # also the first demo on a machine, when numba compiles

The people are 10,000 generated visits in a CSV file, with a score by a logistic regression that does not know
their groups. Wall time is what people wait for. Processor time is nearly the same on a quiet machine, and is
all that can be compared on a busy one. `times_imports` divides it by that of a process that only imports pandas
and scikit-learn, run in turn with the command. Python keeps compiled modules for these processes, as it does for
an installed package. Writes benchmarks/results/felt.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
ROWS = 10_000
COLUMNS = ["--score", "risk", "--outcome", "admitted", "--groups"]
LIBRARIES = ["-c", "import pandas, sklearn"]
TWO, FOUR = "race,gender", "race,gender,insurance,acuity"


def write_people(path: Path) -> None:
    from propcal.cli.demo import base_model
    from propcal.datasets import make_ed_visits

    visits = make_ed_visits(3 * ROWS, seed=0)
    people = visits[2 * ROWS :].copy()
    people["risk"] = base_model(visits[: 2 * ROWS])(people)
    people[["risk", "admitted", "race", "gender", "insurance", "acuity", "age"]].to_csv(
        path, index=False
    )


def run(
    arguments: list[str], environment: dict[str, str] | None = None
) -> tuple[float, float]:
    """Wall time and processor time of a new Python process, which must end well."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE"
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        capture_output=True,
        env=inherited | (environment or {}),
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(
    name: str, command: list[str], times: int, environment: dict[str, str] | None = None
) -> dict:
    of_command = []
    of_libraries = []
    for _ in range(times):
        of_libraries.append(run(LIBRARIES, environment))
        of_command.append(run(["-m", "propcal", *command], environment))

    processor_seconds = min(used for _, used in of_command)
    processor_seconds_of_libraries = min(used for _, used in of_libraries)
    row = {
        "command": name,
        "seconds": round(min(wall for wall, _ in of_command), 2),
        "processor_seconds": round(processor_seconds, 2),
        "times_imports": round(processor_seconds / processor_seconds_of_libraries, 2),
        "runs": times,
    }
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--cold", action="store_true", help="also the first demo on a machine"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        people, model = Path(folder) / "people.csv", Path(folder) / "model.json"
        write_people(people)
        output = ["--output", str(Path(folder) / "demo")]
        page = ["--html", str(Path(folder) / "report.html"), "--force"]
        fit = ["fit", str(people), *COLUMNS, TWO, "-o", str(model), "--force"]
        apply = [
            "apply",
            str(model),
            str(people),
            "--score",
            "risk",
            "-o",
            str(Path(folder) / "out.csv"),
            "--force",
        ]
        commands = {
            "--help": ["--help"],
            f"audit, {TWO}": ["audit", str(people), *COLUMNS, TWO],
            f"audit --html, {TWO}": ["audit", str(people), *COLUMNS, TWO, *page],
            f"audit --html, {FOUR}": ["audit", str(people), *COLUMNS, FOUR, *page],
            f"audit --html --suppress 0, {FOUR}": [
                "audit",
                str(people),
                *COLUMNS,
                FOUR,
                *page,
                "--suppress",
                "0",
            ],
            f"fit, {TWO}": fit,
            "apply": apply,
            "demo": ["demo", *output],
        }
        compiled = {"PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}
        run(LIBRARIES, compiled)
        run(["-m", "propcal", *commands[f"audit --html, {TWO}"]], compiled)
        rows = [
            best(name, command, arguments.runs, compiled)
            for name, command in commands.items()
        ]
        result = {"rows": ROWS, "commands": rows}
        if arguments.cold:
            cache = {"NUMBA_CACHE_DIR": str(Path(folder) / "numba")}
            result["commands"].append(
                best("demo, nothing compiled", ["demo", *output], 1, cache)
            )
    (RESULTS / "felt.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
