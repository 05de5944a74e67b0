"""discover: groups that nobody named, and clear answers to input that cannot be
searched.
"""

import json
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

import propcal
from propcal import MulticalibratedClassifier, PMCBoost, audit, compare, discover
from propcal.auditing.named_errors import errors_to_name
from propcal.discovery.binned_features import bin_features
from propcal.discovery.box_kernels import LEVEL
from propcal.discovery.box_search import Data, Space, scan
from propcal.discovery.finding_rows import Found
from propcal.discovery.people import People
from propcal.discovery.search import Boxes
from propcal.documents.discovery import finding
from propcal.errors import InputError
from propcal.reading.source import LazyColumns

FAST = {"n_draws": 24}


def cohort(n=6000, seed=0, shift=0.3):
    """A score that is too low for ward B from 70 on."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 90, n),
            "ward": rng.choice(["A", "B", "C"], n),
            "icu": rng.random(n) < 0.3,
            "lab": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n).round(2)),
        }
    )
    score = rng.uniform(0.1, 0.5, n)
    wrong = ((frame["age"] >= 70) & (frame["ward"] == "B")).to_numpy()
    y = (rng.random(n) < score + shift * wrong).astype(int)
    return frame, score, y, wrong


@pytest.fixture(scope="module")
def people():
    return cohort()


@pytest.fixture(scope="module")
def found(people):
    frame, score, y, _ = people
    return discover(y, score, features=frame, **FAST)


def test_the_wrong_group_is_found_and_described_with_a_round_cut_point(found):
    assert found.groups.where == {"age 70 or over, ward B": "age >= 70 and ward = 'B'"}
    group = found.found[0]
    assert group.error == "too low"
    assert group.p_value < 0.001
    assert group.again > 0.9


def test_counts_and_rates_are_those_of_the_people_in_the_group(found, people):
    _, score, y, wrong = people
    group = found.found[0]
    assert group.people == wrong.sum()
    assert group.events == y[wrong].sum()
    assert group.observed == pytest.approx(y[wrong].mean())
    assert group.predicted == pytest.approx(score[wrong].mean())
    assert group.raw_value == pytest.approx(y[wrong].sum() / score[wrong].sum())
    assert group.value == pytest.approx(group.observed / group.predicted_after)
    assert group.low < group.value < group.high
    assert isinstance(group.people, int)
    assert f'"events": {group.events},' in found.to_json()
    assert "np.float64" not in repr(group)


def test_a_sentence_has_the_numbers_of_the_table(found):
    row = found.to_frame().iloc[0]
    sentence = next(
        s for s in found.sentences if s.startswith("age 70 or over, ward B")
    )
    assert (
        f"Observed {100 * row['observed']:.1f} %, predicted {100 * row['predicted']:.1f} %"
        in sentence
    )
    assert f"{row['people']:,.0f} people" in sentence
    assert repr(found) == "\n".join(found.sentences)
    assert json.loads(found.to_json())["found"][0]["condition"] == row["condition"]
    assert "age 70 or over, ward B" in found._repr_html_()


def test_a_claim_has_the_numbers_of_its_finding(found):
    group, claim = found.found[0], found.claims[0]
    assert (claim.kind, claim.who, claim.direction) == ("group", group.name, "too low")
    assert (claim.estimate, claim.low, claim.high) == (
        group.value,
        group.low,
        group.high,
    )
    assert (claim.p_value, claim.people, claim.events) == (
        group.p_value,
        group.people,
        group.events,
    )
    assert json.loads(found.to_json())["claims"][0]["who"] == group.name


def test_the_test_decides_and_the_others_are_said_to_agree_or_not(found):
    group, identity = found.found[0], found.identity
    agreed = finding(
        replace(group, p_value=0.014, low=1.1, high=1.5, again=0.9), identity
    )
    assert "the score is too low (adjusted p = 0.014)." in agreed
    assert (
        "95 % CI after selection 1.10 to 1.50, found again in 90 % of resamples"
        in agreed
    )
    assert "uncertain" not in agreed
    vague = finding(
        replace(group, p_value=0.014, low=0.93, high=1.25, again=0.9), identity
    )
    assert vague.endswith(
        "The size of the error is uncertain: its interval includes 1."
    )
    unstable = finding(replace(group, p_value=1e-5, again=0.09), identity)
    assert "found again" not in unstable
    assert unstable.endswith(
        "It is uncertain exactly who is concerned: only 9 % of resamples find mostly these people."
    )


def test_top_coded_ages_are_not_searched_as_words(people):
    frame, score, y, _ = people
    age = frame["age"].astype(int)
    coded = frame.assign(age=np.where(age > 80, "> 80", age.astype(str)))
    told = discover(y, score, features=coded, **FAST)
    assert told.left_out["age"].startswith(
        'it holds numbers, and limits such as "> 89"'
    )
    assert not any("> 80" in group.name for group in told.found)


def test_a_perfect_score_has_no_findings():
    frame, score, y, _ = cohort(seed=5, shift=0.0)
    found = discover(y, score, features=frame, **FAST)
    assert len(found) == 0
    assert "not proof of calibration" in found.text
    assert found  # an object with its own text, not an empty list


def test_the_same_seed_gives_the_same_result(found, people):
    frame, score, y, _ = people
    again = discover(y, score, features=frame, **FAST)
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())


@pytest.mark.parametrize("repeat_visits", [False, True])
def test_the_order_of_rows_and_the_names_of_patients_do_not_matter(
    people, repeat_visits
):
    frame, score, y, _ = people
    order = np.random.default_rng(30).permutation(len(y))
    person = np.arange(len(y)) // 2
    own = (
        [{"cluster": person}, {"cluster": 90_000 - person[order]}]
        if repeat_visits
        else [{}, {}]
    )
    data = frame.assign(race=np.where(np.arange(len(y)) % 3, "a", "b"))
    first = discover(y, score, features=data, protect=["race"], **FAST, **own[0])
    other = discover(
        y[order],
        score[order],
        features=data.iloc[order],
        protect=["race"],
        **FAST,
        **own[1],
    )
    assert other.found == first.found
    table = first.protection.table.set_index("group").astype(float).sort_index()
    again = other.protection.table.set_index("group").astype(float).sort_index()
    pd.testing.assert_frame_equal(again, table)


def test_missing_values_are_a_condition():
    frame, score, _, _ = cohort(seed=2)
    rng = np.random.default_rng(2)
    y = (rng.random(len(score)) < score + 0.2 * frame["lab"].isna()).astype(int)
    found = discover(y, score, features=frame, **FAST)
    assert [group.condition for group in found.found] == ["lab is missing"]
    assert found.found[0].name == "lab not recorded"


def test_scores_that_are_too_extreme_in_a_group_are_found():
    rng = np.random.default_rng(3)
    n = 8000
    frame = pd.DataFrame(
        {"site": rng.choice(["a", "b", "c", "d"], n), "x": rng.normal(size=n)}
    )
    log_odds = rng.normal(-0.5, 1.2, n)
    inside = (frame["site"] == "c").to_numpy()
    risk = 1 / (1 + np.exp(-np.where(inside, 0.3 * log_odds - 0.35, log_odds)))
    y = (rng.random(n) < risk).astype(int)
    found = discover(y, 1 / (1 + np.exp(-log_odds)), features=frame, **FAST)
    assert found.found[0].condition == "site = 'c'"
    assert found.found[0].error == "too extreme"
    assert found.found[0].high < 1


def test_two_wrong_groups_are_two_findings():
    frame, score, _, wrong = cohort(n=12_000, seed=4)
    other = (frame["icu"] & (frame["age"] < 40)).to_numpy()
    rng = np.random.default_rng(4)
    y = (
        rng.random(len(score)) < np.clip(score + 0.3 * wrong - 0.15 * other, 0, 1)
    ).astype(int)
    found = discover(y, score, features=frame, **FAST)
    errors = {group.condition: group.error for group in found.found}
    assert errors == {
        "age >= 70 and ward = 'B'": "too low",
        "age < 40 and icu = 'true'": "too high",
    }


def test_an_error_of_the_score_as_a_whole_is_said_first_and_is_no_group():
    frame, score, _, _ = cohort(seed=6)
    y = (np.random.default_rng(6).random(len(score)) < 0.6 * score).astype(int)
    found = discover(y, score, features=frame, **FAST)
    assert found.overall["found"]
    assert len(found) == 0
    assert found.sentences[0].startswith("The score as a whole is miscalibrated")
    assert "groups below" not in found.text


@pytest.fixture(scope="module")
def less_wrong():
    """A score that is too high for everybody, and less so on ward A."""
    rng = np.random.default_rng(5)
    n = 20_000
    log_odds = rng.normal(-1.2, 0.9, n)
    frame = pd.DataFrame(
        {"ward": rng.choice(list("ABCD"), n), "sex": rng.choice(list("FM"), n)}
    )
    risk = 1 / (1 + np.exp(-(log_odds - 0.8 + 0.7 * (frame["ward"] == "A"))))
    y = (rng.random(n) < risk).astype(int)
    return frame, y, discover(y, 1 / (1 + np.exp(-log_odds)), features=frame, **FAST)


def test_direction_ratio_interval_and_p_value_are_of_one_score(less_wrong):
    found = less_wrong[-1]
    (group,) = found.found
    assert found.overall["found"]
    assert group.condition == "ward = 'A'"
    assert group.predicted_after < group.observed < group.predicted
    assert (group.error, group.raw_error) == ("too low after correction", "too high")
    assert group.corrected_for == "recalibration of the whole score"
    assert group.value == pytest.approx(group.observed / group.predicted_after)
    assert 1 < group.low < group.value < group.high
    assert group.raw_value == pytest.approx(group.observed / group.predicted)
    sentence = finding(group, found.identity)
    assert "the score is too low" not in sentence
    assert "the score would be too low (adjusted p" in sentence
    assert "; the raw score is too high. Observed" in sentence
    assert (
        f"predicted {100 * group.predicted:.1f} % (O/E ratio {group.raw_value:.2f}); after"
        in sentence
    )
    assert (
        f"predicted {100 * group.predicted_after:.1f} % (O/E ratio {group.value:.2f}, 95 % CI"
        in sentence
    )
    assert sentence in json.loads(found.to_json())["sentences"]


def test_pages_notebooks_and_pictures_show_both_predicted_rates(less_wrong):
    from propcal.documents.discovery import discovery_section
    from propcal.numbers import ON_PAGE
    from propcal.render.cells import cell

    frame, y, found = less_wrong
    group = found.found[0]
    both = f"{100 * group.predicted:.1f} %", f"{100 * group.predicted_after:.1f} %"
    for suppress in (0, 11):
        table = discovery_section(found, suppress).blocks[-1]
        row = {
            column.heading: cell(column, table.rows[0], ON_PAGE)
            for column in table.columns
        }
        assert row["the score is"] == "too low after correction (raw score: too high)"
        assert float(row["O/E ratio"]) == pytest.approx(group.value, rel=0.02)
        assert float(row["predicted"].split()[0]) == pytest.approx(
            100 * group.predicted, abs=0.2
        )
        after = float(row["predicted after correction"].split()[0])
        assert after == pytest.approx(100 * group.predicted_after, rel=0.02)
    page = audit(
        y, np.full(len(y), y.mean()), sensitive_features=frame, n_draws=100
    ).to_html(discovery=found)
    assert "too low after correction (raw score: too high)" in page
    assert all(rate in found._repr_html_() for rate in both)
    assert (
        "errors named before are corrected for"
        in found.plot().get_legend().get_title().get_text()
    )


def test_an_error_in_the_same_direction_is_called_one_of_the_score():
    frame, score, _, wrong = cohort(n=12_000, seed=40)
    rng = np.random.default_rng(40)
    y = (rng.random(len(score)) < np.clip(0.8 * score + 0.4 * wrong, 0, 1)).astype(int)
    found = discover(y, score, features=frame, **FAST)
    group = found.found[0]
    assert (group.error, group.raw_error) == ("too low", "too low")
    assert group.predicted_after < group.predicted
    sentence = finding(group, found.identity)
    assert "the score is too low (adjusted p < 0.001). Observed" in sentence
    assert (
        f"; after recalibration of the whole score, predicted {100 * group.predicted_after:.1f} %"
        in sentence
    )


def test_a_row_of_weight_two_is_two_people(people):
    frame, score, y, _ = people
    twice = pd.concat([frame, frame[:3000]], ignore_index=True)
    whole = discover(
        np.append(y, y[:3000]), np.append(score, score[:3000]), features=twice, **FAST
    )
    weight = np.where(np.arange(len(y)) < 3000, 2, 1)
    weighted = discover(y, score, features=frame, sample_weight=weight, **FAST)
    names = ["condition", "people", "events", "observed", "predicted", "value"]
    pd.testing.assert_frame_equal(weighted.to_frame()[names], whole.to_frame()[names])


def test_repeat_visits_make_findings_less_sure():
    rng = np.random.default_rng(8)
    n, visits = 1500, 6
    person = np.repeat(np.arange(n), visits)
    frame = pd.DataFrame(
        {k: np.repeat(rng.choice(list("abc"), n), visits) for k in ("a", "b", "c", "d")}
    )
    score = np.full(n * visits, 0.3)
    y = np.repeat(rng.random(n) < 0.3, visits).astype(
        int
    )  # all visits of a person end alike
    assert len(discover(y, score, features=frame, **FAST)) > 0
    assert len(discover(y, score, features=frame, cluster=person, **FAST)) == 0


def test_names_of_columns_of_a_frame_a_relation_and_a_file_give_the_same(
    found, people, tmp_path
):
    import duckdb

    frame, score, y, _ = people
    data = frame.assign(risk=score, died=y)
    data.to_csv(tmp_path / "people.csv", index=False)
    data.to_parquet(tmp_path / "people.parquet")
    relation = duckdb.sql(
        f"SELECT * FROM read_parquet('{tmp_path / 'people.parquet'}')"
    )
    for source in (
        data,
        tmp_path / "people.csv",
        [tmp_path / "people.parquet"],
        relation,
    ):
        again = discover("died", "risk", features=list(frame), data=source, **FAST)
        assert again.groups == found.groups
        assert again.found[0].people == found.found[0].people


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_files_without_rows_are_told_by_name(tmp_path, name):
    empty, path = (
        pd.DataFrame({"died": [1], "risk": [0.5], "ward": ["A"]})[:0],
        tmp_path / name,
    )
    empty.to_csv(path, index=False) if name.endswith(".csv") else empty.to_parquet(path)
    with pytest.raises(InputError, match=rf"{name}: there are no rows"):
        discover("died", "risk", features=["ward"], data=path)


def test_large_files_are_read_a_few_columns_at_a_time_and_give_what_a_frame_gives(
    tmp_path, monkeypatch
):
    from propcal.discovery import binned_features
    from propcal.reading import file_source

    frame, score, y, wrong = cohort(n=9000, seed=20)
    frame["icu"] &= ~wrong
    frame["ward"] = np.where(
        np.arange(9000) == 8123, "rare", frame["ward"]
    )  # not in the sample
    data = frame.assign(risk=np.where(np.arange(9000) % 50 == 7, np.nan, score), died=y)
    data.to_csv(tmp_path / "first.csv", index=False)
    data[:5000].to_parquet(tmp_path / "a.parquet")
    data[5000:].to_parquet(tmp_path / "b.parquet")
    monkeypatch.setattr(binned_features, "MOST_VALUES", 18_000)
    monkeypatch.setattr(binned_features, "SAMPLE", 2000)
    monkeypatch.setattr(file_source, "COLUMN_ROWS", 2048)
    named = {
        "features": ["age", "ward", "lab"],
        "protect": ["icu"],
        "drop_missing": True,
        **FAST,
    }
    expected = discover("died", "risk", data=data, **named)
    assert expected.groups.where == {
        "age 70 or over, ward B": "age >= 70 and ward = 'B'"
    }
    for files in (
        tmp_path / "first.csv",
        [tmp_path / "a.parquet", tmp_path / "b.parquet"],
    ):
        again = discover("died", "risk", data=files, **named)
        assert again.to_json() == expected.to_json()


def test_a_level_that_the_sample_lacks_is_not_missing(monkeypatch):
    from propcal.discovery import binned_features

    monkeypatch.setattr(binned_features, "SAMPLE", 50)
    sex = np.array(["F", "M"] * 100, dtype=object)
    rows = np.random.default_rng(binned_features.OWN_SEED).choice(
        200, 50, replace=False
    )
    left = np.setdiff1d(np.arange(200), rows)
    columns = propcal.reading.frames.attribute_columns(
        pd.DataFrame({"sex": sex, "other": sex})
    )
    sex[left[0]] = "X"
    columns["other"] = propcal.reading.frames.attribute_columns(
        pd.DataFrame({"other": sex})
    )["other"]
    table = bin_features(LazyColumns.of(columns))
    plain, other = table.features
    assert not plain.pooled
    assert other.pooled
    assert table.codes[1, left[0]] == 2 != other.recorded


def test_found_groups_are_ordinary_groups(found, people):
    frame, score, y, wrong = people
    audited = audit(
        y, score, sensitive_features=frame, groups=found.groups, gamma=0.02, n_draws=200
    )
    row = audited.groups.set_index("group").loc["age 70 or over, ward B"]
    assert row["people"] == wrong.sum()
    model = PMCBoost(groups=found.groups, gamma=0.02).fit(
        score, y, sensitive_features=frame
    )
    corrected = model.predict(score, sensitive_features=frame)
    assert abs(corrected[wrong].mean() - y[wrong].mean()) < 0.02
    assert set(model.correction_.reads) == {"age", "ward"} == set(found.reads)
    assert "age" in model.correction_.to_sql(dialect="duckdb", score="risk").query


def test_the_best_box_of_a_pair_is_the_best_of_all_boxes():
    frame, score, y, _ = cohort(n=2000, seed=8)
    table = bin_features(
        LazyColumns.of(propcal.reading.frames.attribute_columns(frame))
    )
    own = People(score, y, np.ones(len(y)), False)
    space = Space(table)
    data = Data(space, table.codes, own.sums(), 8.0)
    scanned = scan(data)
    for k, (a, b) in enumerate(zip(scanned.pairs.first, scanned.pairs.second)):
        second = (
            [[]] if b == len(space.features) else [[c] for c in space.conditions[b]]
        )
        boxes = [
            space.fine([first, *more])
            for first, more in product(space.conditions[a], second)
        ]
        best = max(data.candidate(box, LEVEL).evidence for box in boxes)
        assert scanned.best[k, LEVEL, 0] == pytest.approx(best, rel=1e-4)


# one rule of naming, for searches and audits


def wards(world, n=20_000, seed=1):
    """Four wards; ward B, some ages of it, or two groups that overlap are wrong."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 95, n),
            "ward": rng.choice(list("ABCD"), n),
            "sex": sex,
        }
    )
    b, old, young = frame.ward == "B", frame.age >= 70, frame.age < 35
    effect = {
        "a part that is worse": 0.3 * b + 0.5 * (b & old),
        "two parts": 0.7 * (b & (old | young)),
        "all of it": 0.5 * b,
        "two that overlap": 0.5 * b - 0.4 * (sex == "F"),
    }[world]
    x = rng.normal(-1.2, 1, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-x - effect))).astype(int)
    return (
        frame,
        1 / (1 + np.exp(-x)),
        y,
        {"B": b, "B, old": b & old, "B, young": b & young},
    )


