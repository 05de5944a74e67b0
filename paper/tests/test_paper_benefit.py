"""Whom post-processing helps and harms: each number can be worked out by hand."""

import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from paper_trials import SEEDS, curve, make_store, trial
from propcal.cli import app, main
from propcal_paper.results.benefit import (
    ALL_CELLS,
    AVERAGE,
    HARMS,
    HELPS,
    LARGEST,
    PREDICTION,
    TOO_FEW,
    UNCHANGED,
    UNCLEAR,
    benefit,
    observed_to_expected,
)
from propcal_paper.results.benefit_figures import (
    FINE,
    MC_NAME,
    OURS_NAME,
    PMC_NAME,
    benefit_figures,
)
from propcal_paper.results.benefit_page import benefit_page, benefit_tables
from propcal_paper.results.curve_counts import CurveCounts
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.figures import draw_curves
from propcal_paper.results.reproduction import command_of
from propcal_paper.results.subgroups import subgroup
from propcal_paper.settings import BASE, MC, OURS, PMC, Setting

GROUPS = ("sex", "payer")
COLUMNS = {
    "outcome": "readmitted",
    "groupings": [list(GROUPS)],
    "unit": "stays",
    "features": [[], [], []],
}
ABOUT = {
    "cohort": "a file of stays",
    "rows": "all",
    "columns": {**COLUMNS, "person": "patient"},
}
SETTINGS = {
    BASE: Setting(BASE, GROUPS),
    MC: Setting(MC, GROUPS, 0.1, 0.05, 0.1),
    PMC: Setting(PMC, GROUPS, 0.1, 0.05, 0.1),
    OURS: Setting(OURS, GROUPS),
}
LOSS = {BASE: 0.4, MC: 0.4, PMC: 0.5, OURS: 0.3}
FINE_SETTING = Setting(PMC, GROUPS, 0.01, 0.05, 0.1)
EXPECTED = {
    BASE: 120,
    MC: 120,
    PMC: 110,
    OURS: 100,
}  # events that the score expects among 100 observed


def store(path, seeds=SEEDS):
    trials = [
        trial(
            s, "RF", setting, sizes_pmc_loss=LOSS[method] * (1 + 0.01 * s), n_test=4000
        )
        for s in seeds
        for method, setting in SETTINGS.items()
    ]
    trials += [
        trial(s, "RF", FINE_SETTING, sizes_pmc_loss=0.2, log_loss=0.55 + 0.01 * s)
        for s in seeds
    ]
    curves = []
    for s in seeds:
        for method, setting in SETTINGS.items():
            for name in ("sex=f & payer=not recorded", "sex=m & payer=Medicare"):
                counts = [
                    (1000, 60, 0.6 * EXPECTED[method]),
                    (1000, 40, 0.4 * EXPECTED[method]),
                ]
                curves += curve(s, "RF", setting, name, counts)
    return make_store(path, trials, curves, ABOUT)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    return Evidence.from_store(store(tmp_path_factory.mktemp("benefit") / "a.sqlite"))


def test_changes_are_percent_of_the_base_models_error_in_the_same_patients(evidence):
    found = benefit(evidence).set_index(["measure", "name"])
    assert found.loc[(LARGEST, PMC_NAME), "change"] == pytest.approx(25)
    assert found.loc[(LARGEST, OURS_NAME), "change"] == pytest.approx(-25)
    assert found.loc[(LARGEST, MC_NAME), "verdict"] == UNCHANGED
    assert [found.loc[(LARGEST, m), "verdict"] for m in (PMC_NAME, OURS_NAME)] == [
        HARMS,
        HELPS,
    ]
    assert (
        found.loc[(LARGEST, PMC_NAME), "worse"],
        found.loc[(LARGEST, PMC_NAME), "better"],
    ) == (1, 0)
    # off by 20 of 100 events before, by 10 with PMCBoost, by none with ours
    assert found.loc[(AVERAGE, PMC_NAME), "before"] == pytest.approx(0.2)
    assert found.loc[(AVERAGE, PMC_NAME), "change"] == pytest.approx(-50)
    assert found.loc[(AVERAGE, OURS_NAME), "change"] == pytest.approx(-100)
    # log loss 0.5 before; 0.55 and more with the smaller alpha, at which the largest
    # error is smaller
    assert found.loc[(PREDICTION, FINE), "verdict"] == HARMS
    assert found.loc[(PREDICTION, FINE), "change"] == pytest.approx(
        100 * (0.655 / 0.5 - 1)
    )
    assert found.loc[(LARGEST, FINE), "verdict"] == HELPS
    # among all cells nothing changes
    assert found.loc[(ALL_CELLS, PMC_NAME), "verdict"] == UNCHANGED
    # cells of 0.01 * 0.05 / 10 and of 0.1 * 0.05 / 10 of the 75,000 patients of a fit
    assert [found.loc[(LARGEST, name), "smallest"] for name in (FINE, PMC_NAME)] == [
        4,
        38,
    ]
    assert np.isnan(found.loc[(LARGEST, OURS_NAME), "smallest"])


