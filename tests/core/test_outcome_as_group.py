"""The outcome among the groups is refused, by whatever name and way; what nearly is it
is warned of.
"""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, MCBoost, PMCBoost, audit, compare, dc_loss, mc_loss, pmc_loss
from propcal.cli import main
from propcal.core.categories import check_outcome_groups
from propcal.errors import InputError


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(0)
    n = 2000
    risk = rng.beta(1, 4, n)
    y = (rng.random(n) < risk).astype(int)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "risk": risk, "y": y})
    nearly = np.where(rng.random(n) < 0.01, 1 - y, y)
    ward = np.where(
        y == 1, rng.choice(["ICU", "theatre"], n), rng.choice(["A", "B", "C"], n)
    )
    return frame.assign(
        died=np.where(y, "yes", "no"), coded=y == 1, nearly=nearly, ward=ward
    )


LOSSES = [mc_loss, pmc_loss, dc_loss]
THE_OUTCOME = ["y", "died", "coded", "ward"]


@pytest.mark.parametrize("column", THE_OUTCOME)
def test_the_outcome_is_refused_under_any_name_and_by_every_way(visits, column):
    features = visits[["sex", column]]
    atoms = None
    if column != "y":  # by its own name atoms are not even made
        atoms = Atoms.from_frame(
            visits, score="risk", outcome="y", groups=["sex", column]
        )
    ways = [
        lambda: PMCBoost().fit(visits.risk, visits.y, sensitive_features=features),
        lambda: MCBoost.paper().fit(
            visits.risk, visits.y, sensitive_features=features.to_numpy()
        ),
        lambda: audit(visits.y, visits.risk, sensitive_features=features),
        lambda: compare(
            {"a": visits.risk, "b": visits.risk**2},
            visits.y,
            sensitive_features=features,
        ),
        *(
            partial(loss, visits.y, visits.risk, sensitive_features=features)
            for loss in LOSSES
        ),
        partial(
            pmc_loss,
            visits.y,
            visits.risk,
            sensitive_features=features,
            sample_weight=visits.risk + 1,
        ),
    ]
    if atoms is not None:
        ways += [lambda: PMCBoost().fit_atoms(atoms), lambda: audit(atoms)]
    for way in ways:
        with pytest.raises(
            InputError, match="is the outcome, perhaps under another name"
        ):
            way()


def test_a_condition_on_the_outcome_is_refused(visits):
    from propcal import Groups

    groups = Groups(columns=["sex"], where={"dead": "died = yes"})
    with pytest.raises(InputError, match="'dead' is the outcome"):
        PMCBoost(groups=groups).fit(visits.risk, visits.y, sensitive_features=visits)


def test_what_nearly_is_the_outcome_is_warned_of(visits):
    features = visits[["sex", "nearly"]]
    with pytest.warns(
        UserWarning,
        match="'nearly' is nearly the outcome itself: it predicts the outcome of 9[89]",
    ):
        PMCBoost().fit(visits.risk, visits.y, sensitive_features=features)
    with pytest.warns(UserWarning, match="is nearly the outcome"):
        mc_loss(visits.y, visits.risk, sensitive_features=features)
    with pytest.warns(UserWarning, match="is nearly the outcome"):
        audit(visits.y, visits.risk, sensitive_features=features)


def test_files_and_the_command_line(visits, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    visits.to_csv("visits.csv", index=False)
    columns = ["--score", "risk", "--outcome", "y"]
    for command, more in (("fit", ["-o", "m.json"]), ("audit", [])):
        for group in THE_OUTCOME:
            with pytest.raises(SystemExit) as end:
                main(
                    [command, "visits.csv", *columns, "--groups", f"sex,{group}", *more]
                )
            err = capfd.readouterr().err
            assert end.value.code == 2, group
            assert err.count("\n") == 1
            assert "outcome" in err
    with pytest.raises(SystemExit) as end:
        main(["fit", "visits.csv", *columns, "--groups", "sex,nearly", "-o", "m.json"])
    assert end.value.code == 0
    assert (
        "propcal: note: attribute 'nearly' is nearly the outcome"
        in capfd.readouterr().err
    )


@pytest.mark.parametrize("seed", range(5))
def test_ordinary_groups_are_not_spoken_of(seed):
    """Not even few people, many levels, rare outcomes, or a group that nobody of had
    it.
    """
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n, rate, levels in [
            (6, 0.5, 3),
            (40, 0.3, 20),
            (3000, 0.002, 2),
            (3000, 0.2, 150),
            (500, 0.5, 3),
        ]:
            y = (rng.random(n) < rate).astype(int)
            y[:2] = 0, 1
            group = rng.integers(0, levels, n).astype(str)
            group[y == 0] = np.where(
                rng.random((y == 0).sum()) < 0.2, "never", group[y == 0]
            )
            settings = {"gamma": 1e-6}
            PMCBoost(**settings).fit(np.full(n, 0.4), y, sensitive_features=group)


def test_a_billionth_of_the_weight_is_rounding_and_no_other_outcome():
    """200 people with the outcome and 199 without, and one who is not as his group."""

    def atoms_with(weight_of_one):
        y = np.repeat([1, 0], 200)
        weight = np.ones(400)
        weight[-1] = weight_of_one
        group = np.where(np.arange(400) < 200, "a", "b")
        group[-1] = "a"
        people = pd.DataFrame({"s": 0.5, "y": y, "g": group, "w": weight})
        return Atoms.from_frame(
            people, score="s", outcome="y", groups=["g"], weight="w"
        )

    with pytest.raises(InputError, match="'g'"):  # 399 people: a limit of 3.99e-7
        check_outcome_groups(atoms_with(3e-7))
    with pytest.warns(UserWarning, match="'g'"):
        check_outcome_groups(atoms_with(5e-7))