@pytest.mark.parametrize(
    "world", ["a part that is worse", "two parts", "all of it", "two that overlap"]
)
def test_an_audit_of_the_groups_found_names_the_same_groups(world):
    frame, score, y, _ = wards(world)
    found = discover(y, score, features=frame, **FAST)
    again = audit(y, score, sensitive_features=frame, groups=found.groups)
    named = {
        claim.who: claim.direction
        for claim in again.verdict.errors
        if claim.kind == "group"
    }
    assert named == {group.name: group.error for group in found.found}


@pytest.mark.parametrize(
    ("world", "found", "named"),
    [
        ("two parts", ["B", "B, old", "B, young"], ["B, old", "B, young"]),
        ("all of it", ["B, old", "B"], ["B"]),
        ("a part that is worse", ["B", "B, old"], ["B", "B, old"]),
    ],
)
def test_of_a_whole_and_its_parts_those_are_named_in_whom_an_error_remains(
    world, found, named
):
    _, score, y, members = wards(world, n=50_000)
    given = [Found(name, LEVEL, np.flatnonzero(members[name])) for name in found]
    boxes = Boxes(People(score, y, np.ones(len(y)), survey=False), whole=False)
    boxes.clearest = lambda _: given.pop(0) if given else None
    assert [one.box for one in errors_to_name(boxes, 10)] == named


