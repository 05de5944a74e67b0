"""Sites: how a score does at each, what is claimed of them, and what to expect at a new
one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special

from propcal.auditing import names
from propcal.auditing.audit_claims import claim_of
from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import Claim, Kind
from propcal.auditing.decision import MIN_PEOPLE
from propcal.auditing.printable_results import Printed
from propcal.auditing.profile import MIN_EVENTS, MIN_GROUP, JudgedGroups
from propcal.auditing.statistics import hypothesis_tests as ht
from propcal.auditing.statistics.logistic_calibration import calibration
from propcal.auditing.statistics.measures import (
    FORMULAS,
    UNKNOWN,
    Estimate,
    observed_expected,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.draws import Draws
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.patterns import SITE
from propcal.core.reduction import by_key, without_keys
from propcal.errors import refused
from propcal.monitoring.held_out import Travel, leave_one_site_out
from propcal.numbers import known
from propcal.options import Identity
from propcal.reading.source import refuse_other_spellings
from propcal.sites.between_sites import (
    SiteCounts,
    random_effects,
    ratio_effects,
    site_differences,
)

if TYPE_CHECKING:
    from propcal.documents.blocks import Document

SUMMARY = ("mean", "low", "high", "prediction_low", "prediction_high")
ALL_SITES = "all sites"
SMALL_SITES = "small sites"
EVERYBODY = "everybody"
MOST_COMPARED = 4
NEXT = (
    ht.SIGNIFICANCE * ht.SUM_OF_SHARES * ht.SHARES[ht.SHAPE]
)  # at which sites that are left still differ
EVENTS = "number of events"
TOO_SMALL = f"fewer than {MIN_GROUP} people, or fewer than {MIN_EVENTS} expected events or non-events"


@dataclass(frozen=True)
class Scale:
    """What a measure of sites is called, its value for a perfect score, and how sites
    are summarised.

    On its scale a measure is roughly normal: `there`, and `back`. O/E ratios have a
    model of their own.
    """

    name: str
    right: float
    there: Callable[[Any], Any] = lambda value: value
    back: Callable[[Any], Any] = lambda value: value
    digits: int = 2


SCALES = {
    "observed_expected": Scale("O/E ratio", 1.0),
    "intercept": Scale("Calibration intercept", 0.0),
    "slope": Scale("Calibration slope", 1.0),
    "auroc": Scale(
        "AUROC", 0.5, special.logit, special.expit, names.MEASURE_NAMES["auroc"].digits
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class Sites(Printed):
    """How a score does at each site, and what to expect at a new one.

    Attributes
    ----------
    claims : tuple of Claim
        What the verdict states, in the order in which it is told: "overall" (all sites
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
    travel: Travel | None = None
    notes: tuple[str, ...] = ()
    identity: Identity = field(default_factory=lambda: Identity(unit="people"))
    _parts: dict[str, Atoms] | None = field(default=None, repr=False)

    @property
    def headline(self) -> str:
        from propcal.documents.sites import headline

        return headline(self)

    @property
    def sentences(self) -> tuple[str, ...]:
        from propcal.documents.sites import site_sentences

        return site_sentences(self)

    @property
    def small(self) -> BoolArray:
        """Which sites tables show in one line: those without enough data, if there are
        several.
        """
        few = (self.sites["finding"] == names.NOT_ENOUGH).to_numpy()
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
    >>> columns = {"score": "true_risk", "outcome": "admitted", "groups": ["gender"], "site": "hospital"}
    >>> atoms = Atoms.from_frame(visits, **columns)
    >>> compare_sites(atoms).sites.site.tolist()
    ['North', 'South']
    """
    from propcal.documents.audit_sentences import shared_site_notes

    parts = by_key(atoms, SITE)
    if len(parts) < 2:
        raise refused(
            "single site" if parts else "sites not named", sites=", ".join(parts)
        )
    refuse_other_spellings([("these data", atoms)])
    own = {name: without_keys(one) for name, one in parts.items()}
    samples = {name: Sample.of(one) for name, one in own.items()}
    place = atoms.patterns.attributes.index(SITE)
    site = [
        atoms.patterns.levels[place][code] for code in atoms.patterns.table[:, place]
    ]

    def people_at(some: Collection[str]) -> Sample:
        chosen = np.array([name in some for name in site])
        return Sample.of(atoms).where(chosen[atoms.pattern_index()])

    everybody = people_at(samples)
    named = identity or Identity()
    if not named.unit:
        named = replace(named, unit="visits" if everybody.n_clusters else "people")
    counts = SiteCounts.of(list(samples.values()), everybody)
    rule = JudgedGroups(MIN_GROUP, MIN_EVENTS, everybody.observed / everybody.total)
    judged = [
        name for name, one in samples.items() if not one.soft and not rule.too_few(one)
    ]
    claims = site_claims(samples, judged, everybody, counts.effect, people_at)
    rows = [
        {"site": name, **people_row(one, site_estimates(one))}
        for name, one in samples.items()
    ]
    table = pd.DataFrame(rows)
    table["observed_expected_error"] = np.where(
        table["observed_expected"].notna(), counts.error, np.nan
    )
    own_claim = {
        claim.who: claim.direction for claim in claims or () if claim.kind == "group"
    }
    tested = {} if claims is None else dict.fromkeys(judged, names.CHANCE)
    table["finding"] = [
        (tested | own_claim).get(name, names.NOT_ENOUGH) for name in samples
    ]
    few = table["site"][table["finding"] == names.NOT_ENOUGH].tolist()
    some = 1 < len(few) < len(samples)
    together = {ALL_SITES: everybody} | (
        {SMALL_SITES: people_at({*few})} if some else {}
    )
    pooled = [
        people_row(one, {"observed_expected": observed_expected(one)})
        for one in together.values()
    ]
    return Sites(
        claims or (),
        pd.DataFrame(pooled, index=list(together)).drop(
            columns="observed_expected_error"
        ),
        table,
        site_summary(table, counts, soft=everybody.soft),
        names.NOT_ENOUGH
        if claims is None
        else names.MISCALIBRATED
        if claims
        else names.NONE_FOUND,
        leave_one_site_out(parts, **settings) if travel else None,
        tuple(shared_site_notes(parts, table["auroc"])),
        named,
        own,
    )


def site_estimates(sample: Sample) -> dict[str, Estimate]:
    """The measures of one site, as far as it has enough people."""
    if sample.n_people < MIN_PEOPLE:
        return dict.fromkeys(SCALES, UNKNOWN)
    fitted = calibration(sample, Draws(0))
    return {
        name: FORMULAS[name](sample) if name in FORMULAS else getattr(fitted, name)
        for name in SCALES
    }


def people_row(sample: Sample, estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """People, events, and estimates with their intervals and standard errors on the
    scale of the summary.
    """
    row: dict[str, Any] = {"people": sample.n_people, "positives": sample.observed}
    for name, (value, low, high) in estimates.items():
        there = SCALES[name].there
        error = float(there(high) - there(low)) / (2 * sample.quantile)
        row |= {name: value, f"{name}_low": low, f"{name}_high": high}
        row[f"{name}_error"] = error if np.isfinite(error) and error > 0 else np.nan
    return row


def site_summary(
    table: pd.DataFrame, counts: SiteCounts, *, soft: bool
) -> pd.DataFrame:
    """The summary: O/E ratios of all sites, and other measures of those that are
    judged.
    """
    rows = {}
    if not soft and counts.observed.sum() > 0 and counts.expected.sum() > 0:
        rows["observed_expected"] = ratio_effects(counts)
    judged = table[table["finding"] != names.NOT_ENOUGH]
    for name, scale in SCALES.items():
        value: FloatArray = np.asarray(
            scale.there(judged[name].to_numpy(dtype=np.float64))
        )
        variance = judged[f"{name}_error"].to_numpy(dtype=np.float64) ** 2
        if (
            name == "observed_expected"
            or not (np.isfinite(value) & np.isfinite(variance)).any()
        ):
            continue
        found = random_effects(value, variance)
        ends: dict[str, Any] = {
            end: float(scale.back(getattr(found, end))) for end in SUMMARY
        }
        rows[name] = replace(found, **ends)
    shown = {name: found for name, found in rows.items() if known(found.low)}
    summary = pd.DataFrame.from_dict(
        {name: asdict(found) for name, found in shown.items()}, orient="index"
    )
    return summary.drop(columns="error", errors="ignore")


def site_claims(
    samples: Mapping[str, Sample],
    judged: Sequence[str],
    everybody: Sample,
    effect: FloatArray,
    people_at: Callable[[Collection[str]], Sample],
) -> tuple[Claim, ...] | None:
    """What is claimed, in the order of the verdict; None if there are not enough data
    for any test.

    The level and slope of everybody, the differences between sites, and the level of
    each site are one family of tests at 5 %. Single sites are compared with the others
    only if the sites differ. `effect` is that of weights and repeat visits at each
    site, and `people_at` gives the people of some sites.
    """
    if everybody.soft or JudgedGroups(MIN_GROUP, MIN_EVENTS, 0.0).too_few(everybody):
        return None
    level = ht.events_p_value(everybody)
    if not np.isfinite(level[1]):
        return None
    differences = site_differences(list(samples.values()), effect)
    if differences:
        between = [(ht.SITE_DIFFERENCES, (differences.statistic, differences.p_value))]
    else:
        between = []
    families = {
        ht.OVERALL: [(EVERYBODY, level), (ht.SLOPE, ht.slope_test(everybody))],
        ht.GROUPS: [
            (f"site {name}", ht.events_p_value(samples[name])) for name in judged
        ],
        ht.SHAPE: between,
    }
    tests = {
        family: [t for t in own if np.isfinite(t[1][1])]
        for family, own in families.items()
    }
    found = {test.test: test for test in ht.adjust(tests) if test.rejected}

    def claimed(kind: Kind, who: str, sample: Sample, test: str) -> list[Claim]:
        own = found.get(test)
        if own is None:
            return []
        return [
            claim_of(
                kind, who, own.statistic, EVENTS, own.adjusted_p, **_numbers(sample)
            )
        ]

    overall = claimed("overall", EVERYBODY, everybody, EVERYBODY)
    group = [
        one
        for name in judged
        for one in claimed("group", name, samples[name], f"site {name}")
    ]
    shape = []
    beyond = []
    if ht.SLOPE in found:  # without scores of exactly 0 or 1, which have no log-odds
        inside = everybody.where((everybody.score > 0) & (everybody.score < 1))
        slope = calibration(inside, Draws(0)).slope
        own = _numbers(everybody, slope)
        shape.append(
            claim_of(
                "shape", EVERYBODY, 0.0, ht.SLOPE, found[ht.SLOPE].adjusted_p, **own
            )
        )
    if ht.SITE_DIFFERENCES in found:
        p = found[ht.SITE_DIFFERENCES].adjusted_p
        beyond.append(claim_of("beyond", "", 0.0, ht.SITE_DIFFERENCES, p))
        apart = differing_sites(samples, judged, effect) if overall else {}
        ratio = observed_expected(people_at({*samples} - {*apart}))
        others: dict[str, Any] = {
            f"others{end}": value for end, value in zip(ENDS, ratio)
        }
        for name, (z, p_of_site) in apart.items():
            numbers = _numbers(samples[name]) | others
            beyond.append(
                claim_of(
                    "beyond", name, z, ht.SITE_DIFFERENCES, max(p_of_site, p), **numbers
                )
            )
    if overall:
        return (*overall, *shape, *beyond, *group)
    return (*group, *shape, *beyond)


def differing_sites(
    samples: Mapping[str, Sample], judged: Sequence[str], effect: FloatArray
) -> dict[str, tuple[float, float]]:
    """Sites that differ from the others: the clearest, and then of those that are left,
    if they differ.

    Returns the excess of events of each in standard errors, and its adjusted p-value.
    """
    found: dict[str, tuple[float, float]] = {}
    left = dict(zip(samples, effect))
    while len(left) > 2 and len(found) < MOST_COMPARED:
        test = site_differences(
            [samples[name] for name in left], np.array(list(left.values()))
        )
        if test is None or (found and test.p_value > NEXT):
            break
        own = {
            name: (z, p * len(left))
            for name, z, p in zip(left, test.excess, test.p_values)
            if name in judged
        }
        name = min(
            own, key=lambda name: np.nan_to_num(own[name][1], nan=np.inf), default=""
        )
        if not name or not own[name][1] <= ht.SIGNIFICANCE:
            break
        found[name] = own[name]
        del left[name]
    return found


def _numbers(sample: Sample, estimate: Estimate | None = None) -> dict[str, Any]:
    """The numbers of a claim of some people: on their O/E ratio, unless there is
    another estimate.
    """
    counts = {"people": sample.n_people, "events": sample.observed}
    ends = zip(("estimate", "low", "high"), estimate or observed_expected(sample))
    return counts | {"predicted": sample.expected / sample.total} | dict(ends)
