"""``propcal export`` writes what `to_sql` gives."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from propcal import Atoms, Correction, PMCBoost
from propcal.cli import main


@pytest.fixture
def run(capsys):
    """Run a command; its exit code and what it wrote."""

    def command(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return (end.value.code, *capsys.readouterr())

    return command


@pytest.fixture
def model(cohort, features, tmp_path):
    fitted = PMCBoost.paper(alpha=0.3).fit(
        cohort["score"], cohort["y"], sensitive_features=features
    )
    fitted.correction_.save("model.json")
    return fitted.correction_


def test_the_file_scores_a_table(run, model, cohort):
    code, out, err = run(
        "export",
        "model.json",
        "--dialect",
        "sqlite",
        "--score",
        "risk",
        "--table",
        "visits",
        "-o",
        "score.sql",
    )
    assert (code, err) == (0, "")
    assert "score.sql" in out
    text = Path("score.sql").read_text(encoding="utf-8")
    assert text == model.to_sql("sqlite", score="risk", table="visits").script
    rows = (
        cohort[["score", "race", "gender"]].astype(object).where(cohort.notna(), None)
    )
    setup, query = text.removesuffix(";\n").rsplit(";\n", 1)
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE visits (risk REAL, race TEXT, gender TEXT)")
        database.executemany(
            "INSERT INTO visits VALUES (?, ?, ?)",
            rows.itertuples(index=False, name=None),
        )
        database.executescript(setup + ";")
        found = [row[-1] for row in database.execute(query)]
    assert found == model.apply(cohort["score"], cohort[["race", "gender"]]).tolist()


def test_without_a_file_it_prints_and_every_option_is_passed_on(run, model):
    code, out, err = run(
        *(
            "export",
            "model.json",
            "--dialect",
            "postgres",
            "--score",
            "r",
            "--table",
            "a.b",
            "--form",
            "values",
        ),
        *(
            "--column",
            "c",
            "--unseen",
            "keep",
            "--type",
            "race=text",
            "--rename",
            "race=R=1",
        ),
    )
    assert (code, err) == (
        2,
        "propcal: --rename names 'race=R', but this correction only reads ['race', 'gender']\n",
    )
    code, out, err = run(
        *(
            "export",
            "model.json",
            "--dialect",
            "postgres",
            "--score",
            "r",
            "--table",
            "a.b",
            "--form",
            "values",
        ),
        *(
            "--column",
            "c",
            "--unseen",
            "keep",
            "--type",
            "race=text",
            "--rename",
            "race=RACE",
        ),
    )
    options = {
        "types": {"race": "text"},
        "columns": {"race": "RACE"},
        "unseen": "keep",
        "column": "c",
    }
    assert (code, err) == (0, "")
    assert (
        out
        == model.to_sql(
            "postgres", score="r", table="a.b", form="values", **options
        ).script
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dialect", "oracle"], "dialect must be one of 'duckdb'"),
        (["--type", "race"], "--type 'race': write it like icu=boolean"),
        (["-o", "model.json", "--force"], "model.json is also an input file"),
        (["-o", "no/such/folder.sql"], "no folder"),
    ],
)
def test_wrong_use_is_told_in_a_line(run, model, arguments, words):
    code, out, err = run("export", "model.json", "--score", "risk", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert Correction.load("model.json").n_updates == model.n_updates


def test_the_form_of_earlier_versions_is_refused_with_the_new_one(run, model):
    code, out, err = run("export", "model.json", "--score", "risk", "--form", "case")
    assert (code, out) == (2, "")
    assert "--form case was replaced" in err
    assert "Use --form values" in err
    code, out, err = run("export", "model.json", "--score", "risk", "--form", "values")
    assert (code, err) == (0, "")
    assert out == model.to_sql(score="risk", form="values").script


def test_what_is_no_correction_is_told_by_what_it_is(run, model, cohort):
    cohort.to_csv("people.csv")
    cohort.to_csv("people.csv.gz")
    cohort.to_parquet("people.parquet")
    Atoms.from_frame(cohort, score="score", outcome="y", groups=["race"]).save(
        "people.atoms"
    )
    kinds = {
        ".csv": "a table",
        ".csv.gz": "a compressed file",
        ".parquet": "a Parquet table",
    }
    for ending, kind in {**kinds, ".atoms": "an atoms file"}.items():
        code, _, err = run("export", f"people{ending}", "--score", "risk")
        assert (code, err.count("\n")) == (2, 1)
        assert (
            f"people{ending} is not a correction file but {kind}. Make a correction with propcal fit"
            in err
        )
    Path("people.atoms").write_bytes(Path("people.atoms").read_bytes()[:1000])
    assert (
        "a truncated Parquet file"
        in run("export", "people.atoms", "--score", "risk")[2]
    )


def test_a_file_is_not_overwritten_unasked(run, model):
    Path("score.sql").write_text("mine")
    code, _, err = run("export", "model.json", "--score", "risk", "-o", "score.sql")
    assert code == 2
    assert "--force" in err
    assert Path("score.sql").read_text() == "mine"
    assert (
        run("export", "model.json", "--score", "risk", "-o", "score.sql", "--force")[0]
        == 0
    )
    assert Path("score.sql").read_text().startswith("-- Corrected scores for DuckDB")