# groups found while fitting


def test_a_group_that_could_nearly_be_found_by_chance_is_corrected_by_a_part_of_its_error():
    removed = {}
    for n in (4000, 60_000):
        frame, score, y, wrong = cohort(n=n, seed=4, shift=0.12)
        own = frame[["age", "ward"]]
        model = PMCBoost(discover=["age", "ward"]).fit(score, y, sensitive_features=own)
        assert list(model.discovered_.values()) == ["age >= 70 and ward = 'B'"]
        corrected = model.predict(score, sensitive_features=own)
        removed[n] = (corrected - score)[wrong].mean() / (y - score)[wrong].mean()
    assert 0.3 < removed[4000] < 0.85
    assert 0.95 < removed[60_000] < 1.01


def test_a_fit_can_find_its_own_groups(people):
    frame, score, y, _ = people
    own = frame[["age", "icu", "ward"]]
    model = PMCBoost(discover=["age", "icu", "ward"]).fit(
        score, y, sensitive_features=own
    )
    assert list(model.discovered_.values()) == ["age >= 70 and ward = 'B'"]
    new, new_score, _, new_wrong = cohort(seed=99)
    corrected = model.predict(new_score, sensitive_features=new)
    assert abs((corrected - new_score)[new_wrong].mean() - 0.3) < 0.06
    assert abs((corrected - new_score)[~new_wrong].mean()) < 0.01


