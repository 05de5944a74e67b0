"""The cohort from the files of MIMIC: small files of both layouts, and the open demo
where it is.
"""

import gzip
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from mimic_files import (
    RANGES,
    VITALS,
    admission,
    by_the_papers_rule,
    hand_worked,
    patient,
    random_tables,
    stay,
    triaged,
    write_mimic,
)
from propcal.cli import app, main
from propcal.datasets import TABLE_1, make_ed_visits
from propcal.errors import FileFormatError, InputError
from propcal_paper.results.prevalence import prevalence
from propcal_paper.running.cohort_files import visits_of
from propcal_paper.running.mimic_cohort import GROUP_OF, mimic_cohort

VERSIONS = pytest.mark.parametrize("version", ["1.0", "2.x"])


def records(cohort):
    """The rows as plain values; missing is None."""
    return cohort.table.to_pylist()


def column(cohort, name):
    return cohort.table.column(name).to_pylist()


@VERSIONS
def test_the_papers_rule_by_hand(version):
    cohort = mimic_cohort(write_mimic("mimic", hand_worked(), version), rule="paper")
    assert cohort.layout == version
    # person 1 in order of arrival, then the visit of person 2 without admission, then
    # one of person 4
    assert column(cohort, "subject_id") == [1, 1, 1, 2, 4]
    assert column(cohort, "admitted") == [1, 0, 1, 0, 0]
    # demographics are those of the first admission in the file, which came last in time
    assert column(cohort, "insurance") == ["Medicare"] * 3 + ["Other", "Other"]
    assert column(cohort, "race") == ["White"] * 3 + ["Black/African American", "Other"]
    assert column(cohort, "marital_status") == ["MARRIED"] * 3 + [None, "SINGLE"]
    assert column(cohort, "language") == ["ENGLISH"] * 3 + ["?", "ENGLISH"]
    # counted before observation is dropped, and after those who do not join are
    assert column(cohort, "n_previous_visits") == [0, 1, 2, 1, 0]
    assert column(cohort, "n_previous_admissions") == [0, 1, 1, 1, 0]
    assert column(cohort, "age") == [50, 51, 52, 69, 30]
    assert column(cohort, "gender") == ["F", "F", "F", "M", "M"]
    assert column(cohort, "chief_complaint") == [
        "chest pain n v",
        "chest pain",
        None,
        "chest pain",
        "chest pain",
    ]
    assert column(cohort, "pain") == [7, None, 7, 7, 7]


@VERSIONS
def test_what_the_papers_rule_dropped_is_counted_one_after_the_other(version):
    cohort = mimic_cohort(write_mimic("mimic", hand_worked(), version))
    assert cohort.n_stays == 10
    # 41 has no triage row, 31 no admission, 51 no patient; 21 and 23 were admitted, and
    # the first admission of person 2 was for observation, that of visit 23 itself was
    # not
    assert list(cohort.dropped.values()) == [1, 1, 1, 2]
    assert cohort.n_stays - sum(cohort.dropped.values()) == len(cohort.table)
    assert any(
        note.startswith("Admissions for observation among the remaining visits: 1.")
        for note in cohort.notes
    )


