"""The documentation is complete, and short enough to be read."""

import inspect
import re
import textwrap

import pytest

import propcal
from paths import ROOT

DOCS = ROOT / "docs"
NAMES = [
    name
    for name in propcal.__all__
    if not inspect.ismodule(getattr(propcal, name)) and name[0] != "_"
]
# what the others return; their examples show these
RETURNED = [
    "Audit",
    "Claim",
    "Comparison",
    "Course",
    "Explanation",
    "FitSummary",
    "MCBoost",
    "Sites",
    "Scored",
    "SqlExport",
    "Verdict",
]
LISTED = set(
    re.findall(r"^   (\w+)$", (DOCS / "reference" / "api.md").read_text(), re.MULTILINE)
)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_in_the_reference_and_explains_itself(name):
    assert name in LISTED
    described = inspect.getdoc(getattr(propcal, name))
    assert described
    if name not in RETURNED:
        assert "Examples\n" in described, (
            "a runnable example helps more than a paragraph"
        )
    assert not described.startswith(f"{name}(")


def test_the_reference_lists_what_modules_offer():
    for module in (propcal.bounds, propcal.datasets, propcal.displays):
        public = {
            name
            for name in vars(module)
            if name[0] != "_" and inspect.isroutine(vars(module)[name])
        }
        public = {
            name
            for name in public
            if vars(module)[name].__module__.startswith(module.__name__)
        }
        assert public <= LISTED, module.__name__


TASKS = [
    "audit",
    "correct",
    "report",
    "discover",
    "monitor",
    "sites",
    "scale",
    "production",
]
# written by `propcal paper reproduction` and `propcal paper benefit`
GENERATED = {"reproduction.md", "real-patients.md"}


def words(path):
    return len(path.read_text().split())


def test_a_guide_page_can_be_read_in_five_minutes():
    for task in TASKS:
        assert words(DOCS / "guide" / f"{task}.md") <= 1200, task


def test_the_documentation_for_people_has_at_most_30_000_words():
    pages = [path for path in DOCS.rglob("*.md") if path.name not in GENERATED]
    pages = [
        path
        for path in pages
        if not {"reference", "gallery"} & set(path.relative_to(DOCS).parts)
    ]
    pages += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    assert sum(map(words, pages)) <= 30_000


def test_the_reproduction_has_at_most_2_500_words():
    """Signs of verdicts and the lines of tables are not words."""
    said = (DOCS / "reproduction.md").read_text().split()
    assert sum(any(letter.isalnum() for letter in word) for word in said) <= 2_500


def test_the_changelog_of_a_release_fits_two_screens():
    """Of 50 lines with 120 columns each."""
    _, *releases = (ROOT / "CHANGELOG.md").read_text().split("\n## ")
    assert len(releases) > 2
    for release in releases:
        lines = release.replace("\n  ", " ").splitlines()
        assert sum(max(1, len(textwrap.wrap(line, 120))) for line in lines) <= 100, (
            lines[0]
        )
