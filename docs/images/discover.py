"""Draw the picture of the guide to discovery: the groups that a search found.

python docs/images/discover.py
"""

from pathlib import Path

import numpy as np

from propcal import discover
from propcal.datasets import make_ed_visits


def vendor_visits(n=40_000, seed=3):
    """Visits with a vendor's score: too low for older patients who come again, too high for some in pain."""
    visits = make_ed_visits(n, seed=seed)
    low = (visits.age >= 75) & (visits.n_previous_visits >= 2)
    high = (visits.insurance == "Medicaid") & (visits.pain >= 7)
    visits["vendor"] = (visits.true_risk * np.where(low, 0.6, np.where(high, 1.5, 1))).clip(0, 1)
    return visits


def main():
    visits = vendor_visits()
    features = visits[["age", "acuity", "n_previous_visits", "pain", "insurance", "gender"]]
    found = discover(visits.admitted, visits.vendor, features=features, unit="visits")
    print(found)
    found.plot().figure.savefig(Path(__file__).with_name("discover.png"), dpi=130)


if __name__ == "__main__":
    main()
