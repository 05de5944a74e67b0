"""Claims about Table 6: which method is best most often."""

from __future__ import annotations

from propcal.paper.claims.claim import Case, Check, Claim
from propcal.paper.experiment.settings import BASE, MC, PMC
from propcal.paper.published import WINS
from propcal.paper.results.evidence import LOSSES, METRICS
from propcal.paper.results.wins import PUBLISHED

READINGS_WHY = (
    "The best of many settings is chosen on the test set itself, where a method with more different fits has "
    "more chances: PMCBoost has twice as many as MCBoost, whose fits do not depend on rho, and the base "
    "model has one."
)


def _numbers(case: Case, metric: str) -> str:
    parts = []
    for reading in case.setup.readings:
        won = case.wins(reading, metric)
        parts.append(f"by {reading}: " + ", ".join(f"{m} {won[m]:.0f} %" for m in PUBLISHED))
    return "; ".join(parts)


def _in_words(agreed: list[bool]) -> str:
    """By which interpretations the trials agree.

    >>> _in_words([True, False, False]), _in_words([False, False, False])
    ('agrees by the first interpretation only', 'by none of 3 interpretations')
    """
    if len(agreed) == 1:
        return "one winner for each seed"
    if all(agreed):
        return f"by all {len(agreed)} interpretations"
    which = [name for name, true in zip(("first", "second", "third"), agreed) if true]
    return (
        f"agrees by the {' and '.join(which)} interpretation only"
        if which
        else f"by none of {len(agreed)} interpretations"
    )


def _most_wins(metric: str, method: str) -> Check:
    def check(case: Case) -> tuple[bool | None, str]:
        agreed = []
        for reading in case.setup.readings:
            won = case.wins(reading, metric)
            agreed.append(won[method] > max(won[m] for m in PUBLISHED if m != method))
        return all(agreed), f"{_in_words(agreed)}; {_numbers(case, metric)}"

    return check


def _base_never(case: Case) -> tuple[bool | None, str]:
    agreed, parts = [], []
    for reading in case.setup.readings:
        won = {metric: case.wins(reading, metric)[BASE] for metric in ("pmc_loss", "dc_loss")}
        agreed.append(not any(won.values()))
        parts.append(f"by {reading}: " + ", ".join(f"{METRICS[m]} {won[m]:.1f} %" for m in won))
    return all(agreed), f"{_in_words(agreed)}; base model best {'; '.join(parts)}"


def _claim(metric: str, method: str) -> Claim:
    printed = WINS[metric][PUBLISHED.index(method)]
    return Claim(
        f"best {METRICS[metric]}: {method}",
        "Appendix, Table 6",
        f"{method} achieves the best {METRICS[metric]} most often ({printed} %).",
        f"{method} has more wins than each other method by every interpretation that the set-up uses",
        _most_wins(metric, method),
        by_losses=metric in LOSSES,
        why=READINGS_WHY,
    )


WIN_CLAIMS = (
    _claim("dc_loss", PMC),
    _claim("mc_loss", PMC),
    _claim("pmc_loss", PMC),
    _claim("auroc", MC),
    Claim(
        "the base model is never best",
        "Table 6",
        "The base model has the best PMC loss and the best DC loss in none of 100 trials.",
        "the base model never wins by either loss, by every interpretation of the table that the set-up uses",
        _base_never,
        why=READINGS_WHY,
    ),
)
