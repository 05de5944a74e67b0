"""Refuse pipes, devices and circular links where a file is expected: reading them may never end."""

from __future__ import annotations

import os
from errno import ELOOP
from os import PathLike
from pathlib import Path

from propcal.errors import InputError, refused


def refuse_special(path: str | PathLike[str]) -> None:
    """Refuse anything but a regular file; a path that does not exist is left to whoever opens it."""
    refuse_circular(path)
    found = Path(path)
    if found.is_dir():
        raise InputError(f"{path} is a folder", next_step="Name a file in it")
    if found.exists() and not found.is_file():
        raise refused("pipe", path=path)


def refuse_circular(path: str | PathLike[str]) -> None:
    """Refuse a symbolic link that leads back to itself."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == ELOOP:
            raise refused("circular link", path=path) from None
