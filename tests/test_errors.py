"""Errors are values: the same one is read by programs, by Python users and at the
command line.
"""

import ast
import copy
import pickle
import re
import tomllib
import warnings
from itertools import chain

import pandas as pd
import pytest
import typer
from sklearn.exceptions import ConvergenceWarning

from paths import ROOT
from propcal import Atoms, Correction, Groups, MCBoost, PMCBoost, audit
from propcal.cli import app
from propcal.cli.commands_from_records import FLAGS, OFFERED, as_flag, with_flags
from propcal.core.arguments import check_choice, check_number
from propcal.errors import (
    Argument,
    ColumnTitle,
    FileFormatError,
    InputError,
    Message,
    PropcalError,
    Text,
    UnseenError,
    refused,
)

SOURCES = sorted((ROOT / "src" / "propcal").rglob("*.py"))
# arguments that errors mention and no command has an option for
PYTHON_ONLY = {
    *(
        "complaint_effect",
        "delta",
        "epsilon",
        "fewest",
        "illness_effect",
        "kind",
        "n",
    ),
    *(
        "details",
        "n_groups",
        "n_updates",
        "person",
        "r_max",
        "r_min",
        "size",
        "threads",
    ),
}


def raised(act):
    with pytest.raises(PropcalError) as found:
        act()
    return found.value


def low_alpha():
    PMCBoost(alpha=2).fit([0.5, 0.5], [0, 1])


def percentages():
    people = pd.DataFrame({"risk": [1.0, 80.5, 20.0], "y": [0, 1, 0]})
    Atoms.from_frame(people, score="risk", outcome="y")


def missing_race(cohort):
    audit(cohort.y, cohort.score, sensitive_features=cohort[["race"]], missing="error")


def numbers_as_groups(cohort):
    audit(cohort.y, cohort.score, sensitive_features={"age of a person": cohort.score})


def many_attributes():
    list(
        Groups(columns=[f"a{i}" for i in range(30)]).combinations(
            [f"a{i}" for i in range(30)]
        )
    )


def a_table_as_atoms(cohort, folder):
    cohort.to_parquet(folder / "people.parquet")
    Atoms.load(folder / "people.parquet")


def test_an_error_says_which_argument_what_is_wrong_and_what_to_do(cohort):
    error = raised(low_alpha)
    assert error.argument == "alpha"
    assert error.problem == "alpha must be a number above 0 and at most 1; got 2"
    assert error.next_step is None

    error = raised(percentages)
    assert error.argument == "risk"
    assert error.problem == (
        "column 'risk' must hold probabilities from 0 to 1; 2 of 3 values are outside that range"
    )
    assert error.next_step == "If these are percentages, divide them by 100"

    error = raised(lambda: missing_race(cohort))
    assert error.argument == "race"
    assert error.problem.startswith("attribute 'race' is missing for ")
    assert (
        error.next_step
        == 'Find out why, or set missing="level" to treat them as a group of their own'
    )


def test_the_text_of_an_error_is_its_problem_and_the_next_step():
    error = raised(percentages)
    assert str(error) == (
        "column 'risk' must hold probabilities from 0 to 1; 2 of 3 values are outside that range. "
        "If these are percentages, divide them by 100"
    )
    assert type(str(error)) is str
    assert repr(InputError("y is empty")) == "InputError('y is empty')"


def test_python_and_the_command_line_write_the_same_error_in_their_own_words(
    cohort, tmp_path
):
    error = raised(lambda: missing_race(cohort))
    assert str(error).endswith(
        'or set missing="level" to treat them as a group of their own'
    )
    assert error.render(as_flag).endswith(
        "or set --missing level to treat them as a group of their own"
    )

    error = raised(lambda: numbers_as_groups(cohort))
    assert str(error).endswith(
        "whole; give cut points, Groups(cuts={'age of a person': [...]})"
    )
    assert error.render(as_flag).endswith(
        "whole; give cut points, --cut age of a person=..."
    )

    error = raised(many_attributes)
    assert str(error).endswith('or intersections="marginal" for groups that overlap')
    assert error.render(as_flag).endswith(
        "or --intersections marginal for groups that overlap"
    )

    error = raised(lambda: a_table_as_atoms(cohort, tmp_path))
    assert isinstance(error, FileFormatError)
    assert str(error).endswith(
        "people.parquet is not an atoms file: write one with Atoms.save"
    )
    assert error.render(as_flag).endswith(
        "is not an atoms file: propcal atoms writes one"
    )