@VERSIONS
def test_the_clean_rule_keeps_every_visit_and_tells_only_what_was_known(version):
    cohort = mimic_cohort(write_mimic("mimic", hand_worked(), version), rule="clean")
    assert column(cohort, "subject_id") == [1, 1, 1, 2, 2, 2, 3, 4, 4, 5]
    assert column(cohort, "admitted") == [1, 0, 1, 1, 0, 1, 0, 0, 0, 1]
    assert cohort.dropped == {}
    # the latest admission before the visit; never the visit's own, not even if it began
    # before the arrival (visit 51), and never a later one (visits 41 and 42)
    told = [
        None,
        "Medicaid",
        "Medicaid",
        "Private",
        "Other",
        "Other",
        None,
        None,
        None,
        None,
    ]
    assert column(cohort, "insurance") == told
    assert column(cohort, "n_previous_visits") == [0, 1, 2, 0, 1, 2, 0, 0, 1, 0]
    assert column(cohort, "n_previous_admissions") == [0, 1, 1, 0, 1, 1, 0, 0, 0, 0]
    assert column(cohort, "heartrate") == [80, None, 80, 80, 80, 80, 80, None, 80, 80]
    unknown, black = "Unknown/Unable to Obtain", "Black/African American"
    if version == "2.x":  # race and gender as the visit has them
        seen = [
            "Asian",
            "White",
            "White",
            black,
            "Other",
            black,
            unknown,
            unknown,
            "Other",
            "Hispanic/Latino",
        ]
        assert column(cohort, "gender")[-1] == "F"
        assert any(
            "1 visit has an unlisted word for race" in note for note in cohort.notes
        )
    else:
        seen = [
            unknown,
            "Asian",
            "Asian",
            "Asian",
            black,
            black,
            unknown,
            unknown,
            unknown,
            unknown,
        ]
        assert column(cohort, "gender")[-1] is None
    assert column(cohort, "race") == seen
    assert any(note.startswith("1 visit has no triage row") for note in cohort.notes)
    assert any(
        note.startswith("Admissions for observation: 2.") for note in cohort.notes
    )


@VERSIONS
def test_random_files_give_what_a_reading_row_by_row_gives(version):
    tables = random_tables(seed=5)
    expected = by_the_papers_rule(tables)
    assert 50 < len(expected) < 300
    assert records(mimic_cohort(write_mimic("mimic", tables, version))) == expected


def test_many_stays_without_triage_are_a_warning_and_few_are_none():
    tables = random_tables(seed=5)
    warned = "Is the triage file truncated?"
    assert not any(
        warned in note for note in mimic_cohort(write_mimic("whole", tables)).notes
    )
    n, kept = len(tables["edstays"]), len(tables["triage"]) // 2
    tables["triage"] = tables["triage"][:kept]
    note = next(
        note
        for note in mimic_cohort(write_mimic("cut", tables)).notes
        if warned in note
    )
    assert note.startswith("Warning: ")
    assert f" of {n} stays (" in note


def test_ed_of_one_version_beside_hospital_of_another_is_told():
    tables = hand_worked()
    write_mimic("old", tables, "1.0")
    write_mimic("new", tables, "2.x")
    cohort = mimic_cohort("old/ed", "new/hosp", rule="clean")
    assert cohort.layout == "2.x, MIMIC-IV-ED 1.0"
    plain = mimic_cohort("new", rule="clean")
    nothing = "visits have no earlier admission, so insurance, language and marital status are unknown"
    assert all(any(nothing in note for note in one.notes) for one in (cohort, plain))
    assert any(
        note.endswith("no race of its own, so race is unknown.")
        for note in cohort.notes
    )
    assert mimic_cohort("new/ed", "old/core").layout == "1.0, MIMIC-IV-ED 2.x"


def test_plain_and_zipped_files_of_both_versions_give_the_same():
    tables = random_tables(seed=6)
    for row in tables["edstays"]:
        row["gender"] = ""
    first = records(mimic_cohort(write_mimic("a", tables, "1.0", zipped=False)))
    assert first == records(mimic_cohort(write_mimic("b", tables, "2.x", zipped=True)))


def test_values_count_up_to_their_bounds_and_not_beyond():
    low, high = zip(*(RANGES[name] for name in VITALS))
    rows = [
        low,
        high,
        [a - 0.1 for a in low],
        [b + 0.1 for b in high],
        ["nan"] * 8,
        ["9e99"] * 8,
        ["a lot"] * 8,
    ]
    tables = {
        "edstays": [stay(1, i, f"2150-01-0{i + 1} 00:00:00") for i in range(len(rows))],
        "triage": [triaged(1, i, values) for i, values in enumerate(rows)],
        "admissions": [admission(1, 100, "2150-05-05 00:00:00")],
        "patients": [patient(1)],
    }
    cohort = mimic_cohort(write_mimic("mimic", tables))
    for name in VITALS:
        assert column(cohort, name) == [*RANGES[name], None, None, None, None, None]
    assert (cohort.made_missing["no_number"] == 1).all()
    assert (cohort.made_missing["out_of_range"] == 4).all()


