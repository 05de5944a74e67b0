"""propcal atoms and merge: the atoms of all people, however they come."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import propcal
from hard_rows import assert_same
from propcal import Atoms, Correction
from propcal.cli import main

COLUMNS = ("--score", "score", "--outcome", "y", "--groups", "race,gender")
ROLES = {"score": "score", "outcome": "y", "groups": ["race", "gender"]}


@pytest.fixture
def run(capsys):
    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert end.value.code == code, err
        return out, err

    return call


@pytest.fixture
def parts(cohort):
    """Two months of people, in Parquet."""
    Path("visits").mkdir()
    for month, rows in (("1", cohort[:1700]), ("2", cohort[1700:])):
        rows.to_parquet(f"visits/{month}.parquet")
    return cohort


def test_parts_reduced_apart_and_merged_are_the_whole(parts, run):
    expected = Atoms.from_frame(parts, **ROLES)
    for month in "12":
        out, _ = run(
            "atoms", f"visits/{month}.parquet", *COLUMNS, "-o", f"{month}.atoms"
        )
    assert "personal data" in out
    run("merge", "1.atoms", "2.atoms", "-o", "all.atoms")
    assert_same(Atoms.load("all.atoms"), expected)
    run(
        "atoms",
        "visits/*.parquet",
        *COLUMNS,
        "--memory",
        "100MB",
        "-o",
        "together.atoms",
    )
    assert_same(Atoms.load("together.atoms"), expected)
    assert Path("all.atoms").read_bytes() == Path("together.atoms").read_bytes()


def test_an_audit_and_a_fit_read_many_files_or_their_atoms_alike(parts, run):
    for name, files in (
        ("x", ["visits/*.parquet"]),
        ("y", ["visits/1.parquet", "visits/2.parquet"]),
    ):
        run("audit", *files, *COLUMNS, "--draws", "100", "-o", f"{name}.json")
        run("fit", *files, *COLUMNS, "-o", f"{name}.model")
    run("atoms", "visits/*.parquet", *COLUMNS, "-o", "z.atoms")
    run("audit", "z.atoms", "--draws", "100", "-o", "z.json")
    run("fit", "z.atoms", "-o", "z.model")
    assert len({Path(f"{name}.json").read_text() for name in "xyz"}) == 1
    models = [Correction.load(f"{name}.model") for name in "xyz"]
    names = {
        "score": models[0].about["score"],
        "outcome": models[0].about["outcome"],
    }  # atoms have none
    models[2] = replace(models[2], about=models[2].about | names)
    assert len({model.model_id for model in models}) == 1
    expected = propcal.audit(
        parts.y, parts.score, sensitive_features=parts[["race", "gender"]], n_draws=100
    )
    assert json.loads(Path("x.json").read_text()) == json.loads(expected.to_json())


def test_rounded_scores_say_what_that_can_change(parts, run):
    out, _ = run(
        "atoms", "visits/*.parquet", *COLUMNS, "--resolution", "2^-10", "-o", "a.atoms"
    )
    assert "rounded to 2**-10" in out
    assert_same(
        Atoms.load("a.atoms"), Atoms.from_frame(parts, **ROLES, resolution=2**-10)
    )
    out, _ = run(
        "audit",
        "visits/*.parquet",
        *COLUMNS,
        "--resolution",
        "1/1024",
        "--draws",
        "100",
        "--full",
    )
    assert "Scores were rounded to 2**-10" in " ".join(out.split())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0.0001", "such as 2**-13"),
        ("2**-40", "such as 2**-32"),
        ("2", "2**-16"),
        ("fine", "2**-16"),
        ("1/0", "2"),
    ],
)
def test_a_resolution_that_is_no_power_of_two_is_told_one(parts, run, text, hint):
    _, err = run(
        "atoms",
        "visits/*.parquet",
        *COLUMNS,
        "--resolution",
        text,
        "-o",
        "a.atoms",
        code=2,
    )
    assert "--resolution" in err
    assert hint in err


def test_merging_exact_and_rounded_scores_rounds_all_and_says_so(parts, run):
    run("atoms", "visits/1.parquet", *COLUMNS, "-o", "1.atoms")
    run("atoms", "visits/2.parquet", *COLUMNS, "--resolution", "2^-10", "-o", "2.atoms")
    out, err = run("merge", "1.atoms", "2.atoms", "-o", "all.atoms")
    assert "Scores are rounded to 2**-10" in out
    assert (
        "1.atoms are exact, and in 2.atoms rounded to 2**-10; all are now rounded to 2**-10.\n"
        in err
    )
    assert_same(
        Atoms.load("all.atoms"), Atoms.from_frame(parts, **ROLES, resolution=2**-10)
    )


def test_files_of_three_resolutions_are_rounded_once_in_whatever_order(cohort, run):
    near = cohort.assign(
        score=0.5 - 2**-6 - 2**-13
    )  # just below a middle of 2**-5; on it, rounded to 2**-12
    for name, bits in (("a", 32), ("b", 12), ("c", 5)):
        rows = (near if bits == 32 else cohort).sample(50 + bits, random_state=bits)
        Atoms.from_frame(rows, **ROLES, resolution=2**-bits).save(name)
    run("merge", "a", "b", "c", "-o", "one.atoms")
    run("merge", "c", "a", "b", "-o", "other.atoms")
    assert Path("one.atoms").read_bytes() == Path("other.atoms").read_bytes()


def test_the_same_people_twice_are_refused(parts, run):
    Atoms.from_frame(parts, **ROLES).save("a.atoms")
    Path("b.atoms").write_bytes(Path("a.atoms").read_bytes())
    _, err = run("merge", "a.atoms", "b.atoms", "-o", "all.atoms", code=2)
    assert "a.atoms and b.atoms have the same scores, outcomes and weights" in err
    _, err = run("merge", "a.atoms", "./a.atoms", "-o", "all.atoms", code=2)
    assert "named twice" in err
    assert not Path("all.atoms").exists()
    run("merge", "a.atoms", "b.atoms", "--allow-repeated", "-o", "all.atoms")
    assert Atoms.load("all.atoms").n_people == 2 * len(parts)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (("--groups", "race"), "only the first set has the attribute 'gender'"),
        (
            ("--groups", "race,gender", "--where", "old=score > 0.5"),
            "only the second set has the attribute 'old'",
        ),
    ],
)
def test_atoms_that_do_not_fit_together_say_what_differs(parts, run, other, said):
    run("atoms", "visits/1.parquet", *COLUMNS, "-o", "1.atoms")
    run("atoms", "visits/2.parquet", *COLUMNS[:4], *other, "-o", "2.atoms")
    _, err = run("merge", "1.atoms", "2.atoms", "-o", "all.atoms", code=2)
    assert "1.atoms and 2.atoms" in err
    assert said in err


def test_cuts_at_other_points_do_not_fit_together(parts, run):
    for month, points in (("1", "0.5"), ("2", "0.25")):
        run(
            "atoms",
            f"visits/{month}.parquet",
            *COLUMNS[:4],
            "--cut",
            f"score={points}",
            "-o",
            f"{month}.atoms",
        )
    _, err = run("merge", "1.atoms", "2.atoms", "-o", "all.atoms", code=2)
    assert "'score' is defined differently" in err
    assert "0.5" in err


def test_what_is_no_atoms_file_is_told(parts, run):
    _, err = run(
        "merge", "visits/1.parquet", "visits/2.parquet", "-o", "all.atoms", code=2
    )
    assert "visits/1.parquet is not an atoms file: propcal atoms writes one" in err
    _, err = run("atoms", "visits", *COLUMNS, "-o", "all.atoms", code=2)
    assert 'visits is a folder; name files in it, say "visits/*.parquet"' in err
    _, err = run("merge", "visits/1.parquet", "-o", "all.atoms", code=2)
    assert "at least two atoms files" in err
    run("atoms", "visits/1.parquet", *COLUMNS, "-o", "1.atoms")
    _, err = run("audit", "1.atoms", "visits/2.parquet", code=2)
    assert "is an atoms file, and other files are not" in err
    _, err = run("atoms", "visits/*.parquet", *COLUMNS, "-o", "1.atoms", code=2)
    assert "--force" in err
    _, err = run("audit", "visits/*.parquet", "--score", "score", code=2)
    assert "name one of them with --outcome" in err
