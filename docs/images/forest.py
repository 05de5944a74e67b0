"""Draw the picture of the guide to the audit: for whom a score is wrong, with intervals.

python docs/images/forest.py
"""

from pathlib import Path

from propcal import audit
from propcal.datasets import make_ed_visits


def main():
    visits = make_ed_visits(60_000, seed=3)
    visits["score"] = visits.groupby(["acuity", visits.age // 10], dropna=False).admitted.transform("mean")
    new = visits[30_000:]
    a = audit(new.admitted, new.score, sensitive_features=new[["race", "gender"]])
    a.plot("forest").figure.savefig(Path(__file__).with_name("forest.png"), dpi=130)


if __name__ == "__main__":
    main()
