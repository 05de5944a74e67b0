"""Data for examples: an open data set that comes with propcal, and simulated visits.

Nothing is downloaded. `SOURCES.md` beside the files gives sources and licences.
"""

from propcal.datasets.ed_visits import make_ed_visits
from propcal.datasets.open_data import load_doctor_visits

__all__ = ["load_doctor_visits", "make_ed_visits"]