def test_the_columns_are_those_of_the_generated_cohort():
    cohort = mimic_cohort(write_mimic("mimic", hand_worked()))
    generated = [name for name in make_ed_visits(200).columns if name != "true_risk"]
    assert sorted(cohort.visits.columns) == sorted(
        ["subject_id", "anchor_age", *generated]
    )
    kinds = cohort.visits.dtypes
    assert all(
        kinds[name].kind in "if"
        for name in (*VITALS, "age", "n_previous_visits", "admitted")
    )


def test_every_word_for_race_leads_to_a_group_of_table_1():
    assert set(GROUP_OF.values()) == set(TABLE_1)
    for word, group in GROUP_OF.items():  # those that begin like a group belong to it
        for begin in ("ASIAN", "BLACK", "HISPANIC", "WHITE"):
            assert not word.startswith(begin) or group.upper().startswith(begin)


@pytest.mark.parametrize("deep", [True, False])
def test_files_are_found_where_the_download_puts_them(deep):
    ed, hospital = (
        ("files/mimic-iv-ed/2.2/ed", "files/mimiciv/2.2/hosp") if deep else (".", ".")
    )
    write_mimic("physionet.org", hand_worked(), ed=ed, hospital=hospital)
    (Path("physionet.org") / "files" / "p10" / "p1000").mkdir(parents=True)
    (Path("physionet.org") / "files" / "p10" / "triage.csv").write_text(
        "of another database"
    )
    assert len(mimic_cohort("physionet.org").table) == 5


def test_two_versions_side_by_side_are_refused_until_one_is_named():
    for version, kind in (("1.0", "core"), ("2.2", "hosp")):
        tables = hand_worked()
        write_mimic(
            ".",
            tables,
            ed=f"mimic-iv-ed/{version}/ed",
            hospital=f"mimiciv/{version}/{kind}",
        )
    with pytest.raises(
        InputError,
        match=r"2 files of edstays: .*1\.0.*2\.2.*--mimic can be given twice",
    ):
        mimic_cohort(".")
    assert len(mimic_cohort("mimic-iv-ed/2.2", "mimiciv/2.2").table) == 5
    shutil.copy("mimiciv/2.2/hosp/patients.csv.gz", "mimiciv/2.2/hosp/patients.csv")
    with pytest.raises(
        InputError, match="2 files of patients"
    ):  # plain and zipped: which one?
        mimic_cohort("mimic-iv-ed/2.2", "mimiciv/2.2")
    assert (
        len(mimic_cohort("mimic-iv-ed/1.0", "mimiciv/1.0", "mimiciv/1.0/core").table)
        == 5
    )


def test_missing_and_misnamed_files_are_named_with_the_way_to_get_them():
    write_mimic("mimic", hand_worked())
    Path("mimic/ed/triage.csv.gz").rename("mimic/ed/Triage.csv.gz")
    Path("mimic/hosp/patients.csv.gz").unlink()
    with pytest.raises(InputError) as told:
        mimic_cohort("mimic")
    text = str(told.value)
    assert (
        "does not contain triage.csv or triage.csv.gz, from ed/ of MIMIC-IV-ED; patients.csv or"
        in text
    )
    assert "Is it mimic/ed/Triage.csv.gz?" in text
    assert "Credentialed" in text
    with pytest.raises(InputError, match="nowhere does not exist"):
        mimic_cohort("nowhere")