def test_a_fit_describes_groups_as_a_search_does():
    from propcal.datasets import make_ed_visits

    visits = make_ed_visits(20_000, seed=3)
    low = (visits.age >= 75) & (visits.n_previous_visits >= 2)
    score = (visits.true_risk * np.where(low, 0.5, 1)).clip(0, 1)
    own = visits[["age", "n_previous_visits", "gender"]]
    model = PMCBoost(discover=list(own)).fit(
        score, visits.admitted, sensitive_features=own
    )
    found = discover(visits.admitted, score, features=own, **FAST)
    assert list(model.discovered_.values()) == [
        group.condition for group in found.found
    ]
    assert list(model.discovered_.values()) == ["age >= 75 and n_previous_visits >= 2"]


def test_a_fit_that_finds_nothing_is_one_for_everybody():
    frame, score, y, _ = cohort(seed=10, shift=0.0)
    model = PMCBoost(discover=["age", "ward"]).fit(
        score, y, sensitive_features=frame[["age", "ward"]]
    )
    assert model.discovered_ == {}
    assert model.correction_.reads == ()


def test_a_classifier_can_find_its_own_groups():
    from sklearn.linear_model import LogisticRegression

    frame, score, y, _ = cohort(seed=11)
    X = pd.DataFrame(
        {
            "age": frame["age"],
            "b": (frame["ward"] == "B").astype(int),
            "log_odds": np.log(score / (1 - score)),
        }
    )
    model = MulticalibratedClassifier(
        LogisticRegression(), cv=3, discover=["age", "b"]
    ).fit(X, y)
    assert any(
        "b = 1" in condition for condition in model.calibrator_.discovered_.values()
    )
    assert model.predict_proba(X).shape == (len(X), 2)


