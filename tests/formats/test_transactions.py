"""All files of a command or none, what is said of them is true, and nobody else's file
is replaced.
"""

import errno
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from first_cases import first
from propcal import PMCBoost
from propcal import interrupts as stopping
from propcal.cli import main
from propcal.errors import InputError
from propcal.formats.transaction import (
    check_target,
    forget_written,
    outputs,
    whole_file,
    written,
)

COLUMNS = ["--score", "risk", "--outcome", "y", "--groups", "race"]


def fill(path, write):
    with whole_file(path) as part:
        write(part)


@pytest.fixture(autouse=True)
def _nobody_asks():
    forget_written()  # what other tests of this process have written
    yield
    stopping.forget()
    forget_written()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        Path(name).write_text(f"old {name}")
    return tmp_path


def texts(folder="."):
    return {path.name: path.read_text() for path in Path(folder).iterdir()}


def write_all(names, *, force=True):
    with outputs(force=force) as out:
        for name in names:
            out.file(name).write_text(f"new {name}")


OLD = {name: f"old {name}" for name in "abc"}
NEW = {name: f"new {name}" for name in "abc"}


def test_all_files_appear_together_at_the_end(folder):
    with outputs() as out:
        out.file("a").write_text("new a")
        fill("b", lambda part: part.write_text("new b"))  # joins the transaction
        assert {name: Path(name).read_text() for name in "ab"} == {
            "a": "old a",
            "b": "old b",
        }
    assert texts() == OLD | {"a": "new a", "b": "new b"}
    assert written() == (Path("a"), Path("b"))


def test_one_file_that_fails_leaves_all_as_they_were(folder):
    def fail():
        with outputs() as out:
            out.file("a").write_text("new a")
            out.file("b").write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fail()
    assert texts() == OLD
    assert written() == ()


def test_the_file_that_does_not_fit_on_the_disk_is_named(folder):
    def full(part):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space") as told:
        fill("b", full)
    assert told.value.filename == "b"
    assert texts() == OLD


def test_a_file_that_fails_and_is_done_without_does_not_appear(folder):
    with outputs() as out:
        out.file("a").write_text("new a")
        with pytest.raises(ZeroDivisionError):
            fill("b", lambda part: 1 / 0)
    assert texts() == OLD | {"a": "new a"}


def test_the_same_file_twice_is_refused(folder):
    Path("link").symlink_to("a")
    with pytest.raises(InputError, match="written twice"):
        write_all(["a", "link"])
    assert Path("a").read_text() == "old a"


def test_a_rename_that_fails_midway_says_which_files_were_replaced(folder, monkeypatch):
    replace = Path.replace

    def refuse_b(part, target):
        if target.name == "b":
            raise PermissionError(13, "Permission denied")
        return replace(part, target)

    monkeypatch.setattr(Path, "replace", refuse_b)
    with pytest.raises(InputError) as told:
        write_all("abc")
    replaced, before = re.search(
        r"Replaced: (.*)\. Unchanged: (.*)\.", str(told.value)
    ).groups()
    assert [Path(p).name for p in replaced.split(", ")] == ["a"]
    assert [Path(p).name for p in before.split(", ")] == ["b", "c"]
    assert texts() == OLD | {"a": "new a"}
    assert written() == (Path("a"),)


def test_a_target_that_appears_meanwhile_is_kept_and_nothing_else_is_written(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    def too_late():
        with outputs(force=False) as out:
            for name in "abc":
                out.file(name).write_text(f"new {name}")
            Path("b").write_text("somebody else's")

    with pytest.raises(
        InputError, match="b was created by another program while this command ran"
    ):
        too_late()
    assert texts() == {"b": "somebody else's"}
    write_all("abc", force=True)
    assert texts() == NEW


def test_a_folder_that_appears_meanwhile_is_not_to_be_forced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def too_late():
        with outputs(force=False) as out:
            out.file("a").write_text("new a")
            Path("a").mkdir()

    with pytest.raises(
        InputError, match=r"a was created as a folder by another .* Choose another name"
    ):
        too_late()


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_links_claims_by_exclusive_creation(
    tmp_path, monkeypatch, number
):
    def no_links(*_):
        raise OSError(number, "Operation not permitted")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "link", no_links)
    write_all("ab", force=False)
    assert texts() == {"a": "new a", "b": "new b"}
    with pytest.raises(InputError, match="a was created by another program"):
        write_all("ca", force=False)
    assert texts() == {"a": "new a", "b": "new b"}


