"""``propcal sites``: is a score right at each site, and what can a new site expect?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from propcal.cli.atoms import read_people
from propcal.cli.options import Files, Only, Without
from propcal.cli.screen import Output, show, warnings_as_lines, working, write_text
from propcal.errors import InputError
from propcal.identity import Identity
from propcal.options import METHOD, Reading, Roles

if TYPE_CHECKING:
    from propcal import Atoms
    from propcal.sites.site_measures import Sites

TRAVEL = METHOD.flag(
    "With sites: fit a correction on all other sites and test it at each site (leave-one-site-out)."
)
NAMES = ("title", "score", "outcome", "unit", "source", "period")


def sites(
    files: Files,
    roles: Roles,
    reading: Reading,
    out: Annotated[Output, Without("format", "markdown", "metrics")],
    names: Annotated[Identity, Only(*NAMES)],
    travel: bool = TRAVEL,
) -> None:
    """Compare sites: is the score right at each of them, and what can a new site expect?

    Sites come from a column (--site hospital), or from atoms files with one site each. Groups
    matter only to --travel, which corrects the score for them.

    For example:

      propcal sites visits.csv --site hospital --score risk --outcome died --html sites.html

      propcal sites north.atoms south.atoms east.atoms --travel -o sites.json
    """
    from propcal.files.transaction import outputs

    out.check(files)
    with warnings_as_lines():
        people = read_people(files, roles, reading)
        with working("Comparing sites...") as update:
            result = compared(people, travel=travel, names=names, update=update, site=roles.site)
    with outputs(force=out.force):
        if out.html is not None:
            result.to_html(out.html, suppress=out.on_pages)
        if out.output is not None:
            write_text(result.to_json(out.suppress or 0), out.output)
    show_sites(result, out.suppress or 0)
    out.say_written()


def compared(people: Atoms, *, travel: bool, names: Identity, update: Any, site: str | None = None) -> Sites:
    """The sites of these people, compared; `site` is the column that was named."""
    from propcal.core.patterns import SITE
    from propcal.core.periods_and_sites import by_key
    from propcal.sites.site_measures import compare_sites

    parts = by_key(people, SITE)
    if not parts:
        raise InputError(
            "these data have no sites",
            argument="--site",
            next_step="Name their column: --site hospital; or make one atoms file per site: "
            "propcal atoms north.csv --site North ...",
        )
    if list(parts) == [site]:
        raise InputError(
            f"there is no column {site!r}, so all rows were taken as one site of that name",
            argument="--site",
            next_step="Name the column of the sites",
        )
    update(f"Comparing {len(parts)} sites...")
    return compare_sites(people, travel=travel, identity=names)


def show_sites(result: Sites, suppress: int) -> None:
    """Print what was found."""
    from propcal.documents.sites import sites_document
    from propcal.protect.sites import protected_sites
    from propcal.render.text import text

    show(text(sites_document(protected_sites(result, suppress))))
