"""How many small faults in the statistics, the fit and the protection do the fast tests notice?

    python benchmarks/mutants.py --most 200 --seed 1 -o mutants.csv      # hours on one core

Each mutant is one change of one module: another comparison, operator, number or condition. Of the fast tests
of the same folders, those that run the changed line are run until one fails. Survivors are listed with their
line, for a reader to judge: some change nothing that anybody could see. A mutant that takes too long counts
as noticed. Needs `coverage`.
"""

import argparse
import ast
import csv
import multiprocessing
import os
import random
import sys
from collections import Counter
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
MODULES = {
    "auditing": [
        "hypothesis_tests",
        "intervals",
        "logistic_calibration",
        "named_errors",
        "loss_intervals",
        "bin_free",
    ],
    "core/fit": ["smooth_fit", "evidence", "log_odds_cells"],
    "protect": ["shown_counts", "rule", "shared_atoms"],
    "monitoring": ["e_processes"],
}
TESTS = ["tests/auditing", "tests/core/fit", "tests/protect", "tests/monitoring"]
COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
fork = multiprocessing.get_context("fork")


def changes(tree):
    """Each single change of a module: its line, and a function that makes it."""
    types = [node.annotation for node in ast.walk(tree) if isinstance(node, ast.arg | ast.AnnAssign)]
    types += [node.returns for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    skipped = {id(part) for kind in types if kind is not None for part in ast.walk(kind)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
            yield node.lineno, lambda node=node: node.ops.__setitem__(0, COMPARED[type(node.ops[0])]())
        elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
            yield node.lineno, lambda node=node: setattr(node, "op", COMPUTED[type(node.op)]())
        elif isinstance(node, ast.BoolOp):
            yield node.lineno, lambda node=node: node.values.pop()
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node.lineno, lambda node=node: setattr(node, "value", node.value * 2 if node.value else 1)


class Contexts:
    """Tells coverage which test is running."""

    def __init__(self, measured):
        self.measured = measured

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.measured.switch_context(item.nodeid)
        return (yield)


def find_tests(pipe):
    """Sends, for each file and line, the tests that run it."""
    measured = coverage.Coverage(data_file=None, source=["propcal"], config_file=False)
    measured.start()
    pytest.main([*TESTS, "-q", "-p", "no:cacheprovider"], plugins=[Contexts(measured)])
    measured.stop()
    data = measured.get_data()
    pipe.send({name: data.contexts_by_lineno(name) for name in data.measured_files()})


def run_tests(path, tree, tests):
    """Runs tests with a module that is imported in place of the one on the disk."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    code = compile(ast.fix_missing_locations(tree), str(path), "exec")
    changed = ".".join(path.relative_to(SOURCE).with_suffix("").parts)

    class Loader(SourceFileLoader):
        def get_code(self, _):
            return code

    class Finder(MetaPathFinder):
        def find_spec(self, fullname, *_):
            return (
                ModuleSpec(changed, Loader(changed, str(path)), origin=str(path))
                if fullname == changed
                else None
            )

    sys.meta_path.insert(0, Finder())
    os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))


def outcome(path, tree, tests, seconds):
    if not tests:
        return "not run"
    process = fork.Process(target=run_tests, args=(path, tree, tests))
    process.start()
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        return "too long"
    return "killed" if process.exitcode else "survived"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=150, help="longest run of the tests of one mutant")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    os.chdir(ROOT)
    here, there = fork.Pipe(duplex=False)
    fork.Process(target=find_tests, args=(there,)).start()
    lines = here.recv()
    for name in ("pandas", "scipy.stats", "sklearn"):
        import_module(name)  # once for all mutants

    places = [
        (path, index)
        for folder, names in MODULES.items()
        for path in (SOURCE / "propcal" / folder / f"{name}.py" for name in names)
        for index in range(sum(1 for _ in changes(ast.parse(path.read_text()))))
    ]
    random.Random(options.seed).shuffle(places)
    counts = Counter()
    with options.output.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["module", "line", "before", "after", "tests", "outcome"])
        for path, index in places[: options.most]:
            tree = ast.parse(path.read_text())
            before = ast.unparse(tree).splitlines()
            line, change = list(changes(tree))[index]
            change()
            differ = (
                pair
                for pair in zip(before, ast.unparse(tree).splitlines(), strict=True)
                if pair[0] != pair[1]
            )
            by_line = lines.get(str(path), {})
            tests = set(by_line.get(line, [])) - {""} or set().union(*by_line.values()) - {
                ""
            }  # or run by importing
            result = outcome(path, tree, sorted(tests), options.seconds)
            counts[result] += 1
            table.writerow(
                [path.relative_to(SOURCE), line, *map(str.strip, next(differ)), len(tests), result]
            )
            file.flush()
            print(dict(counts), end="\r", flush=True)
    print()


if __name__ == "__main__":
    main()
