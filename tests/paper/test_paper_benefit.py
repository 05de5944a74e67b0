"""Whom post-processing helps and harms: each number can be worked out by hand."""

import shlex

import pytest
from typer.testing import CliRunner

from paper_trials import SEEDS, curve, make_store, trial
from propcal.cli import app, main
from propcal.paper.benefit_page import BenefitPage
from propcal.paper.experiment.settings import BASE, MC, OURS, PMC, Setting
from propcal.paper.figures.calibration_figure import draw_curves
from propcal.paper.results.benefit import (
    ALL_CELLS,
    AVERAGE,
    FINE,
    HARMS,
    HELPS,
    LARGER_CELLS,
    LARGEST,
    PREDICTION,
    TOO_FEW,
    UNCHANGED,
    UNCLEAR,
    alpha_tally,
    benefit,
    by_alpha,
    left_out,
    observed_to_expected,
    tally,
)
from propcal.paper.results.calibration_by_group import curves as calibration_curves
from propcal.paper.results.calibration_by_group import subgroup
from propcal.paper.results.evidence import Evidence

GROUPS = ("sex", "payer")
COLUMNS = {"outcome": "readmitted", "groupings": [list(GROUPS)], "unit": "stays", "features": [[], [], []]}
ABOUT = {"cohort": "a file of stays", "rows": "all", "columns": {**COLUMNS, "person": "patient"}}
SETTINGS = {
    BASE: Setting(BASE, GROUPS),
    MC: Setting(MC, GROUPS, 0.1, 0.05, 0.1),
    PMC: Setting(PMC, GROUPS, 0.1, 0.05, 0.1),
    OURS: Setting(OURS, GROUPS),
}
LOSS = {BASE: 0.4, MC: 0.4, PMC: 0.5, OURS: 0.3}
FINE_SETTING = Setting(PMC, GROUPS, 0.01, 0.05, 0.1)
EXPECTED = {BASE: 120, MC: 120, PMC: 110, OURS: 100}  # events that the score expects among 100 observed


def store(path, seeds=SEEDS):
    trials = [
        trial(s, "RF", setting, sizes_pmc_loss=LOSS[method] * (1 + 0.01 * s), n_test=4000)
        for s in seeds
        for method, setting in SETTINGS.items()
    ]
    trials += [trial(s, "RF", FINE_SETTING, sizes_pmc_loss=0.2, log_loss=0.55 + 0.01 * s) for s in seeds]
    curves = []
    for s in seeds:
        for method, setting in SETTINGS.items():
            for name in ("sex=f & payer=not recorded", "sex=m & payer=Medicare"):
                counts = [(1000, 60, 0.6 * EXPECTED[method]), (1000, 40, 0.4 * EXPECTED[method])]
                curves += curve(s, "RF", setting, name, counts)
    return make_store(path, trials, curves, ABOUT)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    return Evidence.from_store(store(tmp_path_factory.mktemp("benefit") / "a.sqlite"))


def test_changes_are_percent_of_the_base_models_error_in_the_same_patients(evidence):
    found = benefit(evidence).set_index(["measure", "method"])
    assert found.loc[(LARGEST, PMC), "change"] == pytest.approx(25)
    assert found.loc[(LARGEST, OURS), "change"] == pytest.approx(-25)
    assert found.loc[(LARGEST, MC), "verdict"] == UNCHANGED
    assert [found.loc[(LARGEST, m), "verdict"] for m in (PMC, OURS)] == [HARMS, HELPS]
    assert (found.loc[(LARGEST, PMC), "worse"], found.loc[(LARGEST, PMC), "better"]) == (1, 0)
    # off by 20 of 100 events before, by 10 with PMCBoost, by none with ours
    assert found.loc[(AVERAGE, PMC), "before"] == pytest.approx(0.2)
    assert found.loc[(AVERAGE, PMC), "change"] == pytest.approx(-50)
    assert found.loc[(AVERAGE, OURS), "change"] == pytest.approx(-100)
    assert tally([benefit(evidence)], PMC, LARGEST)[HARMS] == 1
    # log loss 0.5 before; 0.55 and more with the smaller alpha, at which the largest error is smaller
    assert found.loc[(PREDICTION, FINE), "verdict"] == HARMS
    assert found.loc[(PREDICTION, FINE), "change"] == pytest.approx(100 * (0.655 / 0.5 - 1))
    assert found.loc[(LARGEST, FINE), "verdict"] == HELPS