def test_seeds_on_both_sides_are_unclear_and_few_seeds_say_nothing(tmp_path):
    rows = []
    for s in SEEDS:
        rows.append(trial(s, "RF", SETTINGS[BASE], sizes_pmc_loss=0.4))
        rows.append(trial(s, "RF", SETTINGS[PMC], sizes_pmc_loss=0.3 if s % 2 else 0.5))
    found = benefit(
        Evidence.from_store(make_store(tmp_path / "a.sqlite", rows, about=ABOUT))
    )
    assert found[found["measure"] == LARGEST]["verdict"].tolist() == [UNCLEAR]
    few = Evidence.from_store(store(tmp_path / "b.sqlite", seeds=(1, 2, 3)))
    assert {*benefit(few)["verdict"]} == {TOO_FEW}
    _, tally, changes, _ = benefit_tables({"a": few})
    assert {row[2] for row in tally.rows} == {TOO_FEW}
    assert not any(
        HARMS in cell or HELPS in cell for row in changes.rows for cell in row
    )


def test_ratios_are_observed_over_expected(evidence):
    found = observed_to_expected(evidence).set_index(["group_name", "method"])
    row = found.loc[("sex=m & payer=Medicare", BASE)]
    assert row["ratio"] == pytest.approx(100 / 120)
    assert row["rate"] == pytest.approx(100 / 2000)
    assert row["share"] == pytest.approx(0.5)
    assert found.loc[("sex=m & payer=Medicare", OURS), "ratio"] == pytest.approx(1)


def test_subgroups_with_a_share_below_gamma_are_left_out(tmp_path):
    rows, curves = [], []
    for s in SEEDS:
        for setting in (SETTINGS[BASE], SETTINGS[PMC]):
            rows.append(trial(s, "RF", setting, n_test=4000))
            curves += curve(s, "RF", setting, "sex=f & payer=Medicaid", [(100, 10, 12)])
            curves += curve(
                s, "RF", setting, "sex=m & payer=Medicare", [(3900, 400, 400)]
            )
    evidence = Evidence.from_store(
        make_store(tmp_path / "a.sqlite", rows, curves, ABOUT)
    )
    assert {*observed_to_expected(evidence)["group_name"]} == {"sex=m & payer=Medicare"}


def test_the_page_counts_helps_and_harms_and_draws_two_pictures(tmp_path):
    stores = [str(store(tmp_path / f"{name}.sqlite")) for name in "ab"]
    page = tmp_path / "docs" / "benefit.md"
    names = ["--name", "within 30 days", "--name", "readmitted"]
    result = CliRunner().invoke(
        app,
        ["paper", "benefit", *stores, *names, "--about", "Open data.", "-o", str(page)],
    )
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "Open data." in text
    assert "| within 30 days | 5.0 % | 20 | RF 0.80 | printed |" in text
    assert "| readmitted | 5.0 % | 20 |" in text
    assert (
        "| PMCBoost, alpha 0.1 | 38 | 0 / 0 / 2 | 0 / 2 / 0 | 2 / 0 / 0 | 0 / 2 / 0 |"
        in text
    )
    assert (
        "| PMCBoost, alpha 0.01 | 4 | 2 / 0 / 0 | 0 / 2 / 0 | – | 0 / 0 / 2 |" in text
    )
    assert "| propcal's default | chosen by tests | 2 / 0 / 0 |" in text
    assert (
        "within 30 days | RF | m, Medicare | 50.0 % | 5.0 % | 0.83 | 0.83 | 0.91 | 1.00 |"
        in text
    )
    assert "| 44.2 % → 55.2 %; +25 % (+25 to +25); 0 / 100; harms |" in text
    assert "nan" not in text
    for name in ("benefit", "observed_to_expected"):
        assert 0 < (page.parent / "images" / f"{name}.png").stat().st_size < 300_000


