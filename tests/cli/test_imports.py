"""What takes long to import is imported by the commands that need it, and by no
others.
"""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

SLOW = (
    "scipy.stats",
    "scipy.optimize",
    "sklearn",
    "numba",
    "jinja2",
    "matplotlib",
    "duckdb",
    "pandas",
)


def imported(program, names=SLOW):
    """Those of the slow libraries, or of other names, that a new process has imported
    at the end of a program.
    """
    told = f"{program}\nimport sys\nprint(*(n for n in {names} if n in sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


def command(*words):
    return f"from propcal.cli import main\ntry: main({list(map(str, words))!r})\nexcept SystemExit: pass"


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    score = rng.random(800)
    frame = pd.DataFrame(
        {
            "risk": score,
            "y": (rng.random(800) < score).astype(int),
            "ward": ["a", "b"] * 400,
        }
    )
    frame["day"] = np.repeat(["2025-01-31", "2025-02-28"], 400)
    frame.to_csv(tmp_path / "people.csv", index=False)
    return [
        tmp_path / "people.csv",
        "--score",
        "risk",
        "--outcome",
        "y",
        "--groups",
        "ward",
    ]


def test_propcal_itself_and_its_help_import_nothing_slow():
    assert imported("import propcal") == set()
    assert imported(command("--help")) == set()


def test_an_interruption_of_the_imports_is_one_line(tmp_path):
    interrupted = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "typer.py").write_text(interrupted)  # found in place of the library
    program = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nfrom propcal.__main__ import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        130,
        "propcal: interrupted; no file was changed\n",
    )


def test_an_audit_needs_duckdb_to_read_a_file_pandas_for_tables_and_templates_for_sentences(
    people, tmp_path
):
    needed = {"duckdb", "pandas", "jinja2"}
    assert imported(command("audit", *people)) == needed
    assert (
        imported(command("audit", *people, "--html", tmp_path / "report.html"))
        == needed
    )


NOT_FOR_AN_AUDIT = (
    "propcal.core.compiled",
    "propcal.core.correction",
    "propcal.discovery",
    "propcal.export",
    "propcal.formats.table_files",
    "propcal.monitoring",
    "propcal.scoring",
    "propcal.sites",
    "propcal.auditing.compare",
    "propcal.auditing.score_changes",
    "propcal.protect.protected_comparisons",
    "propcal.protect.protected_sites",
    "propcal.render.markdown",
    "propcal.render.matplotlib",
)
FOR_A_PAGE_ALONE = (
    "propcal.documents.report",
    "propcal.protect.protected_audits",
    "propcal.protect.withheld_sets",
    "propcal.render.html",
    "propcal.render.svg",
)


def test_an_audit_and_its_page_import_no_part_of_the_package_that_they_do_not_need(
    people, tmp_path
):
    in_text = imported(command("audit", *people), NOT_FOR_AN_AUDIT + FOR_A_PAGE_ALONE)
    assert in_text == set()

    page = ["--html", tmp_path / "report.html"]
    with_page = imported(command("audit", *people, *page), NOT_FOR_AN_AUDIT)
    assert with_page == set()


def test_an_audit_of_rows_in_memory_needs_tables_and_templates_alone():
    program = (
        "import numpy as np, propcal\n"
        "rng = np.random.default_rng(0)\n"
        "score = rng.random(500)\n"
        "propcal.audit(rng.random(500) < score, score, sensitive_features=['a', 'b'] * 250)"
    )
    assert imported(program) == {"pandas", "jinja2"}


def test_every_command_imports_what_it_needs_itself(people, tmp_path):
    """Each in a process of its own: in the processes of the other tests everything is
    imported already.
    """
    model, rows = tmp_path / "model.json", people[0]
    pd.read_csv(rows)[:400].to_csv(tmp_path / "others.csv", index=False)
    others = [tmp_path / "others.csv", *people[1:]]
    of_correction = [model, rows, "--score", "risk"]
    commands = [
        ["fit", *people, "-o", model],
        ["show", model],
        ["apply", *of_correction, "-o", tmp_path / "corrected.csv"],
        ["export", model, "--language", "python", "-o", tmp_path / "scorer.py"],
        ["audit", *people, "--correction", model],
        ["discover", *people[:-2], "--features", "ward"],
        ["monitor", *people, "--state", tmp_path / "state.monitor", "--time", "day"],
        ["sites", *people[:-2], "--site", "ward"],
        ["atoms", *people, "-o", tmp_path / "people.atoms"],
        ["atoms", *others, "-o", tmp_path / "others.atoms"],
        [
            "merge",
            tmp_path / "people.atoms",
            tmp_path / "others.atoms",
            "-o",
            tmp_path / "merged.atoms",
        ],
    ]
    for words in commands:
        done = subprocess.run(
            [sys.executable, "-m", "propcal", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words[0], done.stderr)
