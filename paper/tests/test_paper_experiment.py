"""The paper's experiment on any cohort: set-ups, columns, and splits by person."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propcal import PMCBoost, pmc_loss
from propcal.cli import main
from propcal.core.correction import map_compiler
from propcal.errors import InputError
from propcal_paper.commands import run_trials
from propcal_paper.running.base_models import Features, train
from propcal_paper.running.cohort_files import cohort_file
from propcal_paper.running.experiment import Experiment, run
from propcal_paper.running.splits import split
from propcal_paper.running.trial_store import Store
from propcal_paper.settings import (
    BASE,
    MC,
    MC_FOR_PMC,
    OURS,
    PMC,
    CohortColumns,
    Setting,
    grid,
)
from propcal_paper.setups import Setup, setup_of

GROUPS = ("sex", "site")


@pytest.fixture(scope="module")
def stays():
    """Two stays of each of a thousand people, with an outcome that depends on age, ward
    and site.
    """
    rng = np.random.default_rng(3)
    n = 2000
    frame = pd.DataFrame(
        {
            "person": np.repeat(np.arange(n // 2), 2),
            "age": rng.uniform(20, 90, n).round(),
            "ward": rng.choice(["a", "b", None], n),
            "note": rng.choice(["fever and cough", "fall", "chest pain"], n),
            "sex": np.repeat(rng.choice(["f", "m"], n // 2), 2),
            "site": rng.choice(["north", "south"], n),
        }
    )
    risk = 1 / (1 + np.exp(-((frame["age"] - 60) / 15 + (frame["site"] == "south"))))
    return frame.assign(back=np.where(rng.random(n) < risk, "yes", "no"))


@pytest.fixture(scope="module")
def file(stays, tmp_path_factory):
    path = tmp_path_factory.mktemp("stays") / "stays.csv"
    stays.to_csv(path, index=False)
    return path


def columns_of(file, **more):
    what = {
        "outcome": "back",
        "groups": [GROUPS],
        "text": ["note"],
        "cluster": "person",
    } | more
    return cohort_file(file, **what)


def test_rows_of_a_person_are_in_one_part_of_every_split(stays):
    for kept_apart in (0.0, 0.5):
        parts = split(len(stays), 4, kept_apart=kept_apart, person=stays["person"])
        people = [{*stays["person"].iloc[rows]} for rows in parts]
        assert people[2].isdisjoint(people[0] | people[1])
        assert len(people[2]) == 250
        assert (people[0] == people[1]) == (kept_apart == 0)
        assert not kept_apart or people[0].isdisjoint(people[1])
        assert {*stays["person"]} == people[0] | people[1] | people[2]


def test_rows_without_an_id_are_people_of_their_own(stays, tmp_path, capsys):
    person = stays["person"].where(stays.index % 10 > 0)
    parts = split(len(stays), 4, kept_apart=0.5, person=person)
    assert sorted(np.concatenate(parts)) == [*range(len(stays))]
    file = tmp_path / "stays.csv"
    stays.assign(person=person).to_csv(file, index=False)
    cohort = columns_of(file)
    said = (
        "'person' is missing in 200 of 2,000 rows: each counts as a person of its own"
    )
    assert cohort.notes == [said]
    what = {"trials": 1, "models": ["LR"], "settings": [Setting(BASE, GROUPS)]}
    run_trials(Experiment(tmp_path / "x.sqlite", cohort, **what), jobs=1)
    assert f"note: {said}" in capsys.readouterr().err
    assert Store(tmp_path / "x.sqlite").trials().loc[
        0, ["n_train", "n_test"]
    ].sum() == len(stays)
    about = {
        key: value
        for key, value in Experiment("y", cohort, **what).about().items()
        if key != "alone"
    }
    Store(tmp_path / "older.sqlite", about)  # by a version that left these rows out
    with pytest.raises(
        InputError,
        match="a different setting of rows without a person: none there, 200 now",
    ):
        run(tmp_path / "older.sqlite", cohort=cohort, **what)


def test_long_ids_of_a_parquet_file_differ_although_one_is_missing(stays, tmp_path):
    person = pd.array(2**60 + stays["person"], dtype="Int64")
    person[0] = pd.NA
    table = pa.Table.from_pandas(stays.assign(person=person), preserve_index=False)
    pq.write_table(table.replace_schema_metadata(), tmp_path / "stays.parquet")
    frame = columns_of(tmp_path / "stays.parquet").frame
    assert frame["person"].nunique() == 1000


@pytest.mark.parametrize(("n", "said"), [(1, "1 person"), (19, "19 people")])
def test_too_few_people_for_a_split_are_refused_before_a_store_is_made(
    stays, tmp_path, n, said
):
    file = tmp_path / "stays.csv"
    stays.assign(person=stays["person"] % n).to_csv(file, index=False)
    with pytest.raises(
        InputError,
        match=f'person": the 2,000 rows are of {said}; .* needs at least 20. Name',
    ):
        run(tmp_path / "x.sqlite", cohort=columns_of(file), trials=1, models=["LR"])
    assert not (tmp_path / "x.sqlite").exists()


def test_the_share_kept_apart_is_that_of_the_set_up():
    learn, post, test = split(1000, 0, kept_apart=0.5)
    assert (len(learn), len(post), len(test)) == (375, 375, 250)
    assert len({*learn, *post, *test}) == 1000
    assert setup_of("public").kept_apart == 0.5
    assert setup_of(setup_of("public").about()) == setup_of("public")
    assert setup_of(None) == setup_of("printed")
    with pytest.raises(
        InputError,
        match=r"there is no 'best'\. The set-ups are printed, held-out, authors-code",
    ):
        setup_of("best")
    with pytest.raises(InputError, match="eta must be"):
        Setup("mine", eta=3)


def test_columns_become_numbers_levels_and_words(file):
    columns = columns_of(file).columns
    assert columns == CohortColumns(
        "back",
        (GROUPS,),
        ("age",),
        ("ward", "sex", "site"),
        ("note",),
        "person",
        unit="rows",
    )
    some = columns_of(file, features=["age", "site"], text=[])
    assert (some.columns.numbers, some.columns.categories, some.columns.text) == (
        ("age",),
        ("site",),
        (),
    )
    assert some.frame["back"].isin([0, 1]).all()


def test_a_trial_of_the_public_set_up_is_what_the_public_functions_give(
    stays, file, tmp_path
):
    cohort, setting = columns_of(file), Setting(PMC, GROUPS, 0.1, 0.05, 0.1)
    setup = Setup("mine", kept_apart=0.5, eta=0.5)
    store = run(
        tmp_path / "x.sqlite",
        cohort=cohort,
        trials=1,
        models=["LR"],
        settings=[setting],
        setup=setup,
    )
    (trial,) = store.trials().to_dict("records")
    rows, columns = cohort.frame, cohort.columns
    learn, post, test = (
        rows.iloc[part]
        for part in split(len(rows), 0, kept_apart=0.5, person=rows["person"])
    )
    features = Features(columns).fit(learn)
    model = train("LR", features.transform(learn), learn["back"].to_numpy(), 0, 1)
    fitted = PMCBoost.paper(alpha=0.1, gamma=0.05, rho=0.1, eta=0.5).fit(
        model.score(features.transform(post)),
        post["back"],
        sensitive_features=post[list(GROUPS)],
    )
    base = model.score(features.transform(test))
    score = fitted.predict(base, sensitive_features=test[list(GROUPS)])
    kw = {
        "sensitive_features": test[list(GROUPS)],
        "alpha": 0.1,
        "gamma": 0.05,
        "rho": 0.1,
    }
    assert trial["own_pmc_loss"] == pytest.approx(
        pmc_loss(test["back"], score, **kw), abs=1e-9
    )
    assert trial["base_own_pmc_loss"] == pytest.approx(
        pmc_loss(test["back"], base, **kw), abs=1e-9
    )
    assert (trial["n_train"], trial["n_post"], trial["n_test"]) == (
        len(learn),
        len(post),
        len(test),
    )
    assert trial["n_updates"] == fitted.n_updates_ > 0


def test_a_store_of_another_set_up_or_of_other_columns_is_refused(file, tmp_path):
    few = [Setting(BASE, GROUPS), Setting(OURS, GROUPS)]
    what = {"trials": 1, "models": ["LR"], "settings": few}
    run(tmp_path / "x.sqlite", cohort=columns_of(file), setup="public", **what)
    with pytest.raises(
        InputError, match="a different setting of setup: held-out there, printed now"
    ):
        run(tmp_path / "x.sqlite", cohort=columns_of(file), setup="printed", **what)
    some = columns_of(file, features=["age", "note"])
    with pytest.raises(
        InputError,
        match="setting of features: age, ward, sex, site, note there, age, n",
    ):
        run(tmp_path / "x.sqlite", cohort=some, setup="public", **what)
    same = columns_of(
        file, cluster=None, features=["age", "ward", "sex", "site", "note"]
    )
    with pytest.raises(
        InputError, match="a different setting of cluster: person there, none now"
    ):
        run(tmp_path / "x.sqlite", cohort=same, setup="public", **what)


def test_a_store_with_other_texts_for_missing_is_refused(file, tmp_path):
    what = {"trials": 1, "models": ["LR"], "settings": [Setting(BASE, GROUPS)]}
    without, codes = columns_of(file), columns_of(file, na=["x", "a"])
    run(tmp_path / "x.sqlite", cohort=without, **what)
    assert (
        "na" not in Store(tmp_path / "x.sqlite").about
    )  # as in stores of older versions
    run(tmp_path / "x.sqlite", cohort=without, **what)
    with pytest.raises(
        InputError, match="a different setting of na: none there, a, x now"
    ):
        run(tmp_path / "x.sqlite", cohort=codes, **what)
    run(tmp_path / "y.sqlite", cohort=codes, **what)
    run(tmp_path / "y.sqlite", cohort=columns_of(file, na=["a", "x", "a"]), **what)
    with pytest.raises(
        InputError, match="a different setting of na: a, x there, none now"
    ):
        run(tmp_path / "y.sqlite", cohort=without, **what)


def test_settings_of_mcboost_that_differ_in_rho_alone_share_a_fit(file, tmp_path):
    settings = [Setting(MC, GROUPS, 0.1, 0.05, rho) for rho in (0.01, 0.1)]
    settings += [
        Setting(MC_FOR_PMC, GROUPS, 1.0, 0.05, 0.1),
        Setting(PMC, GROUPS, 0.1, 0.05, 0.1),
    ]
    store = run(
        tmp_path / "x.sqlite",
        cohort=columns_of(file),
        trials=1,
        models=["LR"],
        settings=settings,
    )
    found = store.trials().set_index(["method", "rho"])
    same = found.loc[[(MC, 0.01), (MC, 0.1), (MC_FOR_PMC, 0.1)]]
    assert (
        same["fit_seconds"].nunique()
        == same["n_updates"].nunique()
        == same["brier"].nunique()
        == 1
    )
    assert same["own_pmc_loss"].nunique() > 1  # judged with its own rho all the same
    assert found.loc[(PMC, 0.1), "n_updates"] != same["n_updates"].iloc[0]


def test_a_fit_with_too_many_updates_for_a_correction_stops_earlier(
    file, tmp_path, monkeypatch
):
    setting = Setting(MC, GROUPS, 0.001, 0.05, 0.1)
    what = {
        "cohort": columns_of(file),
        "trials": 1,
        "models": ["LR"],
        "settings": [setting],
    }
    free = run(tmp_path / "free.sqlite", **what).trials().iloc[0]
    pieces = free["n_updates"] // 2
    monkeypatch.setattr(map_compiler, "MAX_PIECES", int(pieces))
    held = run(tmp_path / "held.sqlite", **what).trials().iloc[0]
    assert free["converged"] == 1
    assert held["converged"] == 0
    assert 0 < held["n_updates"] < free["n_updates"]


def test_categories_of_a_parquet_file_are_texts(stays, file, tmp_path):
    texts = ["ward", "note", "sex", "site", "back"]
    path = tmp_path / "stays.parquet"
    stays.astype(dict.fromkeys(texts, "category")).to_parquet(path)
    assert columns_of(path).columns == columns_of(file).columns
    what = {"trials": 1, "models": ["LR"], "settings": [Setting(BASE, GROUPS)]}
    losses = [
        run(tmp_path / f"{i}.sqlite", cohort=columns_of(source), **what)
        .trials()["log_loss"]
        .iloc[0]
        for i, source in enumerate((path, file))
    ]
    assert losses[0] == losses[1]


def test_truth_values_of_which_some_are_missing_are_numbers(stays, tmp_path):
    truth = (stays["age"] > 60).astype(object).mask(stays.index % 10 == 0, None)
    stays.assign(elderly=truth).to_parquet(tmp_path / "stays.parquet")
    cohort = columns_of(tmp_path / "stays.parquet")
    assert cohort.columns.numbers == ("age", "elderly")
    assert cohort.frame["elderly"].value_counts(dropna=False)[np.nan] == 200


def test_columns_without_values_are_left_out_with_a_word(stays, tmp_path):
    for path, write in (
        (tmp_path / "a.parquet", "to_parquet"),
        (tmp_path / "a.csv", "to_csv"),
    ):
        getattr(stays.assign(nothing=None, none=np.nan), write)(path, index=False)
        cohort = columns_of(path)
        assert {"nothing", "none"}.isdisjoint(cohort.columns.wanted)
        assert cohort.notes == [
            "no values in columns nothing, none: they are not features"
        ]
        with pytest.raises(
            InputError, match=r"features: column none of .* has no values. Leave it out"
        ):
            columns_of(path, features=["age", "none"])


def test_infinite_and_huge_numbers_are_refused_before_a_store_is_made(stays, tmp_path):
    store, csv, parquet = (
        tmp_path / name for name in ("x.sqlite", "a.csv", "a.parquet")
    )
    for value in (np.inf, -1e300):
        frame = stays.assign(age=stays["age"].where(stays.index % 100 > 0, value))
        frame.to_parquet(parquet)
        with pytest.raises(
            InputError,
            match=r"column 'age' of .*: 20 values are infinite or beyond 3.4e\+38",
        ):
            run(store, cohort=columns_of(parquet), trials=1, models=["LR"])
        frame.to_csv(csv, index=False)
        with pytest.raises(InputError, match=r"column 'age' (holds|of .*) .*infinite"):
            run(store, cohort=columns_of(csv), trials=1, models=["LR"])
    assert not store.exists()


def test_settings_are_those_of_table_3_for_each_grouping(file, tmp_path):
    experiment = Experiment(
        tmp_path / "x.sqlite", columns_of(file, groups=[["sex"], ["sex", "site"]])
    )
    assert len(experiment.settings) == len(grid()) == 84
    assert {setting.groups for setting in experiment.settings} == {
        ("sex",),
        ("sex", "site"),
    }
    assert not (tmp_path / "x.sqlite").exists()


def test_columns_that_do_not_fit_are_refused(stays, file, tmp_path):
    with pytest.raises(InputError, match="has no columns race, height"):
        columns_of(file, groups=[["race"]], features=["height"])
    with pytest.raises(
        InputError, match="'back' is the outcome, and cannot be a feature"
    ):
        columns_of(file, features=["age", "back"])
    with pytest.raises(
        InputError, match="'back' is the outcome, and cannot define groups"
    ):
        columns_of(file, groups=[["sex", "back"]])
    with pytest.raises(InputError, match="the grouping site,sex is listed twice"):
        columns_of(file, groups=[["sex", "site"], ["site", "sex"]])
    named = tmp_path / "named.csv"
    stays.assign(**{"sex x site": "a"}).to_csv(named, index=False)
    with pytest.raises(InputError, match="two groupings would be called 'sex x site'"):
        columns_of(named, groups=[["sex", "site"], ["sex x site"]])
    many = tmp_path / "many.csv"
    stays.assign(ward=[f"w{i}" for i in range(len(stays))]).to_csv(many, index=False)
    with pytest.raises(
        InputError,
        match=r"'ward' holds 2,000 .* or in --cluster if it holds patient IDs",
    ):
        columns_of(many)
    empty = tmp_path / "empty.csv"
    stays.assign(back=stays["back"].where(stays.index > 4)).to_csv(empty, index=False)
    with pytest.raises(InputError, match="is missing for 5 of 2,000 rows"):
        _ = columns_of(empty).frame
    words = tmp_path / "words.csv"
    stays.assign(back=stays["back"].map({"yes": "in", "no": "out"})).to_csv(
        words, index=False
    )
    with pytest.raises(InputError, match="holds 'in' and 'out'"):
        _ = columns_of(words).frame
    heavy = tmp_path / "heavy.csv"
    stays.assign(weight=np.linspace(40, 120, len(stays)) + 0.1).to_csv(
        heavy, index=False
    )
    by_weight = columns_of(heavy, groups=[["weight"]])
    with pytest.raises(
        InputError, match=r"groups: attribute 'weight' holds 2,000 different numbers"
    ):
        run(tmp_path / "x.sqlite", cohort=by_weight, trials=1)
    assert not (tmp_path / "x.sqlite").exists()
    assert (
        columns_of(words, positive="in").frame["back"].mean()
        == (stays["back"] == "yes").mean()
    )


def test_the_command_runs_the_experiment_on_a_file_and_tables_read_it(
    file, tmp_path, capsys
):
    store = tmp_path / "x.sqlite"
    command = [
        "paper",
        "experiment",
        str(file),
        "--outcome",
        "back",
        "--groups",
        "sex,site",
    ]
    command += [
        "--cluster",
        "person",
        "--text",
        "note",
        "--trials",
        "1",
        "--models",
        "LR",
        "--jobs",
        "1",
    ]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--setup", "public", "-o", str(store)])
    said, notes = capsys.readouterr()
    assert ended.value.code == 0
    assert (
        "propcal: note: --setup public is now held-out; authors-code is what the paper's"
        in notes
    )
    assert (
        "42 trials: 1 shuffle x 1 base model (LR) x 42 settings, on 2,000 stays (a file of stays)"
        in said
    )
    assert (
        "Set-up held-out: The base model is fitted to 50 % of the training data" in said
    )
    about = Store(store).about
    assert about["columns"]["groupings"] == [["sex", "site"]]
    page = tmp_path / "page.md"
    with pytest.raises(SystemExit) as ended:
        main(["paper", "reproduction", str(store), "-o", str(page)])
    assert ended.value.code == 0
    with pytest.raises(SystemExit) as ended:
        main(["paper", "reproduction", str(store), "-o", str(tmp_path / "other.md")])
    assert ended.value.code == 2
    told = "already exists, perhaps for another page. Name other folders with --images and --tables"
    assert told in capsys.readouterr().err
    text = page.read_text()
    assert text.startswith("# The paper's experiment on another cohort")
    assert (
        "--outcome back --groups sex,site --features age,ward,sex,site,note --text note"
        in text
    )
    assert "### Table 1: observed rates by group (back)" in text
    assert re.search(
        r"\| sex x site \| sex=f &amp; site=north \| \d+ \| \d+\.\d % \| \d+\.\d % \|",
        text,
    )
