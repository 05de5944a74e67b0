"""``propcal audit``, ``sites`` and ``discover``: where and for whom is a score off?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Any

import propcal
from propcal.auditing.names import MISCALIBRATED
from propcal.cli.atoms import note_unused_labels, read_people, site_names
from propcal.cli.commands_from_records import Files, Only, Rows, Without, typed_options
from propcal.cli.gates import Decision, Gates, decide, end, read_gates
from propcal.cli.terminal import (
    Output,
    echo,
    first_imports,
    log,
    progress,
    say,
    warnings_as_lines,
    working,
)
from propcal.errors import InputError, plain, refused
from propcal.options import (
    METHOD,
    OUTPUT,
    AuditRule,
    Given,
    Identity,
    Reading,
    Roles,
    Searching,
    given,
)

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery
    from propcal.documents.blocks import Document
    from propcal.sites.compare_sites import Sites

LEFT_OUT = (
    "With sites: fit a correction on all other sites and test it at each site "
    "(leave-one-site-out)."
)
TRAVEL = METHOD.flag(LEFT_OUT)
# what a fit has no use for
ASKED = ("n_draws", "bin_free", "within", "random_state", "thresholds")
IN_PYTHON = (
    "In Python: propcal.PMCBoost(groups=propcal.discover(...).groups). "
    "A value has a NUL character, which a command cannot have."
)
SITE_NAMES = ("title", "score", "outcome", "unit", "source", "period")


def audit(
    files: Files,
    roles: Roles,
    reading: Reading,
    rule: Annotated[Given, AuditRule, Without(*ASKED)],
    asked: Annotated[Given, AuditRule, Only(*ASKED)],
    out: Annotated[Output, Without("metrics")],
    names: Identity,
    correction: Path | None = METHOD.option("FILE"),
    travel: bool = TRAVEL,
    discover: list[str] | None = METHOD.option("COLUMNS"),
    full: bool = OUTPUT.flag(),
    gates: Gates = Gates(),
) -> None:
    """Find out for whom a score is miscalibrated, by how much, and whether it could be
    chance.

    Exit codes: 0 success, 1 a --fail-on condition holds or cannot be decided, 2 wrong
    use.

    For example:

      propcal audit visits.csv --score risk --outcome died --groups race,sex

      propcal audit visits.parquet --score risk --outcome died --html report.html
      --cut age=40,65 --where "elderly=age >= 75 and insurance = Medicare"

      propcal audit new.csv --score risk --outcome status --positive EXPIRED
      --groups race --drop-missing --correction model.json --fail-on verdict

    Parameters
    ----------
    correction
        Compare the score with its correction by this file, from propcal fit.
    discover
        Also search these columns for groups that nobody named, as propcal discover
        does.
    full
        Print all groups, thresholds, losses and notes.
    """
    with first_imports():
        from propcal.protect.release import protected

    rho = rule.get("rho", AuditRule.rho)
    conditions = read_gates(gates, correction, asked.get("within"), rho)
    if discover and correction:
        raise InputError(
            "--discover searches one score",
            next_step="leave out --correction, or search first",
        )
    out.check(files, correction)
    model = None
    if correction is not None:
        # a correction imports numba, which an audit alone does not need
        model = propcal.Correction.load(correction)
    settings = given(rule, asked, names, Roles(weight_kind=roles.weight_kind))
    within = [gate.limit for gate in conditions if gate.name == "within"]
    if within:
        settings["within"] = within[0]

    with warnings_as_lines():
        if model is not None and roles.score is not None:
            from propcal.scoring.files import warn_of_other_score

            warn_of_other_score(model, roles.score)
        people = read_people(files, roles, reading, correction=model)
        with working("Auditing...") as update:
            settings["progress"] = lambda done, total: update(
                f"Auditing... {done} of {total} groups"
            )
            try:
                result = _result(people, model, settings, roles.score)
            except InputError as refused:
                if refused.argument != "within" or not within:
                    raise
                settings["within"] = None  # the condition is undecided
                result = _result(people, model, settings, roles.score)
            corrected = model is not None
            sites = _sites_of(
                people, roles.site, travel, names, update, corrected=corrected
            )
        found = None
        if discover:
            found = _search(files, roles, Given(Searching, features=discover), names)
    note_unused_labels(names.labels, people)

    # once for all that is shown alike
    shown = cache(lambda suppress: protected(result, suppress))
    printed = shown(out.suppress or 0)
    decisions = decide(conditions, gates, result, printed, people, model, sites)
    others = {"sites": sites, "discovery": found}
    parts = {"correction": model, **others}
    content = out.write(
        output=lambda n: _json(shown(n), others, n, decisions),
        html=lambda n: _page("html", shown(n), n, parts),
        markdown=lambda n: _page("markdown", shown(n), n, parts),
    )
    documents: list[Callable[[int], Document]] = [lambda n: _document(shown(n), sites)]
    if sites is not None:
        documents.append(sites._document)
    if found is not None:
        documents.append(found._document)
    out.show(content, *documents, full=full)
    if not out.as_json:
        if out.files:
            say("")
        if model is None and result.verdict.conclusion == MISCALIBRATED:
            options = typed_options("fit", roles, rule, names)
            _say_next(result, ["propcal", "fit", "part.csv", *options])
    end(decisions)


def _result(
    people: propcal.Atoms, model: Any, settings: dict[str, Any], score: str | None
) -> Any:
    """An audit, or a comparison of the score, called by its column, with its
    correction.
    """
    if model is None:
        return propcal.audit(people, **settings)
    name = score if score and score != "corrected" else "score"
    return propcal.compare({name: None, "corrected": model}, people, **settings)


def _json(
    shown: Any, others: Mapping[str, Any], suppress: int, gates: Sequence[Decision]
) -> str:
    """The JSON of the result, with other results, and what became of the gates."""
    from propcal.documents.data import json_text, rounded

    content: dict[str, Any] = {}
    for name, result in others.items():
        if result is not None:
            content[name] = json.loads(result.to_json(suppress=suppress))
    if gates:
        content["gates"] = rounded([decision.to_json() for decision in gates])
    if content:
        return json_text(json.loads(shown.to_json()) | content)
    return str(shown.to_json())


def _page(form: str, shown: Any, suppress: int, parts: dict[str, Any]) -> str:
    from propcal.documents.report import report

    document = report(shown, suppress=suppress, **parts)
    if form == "html":
        from propcal.render.html import html

        return html(document)

    from propcal.render.markdown import markdown

    return markdown(document)


def _document(result: Any, sites: Sites | None) -> Document:
    from propcal.documents.audit import Extras, audit_document

    if hasattr(result, "audits"):
        from propcal.documents.report import comparison_document

        return comparison_document(result)
    headline = sites.headline if sites is not None and sites.claims else ""
    return audit_document(result, Extras(sites=headline))


def _say_next(result: Any, command: list[str]) -> None:
    """The command that fits a correction, for the same groups and risk ranges."""
    if result.groups["outcome_rate"].iloc[0] in (0, 1):  # no fit is possible
        return
    if result.verdict.ranks_backwards:
        say("Before correcting it, find out why it ranks the wrong way round.")
        return
    unit = result.identity.unit
    say(f"To correct it, divide the {unit} at random or by time, each patient in")
    say("one part. Fit a correction to one part, and audit it on the other:")
    say(f"  {join([*command, '-o', 'model.json'])}")


def sites(
    files: Files,
    roles: Roles,
    reading: Reading,
    out: Annotated[Output, Without("format", "markdown", "metrics")],
    names: Annotated[Identity, Only(*SITE_NAMES)],
    travel: bool = TRAVEL,
) -> None:
    """Compare sites: is the score shown to be off at any of them, and what can a new
    site expect?

    Sites come from a column (--site hospital), or from atoms files with one site each.
    Groups matter only to --travel, which corrects the score for them.

    For example:

      propcal sites visits.csv --site hospital --score risk --outcome died --html
      sites.html

      propcal sites north.atoms south.atoms east.atoms --travel -o sites.json
    """
    from propcal.sites.compare_sites import compare_sites

    out.check(files)
    with warnings_as_lines():
        people = read_people(files, roles, reading)
        known = site_names(people)
        if not known:
            raise refused("no sites")
        if known == [roles.site]:
            raise refused("one site", site=roles.site)
        with working(f"Comparing {len(known)} sites..."):
            result = compare_sites(people, travel=travel, identity=names)
    content = out.write(
        output=result.to_json, html=lambda n: result.to_html(suppress=n)
    )
    out.show(content, result._document)


def _sites_of(
    people: propcal.Atoms,
    site: str | None,
    travel: bool,
    names: Identity,
    update: Any,
    *,
    corrected: bool,
) -> Sites | None:
    """The sites of an audit, compared, if there are several."""
    known = site_names(people)
    if len(known) < 2:
        if travel:
            there = f"there is one ({known[0]})" if known else "there are none"
            raise InputError(
                f"--travel needs at least two sites, and {there}",
                next_step="See --site",
            )
        if known and known == [site]:
            what = f"--site {site!r} is no column"
            log("note", f"{what}, so all rows are one site of that name")
        return None

    from propcal.sites.compare_sites import compare_sites

    update(f"Comparing {len(known)} sites...")
    called = Identity(title=names.title, score=names.score, unit=names.unit)
    result = compare_sites(people, travel=travel, identity=called)
    if not corrected:
        return result
    note = "The sites are compared by the score before its correction."
    return result.with_note(note)


def discover(
    files: Rows,
    roles: Annotated[Roles, Without("groups", "site", "cuts", "where", "as_levels")],
    search: Annotated[Given, Searching],
    reading: Annotated[Reading, Only("memory_limit")],
    chance: Annotated[Given, AuditRule, Only("random_state")],
    out: Annotated[Output, Without("markdown", "metrics")],
    names: Annotated[Identity, Only("unit", "labels")],
) -> None:
    """Find groups that nobody named, for whom a score is wrong by more than chance
    explains.

    The search tries single conditions on the features, pairs of conditions, and a third
    condition for the strongest pairs. Groups that only three conditions together show
    can be missed.

    For example:

      propcal discover visits.csv --score risk --outcome died --features
      age,acuity,insurance

      propcal discover visits.parquet --score risk --outcome died
      --features age,acuity,insurance --protect race,sex -o found.json
    """
    from propcal.protect.protected_discovery import protected_discovery

    needed = {
        "--score": roles.score,
        "--outcome": roles.outcome,
        "--features": search.get("features"),
    }
    for flag, value in needed.items():
        if not value:
            raise InputError(f"{flag} is needed", next_step="Name a column of the file")
    out.check(files)
    with warnings_as_lines():
        found = _search(files, roles, search, names, reading, chance)
    content = out.write(output=found.to_json, html=lambda n: found.to_html(suppress=n))
    shown = protected_discovery(found, out.suppress or 0)
    out.show(content, found._document)
    if len(shown) and not out.as_json:
        some = f"keep some {found.identity.unit} out of the search and the fit"
        echo(f"To correct for these groups ({some}, to audit the correction on):")
        echo(f"  {_fit_command(shown, files, roles, names)}")


def _fit_command(
    found: Discovery, files: Sequence[Path], roles: Roles, names: Identity
) -> str:
    """What to type to correct a score for the groups found."""
    paths = [f"./{file}" if str(file).startswith("-") else str(file) for file in files]
    rule = Given(AuditRule, intersections="marginal")
    options = typed_options(
        "fit", replace(roles, where=_conditions(found)), rule, names
    )
    quoted = []
    for word in ("propcal", "fit", *paths, *options, "-o", "model.json"):
        for_shell = _quoted(word)
        if for_shell is None:
            return IN_PYTHON
        quoted.append(for_shell)
    return " ".join(quoted)


def _search(
    files: list[Path], roles: Roles, search: Given, names: Identity, *others: Any
) -> Discovery:
    """The groups that a search of the files finds, whichever are named."""
    from propcal.discovery.discovery import discover as search_groups

    roles = replace(
        roles, groups=None, cuts=None, where=None, as_levels=None, site=None
    )
    called = Identity(unit=names.unit, labels=names.labels)
    settings = given(roles, search, called, *others)
    settings["sample_weight"] = roles.weight
    settings.pop("weight", None)
    y = settings.pop("outcome", None)
    score = settings.pop("score", None)
    with progress("Searching") as bar:
        settings["progress"] = None if bar is None else lambda done: bar(100 * done)
        return search_groups(y, score, data=files, **settings)


def _conditions(found: Discovery) -> dict[str, str]:
    """The groups by names that --where can have: printable, and without a sign that
    would end them.
    """
    signs = {">=": "≥", "<=": "≤", "!=": "≠", "=": ":"}
    conditions: dict[str, str] = {}
    for i, group in enumerate(found.found, start=1):
        name = group.name
        for sign, replacement in signs.items():
            name = name.replace(sign, replacement)
        name = plain(name).strip(" <>!")
        if not name or name in conditions:
            name = f"group {i}"
        conditions[name] = group.condition
    return conditions


def _quoted(word: str) -> str | None:
    r"""A word for a shell, with invisible characters as bytes; None if it has a
    character that none can have.

    >>> print(_quoted("age >= 70"), _quoted("it's \x1b[31m"))
    'age >= 70' $'it\'s \x1b[31m'
    """
    if word.isprintable():
        return quote(word)
    if "\0" in word:
        return None
    return f"$'{''.join(map(_escaped, word))}'"


def _escaped(character: str) -> str:
    r"""A character within a shell's $'...'."""
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    hidden = character.encode(errors="surrogateescape")
    return "".join(f"\\x{byte:02x}" for byte in hidden)
