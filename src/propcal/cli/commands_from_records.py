"""Commands from records: a command's options and help are the fields of its records."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from propcal.cli.option_values import READ, READ_ALL, read_config, written
from propcal.errors import Argument, Text
from propcal.options import OUTPUT, Given, Option, descriptions, given_fields

ROWS = "CSV (also .gz, .zst), Parquet or Excel files with one row per person"
AS_ONE = (
    'Several files, or a quoted pattern such as "visits/*.parquet", are read as one.'
)
Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILES", help=f"{ROWS}, or atoms files. {AS_ONE}"),
]
Rows = Annotated[list[Path], typer.Argument(metavar="FILES", help=f"{ROWS}. {AS_ONE}")]
FORCE = OUTPUT.flag("Replace the output file if it exists.")
CONFIG = OUTPUT.option(
    "FILE", "TOML file with options; options on the command line override it."
)
HOW = "Every command also takes --quiet and --log json: see propcal --help."
LISTS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("commands.toml").read_text(encoding="utf-8")
)
# how the command line writes arguments that messages mention
FLAGS: dict[str, str] = LISTS["flags"]
# options of which those of the configuration file and the command line all count
ADDED_UP = {"fail_on"}
OFFERED: dict[str, set[str]] = {}  # the flags of each command
FEW_OPTIONS = 12  # of a command with more, --help shows the common ones only


class Only:
    """The fields of a record that a command offers; some of them may be described in
    another way.
    """

    def __init__(self, *names: str, **changed: Any) -> None:
        self.names = names
        self.changed = changed

    def __call__(self, name: str) -> bool:
        """Whether the command offers a field."""
        return name in self.names or name in self.changed


class Without(Only):
    """The fields of a record that a command does not offer."""

    def __call__(self, name: str) -> bool:
        """Whether the command offers a field."""
        return name not in self.names


def _without_types(parameters: Any) -> Any:
    """Arguments and options whose help shows what stands for a value in place of its
    type.
    """
    for parameter in parameters:
        shown = ""
        if parameter.param_type_name != "argument" and not parameter.is_flag:
            # lines break at a space
            shown = (parameter.metavar or "N").replace("|", " | ")
        vars(parameter)["display_type_rich"] = _constant(shown)
    return parameters


def _constant(text: str) -> Callable[..., str]:
    return lambda ctx: text  # noqa: ARG005


class Command(TyperCommand):
    """A command whose help shows common options only."""

    def get_params(self, ctx: Any) -> Any:
        """Arguments and options."""
        return _without_types(super().get_params(ctx))


class Commands(TyperGroup):
    """Several commands, and options of all of them."""

    def get_params(self, ctx: Any) -> Any:
        """Options."""
        return _without_types(super().get_params(ctx))


def _help_all(ctx: typer.Context, wanted: bool) -> None:
    """Print the help with every option."""
    if wanted:
        for parameter in ctx.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]  # of an option
        typer.echo(ctx.get_help(), nl=False)
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        callback=_help_all,
        is_eager=True,
        help="Show all options and exit.",
    ),
]


class _Offered:
    """An option of a command: a field of a record, or a parameter of its own."""

    def __init__(
        self, name: str, hint: Any, described: Field[Any], text: str = ""
    ) -> None:
        about: Option = described.metadata["option"]
        flag_of_name = f"--{name.replace('_', '-')}"
        self.name = name
        self.hint = hint
        self.about = about
        self.default = described.default
        self.help = about.help or text
        self.flags = about.flags or (flag_of_name,)
        self.flag = self.flags[0].split("/")[0]
        self.key = self.flag.removeprefix("--").replace("-", "_")

    def parameter(self, *, common: bool) -> inspect.Parameter:
        """The parameter that typer reads."""
        about = self.about
        required = self.default is MISSING
        kind = self._kind()
        described = typer.Option(
            *self.flags,
            metavar=about.metavar or None,
            help=self._help_of(kind),
            rich_help_panel=about.panel,
            hidden=not (common or required or self.flag[2:] in LISTS["common"]),
            min=about.least,
            callback=read_config if self.name == "config" else None,
            is_eager=self.name == "config",
        )
        return inspect.Parameter(
            self.key,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if required else self.default,
            annotation=Annotated[kind, described],
        )

    def _kind(self) -> Any:
        """The type that typer reads: texts, if the value is read from texts."""
        if self.about.metavar in READ:
            return str | None
        if self.about.metavar in READ_ALL:
            return list[str] | None
        return self.hint

    def _help_of(self, kind: Any) -> str:
        """The text of the help, with its default in grey."""
        text, default, value = self.help.partition(" Default: ")
        if "list" in str(kind):
            text += " May be repeated."
        if value:
            text += f" [dim]{default.strip()} {value}[/dim]"
        return text

    def value(self, given: Mapping[str, Any]) -> Any:
        """The value of the field, read from its text if that is needed."""
        raw = given[self.key]
        read = READ_ALL.get(self.about.metavar) or READ.get(self.about.metavar)
        if raw is None or read is None:
            return raw
        return read(raw, self.flag)


@dataclass(frozen=True)
class _Taken:
    """A parameter of a command, and the options that it is made from; without any, it
    is typer's own.

    `record` makes its value from the values of the options, unless it is that of one
    option.
    """

    parameter: inspect.Parameter
    record: Any
    options: list[_Offered]

    @classmethod
    def of(cls, parameter: inspect.Parameter, hint: Any, text: str) -> _Taken:
        """From its type, which may be a record with notes, and its description."""
        parameter = parameter.replace(
            annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY
        )
        if isinstance(parameter.default, Field):
            option = _Offered(parameter.name, hint, parameter.default, text)
            return cls(parameter, None, [option])
        kind = hint
        notes: list[Any] = []
        if get_origin(hint) is Annotated:
            kind, *notes = get_args(hint)
        if kind is Given:
            record, *notes = notes
            return cls(
                parameter, partial(_what_was_given, record), _optional(record, notes)
            )
        if is_dataclass(kind):
            return cls(parameter, kind, _options_of(kind, notes))
        return cls(parameter, None, [])

    def parameters(self, *, common: bool) -> list[inspect.Parameter]:
        """The parameters that typer reads."""
        if not self.options:
            return [self.parameter]
        return [option.parameter(common=common) for option in self.options]

    def value(self, given: Mapping[str, Any]) -> Any:
        """The argument of the command."""
        if not self.options:
            return given[self.parameter.name]
        values = {option.name: option.value(given) for option in self.options}
        if self.record is None:
            return values[self.parameter.name]
        return self.record(**values)


def _described(
    record: Any, notes: Sequence[Any]
) -> Iterator[tuple[Field[Any], Field[Any]]]:
    """The fields of a record that a command offers, and how each is described."""
    chosen: Only = Without()
    for note in notes:
        if isinstance(note, Only):
            chosen = note
    for own in fields(record):
        described = chosen.changed.get(own.name, own)
        if chosen(own.name) and "option" in described.metadata:
            yield own, described


def _options_of(record: Any, notes: Sequence[Any]) -> list[_Offered]:
    """The options that make a record."""
    texts = descriptions(record)
    hints = get_type_hints(record)
    return [
        _Offered(own.name, hints[own.name], described, texts.get(own.name, ""))
        for own, described in _described(record, notes)
    ]


def _optional(record: Any, notes: Sequence[Any]) -> list[_Offered]:
    """The options of a record of the library, of which only those that are given
    matter.
    """
    texts = descriptions(record)
    options = []
    for own, described in _described(record, notes):
        hint, shown = _unless_given(own, described)
        options.append(_Offered(own.name, hint, shown, texts.get(own.name, "")))
    return options


def _unless_given(one: Field[Any], described: Field[Any]) -> tuple[Any, Field[Any]]:
    """An option of the library, which has no value unless it is given: its type, and
    how it is offered.
    """
    if one.type == "bool":
        return bool, one
    kinds = {"int": int, "float": float, "Sequence[float]": list[float]}
    kind: Any = kinds.get(str(one.type).split(" |")[0], str)
    without_default: Any = field(default=None, metadata=described.metadata)
    return kind | None, without_default


def _what_was_given(record: Any, **values: Any) -> Given:
    """The options of a record that were given; a zero is given, too."""
    given = Given(record)
    for name, value in values.items():
        if value is not None and value is not False:
            given[name] = value
    return given


def add_command(app: typer.Typer, command: Callable[..., Any]) -> None:
    """Add a command; its help is its docstring, with the first of its examples moved to
    the top.

    A parameter whose type is a record becomes as many options as the record has fields,
    one whose default is an `option` becomes one; others are typer's own.
    """
    hints = get_type_hints(command, include_extras=True)
    texts = descriptions(command)
    taken = {}
    for name, parameter in inspect.signature(command).parameters.items():
        taken[name] = _Taken.of(parameter, hints[name], texts.get(name, ""))
    options = [option for one in taken.values() for option in one.options]

    def call(ctx: typer.Context, **given: Any) -> None:
        _add_up(ctx, given)
        command(**{name: one.value(given) for name, one in taken.items()})

    call.__name__ = command.__name__.rstrip("_")  # `all_`, as Python has an `all`
    call.__signature__ = _signature(list(taken.values()), len(options))  # type: ignore[attr-defined]
    OFFERED[command.__name__] = {option.flag for option in options}
    _note_flags(options)
    text = inspect.cleandoc(command.__doc__ or "").partition("\n\nParameters\n")[0]
    summary = " ".join(text.partition("\n\n")[0].split())
    app.command(cls=Command, help=_help_text(text), short_help=summary, epilog=HOW)(
        call
    )


def _signature(taken: Sequence[_Taken], n_options: int) -> inspect.Signature:
    """The parameters that typer reads: options, the context, and --help-all if there
    are many options.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = []
    for one in taken:
        parameters += one.parameters(common=n_options <= FEW_OPTIONS)
    parameters.append(inspect.Parameter("ctx", keyword, annotation=typer.Context))
    if n_options > FEW_OPTIONS:
        parameters.append(
            inspect.Parameter("help_all", keyword, default=False, annotation=HelpAll)
        )
    return inspect.Signature(parameters)


