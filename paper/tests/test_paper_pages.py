"""Tables, figures and the page from stores at any stage: what is there is shown, what
is not is said.
"""

import errno
import re

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.text import Text
from typer.testing import CliRunner

from paper_trials import (
    CURVE_GROUPS,
    like_the_paper,
    make_store,
    noisy,
    trial,
    whole_store,
)
from propcal.cli import app, main
from propcal.errors import InputError
from propcal.formats import transaction
from propcal.formats.transaction import new_folders
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.figures import (
    PICTURES,
    UPDATES,
    draw_comparison,
    draw_convergence,
    draw_curves,
    draw_over_alpha,
    pictures,
)
from propcal_paper.results.figures import TABLES as NUMBERS
from propcal_paper.results.prevalence import table_1
from propcal_paper.results.reproduction import Reproduction
from propcal_paper.results.tables import TABLES, table
from propcal_paper.settings import BASE, GROUPINGS, MC, OURS, PMC, Setting

mpl.use("Agg")


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """Three shuffles of LR, four of RF, no DNN."""
    path = tmp_path_factory.mktemp("partial") / "a.sqlite"
    whole_store(path, noisy, seeds=(1, 2, 3), models=("LR", "RF"))
    return whole_store(path, noisy, seeds=(7,), models=("RF",))


@pytest.fixture(scope="module")
def evidence(partial):
    return Evidence.from_store(partial)


@pytest.fixture(scope="module")
def made(evidence):
    return {name: table(evidence, name) for name in TABLES}


def words(picture):
    return " ".join(
        text.get_text() for text in picture.figure.findobj(Text) if text.get_text()
    )


def test_table_4_shows_the_published_numbers_beside_and_marks_ours(tmp_path):
    path = whole_store(
        tmp_path / "a.sqlite", like_the_paper, seeds=(1, 2, 3), models=("RF",)
    )
    rows = table(Evidence.from_store(path), "table_4").rows
    assert (rows[1][:3], rows[1][4:7]) == (
        ("PMCBoost", "RF", "3"),
        ("-0.27", "-17.00", "-17.53"),
    )
    assert rows[2][:6] == ("ours", "RF", "3", "0.00", "–", "-50.00")
    assert [row[0] for row in rows] == ["MCBoost", "PMCBoost", "ours"]


def test_table_4_is_shown_by_each_of_the_three_rules(tmp_path):
    settings = Setting(BASE, GROUPINGS[0]), Setting(PMC, GROUPINGS[0], 0.1, 0.05, 0.1)
    losses = (
        {"mc_loss": 0.1, "sizes_mc_loss": 0.04},
        {"mc_loss": 0.05, "sizes_mc_loss": 0.05},
    )
    losses[1].update(own_mc_loss=0.06, base_own_mc_loss=0.08)
    rows = [trial(1, "RF", setting, **loss) for setting, loss in zip(settings, losses)]
    evidence = Evidence.from_store(make_store(tmp_path / "a.sqlite", rows))
    for name in ("table_4", "table_5"):  # the store has one grouping
        assert "both groupings" not in " ".join(table(evidence, name).notes)
    names = ("table_4", "table_4_by_sizes", "table_4_by_own")
    assert [table(evidence, name).rows[0][5] for name in names] == [
        "-50.00",
        "+25.00",
        "-25.00",
    ]
    assert "by each trial's own rule" in table(evidence, "table_4_by_own").title
    page = Reproduction(evidence).markdown()
    assert (
        "of at least 13 of the 25,000 visits of a test set" in page
    )  # 0.1 x 0.05 / 10 of 25,000
    assert "the size in the paper's definitions, is 250." in page
    assert "are judged by three rules; 0 verdicts depend on the rule" in page
    assert "**DC loss** compares all pairs of groups" in page
    other = Evidence(
        evidence.stored, evidence.curves, {**evidence.about, "setup": "authors-code"}
    )
    assert "**DC loss** compares all pairs" not in Reproduction(other).markdown()


