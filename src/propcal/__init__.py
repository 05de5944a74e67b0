"""propcal: for whom is a risk score wrong, and how is it put right?

Names are loaded when first used, so that ``import propcal`` costs little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from propcal.core.criterion import METHODS

__version__ = "0.4.0.dev0"

_MODULES = {
    "bounds": "propcal.core.bounds",
    "datasets": "propcal.datasets",
    "displays": "propcal.displays",
}
_PLACES = {  # where public names are, below propcal
    "auditing.audit": "audit Audit",
    "auditing.bin_free": "bin_free_measures",
    "auditing.claims": "Claim Verdict",
    "auditing.compare": "compare Comparison",
    "classifier": "MulticalibratedClassifier",
    "core.atoms": "Atoms",
    "core.correction.correction": "Correction Scored",
    "core.correction.explain": "Explanation",
    "core.correction.fit_summary": "FitSummary",
    "core.groups": "Groups",
    "discovery.discovery": "Discovery discover",
    "estimators": " ".join(METHODS.values()),
    "metrics": " ".join(
        [*(f"{key}_loss" for key in METHODS), "dc_loss loss_scorer smallest_alpha"]
    ),
    "monitoring.course": "Course",
    "monitoring.monitor": "Monitor",
    "sites.compare_sites": "Sites compare_sites",
    "export.sql": "SqlExport",
}
_HOME = {
    name: f"propcal.{place}"
    for place, names in _PLACES.items()
    for name in names.split()
}
__all__ = sorted([*_HOME, *_MODULES, "__version__"])

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
    from propcal.classifier import (
        MulticalibratedClassifier as MulticalibratedClassifier,
    )
    from propcal.core import bounds as bounds
    from propcal.core.atoms import Atoms as Atoms
    from propcal.core.correction.correction import Correction as Correction
    from propcal.core.correction.correction import Scored as Scored
    from propcal.core.correction.explain import Explanation as Explanation
    from propcal.core.correction.fit_summary import FitSummary as FitSummary
    from propcal.core.groups import Groups as Groups
    from propcal.discovery.discovery import Discovery as Discovery
    from propcal.discovery.discovery import discover as discover
    from propcal.estimators import *  # noqa: F403
    from propcal.export.sql import SqlExport as SqlExport
    from propcal.metrics import *  # noqa: F403
    from propcal.monitoring.course import Course as Course
    from propcal.monitoring.monitor import Monitor as Monitor
    from propcal.sites.compare_sites import Sites as Sites
    from propcal.sites.compare_sites import compare_sites as compare_sites


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'propcal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
