"""The numbers behind the figures of the theory, all computed by functions of `propcal.bounds`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from propcal.core import bounds
from propcal.core.grid import FloatArray, check_number

if TYPE_CHECKING:
    import pandas as pd

R_MINS = (0.01, 0.1, 0.3, 1.0)  # the paper shades [0.01, 1]
DELTAS = (0.0, 0.17, 0.5)  # the paper shades [0, 0.5]; see `crossing` for 0.17
RHOS = (0.5, 0.1, 0.05, 0.01)
N_BINS = tuple(range(2, 101))  # lambda = 1 / n_bins, from 0.5 to 0.01
BINNED_ALPHA = 0.1
FEASIBLE_ALPHA = 0.5  # from here on, alpha-PMC does not imply any MC below 1


def constraints(alpha: float = 0.2, rho: float = 0.1, n: int = 201) -> pd.DataFrame:
    """How far the score may be from the outcome rate under MC and under PMC.

    At an outcome rate p, alpha-PMC allows the same as (alpha p)-MC; for rates below `rho` it allows the same
    as at rho.

    Returns
    -------
    pandas.DataFrame
        outcome_rate, and the lowest and highest score that each of MC and PMC allows, within [0, 1].

    Examples
    --------
    >>> constraints(alpha=0.2, rho=0.1).set_index("outcome_rate").loc[0.5].round(3).to_dict()
    {'mc_low': 0.3, 'mc_high': 0.7, 'pmc_low': 0.4, 'pmc_high': 0.6}
    """
    import pandas as pd

    check_number("alpha", alpha, above=0, at_most=1)
    check_number("rho", rho, above=0, at_most=1)
    rate = np.linspace(0, 1, n)
    allowed = np.array([bounds.mc_alpha_for_pmc(alpha, max(p, rho)) for p in rate.tolist()])
    return pd.DataFrame(
        {
            "outcome_rate": rate,
            "mc_low": np.maximum(rate - alpha, 0),
            "mc_high": np.minimum(rate + alpha, 1),
            "pmc_low": np.maximum(rate - allowed, 0),
            "pmc_high": np.minimum(rate + allowed, 1),
        }
    )


def relations(n: int = 201) -> pd.DataFrame:
    """What a guarantee of one kind implies for another (both panels of the figure).

    Returns
    -------
    pandas.DataFrame
        One row for each panel, line and x. `panel` is the implied guarantee, "DC" or "MC"; `given` is the
        kind of guarantee on the x axis; `parameter` and `at` are r_min for MC and delta for DC; `implied` is
        inf if there is no bound.

    Examples
    --------
    >>> frame = relations(n=11)
    >>> row = frame.query("panel == 'MC' and given == 'PMC' and x == 0.5")
    >>> row["implied"].tolist()  # the bound is trivial from alpha = 0.5 on
    [1.0]
    """
    import pandas as pd

    x = np.linspace(0, 1, n)
    parts = [
        _line("DC", "PMC", x, bounds.dc_from_pmc),
        *(_line("DC", "MC", x, partial(bounds.dc_from_mc, r_min=r), "r_min", r) for r in R_MINS),
        _line("MC", "PMC", x, bounds.mc_from_pmc),
        *(_line("MC", "DC", x, partial(bounds.mc_from_dc, delta=d), "delta", d) for d in DELTAS),
    ]
    return pd.concat(parts, ignore_index=True)


def _line(
    panel: str,
    given: str,
    x: FloatArray,
    bound: Callable[[float], float],
    parameter: str = "",
    at: float = math.nan,
) -> pd.DataFrame:
    import pandas as pd

    implied = [bound(value) for value in x.tolist()]
    head = {"panel": panel, "given": given, "parameter": parameter, "at": at}
    return pd.DataFrame({**head, "x": x, "implied": implied})


def discretisation(alpha: float = BINNED_ALPHA) -> pd.DataFrame:
    """PMC of the discretised model under (alpha, lambda)-PMC, for geometric and uniform bins.

    Returns
    -------
    pandas.DataFrame
        One row for each binning, rho and number of bins; `bin_width` is lambda.

    Examples
    --------
    >>> frame = discretisation().query("n_bins == 10 and rho == 0.1")
    >>> frame.set_index("binning")["pmc"].round(3).to_dict()
    {'geometric': 0.385, 'uniform': 1.1}
    """
    import pandas as pd

    rows = [
        {
            "binning": binning,
            "rho": rho,
            "n_bins": n_bins,
            "bin_width": 1 / n_bins,
            "pmc": bounds.pmc_from_binned(alpha, n_bins, rho, binning),
        }
        for binning in ("geometric", "uniform")
        for rho in RHOS
        for n_bins in N_BINS
    ]
    return pd.DataFrame(rows)


def crossing(delta: float) -> float:
    """The tolerance up to which PMC implies a better MC than DC together with overall calibration `delta`.

    The paper says 0.3 "given delta > 0"; this holds for delta = 0.17.

    Examples
    --------
    >>> round(crossing(0.17), 2), round(crossing(0.5), 2)
    (0.3, 0.47)
    """
    from scipy.optimize import brentq

    check_number("delta", delta, at_least=0)
    if delta == 0:
        return 0.0
    found = brentq(lambda x: bounds.mc_from_pmc(x) - bounds.mc_from_dc(x, delta), 0.0, 1 - 1e-9)
    return float(found)