def cut_off(path, share):
    path = Path(path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


@pytest.mark.parametrize(
    ("zipped", "words"),
    [
        (True, "triage.csv.gz is damaged"),
        (False, "triage.csv: .* Is the file cut off?"),
    ],
)
def test_a_file_that_is_cut_off_is_refused(zipped, words):
    write_mimic("mimic", random_tables(), zipped=zipped)
    cut_off(f"mimic/ed/triage.csv{'.gz' if zipped else ''}", 0.7)
    with pytest.raises(FileFormatError, match=words):
        mimic_cohort("mimic")


def test_a_file_with_a_first_line_alone_is_refused():
    write_mimic("mimic", hand_worked(), zipped=False)
    path = Path("mimic/hosp/admissions.csv")
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match=r"admissions\.csv has a header but no rows"):
        mimic_cohort("mimic")


def test_a_file_of_another_version_is_refused():
    write_mimic("mimic", hand_worked(), zipped=False)
    path = Path("mimic/hosp/patients.csv")
    path.write_text(path.read_text().replace("anchor_year", "year_of_birth"))
    with pytest.raises(
        InputError,
        match=r"patients.csv has no column 'anchor_year': .*supports 1.0 and 2.x",
    ):
        mimic_cohort("mimic")


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        (
            "edstays",
            {"subject_id": "Jane Doe"},
            "each subject_id must be a whole number; 1 of 10 are not",
        ),
        ("edstays", {"intime": "soon"}, "each intime must be a time"),
        (
            "admissions",
            {"hadm_id": ""},
            "each hadm_id must be a whole number; 1 of 7 are not",
        ),
    ],
)
def test_ids_and_times_that_are_none_are_refused_without_showing_them(
    table, change, words
):
    tables = hand_worked()
    tables[table][0].update(change)
    write_mimic("mimic", tables)
    with pytest.raises(InputError, match=words) as told:
        mimic_cohort("mimic")
    assert "Jane" not in str(told.value)


def test_of_rows_that_repeat_an_id_the_first_counts():
    plain = records(mimic_cohort(write_mimic("plain", hand_worked())))
    tables = hand_worked()
    for rows, change in zip(
        tables.values(),
        ({"hadm_id": ""}, {"sbp": "99"}, {"race": "ASIAN"}, {"gender": "X"}),
    ):
        rows.append({**rows[0], **change})
    cohort = mimic_cohort(write_mimic("repeated", tables))
    assert records(cohort) == plain
    assert cohort.n_stays == 10
    assert cohort.notes[:2] == (
        "1 row of edstays repeats a stay_id; only the first row of each was used.",
        "1 row of triage repeats a stay_id; only the first row of each was used.",
    )


def test_a_cohort_without_visits_is_refused_with_the_reason():
    tables = hand_worked()
    for row in tables["admissions"]:
        row["subject_id"] += 1000
    write_mimic("mimic", tables)
    with pytest.raises(
        InputError,
        match="of 10 stays, 1 without a triage row, 9 of people without any hospital",
    ):
        mimic_cohort("mimic")


def run(*arguments):
    return CliRunner().invoke(
        app, ["paper", "cohort", *arguments], env={"COLUMNS": "80"}
    )


def test_a_store_of_trials_says_which_cohort_it_has():
    mimic_cohort(write_mimic("mimic", random_tables(), "1.0")).save("many.parquet")
    cohort = visits_of("many.parquet", None)
    assert cohort.about["cohort"] == "a file of visits (MIMIC 1.0, rule: paper)"