def test_seeds_on_both_sides_are_unclear_and_few_seeds_say_nothing(tmp_path):
    rows = []
    for s in SEEDS:
        rows.append(trial(s, "RF", SETTINGS[BASE], sizes_pmc_loss=0.4))
        rows.append(trial(s, "RF", SETTINGS[PMC], sizes_pmc_loss=0.3 if s % 2 else 0.5))
    found = benefit(Evidence.from_store(make_store(tmp_path / "a.sqlite", rows, about=ABOUT)))
    assert found[found["measure"] == LARGEST]["verdict"].tolist() == [UNCLEAR]
    few = benefit(Evidence.from_store(store(tmp_path / "b.sqlite", seeds=(1, 2, 3))))
    assert {*few["verdict"]} == {TOO_FEW}


def test_each_alpha_is_compared_in_larger_and_in_all_cells(evidence):
    frame = by_alpha(evidence)
    found = frame.set_index(["yardstick", "method", "alpha"]).sort_index()
    larger, every = LARGER_CELLS, ALL_CELLS
    assert found.loc[(larger, PMC, 0.01), "verdict"] == HELPS
    assert found.loc[(larger, PMC, 0.1), "verdict"] == HARMS
    assert found.loc[(every, PMC, 0.1), "verdict"] == UNCHANGED
    assert found.loc[(PREDICTION, PMC, 0.01), "verdict"] == HARMS
    # cells of 0.01 * 0.05 / 10 and of 0.1 * 0.05 / 10 of the 75,000 patients of a fit
    assert [found.loc[(larger, PMC, alpha), "smallest"] for alpha in (0.01, 0.1)] == [4, 38]
    counts = {(method, alpha): n for method, alpha, _, n in alpha_tally([frame, frame])}
    assert counts[PMC, 0.01][PREDICTION][HARMS] == 2


def test_ratios_are_observed_over_expected(evidence):
    found = observed_to_expected(evidence, "RF", "sex x payer").set_index(["group", "method"])
    row = found.loc[("sex=m & payer=Medicare", BASE)]
    assert row["ratio"] == pytest.approx(100 / 120)
    assert row["rate"] == pytest.approx(100 / 2000)
    assert row["share"] == pytest.approx(0.5)
    assert found.loc[("sex=m & payer=Medicare", OURS), "ratio"] == pytest.approx(1)


