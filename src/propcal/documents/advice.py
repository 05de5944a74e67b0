"""What the data of an audit cannot tell, and what to do next."""

from __future__ import annotations

from propcal.auditing.audit import Audit
from propcal.auditing.finding_names import MISCALIBRATED, NONE_FOUND, NOT_ENOUGH, UNTESTED
from propcal.documents.words import words
from propcal.numbers import plural


def _unjudged(audit: Audit) -> int:
    return int((~audit.categories["eligible"].astype(bool)).sum())


def mostly_unjudged(audit: Audit) -> bool:
    """Whether nothing was found, but most cells do not have enough data."""
    return audit.verdict.conclusion == NONE_FOUND and 2 * _unjudged(audit) > len(audit.categories)


def cannot_tell(audit: Audit) -> list[str]:
    """What remains open."""
    unit, left_out = audit.identity.unit, int((~audit.groups["kept"].astype(bool)).sum())
    unjudged, told = _unjudged(audit), []
    if unjudged:
        told.append(
            f"Whether the score is right in {unjudged:,} of the {plural(len(audit.categories), 'cell')} "
            "(subgroup and risk range): they do not have enough data."
        )
    if left_out:
        told.append(
            f"Whether the score is right for {plural(left_out, 'subgroup')} with too few {unit} or a "
            f"missing value: {'it is' if left_out == 1 else 'they are'} shown below but not tested."
        )
    if audit.settings["fitted_on_these"]:
        told.append(words("unknown", "fitted", unit=unit))
    return [*told, words("unknown", "recorded"), words("unknown", "fair")]


def next_steps(audit: Audit, corrected: str = "", worse: int = 0) -> list[str]:
    """What to do; `corrected` is the name of a corrected score, which is `worse` for so many groups."""
    unit, conclusion = audit.identity.unit, audit.verdict.conclusion
    if audit.verdict.claims:
        return _correct(audit, unit) if not corrected else _keep_or_not(audit, corrected, worse)
    if conclusion == NONE_FOUND:
        return _nothing_found(audit, corrected, worse)
    if conclusion not in (NOT_ENOUGH, UNTESTED) and audit.settings["within"] is not None:
        return [f"Audit more {unit}, combine small groups, or ask for less than “{conclusion}”."]
    return [f"Collect more {unit} with known outcomes, or define fewer and larger groups, and audit again."]


def _steps(*names: str, **values: str) -> list[str]:
    return [words("next_steps", name, **values) for name in names]


def _names_groups(audit: Audit) -> bool:
    return any(claim.kind == "group" for claim in audit.verdict.claims)


def _correct(audit: Audit, unit: str) -> list[str]:
    avoid = "not to use it for the groups named above" if _names_groups(audit) else "not to use it"
    return _steps("decide", "fit", "legal", avoid=avoid, unit=unit)


def _keep_or_not(audit: Audit, corrected: str, worse: int) -> list[str]:
    if worse:
        return [
            f"“{corrected}” is further off than before for {plural(worse, 'group')}: see “Before and "
            "after”. Do not use it unless what others gain is worth that.",
        ]
    last = ", or do not use the score for the groups named above" if _names_groups(audit) else ""
    return _steps("remains", "enough", corrected=corrected, last=last)


def _nothing_found(audit: Audit, corrected: str, worse: int) -> list[str]:
    unit = audit.identity.unit
    steps = _steps("allowed", "repeat", unit=unit)
    if corrected:
        are = "is" if worse == 1 else "are"
        off = [f"{plural(worse, 'group')} {are} further off than before: see “Before and after”."]
        if audit.settings["fitted_on_these"]:
            return [f"Audit “{corrected}” on {unit} that it was not fitted to (propcal audit --correction)."]
        return [*_steps("before_use", corrected=corrected, unit=unit), *(off if worse else []), *steps]
    if mostly_unjudged(audit):
        few = "most cells do not have enough data. Audit more people with known outcomes."
        return [f"Do not rely on this alone: {few}", *steps]
    return ["There is no reason here to correct the score.", *steps]


def unchanged_steps(audit: Audit, base: str) -> list[str]:
    """What to do with a correction that changes nobody."""
    more = f" To correct it, fit a correction to more {audit.identity.unit}, or to more recent ones."
    wrong = audit.verdict.conclusion == MISCALIBRATED
    return [f"Use {base} as it is: the correction changes nothing.{more if wrong else ''}"]
