"""Commands from records: the fields of the records that a command takes are its options
and its help.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
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
FLAGS: dict[str, str] = LISTS[
    "flags"
]  # how the command line writes arguments that messages mention
ADDED_UP = {
    "fail_on"
}  # options of which those of the configuration file and the command line all count
OFFERED: dict[str, set[str]] = {}  # the flags of each command
FEW = 12  # options; of a command with more, --help shows the common ones only


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
        bare = parameter.param_type_name == "argument" or parameter.is_flag
        # lines break at a space
        if bare:
            shown = ""
        else:
            shown = (parameter.metavar or "N").replace("|", " | ")
        vars(parameter)["display_type_rich"] = lambda ctx, shown=shown: shown  # noqa: ARG005
    return parameters


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
        self.name = name
        self.hint = hint
        self.about = about
        self.default = described.default
        self.help = about.help or text
        self.flags = about.flags or (f"--{name.replace('_', '-')}",)
        self.flag = self.flags[0].split("/")[0]
        self.key = self.flag.removeprefix("--").replace("-", "_")

    def parameter(self, *, common: bool) -> inspect.Parameter:
        """The parameter that typer reads."""
        about = self.about
        required = self.default is MISSING
        kind = list[str] | None if about.metavar in READ_ALL else self.hint
        kind = str | None if about.metavar in READ else kind
        text, default, value = self.help.partition(" Default: ")
        described = typer.Option(
            *self.flags,
            metavar=about.metavar or None,
            help=text
            + (" May be repeated." if "list" in str(kind) else "")
            + (f" [dim]{default.strip()} {value}[/dim]" if value else ""),
            rich_help_panel=about.panel,
            hidden=not (common or required or self.flag[2:] in LISTS["common"]),
            min=about.least,
            callback=read_config if self.name == "config" else None,
            is_eager=self.name == "config",
        )
        empty = inspect.Parameter.empty
        only = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(
            self.key,
            only,
            default=empty if required else self.default,
            annotation=Annotated[kind, described],
        )

    def value(self, given: Mapping[str, Any]) -> Any:
        """The value of the field, read from its text if that is needed."""
        raw = given[self.key]
        read = READ_ALL.get(self.about.metavar) or READ.get(self.about.metavar)
        if raw is None or read is None:
            return raw
        return read(raw, self.flag)


def _options_of(
    name: str, hint: Any, parameter: inspect.Parameter, text: str
) -> tuple[Any, list[_Offered]]:
    """What makes the argument of a command from options, if anything does, and the
    options.
    """
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if isinstance(parameter.default, Field):
        return None, [_Offered(name, hint, parameter.default, text)]
    record = notes[0] if kind is Given else kind
    if not is_dataclass(record):
        return None, []
    chosen = next((note for note in notes if isinstance(note, Only)), Without())
    described = [
        (f, chosen.changed.get(f.name, f)) for f in fields(record) if chosen(f.name)
    ]
    texts = descriptions(record)
    hints = {} if kind is Given else get_type_hints(record)
    offered = []
    for f, one in described:
        if "option" in one.metadata:
            hint, shown = (
                _unless_given(f, one) if kind is Given else (hints[f.name], one)
            )
            offered.append(_Offered(f.name, hint, shown, texts.get(f.name, "")))
    return (partial(_what_was_given, record) if kind is Given else kind), offered


def _unless_given(one: Field[Any], described: Field[Any]) -> tuple[Any, Field[Any]]:
    """An option of the library, which has no value unless it is given: its type, and
    how it is offered.
    """
    kinds = {"int": int, "float": float, "Sequence[float]": list[float]}
    kind: Any = kinds.get(str(one.type).split(" |")[0], str)
    nothing: Any = field(default=None, metadata=described.metadata)
    if one.type == "bool":
        return (bool, one)
    return (kind | None, nothing)


def _what_was_given(record: Any, **values: Any) -> Given:
    """The options of a record that were given; a zero is given, too."""
    given = {
        name: value
        for name, value in values.items()
        if value is not None and value is not False
    }
    return Given(record, **given)


def add_command(app: typer.Typer, command: Callable[..., Any]) -> None:
    """Add a command; its help is its docstring, with the first of its examples moved to
    the top.

    A parameter whose type is a record becomes as many options as the record has fields,
    one whose default is an `option` becomes one; others are typer's own.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters
    texts = descriptions(command)
    offered = {
        name: _options_of(name, hints[name], p, texts.get(name, ""))
        for name, p in parameters.items()
    }
    every = [one for _, options in offered.values() for one in options]
    taken: list[inspect.Parameter] = []
    for name, (_, options) in offered.items():
        own = parameters[name].replace(
            annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY
        )
        taken += [one.parameter(common=len(every) <= FEW) for one in options] or [own]
    taken.append(inspect.Parameter("ctx", taken[0].kind, annotation=typer.Context))
    if len(every) > FEW:
        taken.append(
            inspect.Parameter(
                "help_all", taken[0].kind, default=False, annotation=HelpAll
            )
        )

    def call(ctx: typer.Context, **given: Any) -> None:
        for key in ADDED_UP & given.keys():
            of_file = (ctx.default_map or {}).get(key) or []
            given[key] = [
                *of_file,
                *(text for text in given[key] or [] if text not in of_file),
            ]
        arguments = {}
        for name, (record, options) in offered.items():
            values = {one.name: one.value(given) for one in options} or {
                name: given[name]
            }
            arguments[name] = values[name] if record is None else record(**values)
        command(**arguments)

    call.__name__ = command.__name__.rstrip("_")  # `all_`, as Python has an `all`
    call.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    OFFERED[command.__name__] = {one.flag for one in every}
    for one in every:
        argument = one.about.argument or one.name
        if argument in LISTS["dashed"] or one.flag != f"--{argument}":
            FLAGS.setdefault(argument, one.flag)
    text = inspect.cleandoc(command.__doc__ or "").partition("\n\nParameters\n")[0]
    about, _, examples = text.partition("\n\nFor example:\n\n")
    first, _, others = examples.partition("\n\n")
    about = "\n\n".join(" ".join(part.split()) for part in about.split("\n\n"))
    parts = [
        f"Example: {' '.join(first.split())}",
        about,
        f"More examples:\n\n{others}" if others else "",
    ]
    whole = "\n\n".join(filter(None, parts))
    summary = " ".join(text.partition("\n\n")[0].split())
    app.command(cls=Command, help=whole, short_help=summary, epilog=HOW)(call)


def words(command: str, *records: Any) -> list[str]:
    """What to type after a command for these records; options that it does not offer
    are left out.
    """
    typed = []
    for record in records:
        for f, value in given_fields(record):
            one = _Offered(f.name, None, f)
            if one.flag in OFFERED[command]:
                texts = [] if value is True else written(value, one.about.metavar)
                typed += [part for text in texts for part in (one.flag, text)] or [
                    one.flag
                ]
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
    value = str(mention.value).replace("**", "^")  # a shell would expand the star
    if mention.name in ("positive", "cluster"):
        value = quote(value)
    return f"{FLAGS.get(mention.name, f'--{mention.name}')} {value}{'=...' if mention.name == 'cuts' else ''}"


def told(text: str) -> str:
    """A message of the library with options of the command line."""
    return text.render(as_flag) if isinstance(text, Text) else text
