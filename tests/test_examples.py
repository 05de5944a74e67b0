"""The examples of the gallery run, are short, and find what their pages say."""

import runpy

import pytest

from first_cases import first
from paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
SAYS = {
    "vendor_score": "O/E is 0.59 for pays 95 % or all",
    "correct_and_compare": "pays 95 % or all (O/E 0.59 before",
    "pipeline": "",
    "groups": "in poor health",
    "warehouse": "to the last bit: True",
    "explain": "0.682 becomes",
    "points": "too high for pays 95 % or all",
    "survey_weights": "person-years, worth",
    "repeat_people": "miscalibrated",
    "discover": "the score is too low",
    "monitor": "the score is miscalibrated for White",
    "sites": "95 % prediction interval",
    "paper_step_by_step": "updates in",
    "rare_outcome": "No miscalibration was found",
    "points_table": "spread over many features: retrain the model",
}


def test_examples_are_short_and_all_are_checked():
    assert [path.stem[7:] for path in EXAMPLES] == list(SAYS)
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) <= 70, path.name


@pytest.mark.parametrize("path", first(2, EXAMPLES), ids=lambda path: path.stem)
def test_example(path, capsys, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(path), run_name="__main__")
    assert SAYS[path.stem[7:]] in capsys.readouterr().out
    import matplotlib.pyplot as plt

    assert plt.get_fignums(), f"{path.name} draws no picture"
    plt.close("all")
