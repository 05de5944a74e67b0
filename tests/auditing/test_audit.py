"""The audit: what it promises, and what it does with data of every kind."""

import json

import jsonschema
import numpy as np
import pandas as pd
import pytest

from paths import ROOT
from propcal import Atoms, Groups, PMCBoost, audit, compare, dc_loss, mc_loss, pmc_loss
from propcal.errors import InputError
from propcal.numbers import risk_range

SCHEMA = json.loads(
    (ROOT / "src" / "propcal" / "schemas" / "audit.schema.json").read_text()
)
TABLES = (
    "losses",
    "debiased",
    "categories",
    "groups",
    "curves",
    "net_benefit",
    "distribution",
)


@pytest.fixture(scope="module")
def found(cohort):
    return audit(cohort.y, cohort.score, sensitive_features=cohort[["race", "gender"]])


def assert_same(a, b, **kw):
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(a, name), getattr(b, name), **kw)
    pd.testing.assert_frame_equal(a.verdict.tests, b.verdict.tests, **kw)


def test_the_losses_are_those_of_the_loss_functions(cohort, found):
    frame = cohort[["race", "gender"]]
    for name, loss in (("mc", mc_loss), ("pmc", pmc_loss), ("dc", dc_loss)):
        value = loss(cohort.y, cohort.score, sensitive_features=frame, min_people=30)
        assert found.losses.loc[name, "value"] == pytest.approx(value, abs=1e-12)


def test_the_category_that_sets_a_loss_is_named(found):
    for name, column in (("mc", "gap"), ("pmc", "proportional_gap")):
        eligible = found.categories[found.categories.eligible]
        row = eligible.loc[eligible[column].abs().idxmax()]
        place = f"{found.labels[row.group]}, predicted risk {risk_range(row.bin)}"
        assert found.losses.loc[name, "where"] == place
        assert found.losses.loc[name, "value"] == pytest.approx(abs(row[column]))


def test_the_pair_that_sets_the_dc_loss_is_named(found):
    pair, label = found.losses.loc["dc", "where"].split(", predicted risk ")
    names = {label: name for name, label in found.labels.items()}
    high, low = (names[label] for label in pair.split(" against "))
    inside = found.categories.bin.map(risk_range) == label
    rates = found.categories[found.categories.eligible & inside].set_index("group")
    ratio = np.log(
        max(rates.loc[high, "outcome_rate"], 0.1)
        / max(rates.loc[low, "outcome_rate"], 0.1)
    )
    assert found.losses.loc["dc", "value"] == pytest.approx(ratio)


def test_a_wrong_score_is_found_and_said_for_whom(found):
    assert found.verdict.conclusion == "miscalibrated"
    finding = found.groups.set_index("group").finding
    assert finding["gender=F"] == "too high"
    assert finding["gender=M"] == "too low"
    assert finding["race=Asian"] == "too low"
    assert "too high for F (O/E" in found.verdict.text
    assert "fair" not in found.verdict.text


def test_nothing_is_found_in_a_perfect_score(cohort):
    rng = np.random.default_rng(5)
    y = (rng.random(len(cohort)) < cohort.score).astype(int)
    a = audit(y, cohort.score, sensitive_features=cohort[["race", "gender"]])
    assert a.verdict.conclusion == "no miscalibration found"
    assert "With 95 % confidence, the score is right to within " in a.verdict.text
    assert (
        a.losses.loc["pmc", "floor_median"] > 0
    )  # even so, the loss of a perfect score is not zero
    assert (a.losses.low == 0).all() or a.losses.low.max() < a.losses.value.max()


def test_categories_and_groups_are_counted_right(cohort, found):
    women = cohort[cohort.gender == "F"]
    row = found.groups.set_index("group").loc["gender=F"]
    assert row.people == len(women)
    assert row.positives == women.y.sum()
    assert row.mean_score == pytest.approx(women.score.mean())
    assert row.observed_expected == pytest.approx(women.y.sum() / women.score.sum())
    category = found.categories.query(
        "group == 'gender=F' and bin == '[0.1, 0.2)'"
    ).iloc[0]
    inside = women[(women.score >= 0.1) & (women.score < 0.2)]
    assert category.people == len(inside)
    assert category.gap == pytest.approx(inside.y.mean() - inside.score.mean())
    assert category.cutoff == pytest.approx(0.05 * max(inside.y.mean(), 0.1))
    assert category.low < category.gap < category.high
    assert category.rate_low < category.outcome_rate < category.rate_high


