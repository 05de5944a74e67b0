"""Checks that the numbers of an audit fit together, written from
docs/reference/audit-json.md alone.
"""

import json
from itertools import combinations
from math import isclose, log

PARTS = [
    "format",
    "version",
    "settings",
    "identity",
    "verdict",
    "losses",
    "debiased",
    "groups",
    "categories",
]
PARTS += ["curves", "net_benefit", "distribution", "notes"]
IF_ASKED = ["bin_free", "discovery", "sites", "gates"]


class AuditReader:
    """An unweighted audit of which nothing is suppressed."""

    def __init__(self, content):
        self.content = json.loads(content) if isinstance(content, str) else content
        if (self.content["format"], self.content["version"]) != ("propcal-audit", 3):
            raise ValueError("no audit of version 3")
        self.groups = {group["group"]: group for group in self.content["groups"]}

    def complaints(self):
        """Everything that does not fit; an empty list if all does."""
        return [
            *self.parts(),
            *self.rates(),
            *self.sums(),
            *self.losses(),
            *self.gaps(),
            *self.bin_free(),
        ]

    def parts(self):
        if [name for name in self.content if name not in IF_ASKED] != PARTS:
            yield f"parts are {list(self.content)}"
        for part in ("curves", "net_benefit", "distribution"):
            for entry in self.content[part]:
                if (
                    len(
                        {
                            len(column)
                            for name, column in entry.items()
                            if name != "group"
                        }
                    )
                    != 1
                ):
                    yield f"{part} of {entry['group']} has lists of several lengths"

    def bin_free(self):
        rows = self.content.get("bin_free", {"measures": []})["measures"]
        largest = max(
            (row["sigma"] for row in rows if row["measure"] == "ecce"), default=None
        )
        for row in rows:
            if row["measure"] == "mce" and row["sigma"] != largest:
                yield "mce is not the largest ecce in standard errors"
            if row["measure"] == "ecce" and not row["low"] <= row["high"]:
                yield f"worst range of {row['group']}"
            if not row["p_value"] <= row["adjusted_p"] + 0.05:
                yield f"adjusted p-value of {row['group']}"
            if row["people"] != self.groups[row["group"]]["people"]:
                yield f"people of {row['group']} without bins"

    def rates(self):
        total = self.content["settings"]["people"]
        for row in (*self.content["groups"], *self.content["categories"]):
            if row["people"] and not isclose(
                row["outcome_rate"], row["positives"] / row["people"]
            ):
                yield f"outcome rate of {row['group']}"
        for group in self.groups.values():
            if not isclose(group["share"], group["people"] / total, abs_tol=1e-12):
                yield f"share of {group['group']}"

    def sums(self):
        everybody = self.groups["everybody"]
        for name in ("people", "positives"):
            if everybody[name] != self.content["settings"][name]:
                yield f"{name} of everybody"
            for group in self.groups.values():
                parts = [
                    c[name]
                    for c in self.content["categories"]
                    if c["group"] == group["group"]
                ]
                if parts and sum(parts) != group[name]:
                    yield f"{name} of {group['group']} in categories"
                large = group["share"] >= self.content["settings"]["gamma"]
                named = (
                    group["missing"]
                    and self.content["settings"]["missing"] == "exclude"
                )
                if (
                    bool(parts) != (large and not named)
                    and group is not everybody
                    and group["people"]
                ):
                    yield f"categories of {group['group']}"
            for bars in self.content["distribution"]:
                if sum(bars[name]) != self.groups[bars["group"]][name]:
                    yield f"{name} of {bars['group']} in the distribution"

    def gaps(self):
        rho, alpha = self.content["settings"]["rho"], self.content["settings"]["alpha"]
        for category in self.content["categories"]:
            gap = category["outcome_rate"] - category["mean_score"]
            divisor = max(category["outcome_rate"], rho)
            expected = {
                "gap": gap,
                "proportional_gap": gap / divisor,
                "cutoff": alpha * divisor,
            }
            for name, number in expected.items():
                if not isclose(category[name], number, rel_tol=1e-9, abs_tol=1e-12):
                    yield f"{name} of {category['group']}, {category['bin']}"

    def losses(self):
        eligible = [
            category for category in self.content["categories"] if category["eligible"]
        ]
        rho = self.content["settings"]["rho"]
        ratios = [
            abs(log(max(a["outcome_rate"], rho)) - log(max(b["outcome_rate"], rho)))
            for a, b in combinations(eligible, 2)
            if a["bin"] == b["bin"]
        ]
        expected = {
            "mc": max((abs(c["gap"]) for c in eligible), default=None),
            "pmc": max((abs(c["proportional_gap"]) for c in eligible), default=None),
            "dc": max([0.0, *ratios]) if eligible else None,
        }
        for loss in self.content["losses"]:
            value, number = loss["value"], expected[loss["name"]]
            if not (
                value is number or isclose(value, number, rel_tol=1e-9, abs_tol=1e-12)
            ):
                yield f"{loss['name']} is {value}, not {number}"
