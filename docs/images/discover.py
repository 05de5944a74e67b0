"""Draw the picture of the guide to discovery: the groups that a search found.

python docs/images/discover.py
"""

from pathlib import Path

import numpy as np

from propcal import discover
from propcal.data.cohorts import make_ed_visits


def vendor_visits(n=40_000, seed=3):
    """Visits with a vendor's score that does not know older patients who arrive in the most acute state."""
    visits = make_ed_visits(n, seed=seed)
    rng = np.random.default_rng(seed)
    risk = visits.true_risk.to_numpy()
    unknown = (visits.age >= 75) & (visits.n_previous_visits >= 2)
    visits["vendor"] = np.where(unknown, 0.6 * risk, risk)
    visits["weekday"] = rng.choice(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], n)
    return visits


def main():
    visits = vendor_visits()
    features = visits[["age", "acuity", "n_previous_visits", "weekday"]]
    found = discover(visits.admitted, visits.vendor, features=features, unit="visits")
    print(found)
    found.plot().figure.savefig(Path(__file__).with_name("discover.png"), dpi=130)


if __name__ == "__main__":
    main()