def test_the_command_writes_the_cohort_and_prints_table_1_beside_the_published_one():
    write_mimic("mimic", hand_worked(), "1.0")
    result = run("--mimic", "mimic")
    assert result.exit_code == 0, result.output
    frame = pd.read_parquet("mimic_cohort.parquet")
    assert frame["admitted"].tolist() == [1, 0, 1, 0, 0]
    lines = result.output.splitlines()
    assert "10 stays (MIMIC 1.0), rule: paper" in lines
    assert "  = 5 visits, 2 admitted (40.0 %)." in lines
    assert "  pain: 1 no number" in lines
    white = next(i for i, line in enumerate(lines) if line.startswith("White"))
    assert lines[white].split() == [
        "White",
        "this",
        "cohort",
        "2/3",
        "(67%)",
        "0/0",
        "2/3",
        "(67%)",
    ]
    printed = [
        "paper",
        "18147/50174",
        "(36%)",
        "18951/45435",
        "(42%)",
        "37098/95609",
        "(39%)",
    ]
    assert lines[white + 1].split() == printed
    assert max(map(len, lines)) <= 130
    result = run("--mimic", "mimic", "--rule", "clean", "-o", "cohort.csv")
    assert len(pd.read_csv("cohort.csv")) == 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--mimic", "mimic", "-o", "mine.csv"],
            "mine.csv already exists. Use --force to replace it",
        ),
        (
            ["--mimic", "mimic", "-o", "mimic/ed/triage.csv.gz", "--force"],
            "is also an input file",
        ),
        (["--mimic", "mimic", "-o", "cohort.xls"], "name a .csv or .parquet file"),
        (
            ["--mimic", "mimic", "--rule", "dirty", "-o", "new.csv"],
            "--rule must be one of",
        ),
        (["--mimic", "elsewhere", "-o", "new.csv"], "elsewhere does not exist"),
        (["--mimic", "broken", "-o", "new.csv"], "is damaged"),
    ],
)
def test_wrong_use_ends_with_one_line_and_nothing_is_left_behind(
    arguments, words, capfd
):
    for folder in ("mimic", "broken"):
        write_mimic(folder, random_tables())
    cut_off("broken/hosp/admissions.csv.gz", 0.5)
    Path("mine.csv").write_text("mine")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    with pytest.raises(SystemExit, match="2"):
        main(["paper", "cohort", *arguments])
    error = capfd.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert {
        path: path.read_bytes() for path in Path().rglob("*") if path.is_file()
    } == before


def test_table_1_of_any_cohort_adds_up():
    cells = [
        (race, gender, *cell)
        for race, pair in TABLE_1.items()
        for gender, cell in zip("FM", pair)
    ]
    rows = [
        (r, g, y)
        for r, g, n, k in cells
        for y, times in ((1, k), (0, n - k))
        for _ in range(times)
    ]
    visits = pd.DataFrame(rows, columns=["race", "gender", "admitted"])
    table = prevalence(visits)
    assert (table["admitted"] == table["published_admitted"]).all()
    assert (table["visits"] == table["published_visits"]).all()
    assert table.loc[("Overall", "Overall"), "published_rate"] == pytest.approx(
        53_589 / 173_561
    )
    for gender in ("F", "M"):
        part = table.xs(gender, level="gender").drop(index="Overall")
        assert part["admitted"].sum() == table.loc[("Overall", gender), "admitted"]
    visits.loc[visits.index[:5], "race"] = "Martian"
    more = prevalence(visits)
    assert more.loc[("Martian", "Overall"), "visits"] == 5
    assert more.loc["Martian", "published_visits"].isna().all()
    with pytest.raises(InputError, match="gender"):
        prevalence(visits.drop(columns="gender"))


@pytest.mark.skipif(
    "PROPCAL_MIMIC_DEMO" not in os.environ, reason="PROPCAL_MIMIC_DEMO names no folder"
)
def test_the_open_demo_runs_end_to_end():
    folder = os.environ["PROPCAL_MIMIC_DEMO"]
    assert run("--mimic", folder, "-o", "demo.parquet").exit_code == 0
    tables = {}
    for name in ("edstays", "triage", "admissions", "patients"):
        path = next(Path(folder).rglob(f"{name}.csv*"))
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            tables[name] = pd.read_csv(file, dtype=str, keep_default_na=False).to_dict(
                "records"
            )
    for row in tables["patients"]:
        row["anchor_age"], row["anchor_year"] = (
            int(row["anchor_age"]),
            int(row["anchor_year"]),
        )
    found = mimic_cohort(folder)
    expected = [
        {**row, "subject_id": int(row["subject_id"])}
        for row in by_the_papers_rule(tables)
    ]
    assert records(found) == expected
    assert len(found.table) == 215
    clean = mimic_cohort(folder, rule="clean")
    assert len(clean.table) == 222
    assert sum(column(clean, "admitted")) == 172
