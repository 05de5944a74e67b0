"""Exceptions and messages: what is wrong, with which argument, and what to do next.

Messages count the problem and never show a person's row. A message is text with
mentions of arguments in it, so that Python can write `missing="level"` where the
command line writes ``--missing level``. Join mentions to text with ``+``, never inside
an f-string, where they would turn into plain text. Names from data and files are made
safe: to print, without control characters; in SQL, in quotation marks.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypedDict, Unpack


def plain(text: Any, most: int | None = None) -> str:
    r"""A name on one line, without invisible characters and at most `most` characters
    long.

    Control characters, escape sequences, line ends, marks that change the direction of
    writing, and halves of surrogate pairs become question marks.

    >>> plain("race=[red]A\x1b[2J\n\u202eB"), plain("0123456789", 6)
    ('race=[red]A?[2J??B', '012...')
    """
    line = str(text)
    if not line.isprintable():
        line = "".join(c if c.isprintable() else "?" for c in line)
    if most is None or len(line) <= most:
        return line
    return line[: most - 3] + "..."


def is_unicode(text: str) -> bool:
    """Whether a text can be written to a file: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any, most: int = 80) -> str:
    """A value as error messages show it, shortened if it is long.

    >>> shown("keep"), shown(10**99, 10), shown(10**5000)
    ("'keep'", '1000000...', 'a number with thousands of digits')
    """
    try:
        return plain(repr(value), most)
    except ValueError:  # Python refuses to write more than 4,300 digits
        return "a number with thousands of digits"


def doubled(mark: str) -> Callable[[str], str]:
    """A function that quotes texts with this mark; an opening bracket is closed by its
    counterpart.

    >>> doubled("[")("a]b")
    '[a]]b]'
    """
    close = {"[": "]"}.get(mark, mark)
    return lambda text: mark + text.replace(close, close * 2) + close


quoted = doubled("'")  # a text in SQL
named = doubled('"')  # the name of a column or table in SQL


@dataclass(frozen=True)
class Argument:
    """An argument mentioned in a message, alone or with a value; `written`, if given,
    is how Python shows it.

    >>> print(Argument("missing", "level") + " keeps them; or lower " + Argument("rho"))
    missing="level" keeps them; or lower rho
    >>> print(Argument("intersections", 2), Argument("groups", written="Groups(...)"))
    intersections=2 Groups(...)
    """

    name: str
    value: str | int | None = None
    written: str = ""

    def __str__(self) -> str:
        if self.written:
            return self.written
        if self.value is None:
            return self.name
        if isinstance(self.value, str) and self.value.isidentifier():
            return f'{self.name}="{self.value}"'
        return f"{self.name}={self.value}"

    def __add__(self, other: str | Argument) -> Text:
        return Text(self, other)

    def __radd__(self, other: str) -> Text:
        return Text(other, self)


class Text(str):
    """Text for Python users that remembers which arguments it mentions; names in it are
    made printable.
    """

    parts: tuple[str | Argument, ...]

    def __new__(cls, *parts: str | Argument) -> Self:
        """Join texts and mentions of arguments."""
        text = super().__new__(cls, "".join(plain(part) for part in parts))
        flat: list[str | Argument] = []
        for part in parts:
            if isinstance(part, Text):
                flat += part.parts
            elif part != "":
                flat.append(part)
        text.parts = tuple(flat)
        return text

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.parts

    def __add__(self, other: str | Argument) -> Text:
        return Text(self, other)

    def __radd__(self, other: str) -> Text:
        return Text(other, self)

    def render(self, write: Callable[[Argument], str]) -> str:
        """The text for another front end, which writes each mention of an argument in
        its own way.
        """
        written = [
            write(part) if isinstance(part, Argument) else part for part in self.parts
        ]
        return "".join(map(plain, written))


class ColumnTitle(str):
    """How messages refer to a column: "column 'risk'" or a longer text; `name` is only
    the column's name.
    """

    name: str

    def __new__(cls, name: str, text: str = "") -> Self:
        """Make the text, and remember the column's name."""
        column = super().__new__(cls, text or f"column {name!r}")
        column.name = name
        return column

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.name, str(self)


class MessageParts(TypedDict, total=False):
    """What a message says beside the problem; `Message` describes each."""

    argument: str | None
    next_step: str | Argument | None
    between: str | None


class Message(Text):
    """What is wrong and what to do next, for an error or a warning.

    Parameters
    ----------
    problem : str, or text with mentions of arguments
    argument : str, optional
        Name of the argument or column that cannot be used; by default the argument, or
        the option of the command line, with which `problem` begins.
    next_step : str, or text with mentions of arguments, optional
    between : str, optional
        The text between the two: by default ". " if `next_step` begins with a capital
        letter, else "; ".

    >>> message = Message(Argument("gamma") + " leaves no group", next_step="Lower it.")
    >>> print(message, message.argument, sep=" | ")
    gamma leaves no group. Lower it. | gamma
    """

    argument: str | None
    problem: Text
    next_step: Text | None
    between: str

    def __new__(cls, problem: str | Argument, **parts: Unpack[MessageParts]) -> Self:
        """Put the message together."""
        what = Text(problem)
        next_step = parts.get("next_step")
        then = None if next_step is None else Text(next_step)
        between = parts.get("between")
        if between is None:
            between = ". " if then and then[0].isupper() else "; "

        if then is None:
            message = super().__new__(cls, what)
        else:
            message = super().__new__(cls, what, between, then)
        message.problem = what
        message.next_step = then
        message.between = between

        mention: str | Argument | None = parts.get("argument")
        if mention is None:
            mention = _first_mention(what)
        if isinstance(mention, (Argument, ColumnTitle)):
            message.argument = mention.name
        else:
            message.argument = mention
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[Text], dict[str, Any]]:
        return (self.problem,), {
            name: getattr(self, name) for name in MessageParts.__annotations__
        }


