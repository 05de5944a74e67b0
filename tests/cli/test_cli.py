"""The command line."""

import inspect
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from first_cases import first
from propcal import Atoms, Correction, PMCBoost, __version__
from propcal.cli import app, main


def test_demo_audits_and_corrects_a_score_of_real_people(tmp_path):
    result = CliRunner().invoke(
        app, ["demo", "-o", str(tmp_path)], env={"COLUMNS": "160"}
    )
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert (
        "O/E is 0.59 for pays 95 % or all, and 0.91 for all other person-years" in said
    )
    assert "No miscalibration was found in “corrected”" in said
    assert "Is this score right for everyone?" in (tmp_path / "report.html").read_text()
    command = result.output.splitlines()[-2].split()
    again = CliRunner().invoke(app, [*command[1:-2]], env={"COLUMNS": "160"})
    assert again.exit_code == 0, again.output
    assert "O/E is 0.59 for pays" in " ".join(again.output.split())


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(
        app, ["demo", "--people", "40000", "-o", str(folder)], env={"COLUMNS": "160"}
    )
    assert result.exit_code == 0, result.output
    return folder, result.output


def table_row(output, name):
    line = next(line for line in output.splitlines() if re.match(rf"{name}  +\d", line))
    return [float(x) for x in re.findall(r"\d\.\d+", line)]


def test_demo_shows_all_losses_before_and_after(demo):
    _, output = demo
    names = ("base model", "PMCBoost", "the paper's PMCBoost", "the paper's MCBoost")
    rows = {name: table_row(output, name) for name in names}
    assert all(len(row) == 5 for row in rows.values())
    assert rows["PMCBoost"][1] < rows["base model"][1]  # PMC loss on held-out people
    assert rows["PMCBoost"][4] <= min(row[4] for row in rows.values())  # Brier
    assert rows["PMCBoost"][3] > rows["base model"][3] - 0.01  # AUROC
    for heading in ("MC loss", "PMC loss", "DC loss", "AUROC", "Brier"):
        assert heading in output


def test_demo_shows_for_whom_the_correction_helps(demo):
    _, output = demo
    said = " ".join(output.split())
    assert "“base model” is miscalibrated" in said
    assert "“PMCBoost” is closer to the observed rate than “base model” in " in said


def test_demo_ends_with_an_audit_and_the_next_command(demo):
    folder, output = demo
    assert "Verdict: Miscalibrated" in output[output.index("The audit:") :]
    command = output.splitlines()[-2].split()
    assert command[:2] == ["propcal", "audit"]
    assert (
        "generated emergency-department visits" in (folder / "report.html").read_text()
    )
    again = CliRunner().invoke(app, command[1:-2], env={"COLUMNS": "100"})
    assert again.exit_code == 0
    assert "\ncorrected: " in again.output
    assert len((folder / "held_out.csv").read_text().splitlines()) == 10_001


def test_demo_writes_a_correction_that_loads(demo):
    folder, output = demo
    assert str(folder / "model.json") in output.replace("\n", "")
    correction = Correction.load(folder / "model.json")
    assert correction.attributes == ("race", "gender")
    assert correction.apply([0.5], {"race": ["White"], "gender": ["F"]}).shape == (1,)


def test_demo_is_the_same_each_time(demo, tmp_path):
    folder, output = demo
    again = CliRunner().invoke(
        app, ["demo", "--people", "40000", "-o", str(tmp_path)], env={"COLUMNS": "160"}
    )
    first, second = (Correction.load(one / "model.json") for one in (tmp_path, folder))
    assert first.model_id == second.model_id  # their files differ in the time alone
    assert table_row(again.output, "PMCBoost") == table_row(output, "PMCBoost")


