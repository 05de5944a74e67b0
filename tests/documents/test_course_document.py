"""What a monitor found, as a page, as JSON, as metrics and in words."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from propcal import Monitor
from propcal.documents.course import next_steps
from propcal.documents.sentences.course import no_alarm
from propcal.options import Identity
from propcal.protect.protected_courses import BANDS, protected_course
from propcal.render.html import unpacked

HOSTILE = '</script><b>"x"\\ & \n\x1b[31m'
ROLES = {"score": "risk", "outcome": "died", "time": "day", "groups": ["ward"]}


def people(n=6000, months=6, rare=40, seed=1, wrong="B"):
    rng = np.random.default_rng(seed)
    ward = rng.choice(["A", "B", HOSTILE], n, p=[0.5, 0.3, 0.2])
    ward[:rare] = "rare"
    month = rng.integers(0, months, n)
    risk = rng.beta(2, 4, n)
    chance = np.where((ward == wrong) & (month >= 3), np.minimum(1.5 * risk, 1), risk)
    day = pd.Timestamp("2024-01-15") + pd.to_timedelta(month * 31, unit="D")
    return pd.DataFrame(
        {
            "day": day,
            "ward": ward,
            "risk": risk,
            "died": (rng.random(n) < chance).astype(int),
        }
    )


@pytest.fixture(scope="module")
def course():
    monitor = Monitor(
        **ROLES,
        gamma=0.001,
        unit="patients",
        score_name="Sepsis risk",
        title="Sepsis, wards",
    )
    monitor.add(people())
    return monitor.course(recalibrate=True)


def test_the_page_is_one_safe_file_with_every_group(course):
    page = course.to_html("a.html")
    assert "<b>" not in page
    assert page.count("<script") == 1  # the numbers, as JSON
    assert "Content-Security-Policy" in page
    assert not re.search(r"(src|href)=\"(http|//)", page)
    assert "Sepsis, wards" in page
    assert "Would recalibrating help?" in page
    content = unpacked(
        re.search(r'id="course-data">(.*?)</script>', page, re.DOTALL)[1]
    )
    assert content["format"] == "propcal-course"
    assert content["conclusion"] == "alarm"
    assert [
        len(re.findall(f'id="{part}"', page))
        for part in ("verdict", "evidence", "rates", "period")
    ] == [1] * 4
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_next_steps_name_every_group_of_the_verdict(course):
    (claim, *_) = course.claims
    other = {"since": "", "label": "Asian, F"}
    both = replace(
        course,
        claims=(replace(claim, since="", label="Black"), replace(claim, **other)),
    )
    assert next_steps(both)[0] == (
        "For Black and for Asian, F, the data do not show when the error began; it may have been there from "
        "the start."
    )
    dated = replace(claim, since="2024-04", label="B")
    first, second = next_steps(
        replace(course, claims=(dated, replace(claim, **other)))
    )[:2]
    assert first.startswith("Find out what changed for B about 2024-04: coding")
    assert second.startswith("For Asian, F, the data do not show")


def test_what_is_promised_and_what_recalibrating_does_are_told_with_their_conditions(
    course,
):
    promise = "If the score were right for everyone and rows were different people, at most 1 in 20 monitors would "
    assert promise in course.to_html()
    told = course.recalibration.sentence
    assert " the log loss of all patients together in " in told
    assert not told.startswith("Recalibrating would help")


def test_a_single_period_can_be_drawn():
    monitor = Monitor(**ROLES)
    monitor.add(people(months=1))
    page = monitor.course().to_html()
    assert "compared with" not in page
    assert "NaN" not in page
    assert (
        "nan"
        not in re.sub(r"[\w-]*nance[\w-]*", "", page.split("course-data")[0]).lower()
    )


def test_metrics_are_read_by_the_official_parser(course):
    text = course.to_metrics("a.prom")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert text.endswith("# EOF\n")
    by_group = {s.labels["group"]: s.value for s in families["propcal_alarm"].samples}
    assert by_group["ward=B"] == 1
    assert by_group["ward=A"] == 0
    assert len(by_group) == len(course.groups)
    assert families["propcal_oe_ratio"].samples[0].labels["score"] == "Sepsis risk"
    (end,) = families["propcal_last_period_end_timestamp_seconds"].samples
    assert end.value == pd.Timestamp("2024-07-01").timestamp()


def test_pages_metrics_and_suppressed_json_come_from_protected_counts(course):
    shown = protected_course(course, 11)
    both = zip(course.periods.itertuples(), shown.periods.itertuples())
    small = 0
    for exact, row in both:
        counts = exact.positives, exact.people - exact.positives
        if min(counts) < 11:
            small += 1
            assert not any(
                np.isfinite(x)
                for x in (row.observed_expected_low, row.observed_expected_high)
            )
        else:
            assert abs(row.people - exact.people) <= 2
            assert abs(row.positives - exact.positives) <= 2
            assert row.observed_expected == pytest.approx(
                exact.observed_expected, rel=0.25
            )
            assert (
                row.observed_expected_low
                < row.observed_expected
                < row.observed_expected_high
            )
    assert small >= 6
    large = shown.evidence.group != "ward=rare"
    assert shown.evidence.evidence[large].tolist() == [
        float(f"{x:.2g}") for x in course.evidence.evidence[large]
    ]
    assert {*shown.evidence.evidence[~large]} <= {0.0, *BANDS}
    assert (shown.evidence.alarm == course.evidence.alarm).all()
    assert ((shown.groups.highest >= 20) == course.groups.alarm).all()
    families = text_string_to_metric_families(course.to_metrics())
    groups = {
        s.labels["group"]
        for f in families
        if f.name == "propcal_people"
        for s in f.samples
    }
    assert groups
    assert "ward=rare" not in groups
    assert any("Counts are protected" in note for note in shown.notes)
    whole = json.loads(course.to_json())
    assert [row["people"] for row in whole["periods"]] == course.periods.people.tolist()
    content = json.loads(course.to_json(11))
    assert all(
        row["people"] is None
        for row in content["periods"]
        if row["group"] == "ward=rare"
    )


def test_alarms_are_those_of_the_exact_course_and_their_ratios_are_near(course):
    shown = protected_course(course, 11)
    names = (
        "group",
        "test",
        "raised",
        "onset",
        "onset_low",
        "onset_high",
        "direction",
        "explained_by",
    )
    for exact, alarm in zip(course.alarms, shown.alarms, strict=True):
        assert [getattr(exact, n) for n in names] == [getattr(alarm, n) for n in names]
        if alarm.test == "level":
            ratios = (
                (alarm.value, alarm.low, alarm.high),
                (exact.value, exact.low, exact.high),
            )
            assert ratios[0] == pytest.approx(ratios[1], rel=0.02)
        assert np.isnan([alarm.people, alarm.events]).all()
    assert shown.sentences[0] == course.sentences[0]
    for exact, claim in zip(course.claims, shown.claims, strict=True):
        assert (claim.who, claim.since, claim.direction) == (
            exact.who,
            exact.since,
            exact.direction,
        )
        assert claim.estimate == pytest.approx(exact.estimate, rel=0.02)
        assert np.isnan(
            [claim.people, claim.events, claim.observed, claim.predicted]
        ).all()
        rates = (
            exact.events / exact.people,
            exact.events / exact.estimate / exact.people,
        )
        assert [exact.observed, exact.predicted] == pytest.approx(rates)
    assert shown.recalibration.answer == course.recalibration.answer


def test_nothing_is_protected_with_0_and_5_is_the_least(course):
    assert protected_course(course, 0) is course
    with pytest.raises(ValueError, match="at least 5"):
        protected_course(course, 3)


def test_words_in_a_terminal_and_a_notebook(course):
    text = repr(course)
    assert "\x1b" not in text
    assert "Alarm: Sepsis risk is miscalibrated for B." in text
    assert "Evidence over the whole time" in text
    assert "An alarm is raised at 20." in " ".join(text.split())
    assert "Would recalibrating help?" in text
    assert "nan" not in text
    card = course._repr_html_()
    assert "<b>" not in card
    assert "Sepsis risk is miscalibrated for B" in card


def test_json_has_the_claims(course):
    (claim,) = json.loads(course.to_json())["claims"]
    own = course.claims[0]
    assert (claim["kind"], claim["who"], claim["test"], claim["where"]) == (
        "group",
        "ward=B",
        "level",
        [],
    )
    assert claim["estimate"] == pytest.approx(own.estimate, rel=1e-5)
    assert claim["p_value"] <= 0.05
    assert (claim["since_low"], claim["raised"]) == (own.since_low, own.raised)


def test_tables_by_name(course):
    assert {*course.to_frame("alarms").group} >= {"ward=B"}
    assert len(course.to_frame("periods")) == 6 * len(course.groups)
    with pytest.raises(ValueError, match="kind must be one of"):
        course.to_frame("months")


@pytest.mark.parametrize(
    ("withheld", "whom"),
    [
        (frozenset(), "each group that can be judged to within at most 30 % (B)"),
        (frozenset({"ward=A"}), "each group whose limits are shown to within at most"),
    ],
)
def test_a_limit_of_all_groups_says_if_some_are_withheld(withheld, whom):
    course = SimpleNamespace(
        settings={"periods": ["2024-01"]},
        groups=["everybody", "ward=A", "ward=B"],
        people=100,
        identity=Identity(),
        withheld=withheld,
    )
    limits = ["10 % for All people", "30 % (B)"]
    _, limit = no_alarm(course, "2024-01", "", limits)
    assert whom in limit