def test_people_never_seen_are_told_with_both_ways_out(cohort, features):
    model = PMCBoost(unseen="error").fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    correction: Correction = model.correction_
    error = raised(
        lambda: correction.apply([0.5], {"race": ["Other"], "gender": ["F"]})
    )
    assert isinstance(error, UnseenError)
    assert '. Set unseen="replay" to apply the adjustments' in str(error)
    assert 'belong to, or unseen="keep" to leave' in str(error)
    assert ". Set --unseen replay to apply the adjustments" in error.render(as_flag)
    assert "belong to, or --unseen keep to leave" in error.render(as_flag)


@pytest.mark.parametrize(
    ("name", "at_the_command_line"),
    [
        ("max_updates", "--max-updates"),
        ("min_people", "--min-people"),
        ("n_bins", "--n-bins"),
        ("n_draws", "--draws"),
        ("random_state", "--seed"),
        ("memory_limit", "--memory"),
        ("alpha", "alpha"),  # the same word
    ],
)
def test_a_number_that_is_refused_is_named_as_it_was_given(name, at_the_command_line):
    error = raised(lambda: check_number(name, 0, at_least=1))
    assert error.argument == name
    assert str(error) == f"{name} must be a number of at least 1; got 0"
    assert (
        error.render(as_flag)
        == f"{at_the_command_line} must be a number of at least 1; got 0"
    )


def test_a_choice_that_is_refused_is_named_as_it_was_given():
    error = raised(lambda: check_choice("weight_kind", "x", ("auto", "survey")))
    assert error.argument == "weight_kind"
    assert (
        error.render(as_flag)
        == "--weight-kind must be one of 'auto', 'survey'; got 'x'"
    )
    part = Argument("types") + ": the type of 'icu'"
    error = raised(lambda: check_choice(part, "x", ("text", "number")))
    assert error.argument == "types"
    assert (
        str(error)
        == "types: the type of 'icu' must be one of 'text', 'number'; got 'x'"
    )
    assert error.render(as_flag).startswith("--type: the type of 'icu' must be")


def test_mentions_with_a_value_are_options_with_a_value():
    text = (
        "About "
        + Argument("resolution", "2**-15")
        + " would; or raise "
        + Argument("memory_limit")
    )
    assert text == "About resolution=2**-15 would; or raise memory_limit"
    assert with_flags(text) == "About --resolution 2^-15 would; or raise --memory"
    assert as_flag(Argument("weight_kind", "survey")) == "--weight-kind survey"
    assert as_flag(Argument("groups", written="Groups(columns=[...])")) == "--groups"


def test_what_a_user_calls_things_is_left_alone():
    column = "weight_kind, missing=level"
    error = InputError(
        f"{ColumnTitle(column)} must be 0 or 1", argument=ColumnTitle(column)
    )
    assert error.argument == column
    assert error.render(as_flag) == str(error) == f"column {column!r} must be 0 or 1"
    mention = Argument("cuts", "it's {age}", written="Groups(cuts=...)")
    assert as_flag(mention) == "--cut it's {age}=..."


def test_a_next_step_is_a_clause_or_a_sentence_of_its_own():
    assert Message("it is full", next_step="empty it") == "it is full; empty it"
    assert Message("it is full", next_step="Empty it") == "it is full. Empty it"
    assert (
        Message("it is full", next_step="pip install more", between=": ")
        == "it is full: pip install more"
    )


@pytest.mark.parametrize("kind", [InputError, UnseenError, FileFormatError])
def test_errors_travel_between_processes(kind):
    error = kind(
        "attribute 'race' is missing",
        argument="race",
        next_step=Argument("missing", "level") + " makes them a group",
    )
    for again in [
        *(pickle.loads(pickle.dumps(error, protocol)) for protocol in range(2, 6)),
        copy.copy(error),
        copy.deepcopy(error),
    ]:
        assert type(again) is kind
        assert (
            str(again)
            == str(error)
            == "attribute 'race' is missing; missing=\"level\" makes them a group"
        )
        assert (
            again.render(as_flag)
            == "attribute 'race' is missing; --missing level makes them a group"
        )
        assert (again.argument, again.problem, again.next_step) == (
            "race",
            "attribute 'race' is missing",
            'missing="level" makes them a group',
        )
    column = pickle.loads(pickle.dumps(ColumnTitle("risk", "cuts: column 'risk'")))
    assert (column, column.name) == ("cuts: column 'risk'", "risk")


