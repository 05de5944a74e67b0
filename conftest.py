"""Tests and the examples of the documentation run in an empty folder of their own, with
a thread each.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# Tests have a process for each core: threads of linear algebra beside them would mostly
# wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The experiments of the paper are a distribution of their own. Where it is not
# installed, its sources are tested.
if find_spec("propcal_paper") is None:
    sys.path.append(str(Path(__file__).parent / "paper" / "src"))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
