"""Compares the answers of two versions of propcal, to the last bit.

python benchmarks/answers.py --against REV     # compare the working tree with a commit;
runs both python benchmarks/answers.py --store FILE      # store digests of the working
tree's answers python benchmarks/answers.py --compare FILE    # compare the working tree
with stored digests

Use it for a refactoring that must not change anything. The cases (answers_cases.py,
answers_frames.py, answers_calls.py, answers_commands.py and answers_results.py) only
use public names and the command line, so that modules may move between the versions. An
exception is an answer too: its type and its text. For each case that differs, the
differing parts are printed, and the exit code is 1. --only TEXT selects cases with that
text in their name; --spark adds a case that needs Java. This takes several minutes."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
# one thread, so that sums are added in the same order, and a fixed terminal
SETTING = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
    ),
    **{
        "COLUMNS": "100",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "MPLBACKEND": "agg",
    },
    **{"TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "", "PROPCAL_DEBUG": ""},
}
OF_OTHERS = (
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
    ResourceWarning,
    ImportWarning,
)


def as_text(value: Any) -> str:
    """Any result of propcal as text that changes if a single bit changes (a float's
    repr is exact).
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value):,} bytes {hashlib.sha256(value).hexdigest()}\n{bytes(value)!r}"
    if isinstance(value, pd.DataFrame):
        columns = {str(name): column for name, column in value.items()}
        told = [f"{name} ({c.dtype}): {_values(c)}" for name, c in columns.items()]
        return "\n".join([f"{len(value)} rows, index {value.index.tolist()}", *told])
    if isinstance(value, pd.Series):
        return f"{value.name} ({value.dtype}): {_values(value)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}\n" + ",\n".join(
            map(repr, value.ravel().tolist())
        )
    if isinstance(value, np.generic):
        return f"{value.dtype} {value.item()!r}"
    if isinstance(value, dict):
        return "\n".join(f"{key!r}: {as_text(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return (
            type(value).__name__ + "\n" + "\n".join(as_text(inner) for inner in value)
        )
    if hasattr(value, "schema") and hasattr(value, "to_pylist"):  # pyarrow
        return f"{value.schema.names} {value.schema.types}\n" + "\n".join(
            map(repr, value.to_pylist())
        )
    if hasattr(value, "schema") and hasattr(value, "rows"):  # polars
        return f"{dict(value.schema)}\n" + "\n".join(map(repr, value.rows()))
    return repr(value)


def _values(column: pd.Series) -> str:
    return ", ".join(map(repr, column.tolist()))


