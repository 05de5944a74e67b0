"""Options as texts, such as ``age=40,65``, on the command line and in a TOML file.

In the file, common keys stand at the top, and each command may have a table; the
command line wins.
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from math import log2
from pathlib import Path
from typing import Any

import typer

from propcal.core.arguments import refuse_special
from propcal.errors import FileFormatError, InputError, refused

MOST_BYTES = 1 << 16  # of a configuration
# in a line of it: a dotted key of n parts takes memory in proportion to n * n
MOST_DOTS = 1_000
COLUMNS = "COLUMNS"  # the metavar of options that list columns with commas between them
POWER_OF_TWO = re.compile(
    r"\s*(2\s*(?:\*\*|\^)\s*-\s*(\d{1,3})|1\s*/\s*(\d{1,30})|[\d.eE+-]+)\s*"
)
# flags that are no options of a command
NOT_IN_FILES = ("--config", "--help", "--help-all")


def unlike(option: str, text: str, example: str) -> InputError:
    """A text that is not written like the example."""
    return InputError(
        f"{option} {text}", next_step=f"write it like {example}", between=": "
    )


def names(texts: Sequence[str], option: str = "--groups") -> list[str]:
    """The columns of ``race,gender``, of all repetitions together; a name with a comma
    is quoted.

    >>> names(["race, gender", '"height, cm"'])
    ['race', 'gender', 'height, cm']
    """
    try:
        rows = list(csv.reader(texts, skipinitialspace=True))
    except csv.Error:  # a line break, or a name longer than csv accepts
        step = (
            """write it like race,'"height, cm"': put a name with commas or quotes """
            "in quotes, and double its own"
        )
        raise InputError(option, next_step=step, between=": ") from None

    stripped = [name.strip() for row in rows for name in row]
    columns = [name for name in stripped if name]
    for name in columns:
        if columns.count(name) > 1:
            raise InputError(f"{option}: {name!r} is listed twice")
    return columns


def cuts(texts: Sequence[str], option: str = "--cut") -> dict[str, list[float]]:
    """Read ``age=18,40,65``.

    >>> cuts(["age=18,40,65"])
    {'age': [18.0, 40.0, 65.0]}
    """
    points: dict[str, list[float]] = {}
    for column, text in _pairs(option, texts, "age=18,40,65"):
        points[column] = floats(text)
        if not points[column]:
            raise unlike(option, f"{column}={text}", "age=18,40,65")
    return points


def conditions(texts: Sequence[str], option: str = "--where") -> dict[str, str]:
    """Read ``elderly=age >= 75``: a name, then a condition.

    >>> conditions(["elderly=age >= 75"])
    {'elderly': 'age >= 75'}
    """
    return dict(_pairs(option, texts, '"elderly=age >= 75"'))


def labels(texts: Sequence[str], option: str = "--label") -> dict[str, dict[str, str]]:
    """Read ``sex.F=women``: a column, a level and what it is called; no level is a
    missing value.

    >>> labels(["sex.F=women", "sex.M=men", "race.=race unknown"])
    {'sex': {'F': 'women', 'M': 'men'}, 'race': {'': 'race unknown'}}
    """
    levels: dict[str, dict[str, str]] = {}
    for name, text in _pairs(option, texts, "sex.F=women"):
        column, point, level = (part.strip() for part in name.partition("."))
        if not (column and point):
            raise unlike(option, f"{name}={text}", "sex.F=women")
        levels.setdefault(column, {})[level] = text
    return levels


def renamed(texts: Sequence[str], option: str) -> dict[str, str]:
    """Read ``race=RACE``; the left name may contain equal signs."""
    pairs = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not (name and equals and value):
            example = "icu=boolean" if option == "--type" else "race=RACE"
            raise unlike(option, repr(text), example)
        pairs[name] = value
    return pairs


def _pairs(option: str, texts: Sequence[str], example: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        complete = name and equals and value
        if not complete or value.startswith("=") or name[-1] in "<>!":
            raise unlike(option, repr(text), example)
        pairs.append((name, value))
    if len({name for name, _ in pairs}) < len(pairs):
        raise InputError(f"{option}: a name is listed twice")
    return pairs


def floats(text: str) -> list[float]:
    """Numbers with commas between them; none if one is not a number."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []


