"""A monitor: periods come in, evidence comes out, and the state is the same however
they came.
"""

import json
import re
import warnings
from datetime import date
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from propcal import Groups, Monitor
from propcal.errors import FileFormatError, InputError
from propcal.monitoring.held_out import _pooled, with_findings

ROLES = {"score": "risk", "outcome": "died", "time": "day", "groups": ["ward", "sex"]}


def visits(
    n_months,
    per_month=1200,
    *,
    wrong_from=99,
    factor=1.5,
    ward="B",
    seed=1,
    start="2024-01",
):
    rng = np.random.default_rng(seed)
    parts = []
    for t, month in enumerate(pd.period_range(start, periods=n_months, freq="M")):
        n = per_month
        days = month.start_time + pd.to_timedelta(
            rng.integers(0, month.days_in_month, n), unit="D"
        )
        frame = pd.DataFrame(
            {
                "day": days,
                "ward": rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2]),
                "sex": rng.choice(["F", "M"], n),
                "risk": rng.beta(2, 4, n),
            }
        )
        chance = frame.risk * np.where(
            (t >= wrong_from) & (frame.ward == ward), factor, 1.0
        )
        parts.append(
            frame.assign(died=(rng.random(n) < np.minimum(chance, 1)).astype(int))
        )
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def wrong():
    """Ward B has half as many events again from the ninth month on."""
    return visits(14, wrong_from=8)


@pytest.fixture(scope="module")
def watched(wrong):
    monitor = Monitor(**ROLES)
    monitor.add(wrong)
    return monitor


def test_the_alarm_says_for_whom_since_when_and_how_large(watched):
    course = watched.course()
    assert course.conclusion == "alarm"
    first = course.alarms[0]
    assert (first.group, first.test, first.onset) == ("ward=B", "level", "2024-09")
    assert first.onset_low <= "2024-09" <= first.onset_high <= first.raised
    assert first.low < 1.5 < first.high
    assert first.direction == "too low"
    assert "for B." in course.sentences[0]
    assert {
        alarm.explained_by for alarm in course.alarms if alarm.group != "ward=B"
    } <= {"B"}
    unhurt = course.groups.set_index("group").loc[["ward=A", "ward=C"]]
    assert not unhurt["alarm"].any()


def test_a_perfect_score_raises_no_alarm():
    monitor = Monitor(**ROLES)
    monitor.add(visits(14, seed=2))
    course = monitor.course()
    assert (course.conclusion, course.alarms) == ("no alarm", ())
    assert "No alarm from 2024-01 to 2025-02 (16,800 people)" in course.sentences[0]
    assert re.search(
        r"right on average to within \d+ % for All people, and for each group that can be judged to within "
        r"at most \d+ % \([^()]+\)\.",
        course.sentences[1],
    )


def test_month_by_month_is_the_same_as_all_at_once(wrong, watched):
    one = Monitor(**ROLES)
    for month in sorted(wrong.day.dt.strftime("%Y-%m").unique()):
        assert one.add(wrong[wrong.day.dt.strftime("%Y-%m") == month]).new == (month,)
    assert one.atoms.fingerprint() == watched.atoms.fingerprint()
    assert one.course().evidence.equals(watched.course().evidence)


def test_the_same_people_again_change_nothing(wrong):
    monitor = Monitor(**ROLES)
    monitor.add(wrong)
    before = monitor.atoms.fingerprint()
    again = monitor.add(wrong.sample(frac=1, random_state=0))
    assert not again.changed
    assert len(again.unchanged) == 14
    assert monitor.atoms.fingerprint() == before


