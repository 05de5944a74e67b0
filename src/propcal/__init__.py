"""propcal: for whom is a risk score wrong, and how is it put right?

Names are loaded when first used, so that ``import propcal`` costs little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0.dev0"

_HOME = {
    "PMCBoost": "propcal.estimators",
    "MCBoost": "propcal.estimators",
    "MulticalibratedClassifier": "propcal.classifier",
    "audit": "propcal.auditing.audit",
    "compare": "propcal.auditing.compare",
    "bin_free_measures": "propcal.auditing.bin_free",
    "compare_sites": "propcal.sites.site_measures",
    "Discovery": "propcal.discovery.discovery",
    "discover": "propcal.discovery.discovery",
    "loss_scorer": "propcal.metrics",
    "mc_loss": "propcal.metrics",
    "pmc_loss": "propcal.metrics",
    "dc_loss": "propcal.metrics",
    "smallest_alpha": "propcal.metrics",
    "Groups": "propcal.core.groups.groups",
    "Monitor": "propcal.monitoring.monitor",
    "Atoms": "propcal.core.atoms",
    "Correction": "propcal.core.correction.correction",
    # what these return
    "Audit": "propcal.auditing.audit",
    "Comparison": "propcal.auditing.compare",
    "Claim": "propcal.auditing.claims",
    "Verdict": "propcal.auditing.claims",
    "Course": "propcal.monitoring.course",
    "Explanation": "propcal.core.correction.explain",
    "FitSummary": "propcal.core.correction.fit_summary",
    "Scored": "propcal.core.correction.correction",
    "Sites": "propcal.sites.site_measures",
    "SqlExport": "propcal.sql.export",
}

_MODULES = {
    "bounds": "propcal.core.bounds",
    "datasets": "propcal.datasets",
    "displays": "propcal.displays",
}

__all__ = [
    "Atoms",
    "Audit",
    "Claim",
    "Comparison",
    "Correction",
    "Course",
    "Discovery",
    "Explanation",
    "FitSummary",
    "Groups",
    "MCBoost",
    "Monitor",
    "MulticalibratedClassifier",
    "PMCBoost",
    "Scored",
    "Sites",
    "SqlExport",
    "Verdict",
    "__version__",
    "audit",
    "bin_free_measures",
    "bounds",
    "compare",
    "compare_sites",
    "datasets",
    "dc_loss",
    "discover",
    "displays",
    "loss_scorer",
    "mc_loss",
    "pmc_loss",
    "smallest_alpha",
]

if TYPE_CHECKING:
    from propcal import datasets as datasets
    from propcal import displays as displays
    from propcal.auditing.audit import Audit as Audit
    from propcal.auditing.audit import audit as audit
    from propcal.auditing.bin_free import bin_free_measures as bin_free_measures
    from propcal.auditing.claims import Claim as Claim
    from propcal.auditing.claims import Verdict as Verdict
    from propcal.auditing.compare import Comparison as Comparison
    from propcal.auditing.compare import compare as compare
    from propcal.classifier import MulticalibratedClassifier as MulticalibratedClassifier
    from propcal.core import bounds as bounds
    from propcal.core.atoms import Atoms as Atoms
    from propcal.core.correction.correction import Correction as Correction
    from propcal.core.correction.correction import Scored as Scored
    from propcal.core.correction.explain import Explanation as Explanation
    from propcal.core.correction.fit_summary import FitSummary as FitSummary
    from propcal.core.groups.groups import Groups as Groups
    from propcal.discovery.discovery import Discovery as Discovery
    from propcal.discovery.discovery import discover as discover
    from propcal.estimators import MCBoost as MCBoost
    from propcal.estimators import PMCBoost as PMCBoost
    from propcal.metrics import dc_loss as dc_loss
    from propcal.metrics import loss_scorer as loss_scorer
    from propcal.metrics import mc_loss as mc_loss
    from propcal.metrics import pmc_loss as pmc_loss
    from propcal.metrics import smallest_alpha as smallest_alpha
    from propcal.monitoring.course import Course as Course
    from propcal.monitoring.monitor import Monitor as Monitor
    from propcal.sites.site_measures import Sites as Sites
    from propcal.sites.site_measures import compare_sites as compare_sites
    from propcal.sql.export import SqlExport as SqlExport


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'propcal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
