"""Options as texts, such as ``age=40,65`` or ``2^-16``, on the command line and in a
TOML file.

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

# a dotted key of n parts takes memory in proportion to n * n
MOST_BYTES = 1 << 16
MOST_DOTS = 1_000
COLUMNS = "COLUMNS"  # the metavar of options that list columns with commas between them


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
        example = """race,'"height, cm"'"""
        step = f"write it like {example}: put a name with commas or quotes in quotes, and double its own"
        raise InputError(option, next_step=step, between=": ") from None
    columns = [name.strip() for row in rows for name in row if name.strip()]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{option}: {twice!r} is listed twice")
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
            raise unlike(
                option, repr(text), "icu=boolean" if option == "--type" else "race=RACE"
            )
        pairs[name] = value
    return pairs


def _pairs(option: str, texts: Sequence[str], example: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if (
            not (name and equals and value)
            or value.startswith("=")
            or name[-1] in "<>!"
        ):
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
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text


def resolution(text: str, option: str = "--resolution") -> float:
    """Read --resolution: a power of two, as 2**-16, 2^-16, 1/65536 or a number.

    >>> resolution("2**-10") == resolution("2^-10") == resolution("1/1024") == resolution("0.0009765625")
    True
    """
    parts = re.fullmatch(
        r"\s*(2\s*(?:\*\*|\^)\s*-\s*(\d{1,3})|1\s*/\s*(\d{1,30})|[\d.eE+-]+)\s*", text
    )
    value = 0.0
    if parts and parts[2]:
        value = 2.0 ** -min(int(parts[2]), 1000)
    elif parts and parts[3]:
        value = 1 / int(parts[3]) if int(parts[3]) else 0.0
    elif parts:
        value = (floats(text) or [0.0])[0]
    if not 0 < value < 1 or log2(value) != int(log2(value)) or value < 2.0**-32:
        if 0 < value < 1:
            near = f"2**-{min(max(round(-log2(value)), 1), 32)}"
        else:
            near = "2**-16"
        raise refused("resolution", option=option, text=text, near=near)
    return value


def edges(text: str, _: str = "") -> str | list[float]:
    """Read --binning: a word, or edges.

    >>> edges("quantile"), edges("0,0.1,1")
    ('quantile', [0.0, 0.1, 1.0])
    """
    return floats(text) or text if "," in text else text


def share(text: str, option: str = "--within") -> float:
    """A share, as 20% or 0.2.

    >>> share("20%"), share("0.2")
    (0.2, 0.2)
    """
    try:
        return float(text.strip().removesuffix("%")) / (100 if "%" in text else 1)
    except ValueError:
        raise InputError(
            f"{option} {text!r} is not a share", next_step="write it as 20% or 0.2"
        ) from None


def number_or_word(text: str, _: str = "") -> str | float:
    """Read --guard; the library refuses unknown words."""
    try:
        return float(text)
    except ValueError:
        return text.lower() if text.lower() == "none" else text


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

    >>> written({"age": [40.0, 65.0]}, "COLUMN=NUMBERS"), written(["a", "b, c"], COLUMNS), written(["NA"], "")
    (['age=40,65'], ['a,"b, c"'], ['NA'])
    """
    if isinstance(
        value, Mapping
    ):  # tables of tables, such as labels of columns, have a point between names
        inner = {
            name: part if isinstance(part, Mapping) else {None: part}
            for name, part in value.items()
        }
        parts = [
            (name, level, part)
            for name, levels in inner.items()
            for level, part in levels.items()
        ]
        return [
            f"{name}{'' if level is None else f'.{level}'}={joined(part)}"
            for name, level, part in parts
        ]
    together = metavar in (COLUMNS, "KIND|EDGES") or not isinstance(value, list)
    if together:
        return [joined(value)]
    return [joined(part) for part in value]


def joined(value: Any) -> str:
    """Values with commas between them; a name with a comma is quoted."""
    parts = value if isinstance(value, list) else [value]
    texts = [f"{part:.15g}" if isinstance(part, float) else str(part) for part in parts]
    if len(texts) == 1 and not isinstance(value, list):
        return texts[0]
    return ",".join(f'"{text}"' if "," in text else text for text in texts)


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Use the content of the file as defaults of this command."""
    if path is not None:
        assert ctx.parent is not None
        commands: dict[str, Any] = ctx.parent.command.commands  # type: ignore[attr-defined]  # of the app
        options = {name: _options(command) for name, command in commands.items()}
        ctx.default_map = config_options(
            _load(path), str(ctx.info_name), options, str(path)
        )
    return path


def _options(command: Any) -> dict[str, Any]:
    """The long flags of a command, as keys."""
    found = {}
    for parameter in command.params:
        for flag in parameter.opts:
            if flag.startswith("--") and flag not in (
                "--config",
                "--help",
                "--help-all",
            ):
                found[_key(flag)] = parameter
    return found


def _key(text: str) -> str:
    key = text.lstrip("-").replace("-", "_")
    # a table of labels reads better in the plural
    if key == "labels":
        return "label"
    return key


def _load(path: Path) -> dict[str, Any]:
    refuse_special(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise FileFormatError(
                f"{path} is too large for a configuration: more than {MOST_BYTES:,} bytes"
            )
        if any(line.count(b".") > MOST_DOTS for line in content.splitlines()):
            raise FileFormatError(
                f"{path} has more than {MOST_DOTS:,} dots in one line"
            )
        return tomllib.loads(content.decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"--config: there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not valid TOML: {error}") from None
    except (
        ValueError,
        OverflowError,
        RecursionError,
    ):  # numbers of thousands of digits, deeply nested lists
        raise FileFormatError(f"{path} is not TOML that propcal can read") from None


def config_options(
    content: dict[str, Any], command: str, options: dict[str, dict[str, Any]], path: str
) -> dict[str, Any]:
    """The options of one command in the file, by parameter name."""
    known = {key for own in options.values() for key in own}
    common = {key: value for key, value in content.items() if key not in options}
    for key in common:
        _refuse_unknown(key, known | set(options), path)
    chosen = {
        _key(key): value
        for key, value in common.items()
        if _key(key) in options[command]
    }
    for name in options:
        table = content.get(name, {})
        if not isinstance(table, dict):
            raise InputError(
                f"{path}: {name!r} is a command; put its options into a table [{name}]"
            )
        for key in table:
            _refuse_unknown(key, options[name], f"{path}, [{name}]")
    chosen |= {_key(key): value for key, value in content.get(command, {}).items()}
    return {
        options[command][key].name: _value(key, value, options[command][key], path)
        for key, value in chosen.items()
    }


def _refuse_unknown(key: str, known: Iterable[str], path: str) -> None:
    if _key(key) not in known:
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
        parts = value if isinstance(value, list) else [value]
        if (
            isinstance(value, list) and parameter.metavar == COLUMNS
        ):  # each entry is one whole name
            return [joined(parts)]
        return [str(part) for part in parts]
    if getattr(parameter, "is_flag", False) and not isinstance(value, bool):
        raise InputError(f"{path}: {key!r} must be true or false", argument=key)
    if isinstance(value, bool) and not getattr(parameter, "is_flag", False):
        raise InputError(f"{path}: {key!r} cannot be true or false", argument=key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1e5 is a whole number, also where one is asked for
    if isinstance(value, list):
        return joined(value)
    if isinstance(value, bool):
        return value
    return str(value)
