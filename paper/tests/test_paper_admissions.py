"""The hospital-admission experiment: trials are what they say, a run goes on, and
backends agree.
"""

import sqlite3
import subprocess
import sys
import time
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from propcal import MCBoost, PMCBoost, dc_loss, mc_loss, pmc_loss
from propcal.datasets import make_ed_visits
from propcal.errors import FileFormatError, InputError
from propcal_paper.running.base_models import Features, train
from propcal_paper.running.bench import post_processor
from propcal_paper.running.experiment import Experiment, run
from propcal_paper.running.splits import split
from propcal_paper.running.trial_store import CURVE_COLUMNS, TRIAL_COLUMNS, Store
from propcal_paper.running.trials import Plan, Unit, curve_settings, run_unit
from propcal_paper.settings import (
    ADMISSIONS,
    BASE,
    GROUPINGS,
    MC,
    MC_FOR_PMC,
    OURS,
    PMC,
    RULE,
    Setting,
    grid,
)
from propcal_paper.setups import setup_of

TWO, THREE = GROUPINGS
NUMBERS, CATEGORIES, PRINTED = (
    ADMISSIONS.numbers,
    ADMISSIONS.categories,
    setup_of("printed"),
)
FEW = [Setting(BASE, TWO), Setting(PMC, TWO, 0.1, 0.05, 0.1)]
SOME = [
    *FEW,
    Setting(MC, TWO, 0.01, 0.1, 0.01),
    Setting(PMC, THREE, 0.01, 0.05, 0.1),
    Setting(MC_FOR_PMC, THREE, 0.01, 0.05, 0.1),
    Setting(BASE, THREE),
    Setting(OURS, THREE),
]
SMALL = {"rows": 1000, "models": ["LR"], "settings": FEW}


def timeless(trials):
    """Trials without what differs from run to run."""
    return trials.drop(columns=["fit_seconds", "evaluation_seconds"])