@pytest.mark.parametrize("names", ["age", [], [1], ["height"]])
def test_columns_to_search_that_make_no_sense_are_refused(people, names):
    frame, score, y, _ = people
    with pytest.raises(InputError):
        PMCBoost(discover=names).fit(score, y, sensitive_features=frame)


# protected columns


def test_permitted_features_repair_protected_groups_without_reading_them():
    frame, score, y, wrong = cohort(n=12_000, seed=12)
    rng = np.random.default_rng(12)
    race = np.where(rng.random(len(y)) < np.where(wrong, 0.8, 0.1), "Black", "White")
    found = discover(
        y, score, features=frame.assign(race=race), protect=["race"], **FAST
    )
    assert "race" not in found.reads
    assert found.groups.where == {"age 70 or over, ward B": "age >= 70 and ward = 'B'"}
    table = found.protection.to_frame().set_index("group")
    assert table.loc["race Black", "before"] > 0.1
    assert table.loc["race Black", "removed"] > 0.7
    assert table.loc["race Black", "removed_low"] > 0.5
    assert table.loc["race Black", "removed_reading"] > 0.9
    assert "is removed" in found.text
    assert repr(found.protection) == "\n".join(found.protection.sentences)


def test_a_group_goes_before_a_curve_for_everybody_that_would_make_others_worse():
    frame, score, y, wrong = cohort(n=9000, seed=20)
    frame["icu"] &= ~wrong  # nobody in intensive care has a wrong score
    found = discover(y, score, features=frame, protect=["icu"], **FAST)
    assert found.groups.where == {"age 70 or over, ward B": "age >= 70 and ward = 'B'"}
    assert not found.overall["found"]
    table = found.protection.to_frame().set_index("group")
    assert abs(table.loc["icu true", "after"]) < 0.01
    told = table[table["removed"].notna()]
    assert (
        (told["removed_low"] <= told["removed"])
        & (told["removed"] <= told["removed_high"])
    ).all()


