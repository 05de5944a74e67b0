"""Claims about Table 6: which method is the best most often."""

from __future__ import annotations

from propcal.paper.claims.claim import Case, Check, Claim, NotYetError
from propcal.paper.published import WINS
from propcal.paper.results.evidence import LOSSES, METRICS
from propcal.paper.results.wins import PUBLISHED, READINGS
from propcal.paper.settings import BASE, MC, PMC


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


def _most_wins(metric: str, method: str) -> Check:
    def check(case: Case) -> tuple[bool, str]:
        won = _percent(case, "seed", metric)
        others = [won[m] for m in PUBLISHED if m != method]
        return won[method] > max(others), _numbers(case, metric)

    return check


def _base_never(case: Case) -> tuple[bool, str]:
    won = {metric: _percent(case, "seed", metric)[BASE] for metric in ("pmc_loss", "dc_loss")}
    numbers = ", ".join(f"{METRICS[metric]} {share:.0f} %" for metric, share in won.items())
    return not any(won.values()), f"base model best by {numbers} of the seeds"


def _claim(metric: str, method: str) -> Claim:
    printed = WINS[metric][PUBLISHED.index(method)]
    return Claim(
        f"best {METRICS[metric]}: {method}",
        "Appendix, Table 6",
        f"{method} achieves the best {METRICS[metric]} most often ({printed} %).",
        f"{method} has more wins than each other method, one winner a seed; other readings beside it",
        _most_wins(metric, method),
        by_losses=metric in LOSSES,
        why="Which trials compete in Table 6 is not stated; see the readings of the table.",
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
        "the base model wins no seed by either loss",
        _base_never,
    ),
)
