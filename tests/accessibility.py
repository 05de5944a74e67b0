"""What axe-core, the checker of accessibility, finds on a page."""

from paths import ROOT

AXE = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"


def serious_violations(page):
    """The serious and critical violations of a page, with everything on it unfolded."""
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (
            v["id"],
            v["impact"],
            v["nodes"][0]["html"][:200],
            v["nodes"][0].get("failureSummary", "")[:300],
        )
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
    ]