# input that cannot be searched


def test_identifiers_dates_and_constants_are_left_out_with_a_reason(people):
    frame, score, y, _ = people
    n = len(y)
    more = frame.assign(
        id=np.arange(n) + 10**6,
        name=[f"patient {k}" for k in range(n)],
        day=pd.date_range("2020-01-01", periods=n, freq="h"),
        same=1,
        nothing=None,
    )
    found = discover(y, score, features=more, **FAST)
    assert set(found.left_out) == {"id", "name", "day", "same", "nothing"}
    assert "identifier" in found.left_out["id"]
    assert "identifier" in found.left_out["name"]
    assert "dates" in found.left_out["day"]
    assert "same value" in found.left_out["same"]
    assert "missing" in found.left_out["nothing"]
    assert len(found) == 1


def test_a_feature_that_is_the_outcome_is_said_to_be_a_leak(people):
    frame, score, y, _ = people
    with pytest.warns(UserWarning, match="a leak"):
        found = discover(y, score, features=frame.assign(died=y), **FAST)
    assert "a leak" in found.left_out["died"]
    assert found.reads == ("age", "ward")
    many = frame.assign(died=y, **{f"same_{k}": 1 for k in range(8)})[::-1]
    with pytest.warns(UserWarning, match="a leak"):
        told = discover(y[::-1], score[::-1], features=many, **FAST).sentences
    assert "a leak" in next(
        sentence for sentence in told if sentence.startswith("Not searched")
    )


