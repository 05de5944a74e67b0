"""What each difference between the set-ups held-out and authors-code does to the
losses, one at a time.

python benchmarks/setup_differences.py [SHUFFLES] [ROWS]

On simulated visits, with race, gender and insurance as groups: MC, PMC and DC loss of
the base model and of PMCBoost (alpha 0.1, gamma 0.05, rho 0.1) in the test set by the
fixed rule, medians over shuffles and the two base models LR and RF, as multiples of
those of held-out."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from propcal_paper.results.evidence import LOSSES
from propcal_paper.running.experiment import Experiment
from propcal_paper.running.trial_store import Store
from propcal_paper.settings import BASE, GROUPINGS, PMC, Setting
from propcal_paper.setups import SETUPS, Setup, setup_of

HELD_OUT, AUTHORS = setup_of("held-out"), setup_of("authors-code")
DIFFERENCES = [
    name
    for name, value in SETUPS["authors-code"].items()
    if SETUPS["held-out"].get(name) != value
]


def losses(setup: Setup, shuffles: int, rows: int) -> list[float]:
    """Median losses of the base model, then of PMCBoost, and the sweeps of PMCBoost."""
    settings = [Setting(BASE, GROUPINGS[1]), Setting(PMC, GROUPINGS[1], 0.1, 0.05, 0.1)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.sqlite"
        what = {"rows": rows, "models": ["LR", "RF"], "settings": settings}
        store: Store = Experiment(path, trials=shuffles, setup=setup, **what).run(
            jobs=1
        )
        middle = store.trials().groupby("method")[[*LOSSES, "n_sweeps"]].median()
    return [
        *middle.loc[BASE, [*LOSSES]],
        *middle.loc[PMC, [*LOSSES]],
        middle.loc[PMC, "n_sweeps"],
    ]


def main(shuffles: int, rows: int) -> None:
    first = losses(HELD_OUT, shuffles, rows)
    print(
        f"{shuffles} shuffles, {rows:,} visits; base model MC PMC DC | PMCBoost MC PMC DC sweeps",
        flush=True,
    )
    print("| held-out |", *(f"{v:.3g} |" for v in first), flush=True)
    for name in [*DIFFERENCES, "all"]:
        setup = (
            replace(HELD_OUT, name=name, **{name: getattr(AUTHORS, name)})
            if name != "all"
            else AUTHORS
        )
        found = losses(setup, shuffles, rows)
        print(
            f"| {name} |",
            *(f"{a / b:.2f}x |" for a, b in zip(found, first)),
            flush=True,
        )


if __name__ == "__main__":
    main(
        *(int(value) for value in (*sys.argv[1:], *("3", "60000")[len(sys.argv) - 1 :]))
    )