def depth(text: str, _: str = "") -> str | int:
    """Read --intersections: a word or a number."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    return text


def resolution(text: str, option: str = "--resolution") -> float:
    """Read --resolution: a power of two, as 2**-16, 2^-16, 1/65536 or a number.

    >>> {resolution(text) for text in ("2**-10", "2^-10", "1/1024", "0.0009765625")}
    {0.0009765625}
    """
    value = _power_of_two(text)
    if not 0 < value < 1:
        raise refused("resolution", option=option, text=text, near="2**-16")
    exponent = -log2(value)
    if exponent != int(exponent) or exponent > 32:
        near = f"2**-{min(max(round(exponent), 1), 32)}"
        raise refused("resolution", option=option, text=text, near=near)
    return value


def _power_of_two(text: str) -> float:
    """The number that a text stands for; 0 if there is none."""
    parts = POWER_OF_TWO.fullmatch(text)
    if parts is None:
        return 0.0
    _, exponent, divisor = parts.groups()
    if exponent:
        return 2.0 ** -min(int(exponent), 1000)
    if divisor:
        return 1 / int(divisor) if int(divisor) else 0.0
    return (floats(text) or [0.0])[0]


def edges(text: str, _: str = "") -> str | list[float]:
    """Read --binning: a word, or edges.

    >>> edges("quantile"), edges("0,0.1,1")
    ('quantile', [0.0, 0.1, 1.0])
    """
    if "," in text:
        return floats(text) or text
    return text


def share(text: str, option: str = "--within") -> float:
    """A share, as 20% or 0.2.

    >>> share("20%"), share("0.2")
    (0.2, 0.2)
    """
    whole = 100 if "%" in text else 1
    try:
        return float(text.strip().removesuffix("%")) / whole
    except ValueError:
        raise InputError(
            f"{option} {text!r} is not a share", next_step="write it as 20% or 0.2"
        ) from None


def number_or_word(text: str, _: str = "") -> str | float:
    """Read --guard; the library refuses unknown words."""
    try:
        return float(text)
    except ValueError:
        if text.lower() == "none":
            return "none"
        return text


def day(text: str, option: str = "--as-of") -> date:
    """Read a date."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text}: write it like 2026-03-31") from None


# by metavar: how all texts of an option that may be repeated, or the text of one that
# may not, become a value
READ_ALL: dict[str, Callable[[Sequence[str], str], Any]] = {
    COLUMNS: names,
    "COLUMN=NUMBERS": cuts,
    "NAME=CONDITION": conditions,
    "COLUMN.LEVEL=TEXT": labels,
    "COLUMN=KIND": renamed,
    "COLUMN=NAME": renamed,
}
READ: dict[str, Callable[[str, str], Any]] = {
    "all|marginal|DEPTH": depth,
    "2^-N": resolution,
    "KIND|EDGES": edges,
    "20%": share,
    "1%": share,
    "noise|none|NUMBER": number_or_word,
    "DATE": day,
}


def written(value: Any, metavar: str) -> list[str]:
    """The texts that give an option this value, one for each time that the option is
    repeated.

    >>> written({"age": [40.0, 65.0]}, "COLUMN=NUMBERS")
    ['age=40,65']
    >>> written(["a", "b, c"], COLUMNS), written(["NA"], "")
    (['a,"b, c"'], ['NA'])
    """
    if isinstance(value, Mapping):
        return _written_table(value)
    if metavar in (COLUMNS, "KIND|EDGES") or not isinstance(value, list):
        return [joined(value)]
    return [joined(part) for part in value]


def _written_table(table: Mapping[str, Any]) -> list[str]:
    """A text for each entry; in tables of tables, such as labels of columns, there is a
    point between the names.
    """
    texts = []
    for name, entry in table.items():
        if isinstance(entry, Mapping):
            for level, part in entry.items():
                texts.append(f"{name}.{level}={joined(part)}")
        else:
            texts.append(f"{name}={joined(entry)}")
    return texts


