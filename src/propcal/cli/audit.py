"""``propcal audit``: for whom is a score miscalibrated, and by how much?"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.auditing.finding_names import MISCALIBRATED, NONE_FOUND, NOT_SHOWN, SHOWN
from propcal.auditing.measure_names import LOSSES
from propcal.cli.atoms import note_unused_labels, read_people
from propcal.cli.options import Files, Without, words
from propcal.cli.screen import Output, say, show, warnings_as_lines, working, write_text
from propcal.cli.sites import TRAVEL, compared, show_sites
from propcal.cli.texts import floats, unlike
from propcal.errors import InputError
from propcal.identity import Identity
from propcal.numbers import Limit
from propcal.options import METHOD, OUTPUT, Analysis, BinRule, GroupRule, Reading, Roles, given

if TYPE_CHECKING:
    from propcal import Atoms, Correction
    from propcal.sites.site_measures import Sites

COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
NAMES = (*LOSSES, *(f"{loss}.low" for loss in LOSSES), "mc_rms", "pmc_rms")
_FORM = re.compile(r"\s*([a-zA-Z_.]+)\s*(>=|<=|>|<)\s*([-+0-9.eE]+)\s*")


def audit(
    files: Files,
    roles: Roles,
    reading: Reading,
    rule: GroupRule,
    bins: BinRule,
    tests: Analysis,
    out: Annotated[Output, Without("metrics")],
    names: Identity,
    correction: Path | None = METHOD.option(
        "FILE", "Compare the score with its correction by this file, from propcal fit."
    ),
    travel: bool = TRAVEL,
    full: bool = OUTPUT.flag("Print all groups, thresholds, losses and notes."),
    fail_on: list[str] | None = OUTPUT.option(
        "THRESHOLD",
        'Exit with code 1 if this holds: "pmc > 0.2", "mc.low > 0.05", "pmc_rms > 0.1", or the word '
        "verdict (the score is miscalibrated).",
    ),
) -> None:
    """Find out for whom a score is miscalibrated, by how much, and whether it could be chance.

    Exit codes: 0 success, 1 a --fail-on condition holds, 2 wrong use.

    For example:

      propcal audit visits.csv --score risk --outcome died --groups race,sex

      propcal audit visits.parquet --score risk --outcome died --html report.html
      --cut age=40,65 --where "elderly=age >= 75 and insurance = Medicare"

      propcal audit new.csv --score risk --outcome status --positive EXPIRED
      --groups race --drop-missing --correction model.json --fail-on verdict
    """
    from propcal.files.transaction import outputs
    from propcal.protect.comparisons import protected

    limits = thresholds(fail_on)
    out.check(files, correction)
    model = None
    if correction is not None:
        from propcal import Correction  # which imports numba; an audit alone does not need it

        model = Correction.load(correction)
    settings = given(rule, bins, tests, names, Roles(weight_kind=roles.weight_kind))
    with warnings_as_lines():
        people = read_people(files, roles, reading, correction=model)
        with working("Auditing...") as update:
            settings["progress"] = lambda done, total: update(f"Auditing... {done} of {total} groups")
            result = _audit(people, model, settings)
            sites = _sites(people, travel, names, update, corrected=model is not None)
    note_unused_labels(names.labels, people)
    shown = protected(result, out.suppress)  # for the terminal and JSON: only if --suppress is given
    text = _json(shown, sites, out.suppress or 0) if out.output is not None or out.as_json else ""
    with outputs(force=out.force):
        write_text(text, out.output)
        if out.html is not None or out.markdown is not None:
            page = protected(result, out.on_pages) if out.suppress is None else shown  # once, for both
            _write_pages(page, out, model, sites)
    if out.as_json:
        typer.echo(text)
    else:
        _show(shown, full=full)
        if sites is not None:
            show_sites(sites, out.suppress or 0)
        out.say_written()
        if out.files:
            typer.echo()
        if model is None and result.verdict.conclusion == MISCALIBRATED:
            _say_next(result, ["propcal", "fit", *map(str, files), *words("fit", roles, rule, bins, names)])
    _end(limits, result, shown)


def _json(shown: Any, sites: Sites | None, suppress: int) -> str:
    """The JSON of the result, with the sites that were compared."""
    from propcal.render.json import json_text

    if sites is None:
        return str(shown.to_json())
    return json_text(json.loads(shown.to_json()) | {"sites": json.loads(sites.to_json(suppress))})


def _write_pages(page: Any, out: Output, correction: Correction | None, sites: Any) -> None:
    from propcal.documents.report import report
    from propcal.render import html, markdown

    document = report(page, suppress=out.on_pages, correction=correction, sites=sites)
    if out.html is not None:
        html.write_page(html.html(document), out.html)
    if out.markdown is not None:
        html.write_page(markdown.markdown(document), out.markdown)


def _audit(people: Atoms, model: Correction | None, settings: dict[str, Any]) -> Any:
    """An audit, or a comparison of the score with what a correction makes of it."""
    import propcal

    if model is None:
        return propcal.audit(people, **settings)
    return propcal.compare({"score": None, "corrected": model}, people, **settings)


def _sites(people: Atoms, travel: bool, names: Identity, update: Any, *, corrected: bool) -> Any:
    """Sites compared, if there are several; None without sites."""
    from propcal.core.patterns import SITE
    from propcal.core.periods_and_sites import by_key

    parts = by_key(people, SITE)
    if len(parts) < 2:
        if travel:
            there = f"there is one ({next(iter(parts))})" if parts else "there are none"
            raise InputError(
                f"--travel needs at least two sites, and {there}", argument="--travel", next_step="See --site"
            )
        return None
    called = Identity(title=names.title, score=names.score, unit=names.unit)
    result = compared(people, travel=travel, names=called, update=update)
    note = "The sites are compared by the score before its correction."
    return replace(result, notes=(note, *result.notes)) if corrected else result


def _show(result: Any, *, full: bool) -> None:
    from propcal.documents.audit import audit_document
    from propcal.documents.comparison import comparison_document
    from propcal.render.text import text

    document = comparison_document if hasattr(result, "audits") else audit_document
    show(text(document(result), full=full))


def _say_next(result: Any, command: list[str]) -> None:
    """The command that fits a correction, for the same groups and risk ranges."""
    if result.groups["outcome_rate"].iloc[0] in (0, 1):  # no fit is possible
        return
    if result.verdict.ranks_backwards:
        typer.echo("Before correcting it, find out why it ranks the wrong way round.")
        return
    say(f"To correct it (keep some {result.identity.unit} out of the fit, to audit the correction on):")
    say(f"  {join([*command, '-o', 'model.json'])}")


@dataclass(frozen=True)
class Threshold:
    """A limit for a number of the audit, or its verdict."""

    name: str
    compare: str = ""
    limit: float = math.nan

    def undecided(self, audit: Any) -> str:
        """A note if there was no verdict that could fail."""
        conclusion = audit.verdict.conclusion
        if self.name != "verdict" or conclusion.startswith((MISCALIBRATED, NOT_SHOWN)):
            return ""
        if audit.settings["fitted_on_these"]:
            return f"{self} passes, although the correction was fitted to these very {audit.identity.unit}"
        decided = conclusion.startswith((NONE_FOUND, SHOWN))
        return "" if decided else f"{self} passes, although the verdict is: {conclusion}"

    def failure(self, audit: Any, shown: Any = None) -> str:
        """Why the audit fails; empty if it does not. An unknown value fails.

        `shown` is the audit as it may be shown, from protected counts.
        """
        if self.name == "verdict":
            conclusion = audit.verdict.conclusion
            failed = conclusion.startswith((MISCALIBRATED, NOT_SHOWN))
            return f"the verdict is: {conclusion}" if failed else ""
        value = _value(audit, self.name)
        if math.isnan(value):
            return f"{self}: {self.name} is not known for these data"
        if not COMPARE[self.compare](value, self.limit):
            return ""
        told = value if shown is None or shown is audit else _value(shown, self.name)
        if math.isnan(told):
            return f"{self}: this holds; its value is not shown, because it rests on few people"
        least = f"{told.side} " if isinstance(told, Limit) else "about " if told is not value else ""
        return f"{self}: {self.name} is {least}{told:.4g}"

    def __str__(self) -> str:
        return self.name if self.name == "verdict" else f"{self.name} {self.compare} {self.limit:g}"


def _value(audit: Any, name: str) -> float:
    loss = name.removesuffix("_rms").removesuffix(".low")
    if name.endswith("_rms"):
        return float(audit.debiased.loc[loss, "rms"])
    value = audit.losses.loc[loss, "low" if name.endswith(".low") else "value"]
    return value if isinstance(value, Limit) else float(value)


def thresholds(texts: Sequence[str] | None) -> list[Threshold]:
    """Read ``pmc > 0.2``, ``mc.low >= 0.05`` or ``verdict``.

    >>> [str(t) for t in thresholds(["pmc>.2", "verdict"])]
    ['pmc > 0.2', 'verdict']
    """
    return [_threshold(text) for text in texts or []]


def _threshold(text: str) -> Threshold:
    text = text.lower()  # the screen says PMC
    if text.strip() == "verdict":
        return Threshold("verdict")
    found = _FORM.fullmatch(text)
    limits = floats(found[3]) if found else []
    if found is None or not limits or math.isnan(limits[0]):
        raise unlike("--fail-on", repr(text), '"pmc > 0.2", or the word verdict')
    if found[1] == "verdict":
        raise InputError(f"--fail-on {text!r}: use the word verdict alone", argument="--fail-on")
    if found[1] not in NAMES:
        raise InputError(
            f"--fail-on {text!r}: {found[1]!r} is unknown; use one of {', '.join(NAMES)}, verdict",
            argument="--fail-on",
        )
    return Threshold(found[1], found[2], limits[0])


def _end(limits: list[Threshold], result: Any, shown: Any) -> None:
    """Exit with code 1 if a --fail-on condition holds; in a comparison, for the last score."""
    judged, printed = (list(r.audits.values())[-1] if hasattr(r, "audits") else r for r in (result, shown))
    failures = [failure for limit in limits if (failure := limit.failure(judged, printed))]
    for limit in limits:
        if note := limit.undecided(judged):
            say(f"propcal: note: {note}", err=True)
    for failure in failures:
        say(f"propcal: failed: {failure}", err=True)
    if failures:
        raise typer.Exit(1)