def test_small_categories_say_why_they_do_not_count(found):
    small = found.categories[~found.categories.eligible]
    assert len(small)
    assert set(small.reason) <= {"fewer than 30 people", "share below 0.00025 of all"}
    assert (small.finding == "not enough data").all()
    assert small.low.isna().all()


def test_groups_left_out_and_missing_values_are_rows(cohort):
    a = audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["race", "gender"]],
        min_group=250,
    )
    groups = a.groups.set_index("group")
    assert groups.loc["race missing", "missing"]
    left_out = groups[~groups.kept]
    assert len(left_out)
    assert (left_out.finding == "shown but not tested").all()
    assert (left_out.reason == "fewer than 250 people").all()
    assert left_out.observed_expected.notna().all()  # measured, but not judged
    assert not set(left_out.index) & set(a.verdict.tests.test)
    assert any("race is missing for" in note for note in a.notes)
    excluded = audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["race", "gender"]],
        missing="exclude",
    )
    assert (
        excluded.groups.set_index("group").loc["race missing", "reason"]
        == "missing value"
    )


def test_the_same_seed_gives_the_same_audit_in_any_order_of_rows(cohort, found):
    mixed = cohort.sample(frac=1, random_state=3)
    assert_same(
        audit(mixed.y, mixed.score, sensitive_features=mixed[["race", "gender"]]),
        found,
        rtol=1e-9,
    )
    other = audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["race", "gender"]],
        random_state=1,
    )
    assert not other.debiased.equals(found.debiased)  # other draws
    assert other.verdict.conclusion == found.verdict.conclusion


def test_atoms_give_the_same_audit_as_rows(cohort, found):
    half = len(cohort) // 2
    parts = [
        Atoms.from_frame(part, score="score", outcome="y", groups=["race", "gender"])
        for part in (cohort[:half], cohort[half:])
    ]
    assert_same(audit(parts[0] + parts[1]), found)


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_other_frames_give_the_same_audit(cohort, found, kind):
    if kind == "polars":
        frame = pytest.importorskip("polars").from_pandas(cohort)
        columns = frame["y"], frame["score"], frame[["race", "gender"]]
    else:
        import pyarrow as pa

        frame = pa.Table.from_pandas(cohort, preserve_index=False)
        columns = frame["y"], frame["score"], frame.select(["race", "gender"])
    assert_same(audit(*columns[:2], sensitive_features=columns[2]), found)


def test_weight_two_is_the_row_twice(cohort):
    some = cohort[:600]
    weight = np.random.default_rng(0).integers(0, 4, 600)
    twice = some.loc[some.index.repeat(weight)]
    a = audit(
        some.y,
        some.score,
        sensitive_features=some[["race", "gender"]],
        sample_weight=weight,
    )
    assert_same(
        a, audit(twice.y, twice.score, sensitive_features=twice[["race", "gender"]])
    )


def test_survey_weights_widen_the_intervals(cohort, found):
    rng = np.random.default_rng(0)
    weight = rng.exponential(1.0, len(cohort)) + 0.05
    a = audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["race", "gender"]],
        sample_weight=weight,
    )
    width = a.groups.observed_expected_high / a.groups.observed_expected_low
    plain = found.groups.observed_expected_high / found.groups.observed_expected_low
    assert (width[:4] > plain[:4]).all()
    assert any("Survey weights" in note for note in a.notes)
    assert a.settings["weights"] == "survey"


