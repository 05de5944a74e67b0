"""Makes the file of `propcal.datasets` from its source: python
benchmarks/make_datasets.py.

The data of the RAND experiment are those of statsmodels (public domain).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.datasets import randhie

FILE = (
    Path(__file__).parents[1] / "src" / "propcal" / "datasets" / "doctor_visits.parquet"
)
# rows that follow each other and agree in all of these are taken for one person
FACTS = ["lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"]
HEALTH = ["disea", "physlm", "hlthg", "hlthf", "hlthp"]  # what the score is made of
PLANS = {
    0: "free care",
    25: "pays 25 %",
    50: "pays 50 %",
    95: "pays 95 % or all",
    100: "pays 95 % or all",
}
FREQUENT = 5  # visits in a year


def doctor_visits() -> pd.DataFrame:
    """Two thirds of the people; the score is that of a model of the others who had free
    care.
    """
    raw = randhie.load_pandas().data
    number = (raw[FACTS] != raw[FACTS].shift()).any(axis=1).cumsum() - 1
    order = np.random.default_rng(0).permutation(number.nunique())
    plan = (np.exp(raw.lncoins) - 1).round().astype(int).map(PLANS)
    years = pd.DataFrame(
        {
            "person": order[number],
            "plan": plan,
            "deductible": raw.idp == 1,
            "health": np.select(
                [raw.hlthg == 1, raw.hlthf == 1, raw.hlthp == 1],
                ["good", "fair", "poor"],
                "excellent",
            ),
            "limited": raw.physlm > 0.5,
            "chronic_diseases": raw.disea.round(1),
            "visits": raw.mdvis.astype("int16"),
        }
    )
    frequent = (raw.mdvis >= FREQUENT).astype("int8")
    kept = years.person < 2 * len(order) // 3
    developed = ~kept & (plan == "free care")
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(raw.loc[developed, HEALTH], frequent[developed])
    years["risk"] = model.predict_proba(raw[HEALTH])[:, 1].round(4)
    years["frequent"] = frequent
    return years[kept].sort_values("person", kind="stable").reset_index(drop=True)


if __name__ == "__main__":
    frame = doctor_visits()
    print(frame.head(3).to_string(), len(frame), frame.person.nunique())
    frame.to_parquet(FILE, index=False, compression="zstd", compression_level=19)
    print(f"{FILE.stat().st_size / 1000:.0f} kB")