@pytest.fixture(scope="module")
def visits():
    return make_ed_visits(3000, seed=0)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of two shuffles and two base models."""
    path = tmp_path_factory.mktemp("admissions") / "some.sqlite"
    return run(path, trials=2, rows=2000, models=["LR", "RF"], settings=SOME)


def test_features_are_learned_on_the_training_visits_alone(visits):
    learned = Features().fit(visits[:2000])
    width = learned.transform(visits[:5]).shape[1]
    stranger = visits[:1].assign(race="Martian", chief_complaint="xylophone")
    row = learned.transform(stranger)[0]
    assert len(row) == width
    races = row[len(NUMBERS) : len(NUMBERS) + 8]
    assert not races.any()  # unknown is no race, and not "missing" either
    missing = learned.transform(visits[:1].assign(race=None))[0][
        len(NUMBERS) : len(NUMBERS) + 8
    ]
    assert missing.tolist() == [0] * 7 + [1]


def test_features_are_those_of_table_2_and_gaps_stay_gaps(visits):
    assert set(ADMISSIONS.wanted) == set(visits.columns) - {"true_risk"}
    matrix = Features().fit(visits).transform(visits)
    np.testing.assert_array_equal(
        np.isnan(matrix[:, : len(NUMBERS)]), visits[list(NUMBERS)].isna().to_numpy()
    )
    levels = sum(visits[name].nunique() + 1 for name in CATEGORIES)
    words = {
        word
        for text in visits.chief_complaint
        for word in text.replace(",", "").split()
    }
    assert matrix.shape[1] <= len(NUMBERS) + levels + len(words)
    assert not np.isnan(matrix[:, len(NUMBERS) :]).any()


def test_lr_is_trained_on_numbers_alone_and_on_columns_of_0_and_1_alone():
    features = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(np.float32)
    for n_numbers in (0, 3):
        scores = train("LR", features, features[:, 0] > 0, 0, n_numbers).score(features)
        assert ((scores > 0.5) == (features[:, 0] > 0)).all()


def test_a_quarter_of_each_shuffle_is_the_test_set():
    learn, post, held_out = split(173_561, seed=7)
    assert post is learn
    assert len(held_out) == 43_390
    assert len(np.union1d(learn, held_out)) == 173_561
    assert not np.array_equal(held_out, split(173_561, seed=8).test)


def test_a_trial_is_what_the_public_functions_give(visits):
    setting = Setting(PMC, TWO, 0.1, 0.1, 0.01)
    (trial,), _ = run_unit(visits, Plan(ADMISSIONS, PRINTED), Unit(5, "LR", (setting,)))
    learn, _, held_out = (visits.iloc[rows] for rows in split(len(visits), 5))
    features = Features().fit(learn)
    model = train(
        "LR", features.transform(learn), learn.admitted.to_numpy(), 5, len(NUMBERS)
    )
    fitted = PMCBoost.paper(alpha=0.1, gamma=0.1, rho=0.01).fit(
        model.score(features.transform(learn)),
        learn.admitted,
        sensitive_features=learn[list(TWO)],
    )
    y, groups = held_out.admitted, held_out[list(TWO)]
    score = fitted.predict(
        model.score(features.transform(held_out)), sensitive_features=groups
    )
    own = {"alpha": 0.1, "gamma": 0.1, "rho": 0.01}
    for name, loss in (
        ("mc_loss", mc_loss),
        ("pmc_loss", pmc_loss),
        ("dc_loss", dc_loss),
    ):
        assert trial[name] == pytest.approx(
            loss(y, score, sensitive_features=groups, **RULE), abs=1e-9
        )
        # the paper's definition of the loss: a category has a hundredth of all people,
        # whatever gamma
        published = loss(y, score, sensitive_features=groups, min_share=0.01, **RULE)
        assert trial[f"sizes_{name}"] == pytest.approx(published, abs=1e-9)
        assert trial[f"own_{name}"] == pytest.approx(
            loss(y, score, sensitive_features=groups, **own), abs=1e-9
        )
    assert trial["auroc"] == pytest.approx(roc_auc_score(y, score))
    assert trial["brier"] == pytest.approx(brier_score_loss(y, score))
    assert trial["log_loss"] == pytest.approx(log_loss(y, score))
    assert trial["true_risk_rms"] == pytest.approx(
        np.sqrt(np.mean((score - held_out.true_risk) ** 2))
    )
    assert trial["n_updates"] == fitted.n_updates_ > 0
    assert (trial["n_train"], trial["n_test"]) == (len(learn), len(held_out))


def test_mcboost_for_pmc_is_run_at_alpha_times_rho_and_ours_with_our_defaults():
    method = post_processor(Setting(MC_FOR_PMC, TWO, 0.01, 0.05, 0.1))
    assert isinstance(method, MCBoost)
    assert (method.alpha, method.start, method.guard) == (0.001, "identity", None)
    assert post_processor(Setting(OURS, TWO)).get_params() == PMCBoost().get_params()


def test_the_base_model_is_trained_once_and_judged_by_the_same_rule(stored):
    base = stored.trials().query("method == @BASE")
    assert (base.groupby(["seed", "model"]).fit_seconds.nunique() == 1).all()
    for name in ("mc_loss", "pmc_loss", "dc_loss"):
        assert base[name].equals(base[f"own_{name}"])
    assert (base.n_updates == 0).all()
    assert (base.auroc > 0.6).all()


def test_boosting_meets_alpha_on_the_training_visits(stored):
    trials = stored.trials().query("converged == 1")
    proportional = trials[trials.method == PMC]
    assert len(proportional) == 8
    assert (proportional.train_pmc_loss < proportional.alpha).all()
    plain = trials[trials.method.isin([MC, MC_FOR_PMC])]
    assert len(plain) == 8
    assert (plain.train_mc_loss < plain.fit_alpha).all()


def test_calibration_curves_add_up_to_the_test_visits(stored):
    curves, trials = stored.curves(), stored.trials()
    assert set(curves.model) == {"LR", "RF"}
    assert set(curves.setting) == {
        setting.key() for setting in curve_settings(ADMISSIONS)
    } & {s.key() for s in SOME}
    for (seed, model, setting), rows in curves.groupby(["seed", "model", "setting"]):
        chosen = (
            (trials.seed == seed)
            & (trials.model == model)
            & (trials.setting == setting)
        )
        assert [rows.people.sum()] == trials.n_test[chosen].tolist()
        assert (rows.positives <= rows.people).all()
        assert (rows.score_sum <= rows.people * (rows.bin_index + 1) / 10 + 1e-9).all()
        assert (rows.score_sum >= rows.people * rows.bin_index / 10 - 1e-9).all()
    assert curves.group_name.str.fullmatch(
        r"race=.+ & gender=[FM]( & insurance=\w+)?"
    ).all()


def test_a_store_has_every_column_and_says_that_its_visits_are_generated(stored):
    assert list(stored.trials()) == list(TRIAL_COLUMNS)
    assert list(stored.curves()) == list(CURVE_COLUMNS)
    assert "generated" in stored.about["cohort"]
    assert stored.about["rows"] == 2000
    assert len(grid()) == 84


def test_a_larger_experiment_adds_to_the_store_and_changes_nothing_in_it(
    stored, tmp_path
):
    path = tmp_path / "grows.sqlite"
    first = run(path, trials=1, rows=2000, models=["LR"], settings=SOME).trials()
    second = run(path, trials=2, rows=2000, models=["LR"], settings=SOME).trials()
    assert len(first) == len(SOME) == len(second) / 2
    assert (
        second.query("seed == 0").reset_index(drop=True).equals(first)
    )  # times too: not run again
    third = run(path, trials=2, rows=2000, models=["RF", "LR"], settings=SOME).trials()
    assert third.query("model == 'LR'").reset_index(drop=True).equals(second)
    pd.testing.assert_frame_equal(timeless(third), timeless(stored.trials()))


@pytest.mark.engines
@pytest.mark.xdist_group("dask_client")
def test_a_dask_cluster_gives_the_same_trials_as_one_process(tmp_path, dask_client):
    what = {
        "trials": 2,
        "rows": 1000,
        "models": ["LR", "RF"],
        "settings": [*FEW, Setting(BASE, THREE)],
    }
    alone = run(tmp_path / "a.sqlite", **what)
    with joblib.parallel_config(backend="dask"):
        spread = run(tmp_path / "b.sqlite", **what)
    pd.testing.assert_frame_equal(timeless(alone.trials()), timeless(spread.trials()))
    pd.testing.assert_frame_equal(alone.curves(), spread.curves())


def test_a_backend_that_hands_back_all_results_at_once_is_used_in_rounds(
    tmp_path, monkeypatch
):
    class AllAtOnce(joblib.parallel.ThreadingBackend):
        supports_return_generator = False

    joblib.register_parallel_backend("all at once", AllAtOnce)
    with joblib.parallel_config(backend="all at once", n_jobs=1):
        rounds = run(tmp_path / "b.sqlite", trials=3, **SMALL)
    alone = run(tmp_path / "a.sqlite", trials=3, **SMALL)
    pd.testing.assert_frame_equal(timeless(alone.trials()), timeless(rounds.trials()))


RUN = """
import sys
from propcal_paper.running.experiment import run
from propcal_paper.settings import GROUPINGS, Setting
few = [Setting("base model", GROUPINGS[0]), Setting("PMCBoost", GROUPINGS[0], 0.1, 0.05, 0.1)]
run(sys.argv[1], trials=16, rows=1000, models=["LR"], settings=few, jobs=2)
"""


@pytest.mark.slow
def test_a_run_killed_at_any_moment_goes_on_and_doubles_nothing(tmp_path):
    psutil = pytest.importorskip("psutil")
    path = tmp_path / "killed.sqlite"
    process = subprocess.Popen([sys.executable, "-c", RUN, str(path)])
    while process.poll() is None and not (
        path.exists() and _count(path) >= 2 * len(FEW)
    ):
        time.sleep(0.005)
    workers = psutil.Process(process.pid).children()
    process.kill()  # SIGKILL: nothing in the process can tidy up
    process.wait()
    assert len(workers) >= 2
    assert not psutil.wait_procs(workers, timeout=60)[1]  # nor do its workers stay
    left = _count(path)
    assert 2 * len(FEW) <= left < 16 * len(FEW)
    assert left % len(FEW) == 0  # whole units only
    resumed = run(path, trials=16, **SMALL)
    whole = run(tmp_path / "whole.sqlite", trials=16, **SMALL)
    pd.testing.assert_frame_equal(timeless(resumed.trials()), timeless(whole.trials()))


def _count(path):
    try:
        return len(Store(path).done())
    except (FileFormatError, InputError, sqlite3.Error):  # it is just being made
        return 0


def test_another_cohort_or_grid_is_refused_and_nothing_is_touched(tmp_path):
    path = tmp_path / "trials.sqlite"
    run(path, trials=1, **SMALL)
    before = path.read_bytes()
    with pytest.raises(
        InputError, match="a different setting of rows: 1000 there, 2000 now"
    ):
        run(path, trials=1, **{**SMALL, "rows": 2000})
    with pytest.raises(
        InputError, match=r"setting of grid: 2 settings, .* there, 1 settings, .* now"
    ):
        run(path, trials=1, **{**SMALL, "settings": FEW[:1]})
    file = tmp_path / "visits.parquet"
    make_ed_visits(1000, seed=0).to_parquet(file)
    with pytest.raises(InputError, match="a different setting of cohort"):
        run(path, cohort=file, trials=1, models=["LR"], settings=FEW)
    assert path.read_bytes() == before
    of_file = tmp_path / "of_file.sqlite"
    run(of_file, cohort=file, trials=1, models=["LR"], settings=FEW)
    make_ed_visits(1000, seed=1).to_parquet(file)
    with pytest.raises(
        InputError, match="has trials with other data than these"
    ) as told:
        run(of_file, cohort=file, trials=1, models=["LR"], settings=FEW)
    assert "sha256" not in str(told.value)


def test_visits_of_a_file_are_the_same_in_csv_and_parquet(tmp_path):
    visits = (
        make_ed_visits(1500, seed=9)
        .drop(columns="true_risk")
        .assign(stay_id=range(1500))
    )
    visits.to_parquet(tmp_path / "visits.parquet")
    visits.to_csv(tmp_path / "visits.csv", index=False)
    found = [
        run(
            tmp_path / f"{kind}.sqlite",
            cohort=tmp_path / f"visits.{kind}",
            trials=1,
            **SMALL,
        )
        for kind in ("parquet", "csv")
    ]
    pd.testing.assert_frame_equal(*(timeless(store.trials()) for store in found))
    trials = found[0].trials()
    assert trials.true_risk_rms.isna().all()
    assert (trials.n_train + trials.n_test == 1000).all()
    assert "generated" not in found[0].about["cohort"]


def test_a_file_that_does_not_fit_is_told_before_a_store_is_made(tmp_path):
    visits = make_ed_visits(1000, seed=9)
    store = tmp_path / "trials.sqlite"

    def refusal(frame, name="visits.parquet", **what):
        frame.to_parquet(tmp_path / name)
        with pytest.raises(InputError) as told:
            run(store, cohort=tmp_path / name, trials=1, models=["LR"], **what)
        assert not store.exists()
        return str(told.value)

    assert "has no columns pain, chief_complaint" in refusal(
        visits.drop(columns=["pain", "chief_complaint"])
    )
    assert "at least 100" in refusal(visits[:99])
    assert "is 1 for all 1,000 visits; both outcomes must occur" in refusal(
        visits.assign(admitted=1)
    )
    assert "is 0 for all" in refusal(visits.assign(admitted=0))
    rare = refusal(visits.assign(admitted=[1, *[0] * 999]))
    assert rare.startswith(
        "only 1 of 1,000 visits have admitted = 1: in 1 of the shuffles"
    )
    assert "rows is 2,000, but" in refusal(visits, rows=2000)
    assert "1,000 values are neither" in refusal(visits.assign(admitted=2))
    assert "'age' of" in refusal(visits.assign(age="old"))
    with pytest.raises(
        InputError, match="Make one from MIMIC-IV with propcal paper cohort"
    ):
        run(store, cohort=tmp_path / "nowhere.csv")


def test_unknown_models_and_too_many_visits_are_told(tmp_path):
    with pytest.raises(InputError, match=r"no 'RFC'\. The models are LR, RF, DNN"):
        Experiment(tmp_path / "x.sqlite", models=["LR", "RFC"])
    with pytest.raises(
        InputError, match="200,000, but the simulated cohort has only 173,561"
    ):
        Experiment(tmp_path / "x.sqlite", rows=200_000)
    with pytest.raises(
        InputError, match='surrogate="weak": this is for simulated visits only'
    ):
        Experiment(
            tmp_path / "x.sqlite", cohort=tmp_path / "visits.csv", surrogate="weak"
        )
    assert Experiment(tmp_path / "x.sqlite", models=["DNN", "lr"]).models == (
        "LR",
        "DNN",
    )


def test_other_files_are_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a store " * 100)
    with pytest.raises(FileFormatError, match="file is not a database"):
        run(text, trials=1, **SMALL)
    assert text.read_text() == "not a store " * 100
    with pytest.raises(InputError, match="it is a folder"):
        run(tmp_path, trials=1, **SMALL)
    with pytest.raises(InputError, match="there is no folder"):
        run(tmp_path / "nowhere" / "x.sqlite", trials=1, **SMALL)


def test_a_store_that_cannot_be_written_is_told_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "x.sqlite"
    connect = sqlite3.connect

    def small_disk(*arguments, pages, **options):
        connection = connect(*arguments, **options)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(sqlite3, "connect", partial(small_disk, pages=3))
    with pytest.raises(
        InputError, match=r"disk is full.*run the same command again to continue"
    ):
        run(path, trials=1, **SMALL)
    assert not path.exists()
    monkeypatch.setattr(sqlite3, "connect", partial(small_disk, pages=10))
    with pytest.raises(
        InputError, match=r"disk is full.*run the same command again to continue"
    ):
        run(path, trials=1, **SMALL)
    monkeypatch.undo()
    assert Store(path).done() == set()
