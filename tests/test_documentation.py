"""The documentation is complete, and short enough to be read."""

import inspect
import re

import pytest

import propcal
from paths import ROOT

DOCS = ROOT / "docs"
NAMES = [name for name in propcal.__all__ if not inspect.ismodule(getattr(propcal, name)) and name[0] != "_"]
LISTED = set(re.findall(r"^   (\w+)$", (DOCS / "reference" / "api.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_in_the_reference_and_explains_itself(name):
    assert name in LISTED
    described = inspect.getdoc(getattr(propcal, name))
    assert described
    assert not described.startswith(f"{name}(")


def test_the_reference_lists_what_modules_offer():
    for module in (propcal.bounds, propcal.datasets, propcal.displays):
        public = {name for name in vars(module) if name[0] != "_" and inspect.isroutine(vars(module)[name])}
        public = {name for name in public if vars(module)[name].__module__.startswith(module.__name__)}
        assert public <= LISTED, module.__name__