def test_levels_and_columns_may_hold_any_text_and_values_may_be_missing(tmp_path):
    groups = ("race & x", "payer x kind")
    about = {
        **ABOUT,
        "columns": {**ABOUT["columns"], "groupings": [["race & x"], list(groups)]},
    }
    names = [
        "race & x=Black & African & payer x kind missing",
        "not race & x & payer x kind=a x b",
    ]
    rows, curves = [], []
    for s in (1, 2):
        for method in (BASE, PMC, OURS):
            for part in (groups[:1], groups):
                setting = Setting(
                    method, part, *((0.1, 0.05, 0.1) if method == PMC else ())
                )
                rows.append(trial(s, "RF", setting, n_test=2000))
                coarse = [(2000, 200, 2 * EXPECTED[method])]
                curves += (
                    curve(s, "RF", setting, "race & x=all", coarse)
                    if part != groups
                    else []
                )
            for i, name in enumerate(names):
                curves += curve(
                    s, "RF", setting, name, [(1000, 100, EXPECTED[method] - i)]
                )
    path = make_store(tmp_path / "a.sqlite", rows, curves, about)
    evidence = Evidence.from_store(path)
    found = observed_to_expected(evidence)
    assert {*found.loc[found["groups"] == "race & x x payer x kind", "group_name"]} == {
        *names
    }
    assert {*CurveCounts.of(evidence).errors["group"]} == {*names}
    assert subgroup(names[0], groups) == "Black & African, payer x kind missing"
    assert subgroup(names[1], groups) == "not race & x, a x b"
    assert draw_curves(evidence) is not None
    assert benefit_figures({"readmitted": evidence})
    page = benefit_page({"readmitted": evidence}, "", "images")
    assert "| RF | Black &amp; African, payer x kind missing |" in page


def test_names_are_drawn_and_written_letter_by_letter(tmp_path):
    levels = ("sex=$a^{$ & payer=_x", "sex=m & payer=$5 to $9")
    rows = [trial(1, "RF", SETTINGS[method]) for method in (BASE, PMC)]
    curves = [
        row
        for method in (BASE, PMC)
        for name in levels
        for row in curve(1, "RF", SETTINGS[method], name, [(9000, 900, 900)])
    ]
    evidence = Evidence.from_store(
        make_store(tmp_path / "a.sqlite", rows, curves, ABOUT)
    )
    stores = {"a|b *x* $a^{$ <i>": evidence}
    for name, figure in benefit_figures(stores).items():
        figure.savefig(tmp_path / f"{name}.svg", metadata={"Date": None})
        drawn = (tmp_path / f"{name}.svg").read_text()
        assert "a|b *x* $a^{$" in drawn
        assert "←" in drawn  # which side is better, or too high
    assert "m, $5 to $9" in drawn
    assert r"| a\|b \*x\* \$a^{\$ &lt;i&gt; |" in benefit_page(stores, "", "images")


def test_the_command_of_a_store_can_be_given_to_a_shell(tmp_path):
    columns = {
        **ABOUT["columns"],
        "outcome": "back again",
        "features": [["age", "a&b"], [], []],
    }
    about = {**ABOUT, "columns": columns, "positive": "<30", "na": ["?", "n/a"]}
    rows = [trial(1, "RF", SETTINGS[method]) for method in (BASE, PMC)]
    evidence = Evidence.from_store(make_store(tmp_path / "a.sqlite", rows, about=about))
    assert shlex.split(command_of(evidence, "x.sqlite")) == [
        *(
            "propcal",
            "paper",
            "experiment",
            "FILE",
            "--outcome",
            "back again",
            "--groups",
            "sex,payer",
        ),
        *(
            "--features",
            "age,a&b",
            "--cluster",
            "patient",
            "--positive",
            "<30",
            "--na",
            "?",
            "--na",
            "n/a",
        ),
        *("--trials", "1", "--setup", "printed", "--models", "RF", "-o", "x.sqlite"),
    ]


def test_every_outcome_has_one_store_and_a_name_of_its_own(tmp_path, capsys):
    a, b = (str(store(tmp_path / f"{name}.sqlite", seeds=(1,))) for name in "ab")
    page = tmp_path / "docs" / "benefit.md"

    def refusal(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["paper", "benefit", *arguments, "-o", str(page)])
        assert ended.value.code == 2
        assert not page.parent.exists()
        return capsys.readouterr().err

    assert (
        "2 of the outcomes have the name 'readmitted'. Give each a name of its own with --name"
        in refusal(a, b)
    )
    assert "2 of the outcomes have the name 'x'" in refusal(
        a, b, "--name", "x", "--name", "x"
    )
    assert "--name: 1 name for 2 stores. Give it once for each store" in refusal(
        a, b, "--name", "x"
    )
    assert "--name: 2 names for 1 store." in refusal(a, "--name", "x", "--name", "y")
    assert "is listed twice" in refusal(a, f"{tmp_path}/../{tmp_path.name}/a.sqlite")
