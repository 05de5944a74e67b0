"""``propcal discover``: groups that nobody named, for whom a score is wrong."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from propcal.cli.options import Only, Rows, Without, words
from propcal.cli.screen import Output, progress, show, warnings_as_lines, write_text
from propcal.errors import InputError
from propcal.identity import Identity
from propcal.options import Analysis, GroupRule, Reading, Roles, Search, given
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery


def discover(
    files: Rows,
    roles: Annotated[Roles, Without("groups", "site", "cuts", "where", "as_levels")],
    search: Search,
    reading: Annotated[Reading, Only("memory_limit")],
    chance: Annotated[Analysis, Only("random_state")],
    out: Annotated[Output, Without("markdown", "metrics")],
    names: Annotated[Identity, Only("unit", "labels")],
) -> None:
    """Find groups that nobody named, for whom a score is wrong by more than chance explains.

    The search tries single conditions on the features, pairs of conditions, and a third condition for the
    strongest pairs. Groups that only three conditions together show can be missed.

    For example:

      propcal discover visits.csv --score risk --outcome died --features age,acuity,insurance

      propcal discover visits.parquet --score risk --outcome died
      --features age,acuity,insurance --protect race,sex -o found.json
    """
    import propcal
    from propcal.documents.discovery import discovery_document
    from propcal.files.transaction import outputs
    from propcal.protect.discoveries import protected_discovery
    from propcal.render.text import text

    needed = {"--score": roles.score, "--outcome": roles.outcome, "--features": search.features}
    for flag, value in needed.items():
        if not value:
            raise InputError(f"{flag} is needed", argument=flag, next_step="Name a column of the file")
    out.check(files)
    settings = given(roles, search, reading, chance, names) | {"sample_weight": roles.weight}
    y, score, _ = (settings.pop(name, None) for name in ("outcome", "score", "weight"))
    with warnings_as_lines(), progress("Searching") as bar:
        settings["progress"] = None if bar is None else lambda done: bar(100 * done)
        found = propcal.discover(y, score, data=files, **settings)
    content = found.to_json(out.suppress or 0)
    with outputs(force=out.force):
        write_text(content, out.output)
        if out.html is not None:
            found.to_html(out.html, suppress=out.on_pages)
    if out.as_json:
        typer.echo(content)
        return
    found = protected_discovery(found, out.suppress or 0)
    show(text(discovery_document(found)))
    out.say_written()
    if len(found):
        rule = GroupRule(intersections="marginal")
        read = [f"./{file}" if str(file).startswith("-") else str(file) for file in files]
        typed = words("fit", replace(roles, where=_conditions(found)), rule, names)
        command = _command(["propcal", "fit", *read, *typed, "-o", "model.json"])
        typer.echo(
            f"To correct for these groups (keep some {found.identity.unit} out of the search and the fit, "
            f"to audit the correction on):\n  {command}"
        )


def _conditions(found: Discovery) -> dict[str, str]:
    """The groups by names that --where can have: printable, and without a sign that would end them."""
    made: dict[str, str] = {}
    for i, group in enumerate(found.found, start=1):
        name = group.name
        for sign, other in ((">=", "≥"), ("<=", "≤"), ("!=", "≠"), ("=", ":")):
            name = name.replace(sign, other)
        name = plain(name).strip(" <>!")
        made[name if name and name not in made else f"group {i}"] = group.condition
    return made


def _command(words: list[str]) -> str:
    """Words as a command for a shell, on one line."""
    if any("\0" in word for word in words):
        return (
            "In Python: propcal.PMCBoost(groups=propcal.discover(...).groups). "
            "A value has a NUL character, which a command cannot have."
        )
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    r"""A word for a shell; invisible characters are written as bytes.

    >>> print(_quoted("age >= 70"), _quoted("it's \x1b[31m"))
    'age >= 70' $'it\'s \x1b[31m'
    """
    if word.isprintable():
        return quote(word)
    made = ""
    for c in word:
        hidden = "".join(f"\\x{byte:02x}" for byte in c.encode(errors="surrogateescape"))
        made += f"\\{c}" if c in "'\\" else c if c.isprintable() else hidden
    return f"$'{made}'"
