"""The examples run, and say what their pages promise."""

import runpy

import pytest

from first_cases import first
from paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SAYS = {
    "vendor_score": "elderly Medicare",
    "pipeline": "corrected: AUROC",
    "repeated_patients": "the same with metadata routing: True",
    "grid_search_alpha": "best:",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:sklego")  # theirs
@pytest.mark.parametrize("path", first(2, EXAMPLES[::-1]), ids=lambda path: path.stem)
def test_example(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert SAYS[path.stem] in capsys.readouterr().out