def test_other_people_of_a_known_period_are_refused_unless_it_is_replaced(wrong):
    monitor = Monitor(**ROLES)
    monitor.add(wrong)
    before, last = monitor.atoms.fingerprint(), wrong[wrong.day >= "2025-02-01"]
    with pytest.raises(
        InputError,
        match=r"2025-02 is in the state already, with 1,200 people, and these data have 1,190",
    ):
        monitor.add(last[:-10])
    flipped = last.assign(died=1 - last.died)
    with pytest.raises(InputError, match="1,200 people with other scores or outcomes"):
        monitor.add(flipped)
    assert monitor.atoms.fingerprint() == before
    assert monitor.add(last[:-10], replace=["2025-02"]).replaced == ("2025-02",)
    assert monitor.records["2025-02"].people == 1190
    assert monitor.add(last, replace=["2025-02"]).replaced == ("2025-02",)
    assert monitor.atoms.fingerprint() == before


def test_replacing_what_is_not_there_is_refused(watched, wrong):
    with pytest.raises(
        InputError, match="2023-01 cannot be replaced: the data have nobody in it"
    ):
        watched.add(wrong, replace=["2023-01"])
    with pytest.raises(InputError, match="is not a month"):
        watched.add(wrong, replace=["last month"])
    with pytest.raises(InputError, match="its outcomes are not known yet"):
        watched.add(wrong, replace=["2025-02"], as_of=date(2025, 2, 27))


def test_periods_that_came_late_and_gaps_are_noted(wrong):
    monitor = Monitor(**ROLES)
    month = wrong.day.dt.strftime("%Y-%m")
    monitor.add(wrong[~month.isin(["2024-03", "2024-06"])])
    assert "2 months without people: 2024-03 and 2024-06." in monitor.course().notes
    monitor.add(wrong[month == "2024-03"])
    notes = " ".join(monitor.course().notes)
    assert "1 month without people: 2024-06." in notes
    assert "Added or replaced after later periods were known: 2024-03." in notes


def test_new_groups_are_watched_from_the_run_on_in_which_they_are_large_enough():
    monitor = Monitor(**ROLES, gamma=0.1)
    monitor.add(visits(3))
    founders = len(monitor.watched)
    later = visits(3, 4000, start="2024-04", seed=5)
    later["ward"] = later.ward.replace("C", "D")
    with pytest.warns(
        UserWarning, match="ward: .* did not occur in the periods before"
    ):
        monitor.add(later)
    new = [one.group.name for one in monitor.watched[founders:]]
    assert "ward=D" in new
    assert [one.later for one in monitor.watched[founders:]] == list(
        range(1, len(new) + 1)
    )
    assert monitor.course().conclusion == "no alarm"


def test_a_state_comes_back_as_it_was(watched):
    watched.save("a.monitor")
    back = Monitor.load("a.monitor")
    assert back.settings == watched.settings
    assert back.records == watched.records
    assert back.watched == watched.watched
    assert back.course().evidence.equals(watched.course().evidence)
    assert back.course().alarms == watched.course().alarms


def test_every_setting_comes_back():
    words = Groups(
        columns=["ward"],
        cuts={"age": [40, 65]},
        where={"old": "age >= 80"},
        intersections="marginal",
    )
    made = visits(3)
    made["age"] = np.arange(len(made)) % 90
    made["zone"] = made.day.dt.tz_localize("UTC")
    monitor = Monitor(
        score="risk", outcome="died", time="zone", groups=words, every="week", timezone="America/New_York",
        delay="2w", binning="quantile", n_bins=5, gamma=0.1, unit="patients",
        labels={"ward": {"A": "surgery"}}, score_name="Risk", baseline="2024-W02..2024-W04",
    )  # fmt: skip
    monitor.add(made)
    monitor.save("a.monitor")
    back = Monitor.load("a.monitor")
    assert back.settings == monitor.settings
    assert back.identity == monitor.identity
    assert back.edges == monitor.edges
    assert back.course().evidence.equals(monitor.course().evidence)
    assert "surgery" in {*back.course().groups.label}


def test_the_size_of_a_state_does_not_grow_with_its_people():
    sizes = []
    for per_month in (20_000, 80_000):
        monitor = Monitor(score="risk", outcome="died", time="day")
        monitor.add(visits(2, per_month))
        sizes.append(len(monitor.atoms))
    assert sizes[1] < 1.5 * sizes[0]
    assert sizes[1] < 12_000