def joined(value: Any) -> str:
    """Values with commas between them; a name with a comma is quoted."""
    if not isinstance(value, list):
        return _plain_text(value)
    texts = [_plain_text(part) for part in value]
    return ",".join(f'"{text}"' if "," in text else text for text in texts)


def _plain_text(value: Any) -> str:
    """A number without needless digits, or any other value."""
    if isinstance(value, float):
        return f"{value:.15g}"
    return str(value)


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Use the content of the file as defaults of this command."""
    if path is not None:
        assert ctx.parent is not None
        app: Any = ctx.parent.command
        options = {name: _options(command) for name, command in app.commands.items()}
        content = _load(path)
        command_name = str(ctx.info_name)
        ctx.default_map = config_options(content, command_name, options, str(path))
    return path


def _options(command: Any) -> dict[str, Any]:
    """The long flags of a command, as keys."""
    options = {}
    for parameter in command.params:
        for flag in parameter.opts:
            if flag.startswith("--") and flag not in NOT_IN_FILES:
                options[_key(flag)] = parameter
    return options


def _key(text: str) -> str:
    key = text.lstrip("-").replace("-", "_")
    # a table of labels reads better in the plural
    if key == "labels":
        return "label"
    return key


def _load(path: Path) -> dict[str, Any]:
    """The content of a configuration."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"--config: there is no file {path}") from None
    if len(content) > MOST_BYTES:
        limit = f"more than {MOST_BYTES:,} bytes"
        raise FileFormatError(f"{path} is too large for a configuration: {limit}")
    if any(line.count(b".") > MOST_DOTS for line in content.splitlines()):
        raise FileFormatError(f"{path} has more than {MOST_DOTS:,} dots in one line")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not valid TOML: {error}") from None
    except (ValueError, OverflowError, RecursionError):
        # numbers of thousands of digits, or deeply nested lists
        raise FileFormatError(f"{path} is not TOML that propcal can read") from None


def config_options(
    content: dict[str, Any], command: str, options: dict[str, dict[str, Any]], path: str
) -> dict[str, Any]:
    """The options of one command in the file, by parameter name."""
    known = {*options}
    for of_command in options.values():
        known |= of_command.keys()
    common = {key: value for key, value in content.items() if key not in options}
    for key in common:
        _refuse_unknown(key, known, path)
    for name in options:
        table = content.get(name, {})
        if not isinstance(table, dict):
            raise InputError(
                f"{path}: {name!r} is a command; put its options into a table [{name}]"
            )
        for key in table:
            _refuse_unknown(key, options[name], f"{path}, [{name}]")

    parameters = options[command]
    chosen = {_key(key): value for key, value in common.items()}
    chosen |= {_key(key): value for key, value in content.get(command, {}).items()}
    values = {}
    for key, value in chosen.items():
        if key in parameters:  # else it is an option of other commands
            parameter = parameters[key]
            values[parameter.name] = _value(key, value, parameter, path)
    return values


def _refuse_unknown(key: str, known: Iterable[str], path: str) -> None:
    if _key(key) in known:
        return
    near = get_close_matches(_key(key), list(known), n=1)
    if near:
        hint = f"Did you mean {near[0]!r}?"
    else:
        hint = f"the options are {sorted(known)}"
    raise InputError(
        f"{path}: there is no option {key!r}", argument=key, next_step=hint
    )


def _value(key: str, value: Any, parameter: Any, path: str) -> Any:
    """The value as on the command line: everything but truth values becomes text."""
    if isinstance(value, dict):
        value = written(value, parameter.metavar)
    if parameter.multiple:
        if isinstance(value, list) and parameter.metavar == COLUMNS:
            return [joined(value)]  # each entry is one whole name
        parts = value if isinstance(value, list) else [value]
        return [str(part) for part in parts]

    is_flag = getattr(parameter, "is_flag", False)
    if is_flag and not isinstance(value, bool):
        raise InputError(f"{path}: {key!r} must be true or false", argument=key)
    if isinstance(value, bool) and not is_flag:
        raise InputError(f"{path}: {key!r} cannot be true or false", argument=key)
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return joined(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # 1e5 is a whole number, also where one is asked for
    return str(value)
