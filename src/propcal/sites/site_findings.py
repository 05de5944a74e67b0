"""What was found at sites, as numbers, exact or protected.

Claims with their numbers are assembled from them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing import names
from propcal.auditing.claims import NAN, Claim
from propcal.auditing.profile import MIN_EVENTS, MIN_GROUP, JudgedGroups
from propcal.auditing.statistics.measures import observed_expected
from propcal.auditing.statistics.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.patterns import SITE
from propcal.core.reduction import split_by, without_keys
from propcal.errors import refused
from propcal.monitoring.held_out import Travel, leave_one_site_out
from propcal.options import Identity
from propcal.reading.source import refuse_other_spellings
from propcal.sites.between_sites import SiteCounts
from propcal.sites.site_claims import site_claims
from propcal.sites.site_measures import RATIO, people_row, site_estimates, site_summary

ALL_SITES = "all sites"
SMALL_SITES = "small sites"
TOO_SMALL = (
    f"fewer than {MIN_GROUP} people, or fewer than {MIN_EVENTS} expected events or "
    "non-events"
)


@dataclass(frozen=True)
class PeopleNumbers:
    """The numbers of some people that a claim has: counts, rates, and the O/E ratio
    with its interval.
    """

    people: Any
    events: Any
    predicted: float
    estimate: float
    low: float
    high: float
    observed: float = NAN

    @classmethod
    def of(cls, sample: Sample) -> PeopleNumbers:
        """The exact numbers."""
        predicted = sample.expected / sample.total
        ratio = observed_expected(sample)
        return cls(sample.n_people, sample.observed, predicted, *ratio)


@dataclass(frozen=True, eq=False)
class SiteFindings:
    """What was found at sites.

    Decisions are always those of the exact numbers: claims, and the finding of each
    site.

    Attributes
    ----------
    stated : tuple of Claim, or None
        What is claimed, without numbers of people; None if there are not enough data.
    everybody : PeopleNumbers
    at_site : dict of PeopleNumbers
        Of the sites that claims are about.
    pooled, sites, summary : DataFrame
        See `propcal.Sites`.
    travel : Travel, optional
    notes : tuple of str
    identity : Identity
    parts : dict of Atoms, optional
        The people of each site; none if the findings are protected.
    withheld : frozenset of str
        Sites of few people, whose measures are withheld. A maximum or a count over
        sites that leaves them out says nothing about them.
    """

    stated: tuple[Claim, ...] | None
    everybody: PeopleNumbers
    at_site: Mapping[str, PeopleNumbers]
    pooled: pd.DataFrame
    sites: pd.DataFrame
    summary: pd.DataFrame
    travel: Travel | None
    notes: tuple[str, ...]
    identity: Identity
    parts: Mapping[str, Atoms] | None = None
    withheld: frozenset[str] = frozenset()


def site_findings(
    atoms: Atoms, travel: bool, identity: Identity | None, settings: Mapping[str, Any]
) -> SiteFindings:
    """Claims, measures and summary of atoms with sites."""
    from propcal.documents.audit_sentences import shared_site_notes

    parts = split_by(atoms, SITE)
    if len(parts) < 2:
        problem = "single site" if parts else "sites not named"
        raise refused(problem, sites=", ".join(parts))
    refuse_other_spellings([("these data", atoms)])
    people = {name: without_keys(part) for name, part in parts.items()}
    samples = {name: Sample.of(each) for name, each in people.items()}
    place = atoms.patterns.attributes.index(SITE)
    levels = atoms.patterns.levels[place]
    site_of_pattern = [levels[code] for code in atoms.patterns.table[:, place]]

    def people_at(some: Collection[str]) -> Sample:
        chosen = np.array([name in some for name in site_of_pattern])
        return Sample.of(atoms).where(chosen[atoms.pattern_index()])

    everybody = people_at(samples)
    identity = identity or Identity()
    if not identity.unit:
        unit = "visits" if everybody.n_clusters else "people"
        identity = replace(identity, unit=unit)

    counts = SiteCounts.of(list(samples.values()), everybody)
    judged = _judged(samples, everybody)
    stated = site_claims(samples, judged, everybody, counts.effect, people_at)
    table = _site_table(samples, counts)
    table["finding"] = _findings(samples, judged, stated)

    has_too_few = table["finding"] == names.NOT_ENOUGH
    small = table["site"][has_too_few].tolist()
    together = {ALL_SITES: everybody}
    if 1 < len(small) < len(samples):
        together[SMALL_SITES] = people_at({*small})
    everybody_numbers = PeopleNumbers.of(everybody)
    at_site = {}
    for name in _named(stated):
        at_site[name] = PeopleNumbers.of(samples[name])
    pooled = _pooled_table(together)
    summary = site_summary(table, counts, soft=everybody.soft)
    travelled = None
    if travel:
        travelled = leave_one_site_out(parts, **settings)
    notes = shared_site_notes(parts, table["auroc"])
    return SiteFindings(
        stated=stated,
        everybody=everybody_numbers,
        at_site=at_site,
        pooled=pooled,
        sites=table,
        summary=summary,
        travel=travelled,
        notes=tuple(notes),
        identity=identity,
        parts=people,
    )


def _named(stated: Sequence[Claim] | None) -> list[str]:
    """The sites that claims are about."""
    of_sites = [claim for claim in stated or () if claim.kind in ("group", "beyond")]
    return [claim.who for claim in of_sites if claim.who]


def _judged(samples: Mapping[str, Sample], everybody: Sample) -> list[str]:
    """The sites with enough data to be tested one by one."""
    rate = everybody.observed / everybody.total
    rule = JudgedGroups(MIN_GROUP, MIN_EVENTS, rate)
    judged = []
    for name, sample in samples.items():
        if not sample.soft and not rule.too_few(sample):
            judged.append(name)
    return judged


def _site_table(samples: Mapping[str, Sample], counts: SiteCounts) -> pd.DataFrame:
    """One row for each site; the error of an O/E ratio is that of a score that is
    right.
    """
    rows = []
    for name, sample in samples.items():
        rows.append({"site": name, **people_row(sample, site_estimates(sample))})
    table = pd.DataFrame(rows)
    error = np.where(table[RATIO].notna(), counts.error, np.nan)
    table[f"{RATIO}_error"] = error
    return table


def _findings(
    samples: Mapping[str, Sample],
    judged: Sequence[str],
    stated: Sequence[Claim] | None,
) -> list[str]:
    """The finding on the O/E ratio of each site."""
    finding = dict.fromkeys(samples, names.NOT_ENOUGH)
    if stated is not None:
        finding |= dict.fromkeys(judged, names.CHANCE)
    for claim in stated or ():
        if claim.kind == "group":
            finding[claim.who] = claim.direction
    return list(finding.values())


def _pooled_table(together: Mapping[str, Sample]) -> pd.DataFrame:
    """People, events and O/E ratio of several sites together."""
    rows = []
    for sample in together.values():
        rows.append(people_row(sample, {RATIO: observed_expected(sample)}))
    table = pd.DataFrame(rows, index=list(together))
    return table.drop(columns=f"{RATIO}_error")
