"""A reader written from docs/reference/audit-json.md finds that the numbers of an audit
fit together.
"""

import json

import pytest
from audit_reader import IF_ASKED, PARTS, AuditReader

from paths import ROOT
from propcal import audit, compare

PAGE = (ROOT / "docs" / "reference" / "audit-json.md").read_text()
SCHEMA = json.loads(
    (ROOT / "src" / "propcal" / "schemas" / "audit.schema.json").read_text()
)["$defs"]
RULES = {
    "default": {},
    "few draws, small groups": {"gamma": 0.01, "min_people": 5},
    "geometric bins": {
        "binning": "geometric",
        "n_bins": 6,
        "intersections": "marginal",
    },
    "quantile bins": {"binning": "quantile", "n_bins": 7, "missing": "exclude"},
    "one bin": {"n_bins": 1, "rho": 0.5},
    "measures without bins": {"bin_free": True},
    "nothing is large enough": {"min_people": 100_000},
}


@pytest.mark.parametrize("name", RULES)
def test_the_numbers_of_an_audit_fit_together(cohort, features, name):
    found = audit(
        cohort.y, cohort.score, sensitive_features=features, n_draws=100, **RULES[name]
    )
    assert AuditReader(found.to_json()).complaints() == []


def test_so_do_those_of_everybody_alone_and_of_a_comparison(cohort, features):
    assert (
        AuditReader(audit(cohort.y, cohort.score, n_draws=100).to_json()).complaints()
        == []
    )
    scores = {"raw": cohort.score, "half": cohort.score / 2}
    both = json.loads(
        compare(scores, cohort.y, sensitive_features=features, n_draws=100).to_json()
    )
    assert both["base"] == "raw"
    assert [
        AuditReader(content).complaints() for content in both["audits"].values()
    ] == [[], []]
    for row in both["differences"]:
        if None not in (row["value"], row["base"], row["difference"]):
            assert row["value"] - row["base"] == pytest.approx(
                row["difference"], abs=1e-9
            )


def test_the_reader_notices_what_does_not_fit(cohort, features):
    content = json.loads(
        audit(
            cohort.y, cohort.score, sensitive_features=features, n_draws=100
        ).to_json()
    )
    content["categories"][0]["people"] += 1
    content["losses"][2]["value"] += 0.01
    assert len(AuditReader(content).complaints()) >= 3


def test_the_page_explains_every_part_that_the_schema_has():
    assert list(SCHEMA["audit"]["properties"]) == PARTS + IF_ASKED
    for kind in ("audit", "comparison"):
        assert all(f"`{name}`" in PAGE for name in SCHEMA[kind]["properties"])
    for name in ("settings", "verdict"):
        assert all(
            f"`{key}`" in PAGE
            for key in SCHEMA["audit"]["properties"][name]["properties"]
        )
    for name in (
        "losses",
        "debiased",
        "groups",
        "categories",
        "curves",
        "net_benefit",
        "distribution",
    ):
        keys = SCHEMA["audit"]["properties"][name]["items"]["properties"]
        plain = [
            key
            for key in keys
            if not key.endswith(("_low", "_high")) or key.startswith("rate")
        ]
        assert [key for key in plain if f"`{key}`" not in PAGE] == []
    rows = SCHEMA["audit"]["properties"]["bin_free"]["properties"]["measures"]["items"][
        "properties"
    ]
    assert [key for key in rows if f"`{key}`" not in PAGE] == []