def test_warnings_have_the_same_structure_and_stay_what_they_were(cohort, features):
    with pytest.warns(
        ConvergenceWarning,
        match=r"1 adjustment \(max_updates=1\), .*\. Increase max_updates or",
    ) as seen:
        MCBoost.paper(max_updates=1).fit(
            cohort.score, cohort.y, sensitive_features=features
        )
    assert seen[0].category is ConvergenceWarning
    message = seen[0].message.args[0]
    assert (message.argument, message.next_step) == (
        "max_updates",
        "Increase max_updates or alpha, or set eta closer to 1",
    )
    assert "(--max-updates=1), and" in with_flags(message)
    assert with_flags(message).endswith(
        ". Increase --max-updates or alpha, or set eta closer to 1"
    )

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        audit(cohort.y, cohort.score.sort_values(), sensitive_features=features)
    (one,) = [
        warning for warning in seen if isinstance(warning.message.args[0], Message)
    ]
    assert one.category is UserWarning
    assert (
        one.message.args[0].next_step
        == "align them, for example with .loc[other.index]"
    )


def calls(tree, *names):
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in names
    ]


def mentioned():
    """The names of all arguments that messages mention, by the sources."""
    table = (ROOT / "src" / "propcal" / "errors.toml").read_text()
    return {*re.findall(r"@(\w+)", table)} | {
        call.args[0].value
        for path in SOURCES
        if path.name != "errors.py"
        for call in calls(
            ast.parse(path.read_text()), "Argument", "check_number", "check_choice"
        )
        if isinstance(call.args[0], ast.Constant)
        and not call.args[0].value.startswith("--")
    }


def options(command=None):
    """The options of all commands."""
    command = command or typer.main.get_command(app)
    inner = getattr(command, "commands", {}).values()
    own = [name for parameter in command.params for name in parameter.opts]
    return {*own, *chain.from_iterable(options(each) for each in inner)}


def test_an_argument_that_an_error_mentions_is_called_by_its_option():
    known, names = options(), mentioned() - {"Atoms.save", "Monitor.save"}
    assert {"alpha", "max_updates", "missing", "cuts", "types"} <= names
    for name in names - PYTHON_ONLY:
        written = as_flag(Argument(name))
        assert f"--{written.removeprefix('--')}" in known, name
    for name in PYTHON_ONLY:
        assert name in names, name
        assert f"--{name.replace('_', '-')}" not in known, name


def test_the_flags_of_arguments_are_options():
    flags = {flag for flag in FLAGS.values() if flag.startswith("--")}
    # other distributions that add commands may be loaded
    assert flags <= options().union(*OFFERED.values())


def test_mentions_are_joined_to_text_and_never_lost_in_it():
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        assert not [
            text for text in texts if calls(text, "Argument", "Text", "Message")
        ], path.name


def test_no_front_end_rewrites_the_messages_of_the_library():
    assert not [path for path in SOURCES if "in_flags" in path.read_text()]
    assert isinstance("of " + Text("a text") + " with " + Argument("alpha"), Text)


def test_every_error_of_the_table_is_used_and_can_be_told():
    table = tomllib.loads((ROOT / "src" / "propcal" / "errors.toml").read_text())
    sources = [path.read_text() for path in (ROOT / "src" / "propcal").rglob("*.py")]
    assert all(any(f'"{key}"' in text for text in sources) for key in table)
    for key, entry in table.items():
        values = {
            name: 1 for text in entry.values() for name in re.findall(r"{(\w+)", text)
        }
        error = refused(key, **values)
        assert not re.search("{[a-z]", error.message)
        assert "@" not in error.message


def test_errors_of_the_table_are_written_in_the_way_of_the_reader():
    error = refused("reversed", auroc=0.3)
    assert "use 1 - score, or allow_reversed=True if it is meant" in str(error)
    assert "(--positive)" in error.render(as_flag)
    assert "or --allow-reversed if it is meant" in error.render(as_flag)