class Answers:
    """Collects the parts of a case, and stores each answer as text under its digest."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.digests = folder, {}
        (folder / "parts").mkdir(parents=True)
        self.work = folder / "work"

    def begin(self, case: str) -> None:
        self.case, self.parts = case, self.digests.setdefault(case, {})
        self.work = (
            self.folder / "work" / hashlib.sha256(case.encode()).hexdigest()[:12]
        )
        self.work.mkdir(parents=True)
        os.chdir(self.work)

    def __call__(self, part: str, compute: Callable[[], Any]) -> Any:
        """The result of `compute`, or None if it raises."""
        assert part not in self.parts, f"a part of this name is there: {part}"
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                value = compute()
                text = as_text(value)
            except Exception as error:
                value, text = None, f"raises {type(error).__name__}: {error}"
        told = [w for w in told if not issubclass(w.category, OF_OTHERS)]
        text += "".join(f"\nwarns {w.category.__name__}: {w.message}" for w in told)
        self.keep(part, text)
        return value

    def keep(self, part: str, text: str) -> None:
        data = self.plain(text).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(data).hexdigest()
        self.parts[part] = digest
        path = self.folder / "parts" / digest
        if not path.exists():
            path.write_bytes(data)

    def plain(self, text: str) -> str:
        """Remove what differs between two runs of one version: folders, addresses,
        times, compilation.
        """
        text = text.replace(str(self.work), "FOLDER").replace(
            str(self.folder), "FOLDER"
        )
        text = re.sub(r"\bat 0x[0-9a-f]+", "at 0x", text)
        text = re.sub(r"about \d+ min left", "about N min left", text)
        return re.sub(
            r"propcal (?:compiles its kernel|is compiling its code).*\n?", "", text
        )


def run_cases(folder: Path, source: Path, label: str, only: str, spark: bool) -> None:
    """Run all cases with the imported propcal, which must be that of `source`."""
    import answers_calls
    import answers_cases
    import answers_commands
    import answers_frames
    import answers_results

    import propcal

    found = Path(propcal.__file__).resolve()
    assert found.is_relative_to(source.resolve()), f"{found} was imported, not {source}"
    modules = (
        answers_cases,
        answers_frames,
        answers_calls,
        answers_commands,
        answers_results,
    )
    cases = {name: case for module in modules for name, case in module.CASES.items()}
    if spark:
        cases |= answers_frames.SPARK
    chosen = {name: case for name, case in cases.items() if only in name}
    _add_paper(source, folder)
    ask, began, said = Answers(folder), perf_counter(), 0.0
    for i, (name, case) in enumerate(chosen.items(), start=1):
        ask.begin(name)
        try:
            case(ask)
        except (
            Exception
        ) as error:  # an error in the case itself, which uses results of its parts
            ask.keep("the rest", f"raises {type(error).__name__}: {error}")
        seconds = perf_counter() - began
        if seconds - said > 10 or i == len(chosen):
            said = seconds
            cpu = sum(os.times()[:4])  # including child processes
            told = f"{label}: {i} of {len(chosen)} cases, {seconds:.0f} s, {cpu:.0f} s of a core"
            print(told, file=sys.stderr, flush=True)
    os.chdir(folder)
    (folder / "digests.json").write_text(json.dumps(ask.digests, indent=1))


def _add_paper(source: Path, folder: Path) -> None:
    """Let the commands that cases start find `propcal paper` of the same version.

    Until version 0.3, the experiments of the paper were a part of propcal.
    """
    paper = source.parent / "paper"
    if not paper.is_dir():
        return
    sys.path.insert(0, str(paper / "tests"))
    from as_installed import entry_points_folder

    added = [str(paper / "src"), entry_points_folder(folder / "installed")]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(source), *added])


def start(
    folder: Path, source: Path, label: str, options: argparse.Namespace
) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        __file__,
        "--run",
        str(folder),
        str(source),
        label,
        "--only",
        options.only,
    ]
    env = {**os.environ, **SETTING, "PYTHONPATH": str(source)}
    env = {name: value for name, value in env.items() if value}
    return subprocess.Popen(
        [*command, *(["--spark"] if options.spark else [])], env=env
    )


def finished(
    process: subprocess.Popen[bytes], folder: Path
) -> dict[str, dict[str, str]]:
    if process.wait() != 0:
        sys.exit("a run did not come to its end")
    found: dict[str, dict[str, str]] = json.loads((folder / "digests.json").read_text())
    return found


def _of_sources(revision: str) -> list[str]:
    """The folders of a commit that its commands need."""
    listed = ["git", "ls-tree", "--name-only", revision, "src", "paper"]
    found = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    return found.stdout.split()


def extract(revision: str, folder: Path) -> Path:
    """The source of a commit."""
    packed = subprocess.run(
        ["git", "archive", revision, *_of_sources(revision)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def differences(old: dict, new: dict, folders: tuple[Path, Path] | None) -> list[str]:
    """One line for each case with the parts that differ and, if texts are available,
    the first difference.
    """
    lines = []
    for case in {**old, **new}:
        before, after = old.get(case, {}), new.get(case, {})
        parts = [
            part for part in {**before, **after} if before.get(part) != after.get(part)
        ]
        if not parts:
            continue
        more = f" and {len(parts) - 12} more" if len(parts) > 12 else ""
        lines.append(f"{case}: {', '.join(parts[:12])}{more}")
        both = [part for part in parts if part in before and part in after]
        if folders and both:
            texts = [
                (folder / "parts" / side[both[0]]).read_bytes().decode(errors="replace")
                for folder, side in zip(folders, (before, after))
            ]
            lines[-1] += f"\n    {both[0]}: {_where(*texts)}"
    return lines


def _where(before: str, after: str) -> str:
    same = next(
        (i for i, (a, b) in enumerate(zip(before, after)) if a != b),
        min(len(before), len(after)),
    )
    begin = max(same - 50, 0)
    return f"{before[begin : same + 70]!r} became {after[begin : same + 70]!r}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--against", metavar="REV")
    what.add_argument("--store", metavar="FILE", type=Path)
    what.add_argument("--compare", metavar="FILE", type=Path)
    what.add_argument(
        "--run", nargs=3, help=argparse.SUPPRESS
    )  # internal: runs one version
    parser.add_argument("--only", metavar="TEXT", default="")
    parser.add_argument("--spark", action="store_true")
    options = parser.parse_args()
    if options.run:
        folder, source, label = options.run
        run_cases(Path(folder), Path(source), label, options.only, options.spark)
        return
    with tempfile.TemporaryDirectory(prefix="propcal-answers-") as name:
        here, there = Path(name).resolve() / "here", Path(name).resolve() / "there"
        run = start(here, ROOT / "src", "working tree", options)
        if options.against:
            source = extract(options.against, Path(name).resolve() / "source")
            other = start(there, source, options.against, options)
            old = finished(other, there)
        new = finished(run, here)
        if options.store:
            options.store.write_text(json.dumps(new, indent=1) + "\n")
            print(
                f"{len(new)} cases, {sum(map(len, new.values()))} parts: {options.store}"
            )
            return
        if options.compare:
            old = json.loads(options.compare.read_text())
            old = {case: parts for case, parts in old.items() if options.only in case}
        lines = differences(old, new, (there, here) if options.against else None)
    for line in lines:
        print(line)
    told = f"{len(lines)} cases differ" if lines else "all equal"
    print(f"{len(new)} cases, {sum(map(len, new.values()))} parts, {told}")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
