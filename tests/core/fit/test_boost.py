"""PMCBoost and MCBoost against a row-by-row reading of the paper."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from propcal import MCBoost, PMCBoost, dc_loss, mc_loss, pmc_loss
from propcal.core.grid import UNIT, to_grid
from propcal.errors import InputError

# scores on and around edges, at 0 and 1, and ties
EDGES = [0.0, 0.1, 0.25, 0.3, 0.5, 0.9, 1.0]
some_score = st.one_of(
    st.sampled_from(EDGES),
    st.sampled_from([0.1 - 2**-32, 0.1 + 2**-32, 2**-32, 1 - 2**-32]),
    st.floats(0, 1),
)
some_person = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from(["x", "y"]),
    some_score,
    st.integers(0, 1),
    st.integers(0, 3),
)


@st.composite
def some_people(draw):
    rows = draw(st.lists(some_person, min_size=4, max_size=40))
    # both outcomes must occur among people who count
    rows += [("a", "x", 0.4, 1, 1), ("b", "y", 0.4, 0, 1)]
    return rows


def as_arrays(rows):
    race, sex, score, y, w = zip(*rows)
    return (
        pd.DataFrame({"race": race, "sex": sex}),
        np.array(score),
        np.array(y),
        np.array(w),
    )


def fit_quietly(estimator, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(*args, **kwargs)


def check_same_as_oracle(rows, cls, *, weighted, outcome=None, **kw):
    frame, score, y, w = as_arrays(rows)
    y = y if outcome is None else outcome
    weights = w if weighted else None
    model = cls.paper(
        max_updates=300, allow_reversed=True, **kw
    )  # scores are drawn at random
    model = fit_quietly(
        model, score, y, sensitive_features=frame, sample_weight=weights
    )
    persons = oracle.people(frame.itertuples(index=False), score, y, weights)
    persons = [
        oracle.Person(
            tuple(None if v != v else v for v in p.levels), p.score, p.outcome, p.weight
        )
        for p in persons
    ]
    updates, scores, groups = oracle.boost(
        persons,
        alpha=kw["alpha"],
        gamma=kw["gamma"],
        rho=kw["rho"],
        edges=oracle.uniform_edges(kw["n_bins"]),
        m=kw["n_bins"],
        eta=kw["eta"],
        proportional=cls is PMCBoost,
        max_updates=300,
        z=kw.get("guard") or 0.0,
    )
    number = {
        group: g for g, group in enumerate(model.groups_.groups)
    }  # a correction has only groups in use
    made = [
        (number[model.correction_.groups[g]], j, shift)
        for g, j, shift in model.correction_.updates.tolist()
    ]
    assert made == updates
    counted = w > 0 if weighted else np.ones(len(w), dtype=bool)
    corrected = model.predict(score[counted], sensitive_features=frame[counted])
    moved = to_grid(corrected)
    assert moved.tolist() == scores
    # a score that did not move is returned as it came
    still = moved == to_grid(score[counted])
    assert np.array_equal(corrected[still], score[counted][still])
    assert np.array_equal(corrected[~still] * UNIT, moved[~still])
    return model, groups


@settings(max_examples=150, deadline=None)
@given(
    rows=some_people(),
    cls=st.sampled_from([PMCBoost, MCBoost]),
    weighted=st.booleans(),
    alpha=st.sampled_from([0.01, 0.1, 0.3]),
    gamma=st.sampled_from([0.01, 0.1, 0.3]),
    rho=st.sampled_from([0.01, 0.1, 0.5]),
    n_bins=st.sampled_from([1, 2, 3, 10]),
    eta=st.sampled_from([1.0, 0.5, 0.1, 1.7]),
)
def test_updates_and_scores_equal_the_oracle(
    rows, cls, weighted, alpha, gamma, rho, n_bins, eta
):
    check_same_as_oracle(
        rows,
        cls,
        weighted=weighted,
        alpha=alpha,
        gamma=gamma,
        rho=rho,
        n_bins=n_bins,
        eta=eta,
    )


@settings(max_examples=80, deadline=None)
@given(
    rows=some_people(),
    cls=st.sampled_from([PMCBoost, MCBoost]),
    weighted=st.booleans(),
    alpha=st.sampled_from([0.01, 0.1]),
    n_bins=st.sampled_from([1, 3, 10]),
    z=st.sampled_from([0.3, 1.0, 2.0]),
)
def test_guarded_updates_equal_the_oracle(rows, cls, weighted, alpha, n_bins, z):
    kw = {
        "alpha": alpha,
        "gamma": 0.1,
        "rho": 0.1,
        "n_bins": n_bins,
        "eta": 1.0,
        "guard": z,
    }
    check_same_as_oracle(rows, cls, weighted=weighted, **kw)


@settings(max_examples=40, deadline=None)
@given(rows=some_people(), labels=st.data())
def test_soft_labels_equal_the_oracle(rows, labels):
    outcome = np.array(
        labels.draw(st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows)))
    )
    outcome[-2:] = 1, 0
    check_same_as_oracle(
        rows,
        PMCBoost,
        weighted=True,
        outcome=outcome,
        alpha=0.1,
        gamma=0.1,
        rho=0.1,
        n_bins=5,
        eta=1.0,
    )


@settings(max_examples=60, deadline=None)
@given(
    rows=some_people(),
    weighted=st.booleans(),
    alpha=st.sampled_from([0.1, 0.5]),
    gamma=st.sampled_from([0.05, 0.3]),
    n_bins=st.sampled_from([1, 3, 10]),
)
def test_losses_equal_the_oracle(rows, weighted, alpha, gamma, n_bins):
    frame, score, y, w = as_arrays(rows)
    weights = w if weighted else None
    persons = oracle.people(rows_levels(frame), score, y, weights)
    expected = oracle.losses(
        persons,
        alpha=alpha,
        gamma=gamma,
        rho=0.1,
        edges=oracle.uniform_edges(n_bins),
        m=n_bins,
    )
    kw = {
        "sensitive_features": frame,
        "sample_weight": weights,
        "alpha": alpha,
        "gamma": gamma,
        "rho": 0.1,
        "n_bins": n_bins,
    }
    found = [loss(y, score, **kw) for loss in (mc_loss, pmc_loss, dc_loss)]
    assert found == pytest.approx(expected, abs=1e-9)


def rows_levels(frame):
    return [
        tuple(None if v is None or v != v else v for v in row)
        for row in frame.itertuples(index=False)
    ]


def test_ten_people_worked_by_hand():
    """Groups a (6 people) and b (4), two bins, alpha 0.1, rho 0.1, gamma 0.1.

    Sweep 1. a in [0, .5): scores .2 .2 .2 .4, outcomes 0 0 0 1: rate .25, mean .25: no gap.
             a in [.5, 1]: scores .6 .8, outcomes 1 1: rate 1, mean .7: shift +.3 -> .9, 1 (clipped).
             b in [0, .5): scores .3 .3, outcomes 1 0: rate .5, mean .3: shift +.2 -> .5 .5, which
             moves both into the upper bin.
             b in [.5, 1]: scores .5 .5 .7 .9, outcomes 1 0 1 0: rate .5, mean .65: shift -.15
             -> .35 .35 .55 .75; the first two are back in the lower bin.
    Sweep 2. a in [.5, 1]: rate 1, mean .95: gap .05 < .1. b in [0, .5): rate .5, mean .35: shift
             +.15 -> .5 .5. b in [.5, 1]: rate .5, scores .5 .5 .55 .75, mean .575: shift -.075 ->
             .425 .425 .475 .675.
    Sweep 3. b in [0, .5): .425 .425 .475, outcomes 1 0 1: rate 2/3, mean .441667: shift +.225 ->
             .65 .65 .7. b in [.5, 1]: rate .5, mean .66875: shift -.16875 -> .48125 .48125 .53125
             .50625.
    Sweep 4. b in [0, .5): rate .5, mean .48125: gap .01875 < .05. b in [.5, 1]: outcomes 1 0, rate
             .5, mean .51875: gap -.01875, less than .05. No update: done.
    """
    group = ["a"] * 6 + ["b"] * 4
    score = np.array([0.2, 0.2, 0.2, 0.4, 0.6, 0.8, 0.3, 0.3, 0.7, 0.9])
    y = [0, 0, 0, 1, 1, 1, 1, 0, 1, 0]
    model = PMCBoost.paper(alpha=0.1, gamma=0.1, rho=0.1, n_bins=2).fit(
        score, y, sensitive_features={"g": group}
    )
    assert [(u.group, u.bin) for u in model.updates_] == [
        ("g=a", "[0.5, 1]"),
        ("g=b", "[0, 0.5)"),
        ("g=b", "[0.5, 1]"),
        ("g=b", "[0, 0.5)"),
        ("g=b", "[0.5, 1]"),
        ("g=b", "[0, 0.5)"),
        ("g=b", "[0.5, 1]"),
    ]
    expected = [0.3, 0.2, -0.15, 0.15, -0.075, 0.225, -0.16875]
    assert [u.shift for u in model.updates_] == pytest.approx(expected, abs=1e-8)
    corrected = model.predict(score, sensitive_features={"g": group})
    expected = [0.2, 0.2, 0.2, 0.4, 0.9, 1.0, 0.48125, 0.48125, 0.53125, 0.50625]
    assert corrected == pytest.approx(expected, abs=1e-8)
    assert (model.n_sweeps_, model.converged_) == (4, True)


def test_plain_floats_agree_on_continuous_scores(cohort, features):
    frame = features.fillna("none")
    model = PMCBoost.paper(alpha=0.05).fit(
        cohort.score, cohort.y, sensitive_features=frame
    )
    levels = list(frame.itertuples(index=False, name=None))
    persons = oracle.people(levels, cohort.score, cohort.y)
    groups = oracle.collect(persons, 0.05, 2)
    plain = oracle.boost_in_floats(
        levels,
        cohort.score,
        cohort.y,
        groups,
        alpha=0.05,
        gamma=0.05,
        rho=0.1,
        n_bins=10,
    )
    assert model.predict(cohort.score, sensitive_features=frame) == pytest.approx(
        plain, abs=1e-7
    )


@pytest.mark.parametrize("cls", [PMCBoost, MCBoost])
@pytest.mark.parametrize("order", ["cyclic", "random", "worst"])
@pytest.mark.parametrize(
    "binning", ["uniform", "geometric", "quantile", [0, 0.05, 0.2, 0.6, 1]]
)
def test_after_convergence_every_eligible_category_is_within_its_cutoff(
    cohort, features, cls, order, binning
):
    from propcal.metrics import CategoryRule
    from propcal.reading.rows import rows_to_atoms

    model = cls.paper(alpha=0.03, order=order, binning=binning, random_state=1)
    model.fit(cohort.score, cohort.y, sensitive_features=features)
    assert model.converged_
    corrected = model.predict(cohort.score, sensitive_features=features)
    atoms = rows_to_atoms(corrected, cohort.y, features)
    edges = model.correction_.bins.edges / UNIT
    # quantile edges stay those of the raw scores; the divisor of the size rule does not
    share = 0.03 * 0.05 / model.correction_.bins.divisor
    table = CategoryRule(alpha=0.03, binning=list(edges), min_share=share).table(atoms)
    rate = table.outcome_rate[table.eligible]
    limit = 0.03 * np.maximum(rate, 0.1) if cls is PMCBoost else 0.03
    assert table.eligible.sum() > 20
    assert np.all(np.abs(table.gap[table.eligible]) <= limit + 2**-31)


def test_a_step_of_more_than_twice_the_gap_is_refused(cohort, features):
    """It would raise the squared error."""
    with pytest.raises(InputError, match="eta"):
        PMCBoost(eta=2.1).fit(cohort.score, cohort.y, sensitive_features=features)


@pytest.mark.parametrize("eta", [0.1, 1.0, 1.9])
def test_squared_error_never_rises(cohort, features, eta):
    model = fit_quietly(
        PMCBoost.paper(alpha=0.01, eta=eta, max_updates=400),
        cohort.score,
        cohort.y,
        sensitive_features=features,
    )
    steps = range(0, model.n_updates_ + 1, 7)
    errors = [
        np.sum(
            (
                cohort.y
                - model.predict(cohort.score, sensitive_features=features, n_updates=k)
            )
            ** 2
        )
        for k in steps
    ]
    assert errors[-1] < errors[0]
    assert np.all(np.diff(errors) <= 1e-9)


def test_max_updates_is_kept_and_warned_about(cohort, features):
    from sklearn.exceptions import ConvergenceWarning

    model = PMCBoost.paper(alpha=0.01, max_updates=5)
    with pytest.warns(ConvergenceWarning, match="max_updates=5"):
        model.fit(cohort.score, cohort.y, sensitive_features=features)
    assert (model.n_updates_, model.converged_) == (5, False)
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_updates=0).fit(
            cohort.score, cohort.y, sensitive_features=features
        )
    assert np.array_equal(
        model.predict(cohort.score, sensitive_features=features), cohort.score
    )


def test_the_limit_is_no_failure_when_it_is_just_reached(cohort, features):
    full = PMCBoost.paper(alpha=0.05).fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    model = PMCBoost.paper(alpha=0.05, max_updates=full.n_updates_).fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    assert model.converged_
    assert model.n_updates_ == full.n_updates_


def test_bootstrap_is_seeded_and_uses_the_full_data_for_the_size_rule(cohort, features):
    def run(seed):
        model = PMCBoost.paper(
            alpha=0.1, sample="bootstrap", max_updates=200, random_state=seed
        )
        return fit_quietly(model, cohort.score, cohort.y, sensitive_features=features)

    first, again, other = run(1), run(1), run(2)
    assert first.updates_ == again.updates_
    assert first.updates_ != other.updates_
    # a bootstrap sample is as large as the data, and drawn anew
    from propcal.core.fit.update_loop import bootstrap
    from propcal.reading.rows import rows_to_atoms

    atoms = rows_to_atoms(cohort.score, cohort.y, features)
    rng = np.random.default_rng(0)
    weight, outcome, *_ = bootstrap(atoms, rng)
    assert weight.sum() == 3000
    assert np.all(outcome <= weight * UNIT)
    draws = [bootstrap(atoms, rng)[1].sum() / UNIT for _ in range(300)]
    rate = cohort.y.mean()
    assert np.std(draws) == pytest.approx(np.sqrt(3000 * rate * (1 - rate)), rel=0.2)


@pytest.mark.parametrize("soft", [False, True])
def test_bootstrap_takes_weights_and_soft_labels(cohort, features, soft):
    rng = np.random.default_rng(3)
    y = rng.random(len(cohort)) if soft else cohort.y
    model = fit_quietly(
        PMCBoost.paper(alpha=0.05, sample="bootstrap", max_updates=50, random_state=0),
        cohort.score,
        y,
        sensitive_features=features,
        sample_weight=rng.random(len(cohort)),
    )
    assert model.n_updates_ > 0


def test_one_bin_is_multiaccuracy(cohort, features):
    model = MCBoost.paper(n_bins=1, alpha=0.001).fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    corrected = model.predict(cohort.score, sensitive_features=features)
    for race in ("Asian", "Black", "White"):
        rows = (features.race == race).to_numpy()
        assert corrected[rows].mean() == pytest.approx(cohort.y[rows].mean(), abs=0.001)


def test_weight_two_is_a_row_twice_and_weight_zero_no_row(cohort, features):
    weight = np.random.default_rng(5).integers(0, 3, len(cohort))
    twice = cohort.loc[cohort.index.repeat(weight)]
    weighted = PMCBoost().fit(
        cohort.score, cohort.y, sensitive_features=features, sample_weight=weight
    )
    repeated = PMCBoost().fit(
        twice.score, twice.y, sensitive_features=twice[["race", "gender"]]
    )
    assert weighted.updates_ == repeated.updates_
    assert weighted.correction_.to_json() == repeated.correction_.to_json()


def test_survey_weights_that_only_rescale_change_nothing(cohort, features):
    plain = PMCBoost.paper(alpha=0.05).fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    scaled = PMCBoost.paper(alpha=0.05).fit(
        cohort.score,
        cohort.y,
        sensitive_features=features,
        sample_weight=np.full(len(cohort), 0.37),
    )
    assert [u[:2] for u in plain.updates_] == [u[:2] for u in scaled.updates_]
    assert [u.shift for u in plain.updates_] == pytest.approx(
        [u.shift for u in scaled.updates_], abs=1e-8
    )


def test_fewer_people_of_low_risk_are_protected_by_pmc_where_mc_leaves_them():
    """The paper's cohort shape: PMCBoost at 0.1 meets 0.1, MCBoost at 0.1 stays several
    times higher.
    """
    from propcal.datasets import make_ed_visits

    visits = make_ed_visits(60_000, seed=1)
    blind = np.clip(visits.true_risk * 0.5 + 0.12, 0, 1)  # pulled towards the mean
    features = visits[["race", "gender"]]
    kw = {"sensitive_features": features, "alpha": 0.1}
    losses = {}
    for cls in (PMCBoost, MCBoost):
        model = cls.paper(alpha=0.1).fit(
            blind, visits.admitted, sensitive_features=features
        )
        losses[cls] = pmc_loss(
            visits.admitted, model.predict(blind, sensitive_features=features), **kw
        )
    assert losses[PMCBoost] <= 0.1 + 1e-8
    assert losses[MCBoost] > 3 * losses[PMCBoost]


@pytest.mark.slow
@pytest.mark.parametrize("cls", [PMCBoost, MCBoost])
@settings(max_examples=1500, deadline=None)
@given(
    rows=st.lists(some_person, min_size=20, max_size=150),
    alpha=st.floats(0.001, 0.5),
    gamma=st.floats(0.005, 0.3),
    rho=st.floats(0.001, 1.0),
    n_bins=st.integers(1, 25),
    eta=st.floats(0.05, 2.0),
)
def test_updates_and_scores_equal_the_oracle_at_any_setting(
    cls, rows, alpha, gamma, rho, n_bins, eta
):
    rows = [*rows, ("a", "x", 0.4, 1, 1), ("b", "y", 0.4, 0, 1)]
    check_same_as_oracle(
        rows,
        cls,
        weighted=True,
        alpha=alpha,
        gamma=gamma,
        rho=rho,
        n_bins=n_bins,
        eta=eta,
    )


@pytest.mark.slow
def test_held_out_proportional_error_falls_on_a_large_cohort():
    """With enough people the correction learned on one half holds on the other, against
    the true risk.
    """
    from propcal.datasets import make_ed_visits

    visits = make_ed_visits(seed=7)
    score = visits.groupby(
        ["acuity", visits.age // 10], dropna=False
    ).admitted.transform("mean")
    half = len(visits) // 2
    groups = ["race", "gender"]
    model = PMCBoost.paper().fit(
        score[:half], visits.admitted[:half], sensitive_features=visits[groups][:half]
    )
    rest = visits[half:]
    corrected = model.predict(score[half:], sensitive_features=rest[groups])
    # true risks are soft labels: no noise of drawn outcomes in the loss
    kw = {"sensitive_features": rest[groups], "min_people": 200}
    before, after = (
        pmc_loss(rest.true_risk, score[half:], **kw),
        pmc_loss(rest.true_risk, corrected, **kw),
    )
    assert after < 0.3 < 1 < before
