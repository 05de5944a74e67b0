"""The published numbers: Tables 4, 5 and 6 of the paper (Table 1 is in data/cohorts.py)."""

from __future__ import annotations

# Table 4: median percent change from the base model in AUROC, MC loss, PMC loss and DC loss.
PERCENT_CHANGE = {
    ("MCBoost", "DNN"): (-0.58, -10.83, -16.27, -2.41),
    ("MCBoost", "LR"): (-0.01, 10.95, -9.50, -6.46),
    ("MCBoost", "RF"): (-0.09, -5.91, -55.44, -13.88),
    ("PMCBoost", "DNN"): (-0.56, -19.49, -28.83, -9.91),
    ("PMCBoost", "LR"): (0.01, 14.18, -37.90, -14.90),
    ("PMCBoost", "RF"): (-0.27, -17.53, -80.82, -23.52),
}

# Table 5: average updates and seconds for the same alpha of PMC; MCBoost is run at alpha * rho.
UPDATES_AND_TIME: dict[tuple[str, float, str], tuple[float, float]] = {
    ("LR", 0.001, "MCBoost"): (2094, 678),
    ("LR", 0.001, "PMCBoost"): (263, 320),
    ("LR", 0.01, "MCBoost"): (631, 223),
    ("LR", 0.01, "PMCBoost"): (153, 202),
    ("RF", 0.001, "MCBoost"): (1996, 556),
    ("RF", 0.001, "PMCBoost"): (323, 234),
    ("RF", 0.01, "MCBoost"): (713, 197),
    ("RF", 0.01, "PMCBoost"): (256, 167),
}

# Table 6: in how many of 100 trials each was best: base model, MCBoost, PMCBoost.
WINS = {
    "auroc": (5, 88, 6),
    "mc_loss": (8, 21, 70),
    "pmc_loss": (0, 27, 72),
    "dc_loss": (0, 36, 63),
}
