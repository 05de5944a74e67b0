"""Former place of the simulated visits; use `propcal.datasets`."""

from propcal.datasets.ed_visits import N_VISITS, PLAUSIBLE, TABLE_1, make_ed_visits

__all__ = ["N_VISITS", "PLAUSIBLE", "TABLE_1", "make_ed_visits"]
