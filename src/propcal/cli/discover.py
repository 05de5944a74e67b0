"""``propcal discover``: groups that nobody named, for whom a score is wrong."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from propcal.cli.log import echo
from propcal.cli.options import Only, Rows, Without, words
from propcal.cli.screen import Output, progress, warnings_as_lines
from propcal.errors import InputError
from propcal.identity import Identity
from propcal.options import AuditRule, Given, Reading, Roles, Search, given
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery

IN_PYTHON = (
    "In Python: propcal.PMCBoost(groups=propcal.discover(...).groups). "
    "A value has a NUL character, which a command cannot have."
)


def discover(
    files: Rows,
    roles: Annotated[Roles, Without("groups", "site", "cuts", "where", "as_levels")],
    search: Search,
    reading: Annotated[Reading, Only("memory_limit")],
    chance: Annotated[Given, AuditRule, Only("random_state")],
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
    from propcal.discovery.discovery import discover as search_groups
    from propcal.documents.discovery import discovery_document
    from propcal.protect.discoveries import protected_discovery

    needed = {"--score": roles.score, "--outcome": roles.outcome, "--features": search.features}
    for flag, value in needed.items():
        if not value:
            raise InputError(f"{flag} is needed", next_step="Name a column of the file")
    out.check(files)
    settings = given(roles, search, reading, chance, names) | {"sample_weight": roles.weight}
    y, score, _ = (settings.pop(name, None) for name in ("outcome", "score", "weight"))
    with warnings_as_lines(), progress("Searching") as bar:
        settings["progress"] = None if bar is None else lambda done: bar(100 * done)
        found = search_groups(y, score, data=files, **settings)
    content = out.write(output=found.to_json, html=lambda n: found.to_html(suppress=n))
    shown = protected_discovery(found, out.suppress or 0)
    out.show(content, lambda _: discovery_document(shown))
    if len(shown) and not out.as_json:
        rule = Given(AuditRule, intersections="marginal")
        read = [f"./{file}" if str(file).startswith("-") else str(file) for file in files]
        typed = words("fit", replace(roles, where=_conditions(shown)), rule, names)
        command = [_quoted(word) for word in ("propcal", "fit", *read, *typed, "-o", "model.json")]
        echo(
            f"To correct for these groups (keep some {found.identity.unit} out of the search and the fit, "
            f"to audit the correction on):\n  {IN_PYTHON if None in command else ' '.join(map(str, command))}"
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


def _quoted(word: str) -> str | None:
    r"""A word for a shell, with invisible characters as bytes; None if it has a character that none can have.

    >>> print(_quoted("age >= 70"), _quoted("it's \x1b[31m"))
    'age >= 70' $'it\'s \x1b[31m'
    """
    if word.isprintable():
        return quote(word)
    if "\0" in word:
        return None
    made = ""
    for c in word:
        hidden = "".join(f"\\x{byte:02x}" for byte in c.encode(errors="surrogateescape"))
        made += f"\\{c}" if c in "'\\" else c if c.isprintable() else hidden
    return f"$'{made}'"
