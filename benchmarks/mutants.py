"""How many small faults in the statistics, the fit and the protection do the fast tests notice?

    python benchmarks/mutants.py --most 300 --seed 1 -o mutants.csv      # the survivors are listed there
    python benchmarks/mutants.py --again mutants.csv -o again.csv        # survivors only, after a new test
    python benchmarks/mutants.py --only protect -o mutants.csv           # one folder: takes less time
    python benchmarks/mutants.py --jobs 16 -o mutants.csv                # 16 processes

Each mutant is one change of one function or constant: another comparison, operator, number or condition.
Types, what errors say, default values and compiled loops (which tests compare with tests/oracle.py) are left
out. Of the fast tests of the same folders, those that run the changed statement are run until one fails: the
quickest first, and 30 seconds of them at most. A mutant that takes four times as long counts as noticed.
Survivors are for a reader to judge: some change nothing that anybody could see. Needs `coverage`.

Modules and tests are imported once; each mutant is a fork of that process, in which the code of one function,
or the value of one constant, is replaced.
"""

import argparse
import ast
import csv
import gc
import multiprocessing
import multiprocessing.connection
import os
import pickle
import random
import resource
import sys
import time
from collections import Counter, defaultdict
from functools import _lru_cache_wrapper
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
FOLDERS = ["core", "auditing", "protect", "monitoring", "sites"]
EVERYWHERE = ["tests/test_promises.py"]  # run for each folder
COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
}
SECONDS = 30  # of processor time that the tests of a mutant take
fork = multiprocessing.get_context("fork")