def test_ten_people_are_not_enough():
    frame, score, y, _ = cohort(n=10)
    y[:5], y[5:] = 0, 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = discover(y, score, features=frame)
    assert len(found) == 0
    assert found.text.startswith("There are not enough data")


@pytest.mark.parametrize("n_columns", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_columns_are_searched(n_columns):
    frame, score, y, _ = cohort(n=1500, seed=13, shift=0.45)
    rng = np.random.default_rng(13)
    noise = pd.DataFrame(rng.integers(0, 2, (1500, n_columns - 4))).add_prefix("c")
    found = discover(y, score, features=pd.concat([frame, noise], axis=1), n_draws=20)
    assert "ward = 'B'" in found.found[0].condition


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": "zeros"}, r"y: nobody had the outcome \(6,000 people\)"),
        ({"y": "soft"}, "must be 0 or 1"),
        ({"score": "percent"}, "must hold probabilities"),
        ({"features": None}, "must be a data frame"),
        ({"features": "short"}, "same number of rows"),
        ({"features": "constant"}, "no column can be searched"),
        ({"features": "twice"}, "features has several columns"),
        ({"score": "decision"}, "every value is 0 or 1"),
        ({"protect": ["height"]}, "there is no column 'height'"),
        ({"protect": "race"}, "list of names"),
        ({"depth": 4}, "depth"),
        ({"level": 0}, "level"),
        ({"min_share": 0.9}, "min_share"),
    ],
)
def test_wrong_input_has_a_clear_message(people, change, message):
    frame, score, y, _ = people
    made = {
        "zeros": np.zeros(len(y)),
        "soft": score,
        "percent": 100 * score,
        "decision": (score > 0.3).astype(float),
        "twice": pd.concat([frame, frame[["age"]]], axis=1),
        "short": frame[:10],
        "constant": frame[["ward"]].assign(ward="A"),
    }
    arguments = {"y": y, "score": score, "features": frame} | {
        name: made.get(value, value) if isinstance(value, str) else value
        for name, value in change.items()
    }
    with pytest.raises(InputError, match=message):
        discover(arguments.pop("y"), arguments.pop("score"), **arguments, **FAST)


