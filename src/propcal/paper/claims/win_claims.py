"""Claims about Table 6: which method is best most often."""

from __future__ import annotations

from propcal.paper.admissions.settings import BASE, MC, PMC
from propcal.paper.claims.claim import Case, Check, Claim, NotYetError
from propcal.paper.published import WINS
from propcal.paper.results.evidence import LOSSES, METRICS
from propcal.paper.results.wins import PUBLISHED, READINGS

READINGS_WHY = (
    "The paper does not state which trials compete in Table 6; see the interpretations below the table. "
    'The appendix says: "A single trial consisted of a method, a parameter setting [...], and a random '
    'seed". The third interpretation is closest to that, but has many more than 100 comparisons.'
)


def _percent(case: Case, reading: str, metric: str) -> dict[str, float]:
    table = case.wins
    rows = table[(table["reading"] == reading) & (table["metric"] == metric)]
    if not rows["comparisons"].max():
        raise NotYetError("no seed with all three methods")
    return {str(row["method"]): float(row["percent"]) for _, row in rows.iterrows()}


def _numbers(case: Case, metric: str) -> str:
    parts = []
    for reading in READINGS:
        won = _percent(case, reading, metric)
        parts.append(f"by {reading}: " + ", ".join(f"{m} {won[m]:.0f} %" for m in PUBLISHED))
    return "; ".join(parts)


def _in_words(agreed: list[bool]) -> str:
    """By which interpretations the trials agree.

    >>> _in_words([True, False, False]), _in_words([False, False, False])
    ('agrees by the first interpretation only', 'by none of 3 interpretations')
    """
    if all(agreed):
        return f"by all {len(agreed)} interpretations"
    which = [name for name, true in zip(("first", "second", "third"), agreed) if true]
    return (
        f"agrees by the {' and '.join(which)} interpretation only"
        if which
        else f"by none of {len(agreed)} interpretations"
    )


def _most_wins(metric: str, method: str) -> Check:
    def check(case: Case) -> tuple[bool, str]:
        agreed = []
        for reading in READINGS:
            won = _percent(case, reading, metric)
            agreed.append(won[method] > max(won[m] for m in PUBLISHED if m != method))
        return all(agreed), f"{_in_words(agreed)}; {_numbers(case, metric)}"

    return check


def _base_never(case: Case) -> tuple[bool, str]:
    agreed, parts = [], []
    for reading in READINGS:
        won = {metric: _percent(case, reading, metric)[BASE] for metric in ("pmc_loss", "dc_loss")}
        agreed.append(not any(won.values()))
        parts.append(f"by {reading}: " + ", ".join(f"{METRICS[m]} {won[m]:.1f} %" for m in won))
    return all(agreed), f"{_in_words(agreed)}; base model best {'; '.join(parts)}"


def _claim(metric: str, method: str) -> Claim:
    printed = WINS[metric][PUBLISHED.index(method)]
    return Claim(
        f"best {METRICS[metric]}: {method}",
        "Appendix, Table 6",
        f"{method} achieves the best {METRICS[metric]} most often ({printed} %).",
        f"{method} has more wins than each other method by all three interpretations of the table",
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
        "the base model never wins by either loss, by all three interpretations of the table",
        _base_never,
        why=READINGS_WHY,
    ),
)