def change_of(node):
    """A function that changes a node, or None."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        return lambda: node.ops.__setitem__(0, COMPARED[type(node.ops[0])]())
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        return lambda: setattr(node, "op", COMPUTED[type(node.op)]())
    if isinstance(node, ast.BoolOp):
        return node.values.pop
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return lambda: setattr(node, "value", node.value * 2 if node.value else 1)
    return None


def changes(tree):
    """Each change of a module: its function or constant, the lines of the statement,
    what makes it.
    """

    def within(owner, statement, node):
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.arg | ast.arguments):
            return
        if isinstance(node, ast.FunctionDef):
            if any(
                "compiled" in ast.unparse(decorator)
                for decorator in node.decorator_list
            ):
                return
            parts = node.body
            owner = owner if isinstance(owner, ast.FunctionDef) else node
        elif isinstance(node, ast.ClassDef):
            parts = [part for part in node.body if isinstance(part, ast.FunctionDef)]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.value] if node.value else []
        else:
            parts = ast.iter_child_nodes(node)
        if isinstance(node, ast.stmt):
            statement = node
            if (
                owner is None
                and isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
            ):
                owner = node
        change = change_of(node)
        if owner is not None and change is not None:
            yield owner, range(statement.lineno, node.end_lineno + 1), change
        for part in parts:
            yield from within(owner, statement, part)

    yield from within(None, None, tree)


def codes(code):
    """The code of each function of a module."""
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from codes(part)


def replace(path, tree, owner):
    """Put a change into the modules that are imported."""
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    ast.fix_missing_locations(tree)
    if isinstance(owner, ast.Assign):
        constant, module = owner.targets[0].id, sys.modules[name]
        value = dict(vars(module))
        exec(compile(ast.Module([owner], []), str(path), "exec"), value)
        old = vars(module)[constant]
        for other in list(sys.modules.values()):
            if vars(other).get(constant) is old:
                setattr(other, constant, value[constant])
        return
    first = min(
        [owner.lineno, *(decorator.lineno for decorator in owner.decorator_list)]
    )
    (code,) = (
        part
        for part in codes(compile(tree, str(path), "exec"))
        if part.co_name == owner.name and part.co_firstlineno == first
    )
    functions = [
        one
        for one in gc.get_objects()
        if isinstance(one, FunctionType)
        and one.__code__.co_filename == str(path)
        and one.__code__.co_firstlineno == first
        and one.__code__.co_name == owner.name
    ]
    assert functions, (name, owner.name)
    for one in functions:
        one.__code__ = code


class Observer:
    """Tells coverage which test, or which shared fixture, is running; notes how long
    tests take.
    """

    def __init__(self, measured):
        self.measured = measured
        self.seconds = {}
        self.users = defaultdict(list)
        self.running = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.running = item.nodeid
        for name in (item.nodeid, *(f"fixture {name}" for name in item.fixturenames)):
            self.users[name].append(item.nodeid)
        self.measured.switch_context(item.nodeid)
        start = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - start
        print(
            f"{len(self.seconds):6d} {self.seconds[item.nodeid]:8.2f} {item.nodeid}",
            file=sys.stderr,
        )
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            return (yield)
        self.measured.switch_context(f"fixture {fixturedef.argname}")
        result = yield
        self.measured.switch_context(self.running)
        return result


class Failure:
    """Ends the process at the first failure."""

    def pytest_runtest_logreport(self, report):
        if report.failed:
            os._exit(1)


def merged(parts):
    """What several processes found out about tests: by file and line, and how long each takes."""
    lines = defaultdict(lambda: defaultdict(set))
    seconds = {}
    for part, durations in parts:
        seconds |= durations
        for name, tests in part.items():
            for line, found in tests.items():
                lines[name][line] |= found
    return {name: dict(by_line) for name, by_line in lines.items()}, seconds


def shared_out(items, jobs):
    """The tests of a file stay together, because they share fixtures; large files come first."""
    by_file = defaultdict(list)
    for item in items:
        by_file[item.path].append(item)
    shares = [[] for _ in range(jobs)]
    for some in sorted(by_file.values(), key=len, reverse=True):
        min(shares, key=len).extend(some)
    return [share for share in shares if share]


def run_all(items):
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def find_tests(pipe, items):
    """Sends, for each file and line, the tests that run it, and how long each takes."""
    measured = coverage.Coverage(
        data_file=None, include=[f"{SOURCE}/*"], config_file=False
    )
    observer = Observer(measured)
    items[0].config.pluginmanager.register(observer)
    measured.start()
    run_all(items)
    measured.stop()
    data = measured.get_data()
    lines = {
        name: {
            line: {
                test for context in contexts for test in observer.users.get(context, [])
            }
            for line, contexts in data.contexts_by_lineno(name).items()
        }
        for name in data.measured_files()
    }
    pipe.send((lines, observer.seconds))
    os._exit(0)


def run_tests(items, path, tree, owner):
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (4 * SECONDS, 4 * SECONDS))
    items[0].config.pluginmanager.register(Failure())
    replace(path, tree, owner)
    run_all(items)
    os._exit(0)


OUTCOMES = {0: "survived", 1: "killed"}


class Running(NamedTuple):
    """A mutant whose tests are running, and its row of the table."""

    process: multiprocessing.Process
    row: tuple

    def outcome(self):
        self.process.join()
        return OUTCOMES.get(self.process.exitcode, "too long")


def first_finished(running):
    """The first of some processes to end."""
    ended = multiprocessing.connection.wait([one.process.sentinel for one in running])
    return next(one for one in running if one.process.sentinel in ended)


def chosen_tests(path, owner, statement, lines, seconds):
    """The tests that run a statement, the quickest first; for a constant, those that
    run the module.
    """
    by_line = lines.get(str(path), {})
    if isinstance(owner, ast.Assign):
        found = set().union(*by_line.values())
    else:
        found = set().union(*(by_line.get(line, ()) for line in statement))
    chosen, total = [], 0.0
    for test in sorted(found, key=lambda test: (seconds[test], test)):
        total += seconds[test]
        if chosen and total > SECONDS:
            break
        chosen.append(test)
    return chosen


def share_without_tests(lines, seconds):
    """How many of all changes are in statements that no test runs."""
    found = [
        bool(chosen_tests(path, owner, statement, lines, seconds))
        for path in dict.fromkeys(path for path, _ in mutants())
        for owner, statement, _ in changes(ast.parse(path.read_text()))
    ]
    return f"{found.count(False)} of {len(found):,} changes are in statements that no test runs"


def mutated_modules():
    """The modules of the folders that are changed."""
    for folder in FOLDERS:
        yield from sorted((SOURCE / "propcal" / folder).rglob("*.py"))


def module_name(path):
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def mutants():
    """Module and number of each change."""
    for path in mutated_modules():
        tree = ast.parse(path.read_text())
        for index, _ in enumerate(changes(tree)):
            yield path, index


def mutant(path, index):
    """The changed module, its function or constant, the lines of the statement, one
    before and after.
    """
    tree = ast.parse(path.read_text())
    before = ast.unparse(tree).splitlines()
    owner, statement, change = list(changes(tree))[index]
    change()
    pairs = zip(before, ast.unparse(tree).splitlines(), strict=True)
    texts = next((one.strip(), other.strip()) for one, other in pairs if one != other)
    return tree, owner, statement, *texts


def survivors(file):
    """What survived an earlier run: module, line before and line after."""
    with file.open(newline="") as rows:
        return {
            (row["module"], row["before"], row["after"])
            for row in csv.DictReader(rows)
            if row["outcome"] in ("survived", "not run")
        }


class Experiment:
    """What pytest does with the tests that it has collected."""

    def __init__(self, options):
        self.options = options
        self.again = survivors(options.again) if options.again else None

    def pytest_runtestloop(self, session):
        for path in mutated_modules():
            import_module(module_name(path))
        for name in (
            "scipy.stats",
            "scipy.optimize",
            "sklearn.linear_model",
            "numba",
            "jsonschema",
        ):
            import_module(name)
        for one in gc.get_objects():
            if isinstance(one, _lru_cache_wrapper) and str(one.__module__).startswith(
                "propcal"
            ):
                one.cache_clear()
        items = {item.nodeid: item for item in session.items}
        lines, seconds = self.tests_by_line(session.items)
        print(share_without_tests(lines, seconds), file=sys.stderr)

        places = list(mutants())
        random.Random(self.options.seed).shuffle(places)
        self.counts = Counter()
        with self.options.output.open("w", newline="") as file:
            self.table = csv.writer(file)
            self.table.writerow(
                ["module", "line", "before", "after", "tests", "outcome"]
            )
            running = []
            for path, index in (
                places if self.again is not None else places[: self.options.most]
            ):
                tree, owner, statement, before, after = mutant(path, index)
                name = str(path.relative_to(SOURCE))
                if self.again is not None and (name, before, after) not in self.again:
                    continue
                tests = chosen_tests(path, owner, statement, lines, seconds)
                row = (name, statement[-1], before, after, len(tests))
                if not tests:
                    self.keep(row, "not run")
                    continue
                if len(running) == self.options.jobs:
                    one = first_finished(running)
                    running.remove(one)
                    self.keep(one.row, one.outcome())
                    file.flush()
                chosen = [items[test] for test in tests]
                process = fork.Process(
                    target=run_tests, args=(chosen, path, tree, owner)
                )
                process.start()
                running.append(Running(process, row))
            for one in running:
                self.keep(one.row, one.outcome())
        return True

    def keep(self, row, outcome):
        """Write what became of a mutant."""
        self.counts[outcome] += 1
        self.table.writerow([*row, outcome])
        print(
            f"{sum(self.counts.values())} {dict(self.counts)}",
            file=sys.stderr,
            flush=True,
        )

    def tests_by_line(self, items):
        """Kept in a file if one is named, because finding out takes minutes."""
        kept = self.options.tests
        if kept and kept.exists():
            return pickle.loads(kept.read_bytes())
        pipes = []
        for share in shared_out(items, self.options.jobs):
            here, there = fork.Pipe(duplex=False)
            fork.Process(target=find_tests, args=(there, share)).start()
            pipes.append(here)
        found = merged([pipe.recv() for pipe in pipes])
        if kept:
            kept.write_bytes(pickle.dumps(found))
        return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", nargs="+", choices=FOLDERS, help="change and test these folders only"
    )
    parser.add_argument(
        "--again", type=Path, help="try the survivors of an earlier run"
    )
    parser.add_argument(
        "--tests", type=Path, help="keep here which tests run which lines, or read it"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    os.chdir(ROOT)
    FOLDERS[:] = [folder for folder in FOLDERS if folder in (options.only or FOLDERS)]
    tests = [
        f"{root}/{folder}" for root in ("tests", "src/propcal") for folder in FOLDERS
    ]
    tests += EVERYWHERE
    pytest.main(
        [*tests, "-q", "-s", "-p", "no:cacheprovider"], plugins=[Experiment(options)]
    )


if __name__ == "__main__":
    main()