def test_rows_of_one_person_count_as_dependent(cohort):
    """Everybody four times, with ids: as good as once. Without ids the audit would be
    too sure.
    """
    some, who = cohort[:1000], np.tile(np.arange(1000), 4)
    four = pd.concat([some] * 4)
    features = four[["race", "gender"]]
    once = audit(
        some.y, some.score, sensitive_features=some[["race", "gender"]], min_people=30
    )
    known = audit(
        four.y, four.score, sensitive_features=features, cluster=who, min_people=30
    )
    naive = audit(four.y, four.score, sensitive_features=features, min_people=120)
    assert known.groups.observed_expected.equals(naive.groups.observed_expected)

    def width(a):
        return np.log(
            a.groups.observed_expected_high / a.groups.observed_expected_low
        ).to_numpy()[:5]

    assert width(known) == pytest.approx(width(once), rel=0.2)
    assert (width(naive) < 0.6 * width(known)).all()
    width_known, width_naive = (
        a.categories[known.categories.eligible & naive.categories.eligible].eval(
            "high - low"
        )
        for a in (known, naive)
    )
    assert (width_known > 1.5 * width_naive).all()
    few = known.categories[known.categories.people.between(30, 80)]
    assert (
        few.reason == "with repeat visits, worth fewer than 30 different people"
    ).all()
    assert len(few)
    assert any("Repeat visits" in note for note in known.notes)


@pytest.mark.slow
def test_buckets_of_people_add_up_and_fits_ignore_them(cohort, tmp_path):
    ids = cohort.assign(id=np.arange(len(cohort)) // 3)
    whole = Atoms.from_frame(
        ids, score="score", outcome="y", groups=["race", "gender"], cluster="id"
    )
    parts = [
        Atoms.from_frame(
            part, score="score", outcome="y", groups=["race", "gender"], cluster="id"
        )
        for part in (ids[:1000], ids[1000:])
    ]
    assert_same(audit(sum(parts)), audit(whole))
    rows = audit(
        ids.y, ids.score, sensitive_features=ids[["race", "gender"]], cluster=ids.id
    )
    assert_same(audit(whole), rows)
    whole.save(tmp_path / "x.atoms")
    assert_same(audit(Atoms.load(tmp_path / "x.atoms")), rows)
    plain = Atoms.from_frame(
        cohort, score="score", outcome="y", groups=["race", "gender"]
    )
    fits = [
        json.loads(PMCBoost().fit_atoms(atoms).correction_.to_json())
        for atoms in (whole, plain)
    ]
    for fit in (
        fits
    ):  # fewer cells are tested where three rows of one person are worth a little less
        assert fit["about"].pop("guard") > 3
        del fit["about"]["model_id"]  # which depends on it
    assert [fit["about"].pop("unit", "people") for fit in fits] == ["visits", "people"]
    assert fits[0] == fits[1]


def test_ids_of_any_kind_fall_into_the_same_buckets(cohort):
    ids = np.arange(len(cohort)) // 2
    frame = cohort[["race", "gender"]]
    whole, text = (
        audit(cohort.y, cohort.score, sensitive_features=frame, cluster=cluster)
        for cluster in (ids.astype(float), pd.Series(ids).astype(str))
    )
    assert_same(whole, text)


def test_few_people_who_come_again_and_again_are_not_tested(cohort):
    a = audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["gender"]],
        cluster=np.arange(len(cohort)) % 4,
    )
    assert a.verdict.conclusion == "not tested"
    assert "Name a column that identifies patients, not sites" in a.verdict.text
    assert a.groups.observed_expected_low.isna().all()
    assert a.losses.low.isna().all()


def test_soft_labels_have_no_noise_floor_and_it_is_said(cohort):
    soft = 0.9 * cohort.y + 0.05
    a = audit(soft, cohort.score, sensitive_features=cohort[["race", "gender"]])
    assert a.verdict.conclusion == "not tested"
    assert "soft labels" in a.verdict.text
    assert a.losses.floor_median.isna().all()
    assert a.losses.value.notna().all()
    assert a.groups.brier_low.isna().all()
    assert a.groups.observed_expected.notna().all()
    weight = np.linspace(0.5, 1.5, len(cohort))
    assert (
        audit(soft, cohort.score, sample_weight=weight).verdict.conclusion
        == "not tested"
    )