def test_of_many_threads_that_write_one_new_file_exactly_one_succeeds(tmp_path):
    target, lost = tmp_path / "model.json", []
    ready = threading.Barrier(16)

    def one(number):
        try:
            with outputs(force=False) as out:
                out.file(target).write_text(f"{number}\n" * 1000)
                ready.wait()
        except InputError:
            lost.append(number)

    threads = [threading.Thread(target=one, args=[i]) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lost) == 15
    (winner,) = {*range(16)} - {*lost}
    assert target.read_text() == f"{winner}\n" * 1000
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_no_file_is_made_by_changing_the_umask_of_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(
        os, "umask", lambda mask: pytest.fail("the umask is the whole process's")
    )
    fill(tmp_path / "new", lambda part: part.write_text("x"))
    (tmp_path / "plain").touch()
    modes = [
        stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "plain")
    ]
    assert modes[0] == modes[1]
    (tmp_path / "private").touch(0o600)
    seen = []
    fill(
        tmp_path / "private",
        lambda part: seen.append(stat.S_IMODE(part.stat().st_mode)),
    )
    assert seen == [0o600]  # before anything is in it
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o664)
    fill(tmp_path / "open", lambda part: part.write_text("x"))
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o664


@pytest.mark.parametrize(
    "way", ["itself", "another spelling", "symlink", "hard link", "link to the folder"]
)
def test_what_is_read_is_never_written_even_with_force(folder, way):
    spelled = {
        "itself": "a",
        "another spelling": "./../" + folder.name + "/a",
        "link to the folder": "d/a",
    }
    Path("s").symlink_to("a")
    Path("h").hardlink_to("a")
    Path("d").symlink_to(".")
    path = spelled.get(way) or {"symlink": "s", "hard link": "h"}[way]
    with pytest.raises(InputError, match="is also an input file"):
        check_target(path, force=True, reads=["c", "a"])


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    risk = rng.random(600).round(3)
    y = (rng.random(600) < risk**2).astype(int)
    return pd.DataFrame({"race": rng.choice(["A", "B"], 600), "risk": risk, "y": y})


@pytest.fixture
def files(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people.to_csv("past.csv", index=False)
    model = PMCBoost.paper().fit(
        people.risk, people.y, sensitive_features=people[["race"]]
    )
    model.correction_.save("model.json")
    return people


@pytest.fixture
def run(capfd):
    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        return end.value.code, capfd.readouterr().err

    return call


def test_no_command_writes_over_what_it_reads(files, run):
    Path("lake").mkdir()
    Path("lake/m.csv").write_bytes(Path("past.csv").read_bytes())
    Path("same.csv").symlink_to("past.csv")
    Path("hard.csv").hardlink_to("past.csv")
    Path("twin").symlink_to("lake")
    Path("propcal.toml").write_text("gamma = 0.05\n")
    assert run("atoms", "past.csv", *COLUMNS, "-o", "a.atoms")[0] == 0
    assert (
        run("atoms", "past.csv", *COLUMNS, "--resolution", "2^-8", "-o", "b.atoms")[0]
        == 0
    )
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    apply = ["apply", "model.json", "--score", "risk"]
    commands = [
        *(
            [*apply, "past.csv", "-o", name]
            for name in ("past.csv", "same.csv", "hard.csv")
        ),
        [*apply, "lake/m.csv", "-o", "lake/"],
        [*apply, "lake/*.csv", "-o", "twin/"],
        [*apply, "lake/*.csv", "-o", "lake/m.csv"],
        ["fit", "lake/*.csv", *COLUMNS, "-o", "lake/m.csv"],
        ["fit", "past.csv", *COLUMNS, "--config", "propcal.toml", "-o", "propcal.toml"],
        [
            "audit",
            "past.csv",
            *COLUMNS,
            "--correction",
            "model.json",
            "-o",
            "model.json",
        ],
        ["audit", "past.csv", *COLUMNS, "--html", "hard.csv"],
        ["audit", "lake/*.csv", *COLUMNS, "--md", "lake/m.csv"],
        ["atoms", "lake/*.csv", *COLUMNS, "-o", "twin/m.csv"],
        ["merge", "a.atoms", "b.atoms", "-o", "b.atoms"],
        ["export", "model.json", "--score", "risk", "-o", "model.json"],
    ]
    for command in commands:
        code, err = run(*command, "--force")
        assert (code, "is also an input file" in err) == (2, True), (command, err)
    # the model is no table, so that it must be named as one to be refused as what is
    # read
    Path("model.csv").symlink_to("model.json")
    code, err = run(*apply, "past.csv", "-o", "model.csv", "--force")
    assert (code, "is also an input file" in err) == (2, True), err
    Path("model.csv").unlink()
    assert {
        path: path.read_bytes() for path in Path().rglob("*") if path.is_file()
    } == before


# A command that stops for a word of the test at a chosen moment; "{here}" runs with
# `Path.replace` at hand.
HELD = """
import os, sys, time
from pathlib import Path
import propcal.cli
from propcal.formats import transaction
{patch}
propcal.cli.main()
"""
# before any file is in place; after the first of three; after all, while the result is
# printed
BEFORE = """
settle = transaction.Outputs.settle
def slowly(self):
    print("now", flush=True)
    time.sleep({seconds})
    settle(self)
transaction.Outputs.settle = slowly
"""
BETWEEN = """
replace, done = Path.replace, []
def slowly(part, target):
    found = replace(part, target)
    done.append(target)
    if len(done) == 1:
        print("now", flush=True)
        time.sleep({seconds})
    return found
Path.replace = slowly
"""
AFTER = """
from propcal.cli import terminal
def slowly(self, *content, **how):
    print("now", flush=True)
    time.sleep({seconds})
terminal.Output.show = slowly
"""
AUDIT = [
    "audit",
    "past.csv",
    *COLUMNS,
    "--draws",
    "100",
    "-o",
    "a",
    "--html",
    "b",
    "--md",
    "c",
    "--force",
]


@contextmanager
def held(patch, arguments, seconds):
    """A process that has come to that moment and waits there."""
    script = HELD.format(patch=patch.format(seconds=seconds))
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments], **pipes, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "now\n", process.stderr.read()
            yield process
        finally:
            process.kill()