def _add_up(ctx: typer.Context, given: dict[str, Any]) -> None:
    """Put what the configuration file has of an option before what was typed."""
    for key in ADDED_UP & given.keys():
        of_file = (ctx.default_map or {}).get(key) or []
        typed = [text for text in given[key] or [] if text not in of_file]
        given[key] = [*of_file, *typed]


def _note_flags(options: Sequence[_Offered]) -> None:
    """Remember how messages write the arguments that have other flags."""
    for option in options:
        argument = option.about.argument or option.name
        if argument in LISTS["dashed"] or option.flag != f"--{argument}":
            FLAGS.setdefault(argument, option.flag)


def _help_text(text: str) -> str:
    """The help of a command, with the first of its examples at the top; a backslash at
    the end of a line joins it with the next one.
    """
    text = re.sub(r" \\\n *", " ", text)
    about, _, examples = text.partition("\n\nFor example:\n\n")
    first, _, others = examples.partition("\n\n")
    paragraphs = [" ".join(part.split()) for part in about.split("\n\n")]
    parts = [f"Example: {' '.join(first.split())}", *paragraphs]
    if others:
        parts.append(f"More examples:\n\n{others}")
    return "\n\n".join(filter(None, parts))


def typed_options(command: str, *records: Any) -> list[str]:
    """What to type after a command for these records; options that it does not offer
    are left out.
    """
    typed: list[str] = []
    for record in records:
        for own, value in given_fields(record):
            option = _Offered(own.name, None, own)
            if option.flag not in OFFERED[command]:
                continue
            texts = [] if value is True else written(value, option.about.metavar)
            if not texts:
                typed.append(option.flag)
            for text in texts:
                typed += [option.flag, text]
    return typed


def as_flag(mention: Argument) -> str:
    """A mention of an argument as the user types it.

    >>> as_flag(Argument("missing", "level")), as_flag(Argument("resolution", "2**-15"))
    ('--missing level', '--resolution 2^-15')
    >>> as_flag(Argument("n_draws")), as_flag(Argument("cuts", "age"))
    ('--draws', '--cut age=...')
    """
    if mention.value is None:
        return FLAGS.get(mention.name, mention.name)
    flag = FLAGS.get(mention.name, f"--{mention.name}")
    value = str(mention.value).replace("**", "^")  # a shell would expand the star
    if mention.name in ("positive", "cluster"):
        value = quote(value)
    if mention.name == "cuts":
        value += "=..."
    return f"{flag} {value}"


def with_flags(text: str) -> str:
    """A message of the library with options of the command line."""
    if isinstance(text, Text):
        return text.render(as_flag)
    return text