def test_too_few_people_are_insufficient_data():
    a = audit(
        [0, 1] * 10, np.linspace(0.1, 0.9, 20), sensitive_features=["a", "b"] * 10
    )
    assert a.verdict.conclusion == "not enough data"
    assert a.losses.value.isna().all()
    assert a.groups.finding.tolist() == [
        "not enough data",
        *["shown but not tested"] * 2,
    ]
    assert "not enough data" in repr(a)


def test_odd_scores_and_outcomes_are_no_trouble():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", "c"], 900)
    y = rng.integers(0, 2, 900)
    y[group == "c"] = 0  # nobody
    for score in (
        np.full(900, 0.5),
        np.where(y, 1.0, 0.0),
        rng.choice([0.0, 1.0], 900),
        rng.random(900),
    ):
        a = audit(y, score, sensitive_features=group)
        assert a.verdict.conclusion in ("miscalibrated", "no miscalibration found")
        jsonschema.validate(json.loads(a.to_json()), SCHEMA)
        assert repr(a)
    perfect = audit(y, np.where(y, 1.0, 0.0), sensitive_features=group)
    assert perfect.verdict.conclusion == "no miscalibration found"
    assert perfect.losses.loc["mc", "value"] == 0
    assert any("exactly 0 or 1" in note for note in perfect.notes)
    everybody = audit(y, rng.random(900))
    assert everybody.groups.group.tolist() == ["everybody"]


def test_bins_of_every_kind(cohort):
    for binning in ("uniform", "geometric", "quantile", [0, 0.05, 0.3, 1]):
        a = audit(
            cohort.y,
            cohort.score,
            sensitive_features=cohort[["gender"]],
            binning=binning,
        )
        loss = pmc_loss(
            cohort.y,
            cohort.score,
            sensitive_features=cohort[["gender"]],
            binning=binning,
            min_people=30,
        )
        assert a.losses.loc["pmc", "value"] == pytest.approx(loss)
    single = audit(
        cohort.y, cohort.score, sensitive_features=cohort[["gender"]], n_bins=1
    )
    assert len(single.categories) == 2


def test_groups_in_words(cohort):
    people = cohort.assign(age=np.arange(len(cohort)) % 90)
    words = Groups(
        columns=["gender"],
        cuts={"age": [40, 65]},
        where={"old women": "age >= 75 and gender = F"},
    )
    a = audit(people.y, people.score, sensitive_features=people, groups=words)
    assert {"age=65 or over", "old women", "gender=F"} <= set(a.groups.group)


def test_an_audit_of_a_correction(cohort):
    frame = cohort[["race", "gender"]]
    half = len(cohort) // 2
    cal = PMCBoost.paper(alpha=0.1).fit(
        cohort.score[:half], cohort.y[:half], sensitive_features=frame[:half]
    )
    held_out = audit(
        cohort.y[half:],
        cohort.score[half:],
        sensitive_features=frame[half:],
        correction=cal.correction_,
    )
    by_hand = cal.predict(cohort.score[half:], sensitive_features=frame[half:])
    assert_same(
        held_out, audit(cohort.y[half:], by_hand, sensitive_features=frame[half:])
    )
    assert not held_out.settings["fitted_on_these"]
    own = audit(
        cohort.y[:half],
        cohort.score[:half],
        sensitive_features=frame[:half],
        correction=cal,
    )
    assert own.settings["fitted_on_these"]
    assert "not evidence" in own.notes[0]
    with pytest.raises(InputError, match="correction must be a Correction"):
        audit(cohort.y, cohort.score, correction="model.json")
    with pytest.raises(InputError, match="reads the attributes"):
        audit(
            cohort.y, cohort.score, sensitive_features=frame[["race"]], correction=cal
        )


