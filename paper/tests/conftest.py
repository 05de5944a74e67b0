"""The command `propcal paper` is there, and the tests of the library's engines lend
their Dask cluster.
"""

import os
import sys
from importlib.metadata import entry_points

import pytest

from as_installed import PAPER, entry_points_folder
from sessions import dask_client  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def _command_is_installed(tmp_path_factory):
    """For this process and those that it starts."""
    if entry_points(group="propcal.commands", name="paper"):
        return
    folder = entry_points_folder(tmp_path_factory.mktemp("installed"))
    sys.path.append(folder)
    others = [folder, str(PAPER / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, others))