def test_the_page_counts_helps_and_harms_and_draws_two_pictures(tmp_path):
    stores = [str(store(tmp_path / f"{name}.sqlite")) for name in "ab"]
    page = tmp_path / "docs" / "benefit.md"
    arguments = [
        "paper",
        "benefit",
        *stores,
        "--name",
        "within 30 days",
        "--name",
        "readmitted",
        "--about",
        "Open data.",
        "-o",
        str(page),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "Open data." in text
    assert "| outcome | observed rate, all test sets together | shuffles |" in text
    assert "| within 30 days | 5.0 % | 20 | RF 0.80 | printed |" in text
    assert "propcal paper experiment FILE --outcome readmitted --groups sex,payer" in text
    assert "| readmitted | 5.0 % | 20 |" in text
    assert (
        "PMCBoost lowered the largest error in 0 of 2 comparisons, the prediction error in 0 and the average "
        "error in all 2." in text
    )
    # each question is answered in its first sentence
    assert "help?** Mostly patients for whom the score predicts too high." in text
    assert "4 O/E ratios of subgroups with at least 5 % of the stays were off by 5 % or more" in text
    assert "4 too high, 0 too low" in text
    assert "With PMCBoost at alpha 0.1, all 4 came closer to 1; with propcal's default, all 4 came" in text
    assert "harm?** At alpha 0.01 and 0.1." in text
    assert "propcal's default do harm?** In none of the comparisons clearly." in text
    assert "they are not 2 independent findings" in text
    assert (
        "PMCBoost raised the average error in 0 of 2 comparisons, the prediction error in 0 and the" in text
    )
    assert "the largest error in all 2." in text
    assert "it raised the prediction error in 2 of 2 comparisons at alpha 0.01" in text
    assert "raised none of the three errors clearly in any of the 2 comparisons." in text
    assert "O/E ratio 0.83 before, 0.91 after PMCBoost and 1.00 after propcal's default." in text
    assert "| PMCBoost, alpha 0.1 | 0 / 0 / 2 | 2 / 0 / 0 | 0 / 2 / 0 |" in text
    row = "| sex x payer | RF | PMCBoost, alpha 0.1 | 44.2 % → 55.2 % | +25 % (+25 to +25), 0 / 100, harms |"
    assert row in text
    assert "nan" not in text
    for name in ("benefit", "observed_to_expected"):
        assert 0 < (page.parent / "images" / f"{name}.png").stat().st_size < 300_000


def test_a_page_from_few_shuffles_gives_no_verdict_and_says_so(tmp_path):
    path = str(store(tmp_path / "a.sqlite", seeds=(1, 2, 3)))
    page = tmp_path / "benefit.md"
    result = CliRunner().invoke(app, ["paper", "benefit", path, "-o", str(page)])
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "There are too few shuffles for a verdict: 3, and 20 are needed." in text
    assert "When does it harm?" not in text
    assert " harms |" not in text.split("## All numbers")[1]


def test_a_rise_by_our_method_in_small_cells_is_given_with_its_size_and_place(tmp_path):
    rows = []
    for s in SEEDS:
        rows.append(trial(s, "RF", SETTINGS[BASE], pmc_loss=0.2, sizes_pmc_loss=0.2))
        rows.append(trial(s, "RF", SETTINGS[PMC], pmc_loss=0.2, sizes_pmc_loss=0.2))
        rows.append(trial(s, "RF", SETTINGS[OURS], pmc_loss=0.5, sizes_pmc_loss=0.2))
    path = make_store(tmp_path / "a.sqlite", rows, about=ABOUT)
    page = tmp_path / "benefit.md"
    result = CliRunner().invoke(app, ["paper", "benefit", str(path), "-o", str(page)])
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "harm?** Not in cells with at least 1 % of the stays, but in smaller cells it can." in text
    assert (
        "rose clearly in 1 of 1 comparisons: by 150 % (95 % CI 150 to 150; median from 20 % to 50 %)" in text
    )
    assert "for readmitted, random forest, sex × payer." in text
    assert (
        "raised it clearly in none of the 1; where propcal's default raised it, PMCBoost changed it" in text
    )


def test_subgroups_that_are_not_drawn_are_named(tmp_path):
    rows, curves = [], []
    for s in SEEDS:
        for setting in (SETTINGS[BASE], SETTINGS[PMC]):
            rows.append(trial(s, "RF", setting, n_test=4000))
            curves += curve(s, "RF", setting, "sex=f & payer=Medicaid", [(100, 10, 12)])
            curves += curve(s, "RF", setting, "sex=m & payer=Medicare", [(3900, 400, 400)])
    path = make_store(tmp_path / "a.sqlite", rows, curves, ABOUT)
    assert left_out(Evidence.from_store(path), "RF", "sex x payer") == ["sex=f & payer=Medicaid"]
    page = tmp_path / "benefit.md"
    assert CliRunner().invoke(app, ["paper", "benefit", str(path), "-o", str(page)]).exit_code == 0
    said = 'Subgroups with less than 5 % of the stays are not drawn: "f, Medicaid".'
    assert said in page.read_text()


def test_levels_and_columns_may_hold_any_text_and_values_may_be_missing(tmp_path):
    groups = ("race & x", "payer x kind")
    about = {**ABOUT, "columns": {**ABOUT["columns"], "groupings": [["race & x"], list(groups)]}}
    names = ["race & x=Black & African & payer x kind missing", "not race & x & payer x kind=a x b"]
    rows, curves = [], []
    for s in (1, 2):
        for method in (BASE, PMC, OURS):
            for part in (groups[:1], groups):
                setting = Setting(method, part, *((0.1, 0.05, 0.1) if method == PMC else ()))
                rows.append(trial(s, "RF", setting, n_test=2000))
                coarse = [(2000, 200, 2 * EXPECTED[method])]
                curves += curve(s, "RF", setting, "race & x=all", coarse) if part != groups else []
            for i, name in enumerate(names):
                curves += curve(s, "RF", setting, name, [(1000, 100, EXPECTED[method] - i)])
    path = make_store(tmp_path / "a.sqlite", rows, curves, about)
    evidence = Evidence.from_store(path)
    found = observed_to_expected(evidence, "RF", "race & x x payer x kind")
    assert {*found["group"]} == {*names}
    assert {*calibration_curves(evidence).errors["group"]} == {*names}
    assert subgroup(names[0], groups) == "Black & African, payer x kind missing"
    assert subgroup(names[1], groups) == "not race & x, a x b"
    assert draw_curves(evidence) is not None
    page = BenefitPage({"readmitted": evidence})
    page.figures()
    said = 'the subgroup "Black &amp; African, payer x kind missing", where it predicted too high'
    assert said in page.markdown("images")


def test_names_are_drawn_and_written_letter_by_letter(tmp_path):
    levels = ("sex=$a^{$ & payer=_x", "sex=m & payer=$5 to $9")
    rows = [trial(1, "RF", SETTINGS[method]) for method in (BASE, PMC)]
    curves = [
        row
        for method in (BASE, PMC)
        for name in levels
        for row in curve(1, "RF", SETTINGS[method], name, [(9000, 900, 900)])
    ]
    evidence = Evidence.from_store(make_store(tmp_path / "a.sqlite", rows, curves, ABOUT))
    page = BenefitPage({"a|b *x* $a^{$ <i>": evidence})
    for name, figure in page.figures().items():
        figure.savefig(tmp_path / f"{name}.svg", metadata={"Date": None})
        drawn = (tmp_path / f"{name}.svg").read_text()
        assert "a|b *x* $a^{$" in drawn
    assert "m, $5 to $9" in drawn
    text = page.markdown("images")
    assert r"| a\|b \*x\* \$a^{\$ &lt;i&gt; |" in text
    assert "<summary>a|b *x* $a^{$ &lt;i&gt;</summary>" in text


def test_the_commands_on_the_page_can_be_given_to_a_shell(tmp_path):
    columns = {**ABOUT["columns"], "outcome": "back again", "features": [["age", "a&b"], [], []]}
    about = {**ABOUT, "columns": columns, "positive": "<30", "na": ["?", "n/a"]}
    rows = [trial(1, "RF", SETTINGS[method]) for method in (BASE, PMC)]
    evidence = Evidence.from_store(make_store(tmp_path / "a.sqlite", rows, about=about))
    first, second = BenefitPage({"within 30 days": evidence})._commands()
    assert shlex.split(first) == [
        *("propcal", "paper", "experiment", "FILE", "--outcome", "back again", "--groups", "sex,payer"),
        *("--features", "age,a&b", "--cluster", "patient", "--positive", "<30", "--na", "?", "--na", "n/a"),
        *("--models", "RF", "--trials", "1", "--setup", "printed", "-o", "outcome_1.sqlite"),
    ]
    assert second == "propcal paper benefit outcome_1.sqlite --name 'within 30 days' -o benefit.md"
    assert "--name" not in BenefitPage({"back again": evidence})._commands()[1]


def test_every_outcome_has_one_store_and_a_name_of_its_own(tmp_path, capsys):
    a, b = (str(store(tmp_path / f"{name}.sqlite", seeds=(1,))) for name in "ab")
    page = tmp_path / "docs" / "benefit.md"

    def refusal(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["paper", "benefit", *arguments, "-o", str(page)])
        assert ended.value.code == 2
        assert not page.parent.exists()
        return capsys.readouterr().err

    assert "2 of the outcomes have the name 'readmitted'. Give each a name of its own with --name" in refusal(
        a, b
    )
    assert "2 of the outcomes have the name 'x'" in refusal(a, b, "--name", "x", "--name", "x")
    assert "--name: 1 name for 2 stores. Give it once for each store" in refusal(a, b, "--name", "x")
    assert "--name: 2 names for 1 store." in refusal(a, "--name", "x", "--name", "y")
    assert "is listed twice" in refusal(a, f"{tmp_path}/../{tmp_path.name}/a.sqlite")