def test_json_follows_its_schema(cohort, found):
    content = json.loads(found.to_json())
    jsonschema.validate(content, SCHEMA)
    assert content["losses"][1]["value"] == found.losses.loc["pmc", "value"]
    frame = cohort[["race", "gender"]]
    for kw in (
        {"sample_weight": np.linspace(0.5, 1.5, len(cohort))},
        {"cluster": np.arange(len(cohort)) // 2},
    ):
        jsonschema.validate(
            json.loads(
                audit(cohort.y, cohort.score, sensitive_features=frame, **kw).to_json()
            ),
            SCHEMA,
        )
    both = compare(
        {"a": cohort.score, "b": cohort.score**2}, cohort.y, sensitive_features=frame
    )
    jsonschema.validate(json.loads(both.to_json()), SCHEMA)


def test_results_show_themselves(found):
    shown = repr(found)
    assert shown.startswith("Verdict: Miscalibrated")
    assert max(len(line) for line in shown.splitlines()) <= 100
    html = found._repr_html_()
    assert "miscalibrated" in html
    assert "<script" not in html
    assert found.to_frame("groups").equals(found.groups)
    with pytest.raises(InputError, match="kind must be one of"):
        found.to_frame("people")


def test_names_of_groups_are_text_never_markup():
    nasty = [
        "<script>alert(1)</script>",
        "[red]x[/red]",
        "\x1b[31m",
        "a & b=c",
        "\N{GRINNING FACE}" * 3,
    ]
    group = np.array(nasty * 60)
    y = np.arange(300) % 2
    a = audit(y, np.full(300, 0.5), sensitive_features=pd.DataFrame({"x": group}))
    html = a._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "[red]x[/red]" in repr(a)
    assert "\x1b" not in repr(a)
    jsonschema.validate(json.loads(a.to_json()), SCHEMA)


def test_a_canary_in_an_unrelated_column_an_id_or_an_index_never_shows(cohort):
    canary = "CANARY-7f3a"
    people = cohort.assign(
        note=canary, id=[f"{canary}-{i // 2}" for i in range(len(cohort))]
    )
    people.index = pd.Index([f"{canary}{i}" for i in range(len(people))], name=canary)
    words = Groups(columns=["race", "gender"])
    a = audit(
        people.y,
        people.score,
        sensitive_features=people,
        groups=words,
        cluster=people.id,
    )
    c = compare(
        {"x": people.score, "y": people.score**2},
        people.y,
        sensitive_features=people,
        groups=words,
        cluster=people.id,
    )
    for result in (a, c):
        assert canary not in result.to_json() + repr(result) + result._repr_html_()
    for table in TABLES:
        assert canary not in getattr(a, table).to_csv()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 1, 2]}, "y must be 0 or 1"),
        ({"score": [0.1, 50, 90]}, "divide them by 100"),
        ({"score": [0.1, np.nan, 0.2]}, "missing"),
        ({"score": None}, "score is missing"),
        ({"score": [0.1, 0.2]}, "same number of rows"),
        ({"cluster": [1, 2]}, "same number of rows"),
        ({"cluster": [1, None, 2]}, "the patient ID is missing in 1 of 3 rows"),
        ({"sample_weight": [1, -1, 1]}, "negative"),
        ({"alpha": 0}, "alpha"),
        ({"rho": 2}, "rho"),
        ({"min_people": 0}, "min_people"),
        ({"n_draws": 3}, "n_draws"),
        ({"n_bins": 0}, "n_bins"),
        ({"random_state": -1}, "random_state"),
        ({"intersections": "some"}, "intersections"),
        (
            {"sensitive_features": {"cluster bucket": ["a", "b", "c"]}},
            "propcal uses that name",
        ),
        (
            {"sensitive_features": {"everybody": [True, True, False]}},
            "propcal uses that name",
        ),
        (
            {"sensitive_features": {"key: ward": ["a", "b", "c"]}},
            "names that begin with 'key: ' itself",
        ),
        (
            {"sensitive_features": {"correction: x": ["a", "b", "c"]}},
            "'correction: x'.*Rename the column",
        ),
    ],
)
def test_wrong_input_is_told(change, message):
    arguments = {"y": [0, 1, 1], "score": [0.1, 0.2, 0.3], "gamma": 0.1} | change
    with pytest.raises(InputError, match=message):
        audit(arguments.pop("y"), arguments.pop("score"), **arguments)


def test_atoms_hold_their_own_columns(cohort):
    atoms = Atoms.from_frame(cohort, score="score", outcome="y", groups=["race"])
    with pytest.raises(InputError, match="score, cluster: atoms hold these already"):
        audit(atoms, cohort.score, cluster=cohort.y)


