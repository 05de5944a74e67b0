"""The tolerance apart from the smallest cell, and everything from the files of MIMIC in
one command.
"""

import pandas as pd
import pytest

from mimic_files import random_tables, write_mimic
from paper_trials import like_the_paper, whole_store
from propcal.cli import main
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.medians import cells
from propcal_paper.running.bench import post_processor
from propcal_paper.running.experiment import Experiment
from propcal_paper.settings import BASE, MC, OURS, PMC, Setting, grid

GROUPS = ("race", "gender")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A few settings on few visits."""
    path = tmp_path_factory.mktemp("cells") / "x.sqlite"
    settings = [Setting(BASE, GROUPS), Setting(OURS, GROUPS)]
    settings += [Setting(PMC, GROUPS, 0.001, 0.05, 0.1, size) for size in (None, 0.02)]
    settings += [Setting(PMC, GROUPS, 0.1, 0.01, 0.1, 0.0005)]
    what = {"rows": 3000, "models": ["LR"], "settings": settings, "grid": "cells"}
    Experiment(path, trials=2, **what).run(jobs=1)
    return path


def test_the_grid_has_every_alpha_with_every_smallest_cell():
    found = grid([GROUPS], "cells")
    assert len(found) == 1 + 2 * 5 * 4 + 4 + 1
    assert (
        len(
            [
                one
                for one in found
                if (one.gamma, one.rho) not in ((None, None), (0.05, 0.1))
            ]
        )
        == 4
    )
    assert len({setting.key() for setting in found}) == len(found)
    chosen = post_processor(Setting(MC, GROUPS, 0.01, 0.05, 0.1, 0.02))
    assert (chosen.alpha, chosen.min_share) == (0.01, 0.02)
    assert post_processor(Setting(PMC, GROUPS, 0.01, 0.05, 0.1)).min_share is None


def test_larger_cells_need_fewer_updates_and_harm_less(store):
    evidence = Evidence.from_store(store)
    assert evidence.of_cells
    trials = evidence.stored[evidence.stored["method"] == PMC].set_index(
        ["seed", "min_share"]
    )
    for seed in (0, 1):
        as_printed, larger = (
            trials.loc[seed].loc[size, "n_updates"] for size in (float("nan"), 0.02)
        )
        assert as_printed > larger > 0
    found = cells(evidence).set_index(["method", "min_share", "metric"])["median"]
    assert found[PMC, 0.02, "log_loss"] < found.loc[PMC].loc[float("nan")]["log_loss"]
    off = cells(evidence).query("metric == 'small_groups'")
    assert {*off["method"]} == {BASE, PMC, OURS}
    assert (off["median"] > 0).all()


def test_changes_are_from_the_base_model_of_the_same_seed(store):
    evidence = Evidence.from_store(store)
    trials = evidence.stored.set_index(["method", "min_share", "seed"])[
        "log_loss"
    ].sort_index()
    by_hand = [
        trials[PMC, 0.02, seed] - trials.loc[BASE].loc[float("nan")][seed]
        for seed in (0, 1)
    ]
    found = cells(evidence).set_index(["method", "min_share", "metric"])["median"]
    assert found[PMC, 0.02, "log_loss"] == pytest.approx(1e4 * sum(by_hand) / 2)


def test_tables_and_figures_show_the_cells_and_the_page_is_refused(
    store, tmp_path, capsys
):
    for command in ("tables", "figures"):
        with pytest.raises(SystemExit) as ended:
            main(["paper", command, str(store), "-o", str(tmp_path / command)])
        assert ended.value.code == 0, capsys.readouterr()
    assert len(pd.read_csv(tmp_path / "tables" / "cells.csv")) == 3 * 6 + 1
    varied = pd.read_csv(tmp_path / "tables" / "gamma_and_rho.csv")
    assert {*varied["gamma"].dropna()} == {0.01}
    assert {*varied["method"]} == {BASE, PMC, OURS}
    assert (tmp_path / "figures" / "cells.png").stat().st_size > 10_000
    printed, page = (
        str(whole_store(tmp_path / "p.sqlite", like_the_paper, (1,), ["LR"])),
        tmp_path / "page.md",
    )
    for refused in (
        ["reproduction", str(store), "-o", str(page)],
        ["reproduction", printed, "-o", str(page), "--beside", str(store)],
        ["benefit", printed, str(store), "-o", str(page)],
        ["tables", printed, "--beside", str(store)],
        ["tables", str(store), "--beside", printed],
    ):
        with pytest.raises(SystemExit) as ended:
            main(["paper", *refused])
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert (
            f"{store} has trials with other smallest cells than the paper's. Show it on its own"
            in said
        )
        assert not page.exists()


@pytest.mark.slow
def test_one_command_goes_from_the_files_to_the_pages_and_goes_on_after_a_stop(
    tmp_path, capsys
):
    folder, out = (
        write_mimic(tmp_path / "mimic", random_tables(seed=5), "2.x"),
        tmp_path / "out",
    )
    command = [
        "paper",
        "all",
        "--mimic-iv",
        str(folder),
        "--mimic-iv-ed",
        str(folder),
        "-o",
        str(out),
    ]
    for again in (False, True):
        with pytest.raises(SystemExit) as ended:
            main(
                [
                    *command,
                    "--shuffles",
                    "1",
                    "--models",
                    "LR",
                    "--jobs",
                    "1",
                    "--split",
                    "patient",
                ]
            )
        said = capsys.readouterr().out
        assert ended.value.code == 0, said
        assert ("84 are to be run" in said) != again
    for rule in ("paper", "clean"):
        for setup in ("printed", "held-out", "authors-code"):
            assert (out / f"{rule}-{setup}" / "reproduction.md").exists()
            assert (
                len(pd.read_csv(out / f"{rule}-{setup}" / "tables" / "claims.csv"))
                == 39
            )
    ages = Evidence.from_store(out / "paper-authors-code.sqlite").columns
    assert "anchor_age" in ages.numbers
    assert ages.person == "subject_id"
    page = (out / "reproduction.md").read_text()
    assert "in visits (MIMIC 2.x, rule: clean), admitted, authors-code |" in page
    assert "--setup printed --split patient" in page  # in the command that repeats it
    other = write_mimic(tmp_path / "other", random_tables(seed=6), "2.x")
    with pytest.raises(SystemExit):
        main(
            [
                "paper",
                "all",
                "--mimic-iv",
                str(other),
                "--mimic-iv-ed",
                str(other),
                "-o",
                str(out),
            ]
        )
    assert (
        "has other visits than the files of MIMIC give. Name another folder"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("cut_off", [True, False])
def test_one_command_names_a_damaged_cohort_of_an_earlier_run(
    tmp_path, capsys, cut_off
):
    folder, out = (
        write_mimic(tmp_path / "mimic", random_tables(seed=5), "2.x"),
        tmp_path / "out",
    )
    out.mkdir()
    pd.DataFrame({"race": ["Asian"]}).to_parquet(out / "cohort-paper.parquet")
    content = (out / "cohort-paper.parquet").read_bytes()
    (out / "cohort-paper.parquet").write_bytes(
        content[: len(content) // 2] if cut_off else b"x"
    )
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "paper",
                "all",
                "--mimic-iv",
                str(folder),
                "--mimic-iv-ed",
                str(folder),
                "-o",
                str(out),
            ]
        )
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "cohort-paper.parquet is" in said
    assert "unexpected" not in said


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--models", "LX"], "there is no 'LX'"),
        (["--split", "persons"], "split must be one of 'visit', 'patient'"),
        (["--mimic-iv", "nowhere"], "propcal: nowhere does not exist"),
    ],
)
def test_one_command_refuses_wrong_use_before_any_work(tmp_path, capsys, wrong, words):
    folder, out = (
        write_mimic(tmp_path / "mimic", random_tables(seed=5), "2.x"),
        tmp_path / "out",
    )
    command = [
        "paper",
        "all",
        "--mimic-iv",
        str(folder),
        "--mimic-iv-ed",
        str(folder),
        "-o",
        str(out),
    ]
    with pytest.raises(SystemExit) as ended:
        main([*command, *wrong])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert not out.exists()