def test_a_state_changed_by_another_run_is_not_overwritten(watched, wrong):
    watched.save("a.monitor")
    mine, other = Monitor.load("a.monitor"), Monitor.load("a.monitor")
    last = wrong[wrong.day >= "2025-02-01"]
    other.add(last[:-10], replace=["2025-02"])
    other.save("a.monitor")
    with pytest.raises(InputError, match="was changed by another run"):
        mine.save("a.monitor")
    assert Monitor.load("a.monitor").records["2025-02"].people == 1190


def test_a_damaged_state_is_refused(watched):
    from pathlib import Path

    watched.save("a.monitor")
    content = Path("a.monitor").read_bytes()
    for broken in (content[:-100], content[: len(content) // 2], b"", b"PAR1"):
        Path("b.monitor").write_bytes(broken)
        with pytest.raises(FileFormatError, match=r"b\.monitor"):
            Monitor.load("b.monitor")
    watched.atoms.save("c.monitor")
    with pytest.raises(FileFormatError, match="is not the state of a monitor"):
        Monitor.load("c.monitor")


def test_a_tampered_header_is_refused(watched):
    import json

    import pyarrow.parquet as pq

    watched.save("a.monitor")
    table = pq.read_table("a.monitor")
    header = json.loads(table.schema.metadata[b"propcal"])
    changes = (
        lambda m: m["periods"].pop("2024-01"),
        lambda m: m["periods"]["2024-01"].update(people=7),
        lambda m: m["settings"].update(every="fortnight"),
        lambda m: m["settings"].update(surprise=1),
        lambda m: m.update(watched=[]),
        lambda m: m.pop("edges"),
        lambda m: m["settings"]["groups"].update(columns=["ward"]),
    )
    for change in changes:
        other = json.loads(json.dumps(header))
        change(other["monitor"])
        pq.write_table(
            table.replace_schema_metadata({"propcal": json.dumps(other)}), "b.monitor"
        )
        with pytest.raises(FileFormatError, match=r"b\.monitor is damaged"):
            Monitor.load("b.monitor")
    newer = header | {"version": 2}
    pq.write_table(
        table.replace_schema_metadata({"propcal": json.dumps(newer)}), "b.monitor"
    )
    with pytest.raises(FileFormatError, match="version 2"):
        Monitor.load("b.monitor")


def test_a_baseline_is_the_reference():
    lasting = visits(12, wrong_from=0, factor=1.3)
    perfect = Monitor(**ROLES)
    perfect.add(lasting)
    assert perfect.course().alarms[0].group == "ward=B"
    monitor = Monitor(**ROLES, baseline="2024-01..2024-03")
    monitor.add(lasting)
    course = monitor.course()
    assert course.conclusion == "no alarm"
    assert course.settings["tests"] == ["level", "cells"]
    assert any(
        "the score as it was in 2024-01 to 2024-03" in note for note in course.notes
    )
    changed = Monitor(**ROLES, baseline="2024-01..2024-03")
    changed.add(visits(14, wrong_from=8))
    first = changed.course().alarms[0]
    assert (first.group, first.onset) == ("ward=B", "2024-09")
    assert first.direction == "has risen"
    assert first.reference_value == pytest.approx(1, abs=0.2)
    said = changed.course().sentences
    assert said[0].startswith(
        "Alarm: compared with 2024-01 to 2024-03, the score has changed for B"
    )
    assert re.search(
        r"the O/E ratio has risen since .*: O/E 1\.\d\d \(.*\), against \d\.\d\d in 2024-01 to 2024-03",
        said[1],
    )
    shown = json.loads(changed.course().to_json(suppress=11))
    assert shown["alarms"][0]["reference_value"] == pytest.approx(
        first.reference_value, abs=0.1
    )


def test_a_baseline_must_be_a_period_with_people(wrong):
    for text in ("March", "2024-05..2024-01"):
        with pytest.raises(InputError, match="baseline"):
            Monitor(**ROLES, baseline=text)
    monitor = Monitor(**ROLES, baseline="2020-01")
    monitor.add(wrong)
    with pytest.raises(InputError, match="the baseline 2020-01 has nobody"):
        monitor.course()


def test_recalibrating_helps_where_the_score_is_wrong_and_changes_nothing_where_it_is_right(
    watched,
):
    found = watched.recalibration()
    assert found.answer == "it would help"
    assert found.fitted[0] == "2024-09"
    assert found.judged == ("2025-02",)
    assert (
        "fitted on 2024-09 to 2025-01, it would have lowered the log loss of all"
        in found.sentence
    )
    right = Monitor(**ROLES)
    right.add(visits(6, seed=2))
    assert right.recalibration().answer in ("nothing to correct", "no clear gain")
    with pytest.raises(InputError, match="too few"):
        right.recalibration(held_out=12)


def test_slopes_are_watched_too():
    made = visits(10, 3000, seed=3)
    rng = np.random.default_rng(0)
    odds = made.risk / (1 - made.risk)
    flat = (odds / np.median(odds)) ** 0.5 * np.median(odds)
    made["died"] = (rng.random(len(made)) < flat / (1 + flat)).astype(int)
    monitor = Monitor(**ROLES)
    monitor.add(made)
    found = {
        alarm.test: alarm
        for alarm in monitor.course().alarms
        if alarm.group == "everybody"
    }
    assert found["slope"].direction == "too extreme"
    assert found["cells"].where


def test_what_cannot_be_monitored_is_refused(wrong):
    monitor = Monitor(**ROLES)
    with pytest.raises(InputError, match="soft labels"):
        monitor.add(wrong.assign(died=wrong.died * 0.5 + 0.2))
    with pytest.raises(InputError, match="no people yet"):
        monitor.course()
    with pytest.raises(InputError, match="nothing to save"):
        monitor.save("a.monitor")
    for arguments in (
        {"every": "hour"},
        {"timezone": "Mars"},
        {"delay": "soon"},
        {"gamma": 0},
        {"score": 1},
    ):
        with pytest.raises(InputError):
            Monitor(**ROLES | arguments)


def test_two_files_that_overlap_are_one_set_of_people(wrong):
    first, rest = wrong[wrong.day < "2024-03-15"], wrong[wrong.day >= "2024-03-15"]
    first.to_csv("a.csv", index=False)
    rest.to_csv("b.csv", index=False)
    monitor = Monitor(**ROLES)
    monitor.add("a.csv", as_of=date(2024, 3, 20))  # March is not over
    assert monitor.periods == ("2024-01", "2024-02")
    with pytest.raises(InputError, match="is named twice"):
        monitor.add(["a.csv", "a.csv"])
    added = monitor.add(["a.csv", "b.csv"])
    assert added.unchanged == ("2024-01", "2024-02")
    assert monitor.records["2024-03"].people == 1200
    with pytest.raises(InputError, match="2024-03 is in the state already"):
        monitor.add("b.csv")


def test_other_columns_than_the_states_are_named(watched, wrong):
    with pytest.raises(InputError, match="no column 'ward'"):
        watched.add(wrong.drop(columns="ward"))


def test_nothing_is_warned_of_in_ordinary_use(wrong):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monitor = Monitor(**ROLES)
        monitor.add(wrong)
        repr(monitor.course())


def test_it_is_too_early_to_recalibrate_when_the_error_has_just_begun():
    monitor = Monitor(**ROLES)
    monitor.add(visits(6, wrong_from=5, factor=2.5, ward="A"))
    found = monitor.recalibration()
    assert found.answer == "too early to say"
    assert "at least 3 periods since the beginning of the error" in found.sentence


def test_a_date_without_a_time_is_compared_by_day():
    frame = visits(1).assign(died_at=lambda f: f.day.dt.normalize())
    frame["day"] += pd.to_timedelta(14, unit="h")
    monitor = Monitor(**ROLES, outcome_time="died_at")
    assert monitor.add(frame).new == ("2024-01",)
    frame.loc[0, "died_at"] -= pd.to_timedelta(1, unit="D")
    with pytest.raises(
        InputError, match="1 of 1,200 outcomes are dated before the score"
    ):
        Monitor(**ROLES, outcome_time="died_at").add(frame)


def test_a_few_dates_long_before_all_others_are_refused():
    frame = visits(2)
    frame.loc[3, "day"] = pd.Timestamp("1900-01-01")
    with pytest.raises(
        InputError, match=r"1 of 2,400 date is more than 10 years before all others"
    ):
        Monitor(**ROLES).add(frame)


def test_a_score_of_zero_for_everybody_is_too_low():
    frame = visits(4)
    frame.loc[frame.day >= "2024-04-01", "risk"] = 0.0
    monitor = Monitor(**ROLES)
    monitor.add(frame)
    said = " ".join(monitor.course().sentences)
    assert "the score predicts too low" in said
    assert (
        len(str(json.loads(monitor.course().to_json())["alarms"][0]["evidence"])) < 25
    )


def test_a_new_spelling_of_a_known_level_is_warned_of():
    monitor = Monitor(**ROLES)
    monitor.add(visits(1))
    shouted = visits(1, start="2024-02").replace({"sex": {"F": "f"}})
    with pytest.warns(
        UserWarning,
        match='sex: "f" is new, and differs from "F" only in case or spaces',
    ):
        monitor.add(shouted)


@pytest.mark.parametrize(
    "levels", [{"F": "female", "M": "male"}, {"F": None, "M": None}]
)
def test_a_recoded_column_is_warned_of(levels):
    monitor = Monitor(**ROLES)
    monitor.add(visits(1))
    recoded = visits(1, start="2024-02").replace({"sex": levels})
    with pytest.warns(
        UserWarning,
        match="sex: 1,200 of 1,200 values did not occur in the periods before",
    ):
        monitor.add(recoded)


def test_a_few_people_with_a_new_level_are_nothing_to_warn_of():
    monitor = Monitor(**ROLES)
    monitor.add(visits(1))
    frame = visits(1, start="2024-02")
    frame.loc[:9, "ward"] = "new"
    monitor.add(frame)  # warnings are errors


def test_one_person_says_nothing_of_how_right_the_score_is():
    monitor = Monitor(**ROLES)
    monitor.add(visits(1).head(1))
    assert "there are too few people to say more" in " ".join(
        monitor.course().sentences
    )


def test_groups_too_small_to_be_watched_are_named(watched):
    frame = visits(3)
    frame.loc[frame.index[:60], "ward"] = "tiny"
    monitor = Monitor(**ROLES)
    monitor.add(frame)
    (note,) = [
        note for note in monitor.course().notes if note.startswith("Not watched")
    ]
    assert "less than 5 % of all people" in note
    assert "tiny" in note
    assert not any(note.startswith("Not watched") for note in watched.course().notes)


def test_the_error_that_is_excluded_shrinks_with_more_people():
    sizes = []
    for n in (400, 6400):
        monitor = Monitor(**ROLES)
        monitor.add(visits(6, per_month=n))
        course = monitor.course()
        found = re.search(
            r"to within (\d+) % for All people, and for each .* at most (\d+) % \(",
            course.sentences[1],
        )
        sizes.append([int(size) for size in found.groups()])
        row = course.groups.iloc[0]
        whole = course.periods[course.periods.group == "everybody"]
        ratio = whole.positives.sum() / (whole.people * whole.mean_score).sum()
        assert row.ratio_low < ratio < row.ratio_high
        assert sizes[-1][0] == np.ceil(100 * max(row.ratio_high - 1, 1 - row.ratio_low))
    assert all(few > 2.5 * many for few, many in zip(*sizes))
    assert all(everybody < smallest for everybody, smallest in sizes)


def test_single_attributes_are_watched_corrected_and_named_alone(wrong):
    marginal = Groups(columns=["ward", "sex"], intersections="marginal")
    monitor = Monitor(**ROLES | {"groups": marginal})
    monitor.add(wrong)
    course = monitor.course(recalibrate=True)
    found = course.recalibration
    names = {*course.groups.group, *found.comparison.differences.group}
    names |= {group.name for group in found.correction.groups}
    assert names
    assert not [name for name in names if "&" in name]


def test_a_loaded_state_may_be_saved_twice(watched, wrong):
    watched.save("a.monitor")
    again = Monitor.load("a.monitor")
    again.add(wrong[wrong.day >= "2025-02-01"][:-10], replace=["2025-02"])
    again.save("a.monitor")
    again.save("a.monitor")
    assert Monitor.load("a.monitor").records["2025-02"].people == 1190


@pytest.mark.parametrize(
    ("loss", "middle", "level", "found"),
    [
        # of three tests, the clearest needs p < 0.05 / 3 (z 2.39), the second 0.05 / 2
        # (2.24), and the last 0.05 (1.96)
        (-2.45, 2.30, 1.90, ("better", "nearer to 1", "")),
        (-2.35, 2.30, 1.90, ("no clear change", "", "")),
        (-2.45, 2.20, 1.90, ("better", "", "")),
        (2.45, -2.30, -1.97, ("worse", "nearer to 1", "too high")),
        (2.45, -2.30, -1.95, ("worse", "nearer to 1", "")),
        (1.00, -2.30, -3.60, ("no clear change", "further from 1", "too high")),
        (1.00, 2.30, 3.60, ("no clear change", "further from 1", "too low")),
    ],
)
def test_what_a_correction_does_at_a_site_is_tested_three_times(
    loss, middle, level, found
):
    """In standard errors: the change of the loss, the middle of both log O/E ratios,
    and the later one.
    """
    error, reach = 0.02, 1.959964 * 0.02
    after = level * error
    before = 2 * middle * error - after
    row = {
        "change": loss * error,
        "change_low": loss * error - reach,
        "change_high": loss * error + reach,
        "observed_expected_before": np.exp(before),
        "observed_expected_after": np.exp(after),
        "observed_expected_after_low": np.exp(after - reach),
        "observed_expected_after_high": np.exp(after + reach),
    }
    table = with_findings(pd.DataFrame([row]), np.array([True]))
    assert tuple(table.loc[0, ["finding", "moved", "level"]]) == found
    table = with_findings(pd.DataFrame([row]), np.array([False]))
    assert tuple(table.loc[0, ["finding", "moved", "level"]]) == (
        "not corrected",
        "",
        "",
    )


def test_sites_are_pooled_with_the_error_of_each():
    """100 events +- 10 where 125 were expected, and 20 where 16 were, whose own
    interval is not known.
    """
    half = 1.959964 * 0.1

    def site(people, rate, mean, low, high):
        row = pd.Series(
            {
                "people": people,
                "outcome_rate": rate,
                "mean_score": mean,
                "observed_expected_low": low,
                "observed_expected_high": high,
            }
        )
        groups = SimpleNamespace(iloc=[row])
        return SimpleNamespace(
            audits={"score": None, "corrected": SimpleNamespace(groups=groups)}
        )

    sites = {
        "a": site(1000, 0.1, 0.125, 0.8 * np.exp(-half), 0.8 * np.exp(half)),
        "b": site(400, 0.05, 0.04, np.nan, np.nan),
    }
    reach = np.exp(1.959964 * np.sqrt(10**2 + 16) / 120)
    assert _pooled(sites) == pytest.approx(
        (120 / 141, 120 / 141 / reach, 120 / 141 * reach), rel=1e-6
    )


def test_only_a_period_before_the_last_comes_late():
    people = visits(3, 200)
    month = people.day.dt.strftime("%Y-%m")
    monitor = Monitor(**ROLES)
    monitor.add(people)
    for period, late in (("2024-03", False), ("2024-02", True)):
        corrected = people[month == period].iloc[1:]
        assert monitor.add(corrected, replace=[period]).replaced == (period,)
        assert monitor.records[period].late is late
    assert not monitor.records["2024-03"].late