def test_progress_is_told(cohort):
    seen = []
    audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["gender"]],
        progress=lambda i, n: seen.append((i, n)),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_fitting_people_are_known_whatever_the_groups(cohort):
    cal = PMCBoost.paper().fit(
        cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
    )
    turned = cohort[["gender", "race"]].sample(frac=1, random_state=0)
    again = cohort.loc[turned.index]
    a = audit(again.y, again.score, sensitive_features=turned, correction=cal)
    assert a.settings["fitted_on_these"]
    part = audit(
        cohort.y[:-1],
        cohort.score[:-1],
        sensitive_features=cohort[["race", "gender"]][:-1],
        correction=cal,
    )
    assert not part.settings["fitted_on_these"]
    assert "cannot check whether it was fitted to some of them" in part.notes[0]


def test_thresholds_and_bars_are_reached_by_equal_scores():
    rng = np.random.default_rng(0)
    score = rng.integers(0, 101, 3000) / 100
    y = (rng.random(3000) < score).astype(int)
    a = audit(y, score)
    for row in a.net_benefit.itertuples():
        treated = score >= row.threshold
        assert row.treated == pytest.approx(treated.mean())
        assert row.sensitivity == pytest.approx(treated[y == 1].mean())
        assert row.specificity == pytest.approx(1 - treated[y == 0].mean())
    for row in a.distribution.itertuples():
        last = row.score_to == 1
        inside = (score >= row.score_from) & ((score < row.score_to) | last)
        assert row.people == inside.sum()


@pytest.mark.parametrize(("weight", "share"), [(1e9, "100 %"), (20_000.0, "77 %")])
def test_one_person_with_most_of_the_weight_gives_no_verdict(cohort, weight, share):
    weights = np.random.default_rng(3).uniform(0.5, 3.5, len(cohort))
    weights[7] = weight
    a = audit(cohort.y, cohort.score, sample_weight=weights)
    assert a.verdict.conclusion == "not enough data"
    assert "weights worth fewer than 30" in a.verdict.text
    assert np.isnan(a.groups.observed_expected_low[0])
    assert (
        f"The largest weight is {share} of all weight, so results rest on few people"
        in " ".join(a.notes)
    )
    by_gender = audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["gender"]],
        sample_weight=weights,
    )
    heavy = f"gender={cohort.gender[7]}"
    levels = {claim.who for claim in by_gender.verdict.claims if claim.kind != "cell"}
    assert levels.isdisjoint({"everybody", heavy})


def test_a_weight_that_is_hardly_larger_than_others_has_no_note(cohort):
    weights = np.random.default_rng(3).uniform(0.5, 3.5, len(cohort))
    a = audit(cohort.y, cohort.score, sample_weight=weights)
    assert not any("largest weight" in note for note in a.notes)


@pytest.mark.parametrize(("value", "direction"), [(0, "too high"), (1, "too low")])
def test_nobody_and_everybody_had_the_outcome(cohort, value, direction):
    y = np.full(len(cohort), value)
    a = audit(y, cohort.score, sensitive_features=cohort[["race", "gender"]])
    (claim,) = a.verdict.claims
    assert (claim.kind, claim.direction) == ("overall", direction)
    assert any("if a join of two tables failed" in note for note in a.notes)
    few = audit(y[:40], cohort.score[:40])
    assert few.verdict.conclusion == "not enough data"


@pytest.mark.parametrize("within", [None, 0.2])
@pytest.mark.parametrize("turned", [False, True])
def test_a_verdict_has_at_most_four_sentences(within, turned):
    """A score with a wrong level, a bent curve, and groups that are wrong in both
    directions.
    """
    rng = np.random.default_rng(0)
    n = 20_000
    score, race = rng.beta(1.5, 4, n), rng.choice(list("ABCDE"), n)
    site, x = rng.choice(list("xyz"), n), np.log(score / (1 - score))
    lift = (
        0.3
        + 0.25 * np.sin(2 * x)
        + np.select([race == "A", race == "B"], [0.6, -0.8], 0)
    )
    y = (rng.random(n) < 1 / (1 + np.exp(-x - lift))).astype(int)
    groups = {"race": race, "site": site}
    a = audit(
        1 - y if turned else y,
        score,
        sensitive_features=groups,
        within=within,
        n_draws=100,
    )
    assert len(a.verdict.claims) >= 3
    assert 2 <= len(a.verdict.sentences) <= 4


