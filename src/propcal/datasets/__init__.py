"""Data for examples: two open data sets that come with propcal, and simulated visits.

Nothing is downloaded. `SOURCES.md` beside the files gives their sources and licences.
"""

from propcal.datasets.ed_visits import make_ed_visits
from propcal.datasets.open_data import load_doctor_visits, load_readmissions

__all__ = ["load_doctor_visits", "load_readmissions", "make_ed_visits"]
