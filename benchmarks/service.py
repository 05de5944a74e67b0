"""What scoring costs: time and memory to start a service, microseconds for a person,
and one-file scorers.

All times are those of the processor, the best of several, so that a busy machine hardly
changes them.

    python benchmarks/service.py
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

import numpy as np

from propcal import Correction, Groups, PMCBoost
from propcal.datasets import load_doctor_visits, make_ed_visits

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
    """CPU seconds (best of five) and MB of a new process, and the heavy libraries that
    it imported.
    """
    found = []
    for _ in range(5):
        words = [sys.executable, "-c", START, str(path), *more]
        found.append(
            subprocess.run(
                words, capture_output=True, text=True, check=True
            ).stdout.split()
        )
    return (
        min(float(one[0]) for one in found),
        min(float(one[1]) for one in found),
        found[0][2:],
    )


def microseconds(call, n=20_000):
    best = float("inf")
    for _ in range(5):
        began = process_time()
        for _ in range(n):
            call()
        best = min(best, (process_time() - began) / n)
    return 1e6 * best


JAVASCRIPT = """
const { scoreOne } = require(process.argv[1]);
const people = JSON.parse(require("fs").readFileSync(process.argv[2]));
let best = Infinity;
for (let i = 0; i < 30; i++) {
  const before = process.cpuUsage();
  for (const { risk, ...person } of people) scoreOne(risk, person);
  const { user, system } = process.cpuUsage(before);
  best = Math.min(best, (user + system) / people.length);
}
console.log(best);
"""
PYTHON = """
import json, runpy, sys, time
score_one = runpy.run_path(sys.argv[1])["score_one"]
people = [(one.pop("risk"), one) for one in json.load(open(sys.argv[2]))]
best = float("inf")
for _ in range(10):
    began = time.process_time()
    for score, person in people:
        score_one(score, **person)
    best = min(best, (time.process_time() - began) / len(people))
print(1e6 * best)
"""
R = """
words <- commandArgs(TRUE)
source(words[1])
people <- read.csv(words[2])
people <- people[rep_len(seq_len(nrow(people)), 100000), ]
times <- replicate(3, sum(system.time(score_people(people$risk, people))[1:2]))
cat(1e6 * min(times) / nrow(people))
"""
COMMANDS = {
    "python": ([sys.executable, "-I", "-S"], "-c", PYTHON, "0"),
    "javascript": (["node"], "-e", JAVASCRIPT, "0"),
    "r": (["Rscript", "--vanilla"], "-e", R, "0"),
}


def used(command):
    """The least CPU seconds of five runs of a command, with what it prints last."""
    best, out = float("inf"), ""
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(
            best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        )
    return best, out


def scorers(name, correction, people):
    """What a one-file scorer costs in each language: milliseconds to start,
    microseconds for a score.
    """
    folder = Path(tempfile.mkdtemp())
    (folder / "people.json").write_text(people.to_json(orient="records"))
    people.to_csv(folder / "people.csv", index=False)
    for language, (command, flag, program, nothing) in COMMANDS.items():
        code = correction.to_code(language)
        path = folder / f"scorer.{language}"
        path.write_text(code)
        data = folder / ("people.csv" if language == "r" else "people.json")
        started = (
            used([*command, str(path), "--about"])[0]
            - used([*command, flag, nothing])[0]
        )
        score = float(
            subprocess.run(
                [*command, flag, program, str(path), str(data)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()[-1]
        )
        size = len(code.encode()) / 1000
        print(
            f"{name}, {language}, {size:.0f} kB: {1e3 * started:.0f} ms, {score:.2g} microseconds a score"
        )


def one_file_scorers():
    """Of a correction with many combinations, and of one with points."""
    visits = make_ed_visits(10_000, seed=1).rename(columns={"true_risk": "risk"})
    visits["risk"] **= np.where(visits["gender"] == "F", 1.3, 0.8) + np.where(
        visits["age"] > 60, 0.4, 0
    )
    many = Groups(columns=["race", "gender", "insurance", "acuity"])
    few, features = (
        Groups(columns=["gender"]),
        ["age", "insurance", "n_previous_visits"],
    )
    for model in (
        PMCBoost.paper(groups=many, gamma=0.001, alpha=0.05),
        PMCBoost(groups=few, features=features),
    ):
        fitted = model.fit(
            visits["risk"], visits["admitted"], sensitive_features=visits
        ).correction_
        name = f"{len(fitted.patterns)} combinations, points of {len(fitted.features)} features"
        some = visits[["risk", *fitted.reads]].dropna()[:2000]
        scorers(name, fitted, some)
        person = some.drop(columns="risk").iloc[0].to_dict()
        cost = microseconds(
            lambda fitted=fitted, person=person: fitted.score_one(0.41, **person), 5000
        )
        print(f"{name}, score_one: {cost:.1f} microseconds")


def main():
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp()
    path = Path(tempfile.mkdtemp()) / "model.json"
    columns = {
        "outcome": "frequent",
        "groups": ["plan", "limited"],
        "cluster": "person",
    }
    PMCBoost().fit(load_doctor_visits(), score="risk", **columns).correction_.save(path)
    for name, more in (("load and score_one", ()), ("and apply", ("apply",))):
        seconds, size, heavy = start(path, *more)
        print(
            f"{name}: {seconds:.2f} s of CPU, {size:.0f} MB, imports numpy{''.join(f', {h}' for h in heavy)}"
        )
    correction, rng = Correction.load(path), np.random.default_rng(0)
    calls = {
        "a person": lambda: correction.score_one(0.41, plan="pays 25 %"),
        "a person in detail": lambda: correction.score_one(
            0.41, plan="pays 25 %", detail=True
        ),
        "an unseen level": lambda: correction.score_one(0.41, plan="new", detail=True),
        "an unseen numpy integer": lambda: correction.score_one(
            0.41, plan=np.int64(7), detail=True
        ),
    }
    for name, call in calls.items():
        print(f"{name}: {microseconds(call):.1f} microseconds")
    n = 1_000_000
    score, plan = (
        rng.random(n),
        rng.choice(
            ["free care", "pays 25 %", "pays 50 %", "pays 95 % or all"], n
        ).tolist(),
    )
    began = process_time()
    correction.apply(score, {"plan": plan})
    print(f"a million people in arrays: {process_time() - began:.1f} s")
    one_file_scorers()


if __name__ == "__main__":
    main()
