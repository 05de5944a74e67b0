"""The command line is generated from records: one field is one option, with its help,
flag and text.
"""

import inspect
from dataclasses import dataclass, fields
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import propcal
from propcal.cli import app, main
from propcal.cli.commands_from_records import (
    OFFERED,
    Only,
    Without,
    add_command,
    typed_options,
)
from propcal.errors import Argument
from propcal.options import (
    DATA,
    AuditOptions,
    AuditRule,
    Given,
    Identity,
    LossOptions,
    LossRule,
    Reading,
    Roles,
    argument_of,
    given,
    spelled_out,
)

COMMANDS = {
    command.name: command for command in typer.main.get_command(app).commands.values()
}
ROLES = Roles(
    score="risk",
    outcome="died",
    positive="EXPIRED",
    groups=["race", "height, cm"],
    cuts={"age": [18.0, 40.5, 65.0]},
    where={"elderly": "age >= 75 and insurance = Medicare"},
    na=["NA", "-1"],
    drop_missing=True,
)
RULE = Given(
    AuditRule,
    intersections=2,
    gamma=0.02,
    n_bins=10,
    binning=[0.0, 0.1, 1.0],
    min_events=0,
)
NAMES = Identity(
    score="Sepsis risk",
    unit="patients",
    labels={"sex": {"F": "women", "": "not recorded"}},
)


def shown(*arguments):
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_two_screens_and_names_no_types(command):
    said = shown(command, "--help")
    assert len(said.splitlines()) <= 100
    for kind in ("<list", "<int", "<float", "<bool", "<str", "<path"):
        assert kind not in said.lower()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_long_help(command):
    more = "--help-all" if "--help-all" in shown(command, "--help") else "--help"
    said = shown(command, more)
    for parameter in COMMANDS[command].params:
        assert all(flag in said for flag in parameter.opts if flag.startswith("--")), (
            parameter.name
        )
        assert parameter.param_type_name == "argument" or parameter.help
        assert all(choice in said for choice in (parameter.metavar or "").split("|")), (
            parameter.name
        )


def test_what_is_typed_for_records_makes_the_same_records():
    heard = []

    def command(
        roles: Annotated[Roles, Without("site")],
        reading: Reading,
        rule: Annotated[
            Given,
            AuditRule,
            Only("intersections", "gamma", "n_bins", "binning", "min_events"),
        ],
        names: Identity,
    ) -> None:
        """Hear records."""
        heard.append((roles, reading, rule, names))

    small = typer.Typer()
    add_command(small, command)
    records = (ROLES, Reading(resolution=2**-16), RULE, NAMES)
    try:
        typed = typed_options("command", *records)
    finally:
        del OFFERED["command"]
    result = CliRunner().invoke(small, typed)
    assert result.exit_code == 0, result.output
    assert heard == [records]


def test_only_options_that_a_command_has_are_typed_for_it():
    fit = typed_options(
        "fit",
        ROLES,
        Roles(site="ward"),
        Given(AuditRule, gamma=0.02, min_people=40),
        NAMES,
    )
    assert "--site" not in fit
    assert "--min-people" not in fit
    assert "--score-name" not in fit
    assert fit[-6:] == [
        "--unit",
        "patients",
        "--label",
        "sex.F=women",
        "--label",
        "sex.=not recorded",
    ]


def test_given_options_have_the_names_of_the_library():
    assert given(NAMES) == {
        "score_name": "Sepsis risk",
        "unit": "patients",
        "labels": NAMES.labels,
    }
    assert given(Roles(), Given(AuditRule, min_events=0)) == {"min_events": 0}


def test_editors_and_type_checkers_know_the_arguments_of_an_audit():
    names = [argument_of(f) for record in (AuditRule, Identity) for f in fields(record)]
    assert set(AuditOptions.__annotations__) == set(names)
    assert set(LossOptions.__annotations__) == {f.name for f in fields(LossRule)}
    for function, own in (
        (propcal.audit, 7),
        (propcal.compare, 6),
        (propcal.pmc_loss, 4),
    ):
        known = list(inspect.signature(function).parameters)[own:]
        assert known == (names if own > 4 else [f.name for f in fields(LossRule)])
        assert (
            all(name in function.__doc__ for name in known)
            or function is not propcal.audit
        )
    with pytest.raises(
        TypeError, match=r"audit\(\) got an unexpected keyword argument 'alfa'"
    ):
        propcal.audit([0, 1], [0.1, 0.2], alfa=0.1)


def test_what_a_docstring_leaves_out_is_described_by_the_record():
    def read(files, **settings):
        pass

    read.__doc__ = "Read.\n\n    Parameters\n    ----------\n    files : list\n\n    Returns\n    -------\n"
    spelled_out(Reading)(read)
    assert (
        "resolution : float | None, default=None\n        Round scores to this grid"
        in read.__doc__
    )


def test_a_new_option_is_one_field():
    @dataclass(frozen=True)
    class More:
        surprise_level: float | None = DATA.option("SHARE", "How much. Default: 0.5")

    heard = []

    def command(more: More) -> None:
        """Hear of it."""
        heard.append(more.surprise_level)

    command.__annotations__["more"] = More
    small = typer.Typer()
    add_command(small, command)
    try:
        assert CliRunner().invoke(small, ["--surprise-level", "0.25"]).exit_code == 0
        said = CliRunner().invoke(small, ["--help"]).output
    finally:
        del OFFERED["command"]
    assert heard == [0.25]
    assert "How much." in said
    assert "Default: 0.5" in said
    from propcal.cli.commands_from_records import FLAGS, as_flag

    assert as_flag(Argument("surprise_level")) == "--surprise-level"
    del FLAGS["surprise_level"]


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("--threshold", "20%", "write 0.2 for 20 %"),
        ("--alpha", "5%", "write 0.2 for 20 %"),
    ],
)
def test_errors_say_how_a_share_is_written(option, text, told, capsys):
    words = [
        "audit",
        "people.csv",
        "--score",
        "risk",
        "--outcome",
        "died",
        option,
        text,
    ]
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert told in capsys.readouterr().err