AS_BEFORE = "propcal: interrupted; no file was changed\n"
ALL = "propcal: interrupted after all files were written: a, b, c\n"


@pytest.mark.parametrize(
    ("patch", "number", "code", "said"),
    first(
        2,
        [
            (BEFORE, signal.SIGTERM, 143, AS_BEFORE),
            (BETWEEN, signal.SIGINT, 130, ALL),
            (BEFORE, signal.SIGINT, 130, AS_BEFORE),
            (BETWEEN, signal.SIGTERM, 143, ALL),
            (AFTER, signal.SIGTERM, 143, ALL),
        ],
    ),
    ids=["before-term", "between-int", "before-int", "between-term", "after-term"],
)
def test_what_a_stopped_command_says_of_its_files_is_true(
    files, folder, patch, number, code, said
):
    with held(patch, AUDIT, seconds=1.5 if patch is BETWEEN else 60) as process:
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, said)
    changed = [name for name in "abc" if Path(name).read_text() != f"old {name}"]
    assert changed == ([] if said is AS_BEFORE else ["a", "b", "c"])
    assert not list(Path().glob(".propcal-*"))


@pytest.mark.slow
def test_a_killed_command_leaves_old_files_whole_and_nothing_that_is_taken_for_output(
    files, folder, run
):
    with held(BEFORE, AUDIT, seconds=60) as process:
        process.kill()
        process.communicate()
    assert {name: Path(name).read_text() for name in "abc"} == OLD
    left = list(Path().glob(".propcal-*.part"))
    assert (
        len(left) == 3
    )  # nobody could clean up; a name that begins with a dot is in no pattern
    from propcal.reading.file_source import find_files

    assert not {*left} & {*find_files("*")}
    assert run(*AUDIT)[0] == 0
    assert {name for name in "abc" if Path(name).read_text() != f"old {name}"} == {
        *"abc"
    }


@pytest.mark.slow
def test_of_two_fits_to_one_new_file_exactly_one_succeeds(files):
    command = ["fit", "past.csv", *COLUMNS, "--paper", "-o", "new.json"]
    patch = BEFORE.replace("time.sleep({seconds})", "sys.stdin.readline()")
    with held(patch, command, 0) as one, held(patch, command, 0) as other:
        assert not Path(
            "new.json"
        ).exists()  # both are done with the work, and neither has a file in place
        for process in (one, other):
            process.stdin.write("go\n")
            process.stdin.flush()
        found = [
            (process.communicate(timeout=60), process.returncode)
            for process in (one, other)
        ]
    assert sorted(code for _, code in found) == [0, 2]
    ((_, err),) = [texts for texts, code in found if code == 2]
    assert "new.json was created by another program while this command ran" in err
    assert err.count("\n") == 1
    assert not list(Path().glob(".propcal-*"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", first(1, [False, True]))
def test_a_result_that_cannot_be_printed_is_told_with_what_was_written(
    files, folder, unbuffered
):
    command = [sys.executable, *["-u"] * unbuffered, "-m", "propcal", *AUDIT]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "propcal: cannot write to standard output: No space left on device; these files were written "
        "nevertheless: a, b, c\n"
    )
    assert {name for name in "abc" if Path(name).read_text() != f"old {name}"} == {
        *"abc"
    }
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "propcal",
                "export",
                "model.json",
                "--score",
                "risk",
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert (
        done.stderr
        == "propcal: cannot write to standard output: No space left on device\n"
    )


def test_a_stop_before_the_command_has_begun_is_told_without_a_trace(
    files, run, monkeypatch
):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("propcal.cli.app", interrupted)
    assert run(*AUDIT) == (130, AS_BEFORE)
