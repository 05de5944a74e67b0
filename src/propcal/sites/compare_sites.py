"""Comparison of sites: how a score does at each, and what to expect at a new one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from propcal.auditing.claims import Claim
from propcal.auditing.names import MISCALIBRATED, NONE_FOUND, NOT_ENOUGH
from propcal.auditing.printable_results import Printed
from propcal.core.atoms import Atoms
from propcal.core.grid import BoolArray
from propcal.monitoring.held_out import Travel
from propcal.options import Identity
from propcal.sites.site_findings import SiteFindings, site_findings

if TYPE_CHECKING:
    from propcal.documents.blocks import Document


@dataclass(frozen=True, eq=False, repr=False)
class Sites(Printed):
    """How a score does at each site, and what to expect at a new one.

    Attributes
    ----------
    claims : tuple of Claim
        What the verdict states, in its order: "overall" (all sites
        together), "group" (one site), "beyond" (the sites differ; with a name, this
        site from the others) and "shape", whose estimate is the calibration slope of
        everybody. All their tests are one family at 5 %.
    pooled : DataFrame
        People, events and O/E ratio with its 95 % interval of all sites together (row
        "all sites") and, if there are several but not all, of those without enough data
        to be judged one by one ("small sites").
    sites : DataFrame
        One row for each site: people, events, each measure with its 95 % interval and
        its standard error on the scale on which sites are summarised, and the finding
        on the O/E ratio: "too high" or "too low" if there is a claim of this site, else
        "could be chance" or "not enough data".
    summary : DataFrame
        One row for each measure: the mean over sites with its 95 % interval
        (Hartung-Knapp), tau squared and I squared, and the 95 % prediction interval for
        a new site. O/E ratios of all sites are part of it, however small; other
        measures of the sites that are judged. Empty with fewer than 3 sites.
    conclusion : "miscalibrated", "no miscalibration found" or "not enough data"
        Whether there is any claim.
    headline : str
        The verdict in a few words.
    sentences : tuple of str
        What was found, in words, the pooled O/E ratio first.
    travel : Travel, optional
        Corrections fitted on the other sites, tested at each.
    notes : tuple of str
        What a reader must know: limits of shared atoms, protected counts.
    identity : Identity

    Examples
    --------
    >>> from propcal import Atoms
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(4000, seed=1)
    >>> visits["hospital"] = ["North", "South"] * 2000
    >>> columns = {"score": "true_risk", "outcome": "admitted", "site": "hospital"}
    >>> found = compare_sites(Atoms.from_frame(visits, **columns))
    >>> found.conclusion
    'no miscalibration found'
    >>> found.sites.finding.tolist()
    ['could be chance', 'could be chance']
    """

    claims: tuple[Claim, ...]
    pooled: pd.DataFrame
    sites: pd.DataFrame
    summary: pd.DataFrame
    conclusion: str
    travel: Travel | None
    notes: tuple[str, ...]
    identity: Identity
    _findings: SiteFindings

    def with_note(self, note: str) -> Sites:
        """Add a first note, which stays if counts are protected."""
        findings = replace(self._findings, notes=(note, *self._findings.notes))
        return assembled(findings)

    @property
    def headline(self) -> str:
        from propcal.documents.sites import headline

        return headline(self)

    @property
    def sentences(self) -> tuple[str, ...]:
        from propcal.documents.sites import site_sentences

        return site_sentences(self)

    @property
    def withheld(self) -> frozenset[str]:
        """The sites of few people, whose measures are protected."""
        return self._findings.withheld

    @property
    def small(self) -> BoolArray:
        """Which sites tables show in one line: those without enough data, if there are
        several.
        """
        few = (self.sites["finding"] == NOT_ENOUGH).to_numpy()
        if few.sum() > 1:
            return few
        return np.zeros(len(few), dtype=np.bool_)

    def to_json(self, suppress: int | None = None) -> str:
        """Everything as JSON; with `suppress=11`, counts are protected: see the guide
        to the report.
        """
        from propcal.documents.data import json_text, rounded, sites_content
        from propcal.protect.protected_sites import protected_sites

        return json_text(rounded(sites_content(protected_sites(self, suppress))))

    def _document(self, suppress: int = 0, title: str | None = None) -> Document:
        from propcal.documents.sites import sites_document
        from propcal.protect.disclosure_rule import Rule
        from propcal.protect.protected_sites import protected_sites

        return sites_document(protected_sites(self, Rule(suppress).fewest), title)


def compare_sites(
    atoms: Atoms,
    *,
    travel: bool = False,
    identity: Identity | None = None,
    **settings: object,
) -> Sites:
    """Is a score right at each site, and what can a new site expect?

    Parameters
    ----------
    atoms : Atoms
        With sites: ``Atoms.from_frame(..., site="hospital")``, or atoms of several
        sites added up.
    travel : bool, default=False
        Also fit a correction on all other sites and test it at each site
        (leave-one-site-out).
    identity : Identity, optional
        What things are called.
    **settings
        As for `PMCBoost`, for the corrections.

    Examples
    --------
    >>> from propcal import Atoms
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(4000, seed=1)
    >>> visits["hospital"] = ["North", "South"] * 2000
    >>> columns = {"score": "true_risk", "outcome": "admitted", "site": "hospital"}
    >>> atoms = Atoms.from_frame(visits, groups=["gender"], **columns)
    >>> compare_sites(atoms).sites.site.tolist()
    ['North', 'South']
    """
    return assembled(site_findings(atoms, travel, identity, settings))


def assembled(findings: SiteFindings) -> Sites:
    """The result of findings, exact or protected: claims get the numbers of their
    people.
    """
    if findings.stated is None:
        conclusion = NOT_ENOUGH
    elif findings.stated:
        conclusion = MISCALIBRATED
    else:
        conclusion = NONE_FOUND
    claims = tuple(_with_numbers(claim, findings) for claim in findings.stated or ())
    return Sites(
        claims=claims,
        pooled=findings.pooled,
        sites=findings.sites,
        summary=findings.summary,
        conclusion=conclusion,
        travel=findings.travel,
        notes=findings.notes,
        identity=findings.identity,
        _findings=findings,
    )


def _with_numbers(claim: Claim, findings: SiteFindings) -> Claim:
    """A claim with the numbers of its people; the estimate of "shape" is its own."""
    if not claim.who:
        return claim
    if claim.kind in ("group", "beyond"):
        numbers = asdict(findings.at_site[claim.who])
    else:
        numbers = asdict(findings.everybody)
    if claim.kind == "shape":
        for name in ("estimate", "low", "high"):
            del numbers[name]
    return replace(claim, **numbers)
