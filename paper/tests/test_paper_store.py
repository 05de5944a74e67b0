"""The store of trials: whole trials only, none twice, and nothing of another
experiment.
"""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from propcal.errors import FileFormatError, InputError, PropcalError
from propcal_paper.results.evidence import Evidence
from propcal_paper.running.trial_store import CURVE_COLUMNS, TRIAL_COLUMNS, Store
from propcal_paper.settings import (
    ALPHAS,
    BASE,
    GAMMAS,
    GROUPINGS,
    MC_FOR_PMC,
    OURS,
    RHOS,
    Setting,
    grid,
)
from propcal_paper.setups import setup_of

ABOUT = {"cohort": "generated", "rows": 100}


def trial(seed, setting="base model; race x gender", **values):
    row = dict.fromkeys(TRIAL_COLUMNS, 0)
    return {
        **row,
        "seed": seed,
        "model": "LR",
        "setting": setting,
        "method": "m",
        "groups": "g",
        **values,
    }


def curve(seed, bin_index=0):
    row = dict.fromkeys(CURVE_COLUMNS, 0)
    return {
        **row,
        "seed": seed,
        "model": "RF",
        "setting": "s",
        "method": "m",
        "group_name": "g",
    } | {"bin_index": bin_index}


def test_the_grid_is_table_3_with_base_ours_and_the_equivalent_mcboost():
    settings = grid()
    assert len({setting.key() for setting in settings}) == len(settings) == 84
    per_method = len(ALPHAS) * len(GAMMAS) * len(RHOS) * len(GROUPINGS)
    for method, n in (
        (BASE, 2),
        ("MCBoost", per_method),
        ("PMCBoost", per_method),
        (OURS, 2),
    ):
        assert sum(setting.method == method for setting in settings) == n
    assert {s.fit_alpha for s in settings if s.method == MC_FOR_PMC} == {
        0.001 * 0.01,
        0.001 * 0.1,
        0.01 * 0.01,
        0.01 * 0.1,
    }


def test_equal_settings_have_equal_keys():
    one, other = (
        Setting("MCBoost", ("race", "gender"), 0.1, 0.05, 0.01) for _ in range(2)
    )
    assert (
        one.key()
        == other.key()
        == "MCBoost; race x gender; alpha=0.1; gamma=0.05; rho=0.01"
    )


def test_trials_come_back_as_they_were_added():
    store = Store("t.sqlite", ABOUT)
    store.add(
        [trial(1, alpha=None, pmc_loss=0.25), trial(0)], [curve(0, 1), curve(0, 0)]
    )
    found = Store("t.sqlite").trials()
    assert list(found.columns) == list(TRIAL_COLUMNS)
    assert found["seed"].tolist() == [0, 1]
    assert found["pmc_loss"].tolist() == [0, 0.25]
    assert found["alpha"].isna().tolist() == [False, True]
    assert Store("t.sqlite").curves()["bin_index"].tolist() == [0, 1]
    assert Store("t.sqlite").about == ABOUT


def test_a_trial_added_again_is_not_doubled_and_not_changed():
    store = Store("t.sqlite", ABOUT)
    store.add([trial(0, pmc_loss=0.5)])
    Store("t.sqlite", ABOUT).add([trial(0, pmc_loss=0.7), trial(1)])
    assert store.trials()["pmc_loss"].tolist() == [0.5, 0]
    assert store.done() == {
        (0, "LR", "base model; race x gender"),
        (1, "LR", "base model; race x gender"),
    }


def test_of_several_trials_all_are_added_or_none():
    store = Store("t.sqlite", ABOUT)
    with pytest.raises(sqlite3.IntegrityError):
        store.add([trial(0)], [curve(0), {**curve(1), "people": None}])
    assert store.done() == set()


@pytest.mark.parametrize("other", [{"rows": 99}, {"grid": "x"}])
def test_trials_of_another_experiment_are_refused_with_what_differs(other):
    Store("t.sqlite", ABOUT).add([trial(0)])
    before = Path("t.sqlite").read_bytes()
    with pytest.raises(InputError, match=next(iter(other))):
        Store("t.sqlite", {**ABOUT, **other})
    assert Path("t.sqlite").read_bytes() == before


def test_a_file_of_something_else_is_refused_and_left_alone():
    Path("t.csv").write_text("a,b\n1,2\n" * 200)
    with pytest.raises(FileFormatError, match="not a store of trials"):
        Store("t.csv", ABOUT)
    with sqlite3.connect("other.sqlite") as connection:
        connection.execute("CREATE TABLE patients (id INTEGER)")
    connection.close()
    with pytest.raises(FileFormatError, match="something else"):
        Store("other.sqlite", ABOUT)


def test_a_store_of_another_version_is_refused():
    Store("t.sqlite", ABOUT)
    with sqlite3.connect("t.sqlite") as connection:
        connection.execute("UPDATE about SET value = '99' WHERE key = 'version'")
    connection.close()
    with pytest.raises(FileFormatError, match="another version of propcal"):
        Store("t.sqlite", ABOUT)


def test_a_store_that_lacks_a_column_is_refused():
    Store("t.sqlite", ABOUT)
    with sqlite3.connect("t.sqlite") as connection:
        connection.execute("ALTER TABLE trials DROP COLUMN sizes_mc_loss")
    connection.close()
    with pytest.raises(
        FileFormatError,
        match=r"another version of propcal: .* without sizes_mc_loss. Name another file",
    ):
        Store("t.sqlite")


def test_damage_is_told_as_such_wherever_it_is():
    store = Store("t.sqlite", ABOUT)
    settings = [f"{setting.key()} {i}" for setting in grid() for i in range(3)]
    store.add(
        [trial(i, setting) for i, setting in enumerate(settings)],
        [curve(i) for i in range(100)],
    )
    whole = Path("t.sqlite").read_bytes()
    rng = np.random.default_rng(0)
    told = 0

    def refusal(act):
        try:
            act()
        except PropcalError as error:
            return str(error)
        return ""

    for _ in range(100):
        damaged, start = bytearray(whole), int(rng.integers(len(whole) - 600))
        damaged[start : start + 600] = rng.bytes(600)
        Path("d.sqlite").write_bytes(damaged)
        read = refusal(lambda: Evidence.from_store("d.sqlite"))
        goes_on = refusal(lambda: Store("d.sqlite", ABOUT).add([trial(999)]))
        assert goes_on or not read  # nothing is added to what cannot be read
        told += bool(goes_on)
    assert told > 70  # the others are in unused parts of pages


def test_no_store_is_made_by_looking_for_one():
    with pytest.raises(InputError, match="there are no trials"):
        Store("none.sqlite")
    assert not Path("none.sqlite").exists()


def test_a_store_of_an_earlier_version_is_continued():
    """Before 0.3 a set-up had six entries, and held-out was called public."""
    former = {"name": "public", "kept_apart": 0.5, "eta": 0.25, "rule": "own"}
    former |= {"readings": ["seed"], "excess": True}
    Store("t.sqlite", {**ABOUT, "setup": former}).add([trial(0)])
    now = {**ABOUT, "setup": setup_of("held-out").about()}
    assert Store("t.sqlite", now).about == now
    with pytest.raises(InputError, match="bins: moving there, frozen now"):
        Store("t.sqlite", {**ABOUT, "setup": {**now["setup"], "bins": "frozen"}})
