"""Results drawn at random: audits, comparisons, monitors and comparisons of sites, of
all sizes and kinds.
"""

import numpy as np
import pandas as pd

import propcal
from propcal.options import Identity

KINDS, UNIT, NAME = (
    ("audit", "comparison", "monitor", "sites"),
    "patients",
    "SepsisRisk 2",
)


def shares(rng, n):
    """Of n levels: equal ones, or some that are rare."""
    own = np.arange(1, n + 1) ** rng.uniform(0, 3)
    return own / own.sum()


def people(rng):
    """Rows with few or many groups, rare or common outcomes, and a score that is right,
    wrong or tied.
    """
    n, rate = (
        int(np.exp(rng.uniform(*np.log([300, 20_000])))),
        np.exp(rng.uniform(*np.log([0.01, 0.4]))),
    )
    levels = ["ABC", "FM", "ABCDEFGH"][: rng.integers(1, 4)]
    frame = pd.DataFrame(
        {
            f"a{i}": rng.choice([*x], n, p=shares(rng, len(x)))
            for i, x in enumerate(levels)
        }
    )
    risk, groups = rng.beta(1.5, 1.5 / rate - 1.5, n), [*frame]
    factor = (
        frame["a0"]
        .map({"A": rng.choice([1, 0.5, 1.6])})
        .fillna(rng.choice([1, 1, 0.8, 1.3]))
    )
    if rng.random() < 0.3:
        frame.loc[rng.random(n) < 0.05, "a0"] = None
    frame["died"] = (rng.random(n) < np.clip(risk * factor, 0, 1)).astype(int)
    scores = {
        "smooth": risk,
        "tied": risk.round(2),
        "deciles": (np.argsort(np.argsort(risk)) * 10 // n + 0.5) / 5 * rate,
        "ends": np.where(rng.random(n) < 0.1, risk > rng.random(n), risk),
        "alert": np.where(
            risk > np.quantile(risk, 0.9), min(3 * rate, 1.0), 0.8 * rate
        ),
    }
    return frame.assign(risk=scores[rng.choice([*scores])].clip(0, 1)), groups


def drawn(seed):
    """An audit, a comparison, a monitor or a comparison of sites."""
    rng, kind = np.random.default_rng(seed), KINDS[seed % len(KINDS)]
    frame, groups = people(rng)
    n, some = len(frame), lambda share: rng.random() < share
    words = {"unit": UNIT, "score_name": NAME if some(0.5) else ""}
    labels = {"a0": {"A": "Alpha", "B": "Beta, old"}} if some(0.4) else {}
    if kind == "sites":
        names = [f"Site {i}" for i in range(rng.choice([2, 3, 5, 12]))]
        frame["at"] = rng.choice(names, n, p=shares(rng, len(names)))
        atoms = propcal.Atoms.from_frame(
            frame, score="risk", outcome="died", groups=groups, site="at"
        )
        identity = Identity(unit=UNIT, score=words["score_name"])
        return propcal.compare_sites(atoms, travel=some(0.5), identity=identity)
    if kind == "monitor":
        days = rng.integers(0, rng.choice([60, 180, 400]), n)
        frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(days, unit="D")
        late = (
            (days > 0.6 * days.max())
            & (frame["a0"] == "C")
            & (rng.random(n) < frame["risk"])
        )
        frame.loc[late & some(0.5), "died"] = 1
        roles = {"score": "risk", "outcome": "died", "time": "day", "groups": groups}
        baseline = "2024-01" if some(0.3) else None
        monitor = propcal.Monitor(**roles, **words, labels=labels, baseline=baseline)
        monitor.add(frame)
        return monitor.course(recalibrate=some(0.5))
    given = {
        "sensitive_features": frame[groups],
        "labels": labels,
        "n_draws": 100,
        **words,
    }
    given |= {"thresholds": (0.1, 0.3)} if some(0.3) else {}
    more = rng.choice(["visits", "survey", "", ""])
    given |= {"cluster": rng.integers(0, n // 2, n)} if more == "visits" else {}
    given |= {"sample_weight": rng.uniform(0.5, 3, n)} if more == "survey" else {}
    if kind == "audit":
        return propcal.audit(frame["died"], frame["risk"], **given)
    scores = {
        "score": frame["risk"],
        "corrected": frame["risk"] ** rng.uniform(0.9, 1.2),
    }
    if some(0.5):
        half = frame[frame["died"].cumsum() <= 0.8 * frame["died"].sum()]
        boost = propcal.PMCBoost(gamma=0.1).fit(
            half["risk"], half["died"], sensitive_features=half[groups]
        )
        scores["corrected"] = boost.correction_
    scores |= {"simple": np.full(n, frame["died"].mean())} if some(0.3) else {}
    return propcal.compare(scores, frame["died"], **given)