def _first_mention(problem: Text) -> str | Argument | None:
    """The argument, or the option of the command line, with which a text begins."""
    if problem.parts and isinstance(problem.parts[0], Argument):
        return problem.parts[0]
    if problem.startswith("--"):
        return problem.split()[0].rstrip(":,")
    return None


class PropcalError(ValueError):
    """Base class of propcal's errors; its text is a structured `Message`.

    Examples
    --------
    >>> from propcal import audit
    >>> try:
    ...     audit([0, 1, 1], [0.2, 0.5, 98])
    ... except PropcalError as error:
    ...     print(error.argument, error.next_step, sep=": ")
    score: If these are percentages, divide them by 100; if they are points, use the
    predicted risk
    """

    def __init__(self, problem: str | Argument, **parts: Unpack[MessageParts]) -> None:
        # unpickling passes a whole message
        super().__init__(
            problem if isinstance(problem, Message) else Message(problem, **parts)
        )

    @property
    def message(self) -> Message:
        """The whole message."""
        message: Message = self.args[0]
        return message

    @property
    def argument(self) -> str | None:
        """The name of the argument or column that cannot be used, if there is only
        one.
        """
        return self.message.argument

    @property
    def problem(self) -> Text:
        """What is wrong."""
        return self.message.problem

    @property
    def next_step(self) -> Text | None:
        """What to do about it."""
        return self.message.next_step

    def render(self, write: Callable[[Argument], str]) -> str:
        """The message for another front end, which writes each mention of an argument
        in its own way.
        """
        return self.message.render(write)


class InputError(PropcalError):
    """The data or an argument cannot be used; the message names it and suggests what to
    do.

    Examples
    --------
    >>> from propcal import audit
    >>> audit([0, 1], [0.2, 0.5], n_bins=0)
    Traceback (most recent call last):
    propcal.errors.InputError: ...
    """


class UnseenError(InputError):
    """Rows to be scored have combinations of attributes that did not occur in the
    fitting data.

    Examples
    --------
    >>> from propcal import PMCBoost
    >>> y, sex = [1, 0, 1, 0, 1, 0, 0, 0] * 50, ["F", "M"] * 200
    >>> model = PMCBoost(unseen="error").fit([0.2] * 400, y, sensitive_features=sex)
    >>> model.predict([0.2], sensitive_features=["X"])
    Traceback (most recent call last):
    propcal.errors.UnseenError: ...
    """


class TooManyUnseenError(UnseenError):
    """More rows than allowed have values that did not occur in the fitting data;
    `summary` has the counts.
    """

    summary: Any = None


class UnknownLevelWarning(UserWarning):
    """Rows to be scored have values that did not occur in the fitting data.

    Examples
    --------
    >>> import warnings
    >>> from propcal import PMCBoost
    >>> y, sex = [1, 0, 1, 0, 1, 0, 0, 0] * 50, ["F", "M"] * 200
    >>> model = PMCBoost().fit([0.2] * 400, y, sensitive_features=sex)
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     score = model.predict([0.2], sensitive_features=["X"])
    >>> told[0].category.__name__
    'UnknownLevelWarning'
    """


def warn_user(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn at the line that called propcal, however deep inside of it the reason was
    found.
    """
    level = 1
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        "propcal."
    ):
        frame = frame.f_back
        level += 1
    warnings.warn(message, kind, stacklevel=level)


class FileFormatError(PropcalError):
    """A file cannot be used: it is truncated, edited, in another format or from a newer
    version.

    Examples
    --------
    >>> from pathlib import Path
    >>> from propcal import Correction
    >>> _ = Path("other.json").write_text("{}")
    >>> Correction.load("other.json")
    Traceback (most recent call last):
    propcal.errors.FileFormatError: ...
    """


# in errors.toml: a name, its value, and how Python shows it
MENTION = re.compile(r"@(\w+|{\w+})(?:=([\w*-]+|{\w+}))?(?:<(.*?)>)?")


@cache
def _texts(package: str) -> dict[str, dict[str, str]]:
    import tomllib  # only if there is an error
    from importlib.resources import files

    return tomllib.loads((files(package) / "errors.toml").read_text(encoding="utf-8"))


class Refusals:
    """Makes the errors of a package from its own errors.toml."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __call__(
        self, key: str, kind: type[PropcalError] = InputError, /, **known: Any
    ) -> PropcalError:
        """An error of the table, filled with what is `known`."""
        entry = _texts(self._package)[key]
        filled = {name: _filled(text, known) for name, text in entry.items()}
        return kind(filled.pop("says"), **filled)


def refused(
    key: str, kind: type[PropcalError] = InputError, /, **known: Any
) -> PropcalError:
    """An error of errors.toml, filled with what is `known`; "@rows" mentions the
    argument rows there.

    >>> refused("features without curve").argument
    'features'
    """
    return Refusals("propcal")(key, kind, **known)


def _filled(text: str, known: Mapping[str, Any]) -> str:
    """A text with values and mentions of arguments: ``@name``, ``@name=value`` or
    ``@name<written>``.
    """
    column = known.get(text.strip("{}"))
    if isinstance(column, ColumnTitle):
        return column
    parts: list[str | Argument] = []
    end = 0
    for mention in MENTION.finditer(text):
        parts.append(text[end : mention.start()].format(**known))
        name, value, written = mention.groups(default="")
        argument = Argument(
            name.format(**known),
            value.format(**known) if value else None,
            written.format(**known),
        )
        parts.append(argument)
        end = mention.end()
    return Text(*parts, text[end:].format(**known))