@pytest.fixture
def shown(capfd, monkeypatch):
    """Run a command in this process, on a screen of that width: its exit code and what
    it wrote.
    """

    def call(*arguments, width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        return (end.value.code, *capfd.readouterr())

    return call


def test_help_and_version(shown):
    code, said, _ = shown("--help")
    assert code == 0
    assert "demo" in said
    assert "Example" in shown("demo", "--help")[1]
    assert "<bool>" not in said
    assert shown("--version") == (0, f"propcal {__version__}\n", "")


@pytest.fixture
def installed(monkeypatch):
    """Let distributions be installed that add these commands, and no others."""

    def call(**commands):
        entries = [
            EntryPoint(name, value, "propcal.commands")
            for name, value in commands.items()
        ]
        monkeypatch.setattr("propcal.cli.entry_points", lambda group: entries)

    return call


small = typer.Typer(help="Commands of another distribution.")


@small.command()
def hello():
    """Say hello."""
    print("hello")


@small.command()
def goodbye():
    """Say goodbye."""


def small_app():
    return small


@pytest.mark.parametrize("value", ["small", "small_app"])
def test_other_distributions_add_commands(installed, shown, value):
    installed(greetings=f"{__name__}:{value}")
    assert re.search("greetings +Commands of another distribution", shown("--help")[1])
    assert shown("greetings", "hello") == (0, "hello\n", "")


def test_a_command_of_propcal_cannot_be_replaced(installed, shown):
    installed(fit=f"{__name__}:small")
    assert "Say hello" not in shown("fit", "--help")[1]
    assert re.findall(r"^│ (\w+) ", shown("--help")[1], re.MULTILINE).count("fit") == 1


def test_without_propcal_paper_its_command_says_how_to_get_it(installed, shown):
    installed()
    code, said, error = shown("paper", "tables", "store.sqlite")
    assert (code, said) == (2, "")
    assert error == (
        "propcal: propcal paper is in a distribution of its own, propcal-paper, which is not installed: "
        "pip install ./paper in a copy of propcal's repository adds it\n"
    )
    assert "pip install ./paper" in " ".join(shown("--help")[1].split())


def test_commands_are_listed_in_the_order_of_use(installed, shown):
    installed()
    code, said, _ = shown()
    assert code == 0
    listed = re.findall(r"^│ (\w+) ", said, re.MULTILINE)
    assert listed == [
        *(
            "demo",
            "audit",
            "fit",
            "show",
            "apply",
            "discover",
            "monitor",
            "sites",
            "atoms",
            "merge",
            "export",
        )
    ]
    assert "Start with propcal demo" in said


COMMANDS = [
    "demo",
    "audit",
    "fit",
    "apply",
    "monitor",
    "sites",
    "atoms",
    "merge",
    "export",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_begins_with_an_example_and_fits_80_columns(shown, command):
    _, said, _ = shown(*command.split(), "--help")
    assert (
        said.split("Usage:")[1]
        .split("\n", 1)[1]
        .strip()
        .startswith(f"Example: propcal {command}")
    )
    assert max(map(len, said.splitlines())) <= 80


def test_help_tells_the_defaults_of_the_library(shown):
    said = " ".join(shown("fit", "--help-all", width=300)[1].split())
    defaults = {
        name: p.default for name, p in inspect.signature(PMCBoost).parameters.items()
    }
    for name in (
        "alpha",
        "gamma",
        "rho",
        "n_bins",
        "binning",
        "eta",
        "intersections",
        "missing",
        "max_updates",
    ):
        found = re.search(rf"--{name.replace('_', '-')} [^│]*?Default: (\S+)", said)
        assert found, name
        value = defaults[name]
        assert found[1] == (value if isinstance(value, str) else f"{value:.12g}"), name


def test_the_command_line_starts_without_heavy_libraries():
    heavy = (
        "numpy",
        "sklearn",
        "scipy",
        "pandas",
        "numba",
        "duckdb",
        "pyarrow",
        "narwhals",
    )
    code = f"import sys, propcal.cli; print([m for m in {heavy} if m in sys.modules])"
    assert (
        subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
    )


def test_ctrl_c_ends_with_130_and_one_line(tmp_path):
    command = [sys.executable, "-m", "propcal", "demo", "-o", str(tmp_path / "demo")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "demo").exists():  # made before the work begins
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "propcal: interrupted; no file was changed\n"
    assert not list((tmp_path / "demo").iterdir())


def test_ctrl_c_keeps_its_exit_code_if_a_library_runs_python_code(tmp_path):
    """Python dies of SIGINT if a plain KeyboardInterrupt has passed through such code,
    which a module that is run with -m shows.
    """
    code = """
import ctypes, signal, sys
from propcal import interrupts
sys.interrupt = lambda: interrupts.ask(signal.SIGINT)
ctypes.pythonapi.PyRun_SimpleString(b"import sys; sys.interrupt()")
sys.exit(130)
"""
    (tmp_path / "interrupted.py").write_text(code)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "interrupted"]
    run = subprocess.run(command, env=env, capture_output=True, cwd=tmp_path)
    assert run.returncode == 130


@pytest.mark.parametrize(
    "signals",
    first(1, ["SIGTERM SIGTERM SIGHUP SIGINT", "SIGINT SIGINT", "SIGTERM SIGINT"]),
)
def test_signals_in_quick_succession_are_one_interruption(tmp_path, signals):
    command = [sys.executable, "-m", "propcal", "demo", "-o", str(tmp_path / "demo")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "demo").exists():
        time.sleep(0.01)
    for name in signals.split():
        process.send_signal(getattr(signal, name))
        time.sleep(0.002)
    _, error = process.communicate(timeout=60)
    # a busy process may see them together, and then the one with the smallest number
    # comes first
    assert process.returncode in {
        128 + getattr(signal, name) for name in signals.split()
    }
    assert error == "propcal: interrupted; no file was changed\n"


def test_signals_are_ignored_while_a_command_stops_and_after_it():
    from propcal import interrupts

    interrupts.forget()
    with pytest.raises(interrupts.Stopped):
        interrupts.ask(signal.SIGTERM)
    interrupts.ask(signal.SIGINT)  # at once: ignored
    assert interrupts.asked() == signal.SIGTERM
    interrupts.forget()
    interrupts.finish()
    interrupts.ask(signal.SIGINT)
    assert interrupts.asked() is None
    interrupts.forget()


@pytest.mark.skipif(
    sys.platform == "win32", reason="closing standard output takes a POSIX shell"
)
def test_a_closed_standard_output_is_refused():
    command = f"{sys.executable} -m propcal --version >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("propcal: standard output is closed")


def test_output_into_a_closed_pipe_is_no_error(tmp_path):
    command = f"{sys.executable} -m propcal --help | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_wrong_use_ends_with_2_and_one_line(shown, tmp_path):
    wrong = shown("demo", "--alpha", "3", "--people", "6000", "-o", str(tmp_path / "x"))
    assert wrong[::2] == (
        2,
        "propcal: alpha must be a number above 0 and at most 1; got 3.0\n",
    )
    blocked = tmp_path / "file"
    blocked.touch()
    code, _, error = shown("demo", "-o", str(blocked))
    assert code == 2
    assert "Traceback" not in error
    assert shown("demo", "--people", "3")[0] == 2
    assert shown("dance")[0] == 2


@pytest.mark.parametrize(
    "groups",
    [
        ("--groups", "race", "--groups", "gender"),
        ("--groups", "race, gender"),
        ("--groups", " race ,gender,"),
    ],
)
def test_groups_may_be_repeated_and_spaced(files, run, groups):
    run(
        "atoms",
        "past.csv",
        "--score",
        "risk",
        "--outcome",
        "y",
        *groups,
        "-o",
        "past.atoms",
    )
    assert Atoms.load("past.atoms").patterns.attributes == ("race", "gender")


def test_a_group_that_is_listed_twice_is_refused(files, run):
    groups = ("--groups", "race,gender", "--groups", "race")
    error = run(
        "atoms",
        "past.csv",
        "--score",
        "risk",
        "--outcome",
        "y",
        *groups,
        "-o",
        "a.atoms",
        code=2,
    )
    assert error == "propcal: --groups: 'race' is listed twice\n"


def test_an_unknown_option_names_the_nearest(run):
    assert run("audit", "a.csv", "--group", "race", code=2) == (
        "propcal: No such option --group. Did you mean --groups?\n"
    )
    assert (
        run("audit", "a.csv", "--xyzzy", code=2) == "propcal: No such option --xyzzy.\n"
    )


@pytest.mark.parametrize(
    ("option", "name", "kind", "ending"),
    [
        ("--html", "out.pdf", "an HTML page", ".html"),
        ("--md", "out.html", "Markdown", ".md"),
        ("-o", "out.csv", "JSON", ".json"),
    ],
)
def test_a_file_must_be_named_for_what_it_holds(files, run, option, name, kind, ending):
    error = run(
        "audit", "past.csv", "--score", "risk", "--outcome", "y", option, name, code=2
    )
    assert f"writes {kind}, so the name must end in {ending}" in error
    assert error.count("\n") == 1
    assert not Path(name).exists()


def test_help_loads_nothing_heavy():
    heavy = "{'numpy', 'pandas', 'pyarrow', 'duckdb', 'scipy', 'sklearn', 'numba', 'matplotlib'}"
    code = (
        "import sys\nfrom propcal.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"sys.exit(str({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
