"""Files written whole or not at all."""

import contextlib
import os
import signal
import stat
from pathlib import Path

import pytest

from propcal import interrupts as stopping
from propcal.formats.transaction import whole_file


@pytest.fixture
def path(tmp_path):
    save(tmp_path / "model.json", "old")
    return tmp_path / "model.json"


def save(path, text="new"):
    fill(path, lambda part: part.write_text(text))


def fill(path, write):
    with whole_file(path) as part:
        write(part)


def test_saving_writes_through_a_link_and_not_over_a_folder(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        save(tmp_path)
    save(tmp_path / ("x" * 250))


def test_an_interrupted_write_leaves_the_old_file_whole(path):
    def interrupted(part):
        part.write_text("half of")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(path, interrupted)
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["model.json"]


@pytest.fixture
def _nobody_asks():
    yield
    stopping.forget()


@pytest.mark.usefixtures("_nobody_asks")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_whose_exception_got_lost_still_leaves_the_old_file(path, number):
    def stopped(part):
        part.write_text("new")
        with contextlib.suppress(
            BaseException
        ):  # as Python does in a callback or a __del__
            stopping.ask(number)

    with pytest.raises((stopping.Stopped, KeyboardInterrupt)):
        fill(path, stopped)
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["model.json"]


@pytest.mark.usefixtures("_nobody_asks")
def test_a_stop_while_a_file_takes_its_place_comes_afterwards(path, monkeypatch):
    replace = Path.replace

    def stopped(part, target):
        stopping.ask(signal.SIGTERM)
        return replace(part, target)

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(stopping.Stopped):
        save(path)
    assert path.read_text() == "new"
    assert stopping.asked() == signal.SIGTERM


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_leaves_the_old_file_whole(path):
    def full(part):
        with open("/dev/full", "w") as device:
            device.write("new")

    with pytest.raises(OSError, match="No space"):
        fill(path, full)
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["model.json"]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        save(tmp_path / "absent" / "m.json")


def test_a_folder_that_takes_no_file_is_told_by_the_name_that_was_given(
    tmp_path, monkeypatch
):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", ".propcal-x.part")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match="cannot create a file in") as told:
        save(tmp_path / "m.json")
    assert "m.json" in str(told.value)
    assert ".part" not in str(told.value)


def test_new_files_have_ordinary_permissions(path, tmp_path):
    other = tmp_path / "other"
    other.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