def test_a_column_has_one_role(people):
    frame, score, y, _ = people
    data = frame.assign(risk=score, died=y)
    for given in (
        {"features": ["age", "died"]},
        {"features": ["age"], "protect": ["died"]},
    ):
        with pytest.raises(InputError, match="column 'died' is the outcome"):
            discover("died", "risk", data=data, **given)


@pytest.mark.parametrize("scale", [1e15, 1e-300, -1, 1e-7])
def test_conditions_on_very_large_and_small_numbers_have_the_people_that_were_counted(
    people, scale
):
    frame, score, y, _ = people
    scaled = frame.assign(age=(1e9 if scale == 1e-7 else 0) + frame["age"] * scale)
    found = discover(y, score, features=scaled, **FAST)
    group = found.found[0]
    audited = audit(
        y,
        score,
        sensitive_features=scaled,
        groups=found.groups,
        gamma=0.02,
        n_draws=100,
    )
    assert audited.groups.set_index("group").loc[group.name, "people"] == group.people


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_frames_of_other_libraries_give_the_same(found, people, library):
    frame, score, y, _ = people
    if library == "polars":
        other = pytest.importorskip("polars").from_pandas(frame)
    else:
        other = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    assert discover(y, score, features=other, **FAST).to_json() == found.to_json()


def test_ranges_of_whole_numbers_are_named_by_their_last_number():
    frame, score, _, _ = cohort(n=8000, seed=21)
    pain = np.random.default_rng(21).integers(0, 11, len(score))
    rng = np.random.default_rng(22)
    y = (rng.random(len(score)) < score + 0.3 * ((pain >= 4) & (pain <= 5))).astype(int)
    found = discover(y, score, features=frame.assign(pain=pain), **FAST)
    assert found.groups.where == {"pain 4 to 5": "pain >= 4 and pain < 6"}


def test_nothing_of_a_row_is_in_the_result(people):
    frame, score, y, _ = people
    secret = frame.assign(
        note=np.where(np.arange(len(y)) == 17, "canary-1234", "ordinary")
    )
    assert "canary" not in discover(y, score, features=secret, **FAST).to_json()


def test_a_picture_shows_each_group(found):
    ax = found.plot()
    assert "age 70 or over" in ax.get_yticklabels()[0].get_text()


def test_a_page_of_its_own_has_the_groups_and_protects_counts(found, tmp_path):
    page = found.to_html(tmp_path / "found.html", title="Wards")
    assert (tmp_path / "found.html").read_text() == page
    assert "<title>Wards</title>" in page
    assert 'id="verdict"' in page
    assert "age 70 or over, ward B" in page
    assert "Counts are changed by up to 2 for privacy" in page
    assert "Counts are moved" not in found.to_html(suppress=0)


def test_the_report_has_a_section_on_the_groups_found(found, people):
    frame, score, y, _ = people
    page = audit(y, score, sensitive_features=frame[["ward"]], n_draws=200).to_html(
        discovery=found
    )
    assert 'id="discovery"' in page
    assert "age 70 or over, ward B" in page
    assert "need not be the cause" in page


def test_markdown_and_comparisons_have_the_section_too(found, people):
    frame, score, y, _ = people
    ward = frame[["ward"]]
    text = audit(y, score, sensitive_features=ward, n_draws=200).to_markdown(
        discovery=found
    )
    assert "## Groups found by a search" in text
    assert "| age 70 or over, ward B | too low |" in text
    both = compare(
        {"raw": score, "lower": 0.9 * score}, y, sensitive_features=ward, n_draws=200
    )
    assert 'id="discovery"' in both.to_html(discovery=found)
    assert "| age 70 or over, ward B | too low |" in both.to_markdown(discovery=found)
    assert "found by a search" not in both.to_markdown()
    with pytest.raises(InputError, match="must be what"):
        both.to_html(discovery=found.groups)