def test_whole_weights_are_said_to_be_counts_and_can_be_survey_weights(cohort):
    weight = np.random.default_rng(0).integers(2, 9, len(cohort))
    counts = audit(cohort.y, cohort.score, sample_weight=weight)
    assert any("3,000 rows stand for" in note for note in counts.notes)
    survey = audit(cohort.y, cohort.score, sample_weight=weight, weight_kind="survey")
    assert survey.settings["weights"] == "survey"
    assert survey.settings["people"] == 3000
    wide, narrow = (
        a.groups.observed_expected_high[0] - a.groups.observed_expected_low[0]
        for a in (survey, counts)
    )
    assert wide > 2 * narrow
    with pytest.raises(InputError, match="weight_kind"):
        audit(cohort.y, cohort.score, sample_weight=weight, weight_kind="counts")


def test_groups_too_small_to_judge_are_insufficient_data_not_fine():
    rng = np.random.default_rng(0)
    ward = rng.integers(0, 15, 300)
    score = rng.random(300)
    y = (rng.random(300) < score).astype(int)
    for gamma in (0.01, 0.2):  # too few people each; all below gamma
        a = audit(y, score, sensitive_features=ward.astype(str), gamma=gamma)
        assert a.verdict.conclusion == "not enough data"
        assert "not enough data to judge any subgroup" in a.verdict.text
        assert len(a.groups) == 16
    wrong = audit(y, score**4, sensitive_features=ward.astype(str), gamma=0.2)
    assert wrong.verdict.conclusion == "miscalibrated"


def test_outcomes_that_nobody_expected_are_told():
    y = np.r_[np.ones(30), np.zeros(2970)]
    a = audit(y, np.zeros(3000), sensitive_features=np.repeat(["a", "b"], 1500))
    assert "30 events, none expected" in a.verdict.text
    assert "nan" not in a.verdict.text
    right = audit(y, y, sensitive_features=np.repeat(["a", "b"], 1500))
    assert "right to within 1 % of the expected events overall" in right.verdict.text


@pytest.mark.parametrize("seed", range(4))
def test_an_alert_of_0_and_1_with_the_right_rate_is_neither_too_high_nor_too_low(seed):
    rng = np.random.default_rng(seed)
    alert = (rng.random(3000) < 0.2).astype(float)
    y = rng.random(3000) < np.where(alert == 1, 0.5, 0.125)  # 20 % of people in all
    a = audit(
        y, alert, sensitive_features=pd.Series(rng.choice(["A", "B"], 3000), name="g")
    )
    assert a.verdict.conclusion == "miscalibrated"  # certainty is wrong
    assert not [
        claim for claim in a.verdict.claims if claim.kind in ("overall", "group")
    ]
    row = a.groups.iloc[0]
    assert row.observed_expected_low < 1 < row.observed_expected_high
    assert row.observed_expected_low > 0.85
    assert row.observed_expected_high < 1.2


def test_no_cell_is_called_wrong_where_no_error_was_found():
    """By this seed, the interval of one cell of a perfect score excludes 0."""
    rng = np.random.default_rng(70)
    n = 3000
    frame = pd.DataFrame(
        {"race": rng.choice(list("ABC"), n), "sex": rng.choice(["F", "M"], n)}
    )
    risk = 1 / (1 + np.exp(-rng.normal(-1.2, 1, n)))
    y = (rng.random(n) < risk).astype(int)
    a = audit(y, risk, sensitive_features=frame, n_draws=100)
    cells = a.categories[a.categories.eligible]
    assert a.verdict.conclusion == "no miscalibration found"
    assert ((cells.low > 0) | (cells.high < 0)).any()
    assert set(cells.finding) == {"could be chance"}
    assert "*" not in repr(a)
    assert "An interval may exclude 0 by chance" in " ".join(repr(a).split())
