"""Options from a TOML file: common keys at the top, a table for each command; the command line wins."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer

from propcal.errors import FileFormatError, InputError
from propcal.regular_file import refuse_special

COLUMNS = "COLUMNS"  # the metavar of options that list columns with commas between them
# a dotted key of n parts takes memory in proportion to n * n
MOST_BYTES, MOST_DOTS = 1 << 16, 1_000


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Use the content of the file as defaults of this command."""
    if path is not None:
        assert ctx.parent is not None
        commands: dict[str, Any] = ctx.parent.command.commands  # type: ignore[attr-defined]  # of the app
        options = {name: _options(command) for name, command in commands.items()}
        ctx.default_map = config_options(_load(path), str(ctx.info_name), options, str(path))
    return path


def _options(command: Any) -> dict[str, Any]:
    """The long flags of a command, as keys."""
    found = {}
    for parameter in command.params:
        for flag in parameter.opts:
            if flag.startswith("--") and flag not in ("--config", "--help"):
                found[_key(flag)] = parameter
    return found


def _key(text: str) -> str:
    key = text.lstrip("-").replace("-", "_")
    return "label" if key == "labels" else key  # a table of labels reads better in the plural


def _load(path: Path) -> dict[str, Any]:
    refuse_special(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise FileFormatError(f"{path} is too large for a configuration: more than {MOST_BYTES:,} bytes")
        if any(line.count(b".") > MOST_DOTS for line in content.splitlines()):
            raise FileFormatError(f"{path} has more than {MOST_DOTS:,} dots in one line")
        return tomllib.loads(content.decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"--config: there is no file {path}", argument="--config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not valid TOML: {error}") from None
    except (ValueError, OverflowError, RecursionError):  # numbers of thousands of digits, deeply nested lists
        raise FileFormatError(f"{path} is not TOML that propcal can read") from None


def config_options(
    content: dict[str, Any], command: str, options: dict[str, dict[str, Any]], path: str
) -> dict[str, Any]:
    """The options of one command in the file, by parameter name."""
    known = {key for own in options.values() for key in own}
    common = {key: value for key, value in content.items() if key not in options}
    for key in common:
        _refuse_unknown(key, known | set(options), path)
    chosen = {_key(key): value for key, value in common.items() if _key(key) in options[command]}
    for name in options:
        table = content.get(name, {})
        if not isinstance(table, dict):
            raise InputError(f"{path}: {name!r} is a command; put its options into a table [{name}]")
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
        hint = f"Did you mean {near[0]!r}?" if near else f"the options are {sorted(known)}"
        raise InputError(f"{path}: there is no option {key!r}", argument=key, next_step=hint)


def _value(key: str, value: Any, parameter: Any, path: str) -> Any:
    """The value as on the command line: everything but truth values becomes text."""
    if isinstance(value, dict):
        value = [f"{name}={_joined(part)}" for name, part in _flat(value).items()]
    if parameter.multiple:
        parts = value if isinstance(value, list) else [value]
        if isinstance(value, list) and parameter.metavar == COLUMNS:  # each entry is one whole name
            return [_joined(parts)]
        return [str(part) for part in parts]
    if getattr(parameter, "is_flag", False) and not isinstance(value, bool):
        raise InputError(f"{path}: {key!r} must be true or false", argument=key)
    if isinstance(value, bool) and not getattr(parameter, "is_flag", False):
        raise InputError(f"{path}: {key!r} cannot be true or false", argument=key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1e5 is a whole number, also where one is asked for
    return _joined(value) if isinstance(value, list) else value if isinstance(value, bool) else str(value)


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """Tables within a table, such as the labels of a column, with a point between the names."""
    return {
        f"{name}.{inner}" if isinstance(part, dict) else name: value
        for name, part in table.items()
        for inner, value in (part.items() if isinstance(part, dict) else [("", part)])
    }


def _joined(value: Any) -> str:
    parts = value if isinstance(value, list) else [value]
    return ",".join(f'"{part}"' if "," in str(part) else str(part) for part in parts)