def test_a_table_for_latex_has_as_many_cells_as_columns_and_no_bare_signs(made):
    for one in made.values():
        text = one.latex()
        body = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len(body) == len(one.rows) + 1
        assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {
            len(one.headings) - 1
        }
        assert not re.search(r"(?<!\\)[%_#]", "".join(body))
        assert text.count(r"\begin") == text.count(r"\end") == 2


@pytest.mark.slow
def test_our_method_can_be_left_out_of_tables_and_figures(partial, tmp_path):
    folder = tmp_path / "out"
    arguments = ["paper", "tables", str(partial), "-o", str(folder), "--without-ours"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "110"})
    assert result.exit_code == 0, result.output
    assert "ours" not in result.output
    assert not (folder / "table_6_with_ours.csv").exists()
    without = Evidence.from_store(partial).without_ours()
    for picture in (
        draw_comparison(without),
        draw_over_alpha(without, UPDATES),
        draw_curves(without),
    ):
        assert "(ours)" not in words(picture)
        assert not any(
            "propcal" in str(frame.to_dict()) for frame in picture.data.values()
        )


@pytest.mark.slow
def test_figures_are_written_as_vectors_with_letters_that_stay_letters(
    partial, tmp_path
):
    folder = tmp_path / "figures"
    arguments = ["paper", "theory", "-o", str(folder), "--format", "pdf,svg"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert (folder / "theory_constraints.pdf").read_bytes().startswith(b"%PDF")
    assert ">0.2-PMC<" in (folder / "theory_constraints.svg").read_text()
    assert not [*folder.glob("*.png")]
    result = CliRunner().invoke(
        app, ["paper", "figures", str(partial), "--format", "gif"]
    )
    assert "there is no 'gif'" in str(result.exception)


def test_each_method_has_one_colour_in_every_figure(evidence):
    from propcal_paper.figure_parts import LOOKS
    from propcal_paper.theory import constraints as numbers
    from propcal_paper.theory import plot_constraints

    constraints = plot_constraints(numbers(), alpha=0.2, rho=0.1)
    lines = {line.get_label(): line.get_color() for line in constraints.axes[0].lines}
    assert (lines["0.2-MC"], lines["0.2-PMC"]) == (
        LOOKS[MC]["color"],
        LOOKS[PMC]["color"],
    )
    assert len({LOOKS[method]["color"] for method in (BASE, MC, PMC, OURS)}) == 4


def test_the_lowest_loss_of_each_method_is_ringed(evidence):
    picture = draw_over_alpha(evidence, UPDATES)
    data = picture.data["updates_over_alpha"]
    ax = picture.figure.axes[0]
    rings = [line for line in ax.lines if line.get_markerfacecolor() == "none"]
    assert len(rings) == 2
    for ring, method in zip(rings, (MC, PMC)):
        own = data[
            (data["model"] == "LR")
            & (data["method"] == method)
            & (data["groups"] == "race x gender")
        ]
        best = own.loc[own["median_pmc_loss"].idxmin()]
        assert ring.get_ydata()[0] == best["n_updates"]


def test_table_5_and_6_show_ours_beside_the_published(made):
    five, six = made["table_5"], made["table_6"]
    assert [row[4] for row in five.rows[:3]] == ["2,094", "263", "8.0x"]
    assert six.headings == (
        "winner by",
        "metric",
        "n",
        "base",
        "paper",
        "MCBoost",
        "paper",
        "PMCBoost",
        "paper",
    )
    assert six.rows[1][1:3] == ("MC loss", "4")
    assert six.rows[1][4::2] == ("8", "21", "70")


def test_a_store_with_base_models_only_gives_tables_without_rows(tmp_path):
    path = make_store(
        tmp_path / "a.sqlite", [trial(1, "LR", Setting(BASE, GROUPINGS[0]))]
    )
    evidence = Evidence.from_store(path)
    for name in TABLES:
        made = table(evidence, name)
        assert made.markdown().startswith(f"### {made.title}"), name
    assert "Nothing yet." in table(evidence, "table_4").markdown()
    page = Reproduction(evidence)
    assert len(page.lacking) == 6
    assert {j.verdict for j in page.judged} == {"cannot be judged yet"}


def test_the_page_has_a_column_of_verdicts_for_each_run_beside(tmp_path):
    path = make_store(
        tmp_path / "a.sqlite", [trial(1, "LR", Setting(BASE, GROUPINGS[0]))]
    )
    settings = [Setting(PMC, GROUPINGS[0], 0.1, 0.05, 0.1)]
    about = {"cohort": "generated", "rows": 1000, "surrogate": "strong"}
    other = make_store(
        tmp_path / "b.sqlite",
        [trial(1, "LR", s, train_pmc_loss=0.05) for s in settings],
        (),
        about,
    )
    page = Reproduction(
        Evidence.from_store(path), others=[Evidence.from_store(other)]
    ).markdown()
    assert "| each trial's own rule | in strong visits, printed |" in page
    assert "| PMCBoost reaches alpha-PMC | ? | ? | ? | ✓ |" in page


def test_markdown_tables_have_as_many_cells_as_headings(made):
    for one in made.values():
        lines = [line for line in one.markdown().splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_the_comparison_shows_every_method_its_marks_and_what_it_stands_on(evidence):
    picture = draw_comparison(evidence)
    said = words(picture)
    for part in (
        "propcal (ours)",
        "Simulated visits, no patients",
        "LR 3, RF 4",
        "No DNN yet",
        "ns: p > 1e-2",
    ):
        assert part in said
    assert "no test can be significant" in " ".join(said.split())
    points = [
        line
        for ax in picture.figure.axes
        for line in ax.lines
        if line.get_marker() == "^"
    ]
    assert len(points) == 4 * 2  # PMCBoost: four metrics, two base models
    data = picture.data["comparison"].set_index(["model", "method", "metric"])
    assert points[0].get_xdata()[0] == data.at[("LR", PMC, "auroc"), "median"]


def test_curves_show_the_three_groups_where_the_base_model_is_furthest_off(evidence):
    picture = draw_curves(evidence)
    assert list(picture.data["calibration_curves_groups"]["group"]) == CURVE_GROUPS[:3]
    ax = picture.figure.axes[0]
    base, treated = (line for line in ax.lines if line.get_marker() in ("o", "^"))
    # 1,500 visits of which 200 were admitted, 200 + 800 expected by the base model, 200
    # + 200 by PMCBoost
    assert base.get_xdata()[0] == pytest.approx(1000 / 1500)
    assert treated.get_xdata()[0] == pytest.approx(400 / 1500)
    assert base.get_ydata()[0] == pytest.approx(200 / 1500)
    assert "base model: 160.0 %" in words(picture)


def test_convergence_and_updates_are_annotated(evidence):
    drawn = draw_convergence(evidence)
    assert {"LR", "RF"} <= {ax.get_title() for ax in drawn.figure.axes}
    assert re.search(r"\d\.\dx", words(drawn))
    picture = draw_over_alpha(evidence, UPDATES)
    data = picture.data["updates_over_alpha"]
    assert len(picture.figure.axes) == 4  # two base models, two groupings
    chosen = data[
        (data["model"] == "LR")
        & (data["method"] == MC)
        & (data["groups"] == "race x gender")
    ]
    shown = [text.get_text() for text in picture.figure.axes[0].texts]
    assert {f"{loss:.2f}" for loss in chosen["median_pmc_loss"]} <= {*shown}


def test_pictures_of_one_seed_speak_of_no_intervals(tmp_path):
    evidence = Evidence.from_store(
        whole_store(tmp_path / "a.sqlite", noisy, seeds=(1,), models=("RF",))
    )
    drawn, _ = pictures(evidence)
    for picture in drawn:
        text = " ".join(words(picture).split())
        assert "99 %" not in text
        assert "1 seeds" not in text
    curves = next(picture for picture in drawn if picture.name == "calibration_curves")
    assert "RF, 1 seed; " in " ".join(words(curves).split())
    assert "fewer than 30 people per seed are not drawn" in " ".join(
        words(curves).split()
    )
    points = [
        line for line in curves.figure.axes[0].lines if line.get_marker() in ("o", "^")
    ]
    assert not any(line.get_clip_on() for line in points)  # a point at 1, 1 is whole


def test_a_fit_without_updates_can_be_drawn(tmp_path):
    settings = [Setting(BASE, GROUPINGS[0]), Setting(OURS, GROUPINGS[0])]
    settings += [
        Setting(m, GROUPINGS[0], a, 0.05, 0.1) for m in (MC, PMC) for a in (0.1, 0.2)
    ]
    path = make_store(
        tmp_path / "a.sqlite", [trial(1, "DNN", setting) for setting in settings]
    )
    picture = draw_over_alpha(Evidence.from_store(path), UPDATES)
    picture.figure.canvas.draw()
    assert "No LR and RF yet" in words(picture)


@pytest.mark.slow
def test_table_1_is_that_of_the_generated_visits_if_they_are_the_same(tmp_path):
    from propcal_paper.running.cohort_files import visits_of

    about = visits_of(None, 2000).about
    one = [trial(1, "LR", Setting(BASE, GROUPINGS[0]))]
    evidence = Evidence.from_store(make_store(tmp_path / "a.sqlite", one, about=about))
    table = table_1(evidence)
    here, paper = table.rows[-2:]
    assert here[:2] == ("Overall", "here")
    assert here[-1].split("/")[1].startswith("2000 (")
    assert paper == (
        "",
        "paper",
        "26200/99093 (26%)",
        "27389/74468 (37%)",
        "53589/173561 (31%)",
    )
    other = Evidence(
        evidence.stored, evidence.curves, about | {"fingerprint": "another"}
    )
    assert "simulated by another version of propcal" in table_1(other)
    file = Evidence(evidence.stored, evidence.curves, {"cohort": "a file of visits"})
    assert table_1(file).endswith("come from a file. Name it with --cohort FILE.")
    pages = [Reproduction(some).markdown() for some in (evidence, other, file)]
    assert ["Table 1: admitted" in page for page in pages] == [True, False, False]
    assert ["Table 1 is not shown" in page for page in pages] == [False, True, True]
    assert "are in proportion to the paper's Table 1" in pages[0]  # 2,000 visits
    assert not any("are those of the paper's Table 1" in page for page in pages)
    assert (
        "the AUROC of LR and RF and the number of words in complaints were fitted"
        in pages[0]
    )
    weak = Evidence(
        evidence.stored,
        evidence.curves,
        about | {"surrogate": "weak", "fingerprint": "another"},
    )
    assert "were fitted" not in Reproduction(weak).markdown()
    result = CliRunner().invoke(app, ["paper", "tables", str(tmp_path / "a.sqlite")])
    assert "Table 1 is not shown" not in result.output
    result = CliRunner().invoke(
        app,
        [
            "paper",
            "tables",
            str(make_store(tmp_path / "b.sqlite", one, about=other.about)),
        ],
    )
    assert (
        "Table 1 is not shown: the visits of the trials were simulated by another"
        in result.output
    )
    visits_of(None, 2000).frame.to_parquet(tmp_path / "visits.parquet")
    with pytest.raises(InputError, match="has other visits than those"):
        table_1(other, tmp_path / "visits.parquet")


def test_tables_are_printed_and_written_once(partial, tmp_path, capsys):
    folder = tmp_path / "tables"
    arguments = ["paper", "tables", str(partial), "-o", str(folder), "--format", "csv"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "110"})
    assert result.exit_code == 0, result.output
    for part in (
        "There are no trials of DNN yet.",
        "Table 4",
        "Table 5",
        "Table 6",
        "cannot be judged yet",
        "propcal (ours)",
    ):
        assert part in result.output
    assert {path.name for path in folder.iterdir()} == {
        f"{name}.csv" for name in (*TABLES, "claims")
    }
    changes = pd.read_csv(folder / "table_4.csv")
    assert {"change", "low", "high", "published", "n_seeds"} <= {*changes}
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "already exists. Use --force to replace it" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_and_figures_come_from_the_store_alone(tmp_path):
    store = whole_store(tmp_path / "a.sqlite", like_the_paper, models=("LR",))
    page = tmp_path / "docs" / "page.md"  # in a folder that is made
    result = CliRunner().invoke(
        app, ["paper", "reproduction", str(store), "-o", str(page)]
    )
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "no number comes from a patient" in text
    command = "propcal paper admissions --trials 20 --setup printed --surrogate weak --rows 1000 --models LR"
    assert f"{command} -o admissions.sqlite" in text
    assert "| PMCBoost | LR | 20 | +0.01 | +0.01 | +14.00 | +14.18 |" in text
    assert "| MC loss of LR is not improved | ✓ | ✓ | " in text
    verdicts = pd.read_csv(
        page.parent / "tables" / "reproduction" / "claims.csv"
    ).set_index("claim")["verdict"]
    assert verdicts["MC loss of LR is not improved"] == "agrees"
    assert (
        "Not drawn: calibration\\_curves: the store has no curves for RF yet." in text
    )
    assert ">>>" not in text
    assert "nan" not in text.lower().split()
    pictures = re.findall(r"\]\((images/reproduction/\w+\.png)\)", text)
    assert len(pictures) == 6
    for name in pictures:
        assert 0 < (page.parent / name).stat().st_size < 300_000
    again = CliRunner().invoke(
        app, ["paper", "reproduction", str(store), "-o", str(page)]
    )
    assert isinstance(again.exception, InputError)
    assert "already exists. Use --force to replace it" in str(again.exception)


def test_figures_write_a_picture_and_its_numbers(tmp_path):
    store = make_store(
        tmp_path / "a.sqlite",
        [
            trial(seed, "RF", setting, mc_loss=0.1 * seed)
            for seed in (1, 2)
            for setting in (
                Setting(BASE, GROUPINGS[0]),
                Setting(PMC, GROUPINGS[0], 0.1, 0.05, 0.1),
            )
        ],
    )
    folder = tmp_path / "figures"
    result = CliRunner().invoke(
        app, ["paper", "figures", str(store), "-o", str(folder)]
    )
    assert result.exit_code == 0, result.output
    written = {path.name for path in folder.iterdir()}
    assert {
        "comparison.png",
        "comparison.csv",
        "comparison_tests.csv",
        "mc_loss_over_alpha.csv",
    } <= written
    assert written <= {f"{name}.png" for name in PICTURES} | {
        f"{name}.csv" for name in NUMBERS
    }
    assert "Not drawn: convergence" in result.output
    drawn = pd.read_csv(folder / "mc_loss_over_alpha.csv")
    assert drawn.loc[drawn["method"] == PMC, "mc_loss"].tolist() == [
        pytest.approx(0.15)
    ]


def test_an_unknown_store_is_one_line_and_leaves_nothing_behind(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                "paper",
                "figures",
                str(tmp_path / "none.sqlite"),
                "-o",
                str(tmp_path / "out"),
            ]
        )
    assert stopped.value.code == 2
    assert "there are no trials at" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_failed_write_leaves_no_folders_behind(
    tmp_path, tmp_path_factory, monkeypatch
):
    settings = (Setting(BASE, GROUPINGS[0]), Setting(PMC, GROUPINGS[0], 0.1, 0.05, 0.1))
    store = str(tmp_path_factory.mktemp("store") / "a.sqlite")
    make_store(store, [trial(1, "RF", setting) for setting in settings])

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(transaction, "_new_part", full)
    (tmp_path / "there").mkdir()
    new = tmp_path / "new" / "folder"
    commands = [
        ["tables", store, "-o", str(new)],
        ["reproduction", store, "-o", str(new / "page.md")],
        ["theory", "-o", str(tmp_path / "there")],
    ]
    for command in commands:
        with pytest.raises(SystemExit) as stopped:
            main(["paper", *command])
        assert stopped.value.code == 2
        assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_folders_that_hold_something_by_then_are_kept(tmp_path):
    file = tmp_path / "a" / "c" / "of another program"
    with pytest.raises(FileExistsError), new_folders(tmp_path / "a" / "b", file.parent):
        file.touch() or file.touch(exist_ok=False)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "a",
        "c",
        "of another program",
    ]
