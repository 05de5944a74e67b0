"""Tests and the examples of the documentation run in an empty folder of their own, with
a thread each.
"""

import os

import pytest

# Tests have a process for each core: threads of linear algebra beside them would mostly
# wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
