"""Methods text that can be cited, the settings behind it, and where it helps with TRIPOD+AI."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from propcal.auditing.audit import Audit
from propcal.numbers import ON_PAGE, known, plural

LIBRARIES = ("numpy", "scipy", "pandas")


def paragraphs(audit: Audit, suppress: int) -> list[str]:
    """What was done, in sentences for a methods section."""
    s = audit.settings
    told = [_who(audit), _categories(audit)]
    told.append(
        "A category's gap is its outcome rate less its mean score. MC loss is the largest gap of a category "
        "in absolute value, PMC loss the largest gap as a share of the outcome rate (rates below "
        f"{s['rho']:g} are taken as {s['rho']:g}), and DC loss the largest absolute log-ratio of the "
        "outcome rates of "
        "two groups within one range of scores."
    )
    told.append(
        "Beside each loss stands its noise floor: the median and 95th percentile over "
        f"{s['n_draws']:,} sets of outcomes drawn from the score itself, on the same people and categories "
        f"(seed {s['random_state'] if s['random_state'] is not None else 'not recorded'}). Intervals of "
        "gaps are "
        "Clopper and Pearson's at 5 % divided by the number of categories, so that all of them hold "
        "together; "
        "other intervals are at 95 %, each alone."
    )
    if not s["soft_labels"]:
        told.append(
            "The verdict comes from tests of whether the score is right: each group's number of outcomes "
            "against "
            "the sum of its scores (Holm's correction for the number of groups), and the largest gap of all "
            "categories in standard errors against its distribution under the score; half of the 5 % goes to "
            "either."
        )
    told.append(
        "Observed/expected is the number of outcomes over the sum of the scores. The smooth calibration "
        "curve is a "
        "restricted cubic spline of the log-odds of the score, AUROC has DeLong's interval, and net "
        "benefit at a "
        "threshold t is (true positives − false positives × t / (1 − t)) / people."
    )
    told.append(_weights(s))
    if suppress > 1:
        told.append(
            f"Counts of 1 to {suppress - 1} people, of people with the outcome and of people without it are "
            "hidden, with every number that comes from them, and further numbers until none of the hidden "
            "counts can be worked out from the counts shown; other numbers of groups with hidden parts are "
            "rounded to two decimals. Another report on these people, with other bins or groups, could give "
            "them away. Curves over thresholds and histograms are then drawn at the edges of score ranges."
        )
    return told


def _who(audit: Audit) -> str:
    s, people = audit.settings, audit.settings["people"]
    outcomes = f", of whom {ON_PAGE.count(s['positives'])} had the outcome" if known(s["positives"]) else ""
    attributes = ", ".join(s["attributes"]) or "none"
    some = f"{ON_PAGE.count(people)} people" if known(people) else "People (their number is hidden)"
    missing = {
        "level": "People with a missing value form a group of their own.",
        "exclude": "People with a missing value are in no group of that attribute, but count among "
        "everybody.",
        "error": "No value is missing.",
    }.get(s["missing"], "")
    return (
        f"{some}{outcomes}, were audited with propcal {s['version']}. Attributes that define groups: "
        f"{attributes} "
        f"(intersections: {s['intersections']}). {missing} Nobody was excluded: everyone with a score and "
        "an outcome "
        "counts."
    )


def _categories(audit: Audit) -> str:
    s = audit.settings
    kept, left_out = int(audit.groups["kept"].sum()) - 1, int((~audit.groups["kept"].astype(bool)).sum())
    return (
        f"A group counts if it has at least a share of gamma = {s['gamma']:g} of all people: "
        f"{plural(kept, 'group')} did, "
        f"{plural(left_out, 'group')} did not. Scores were divided into {len(s['edges']) - 1} ranges "
        f"({s['binning']}). A "
        "category, a group within a range of scores, is judged if it has at least "
        f"{s['min_people']} people and a share of {s['min_share']:.3g} of all."
    )


def _weights(s: dict[str, Any]) -> str:
    weights = (
        "People count by whole-number weights or one each."
        if s["weights"] == "frequency"
        else "People count by survey weights, and variances come from the squared weights."
    )
    if s["buckets"]:
        weights += (
            " Rows of the same person were taken as dependent: variances come from the spread of "
            f"{s['buckets']} buckets of people."
        )
    return weights


def facts(audit: Audit, suppress: int) -> list[tuple[str, str]]:
    """Parameters and versions."""
    s = audit.settings
    return [
        ("propcal", s["version"]),
        *((name, _version(name)) for name in LIBRARIES),
        ("Python", platform.python_version()),
        ("people", ON_PAGE.count(s["people"])),
        ("outcomes", ON_PAGE.count(s["positives"])),
        ("attributes", ", ".join(s["attributes"]) or "none"),
        ("intersections", str(s["intersections"])),
        ("missing values", str(s["missing"])),
        ("alpha, gamma, rho", f"{s['alpha']:g}, {s['gamma']:g}, {s['rho']:g}"),
        ("ranges of scores", f"{len(s['edges']) - 1}, {s['binning']}"),
        ("fewest people judged", str(s["min_people"])),
        ("smallest share judged", f"{s['min_share']:.3g}"),
        (
            "draws, seed",
            f"{s['n_draws']:,}, {s['random_state'] if s['random_state'] is not None else 'not recorded'}",
        ),
        ("weights", str(s["weights"])),
        ("soft labels", "yes" if s["soft_labels"] else "no"),
        ("buckets of repeated people", str(s["buckets"] or "none")),
        ("counts hidden below", str(suppress) if suppress > 1 else "nothing is hidden"),
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not known"


TRIPOD = [
    (
        "How performance was measured",
        "Methods below: measures, intervals, plots. The four pictures and the table of groups.",
    ),
    (
        "Fairness: which groups were looked at, and why",
        "Groups and categories are listed, with those left out. Why these attributes were chosen is for "
        "you to say.",
    ),
    ("Sample size", "People and outcomes of every group; the smallest error that would have been noticed."),
    (
        "Missing data",
        "People with a missing attribute are counted and shown. Missing scores and outcomes are for you "
        "to say.",
    ),
    ("Performance with intervals, also in key subgroups", "The table of groups and the table of categories."),
    (
        "Updating of the model, and its result",
        "The parts on before and after, on the certificate and on the correction, where present.",
    ),
    ("Limitations", "“What the data cannot tell” at the top; your own knowledge of the data."),
    (
        "Where data, code and analysis can be had",
        "Version, settings and seed below; the numbers of this page for machines at its end.",
    ),
]
