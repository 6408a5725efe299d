"""The directory in memory of a session: pytest makes its own there, and what is left of a red run stays."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.harness import in_memory
from tests.harness.broker import SHM


@pytest.mark.parametrize("red", [False, True])
def test_it_goes_with_a_green_run_and_stays_after_a_red_one(monkeypatch, capsys, red):
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", "before")  # put back when this test is over
    ends = []
    in_memory.begin(SimpleNamespace(add_cleanup=ends.append))
    directory = Path(os.environ["PYTEST_DEBUG_TEMPROOT"])
    try:
        assert directory.is_dir() and directory.parent == SHM
        (directory / "pytest-of-me" / ("pytest-3" if red else "")).mkdir(parents=True)
        [end] = ends
        end()
        assert directory.exists() is red and (str(directory) in capsys.readouterr().out) is red
        assert "PYTEST_DEBUG_TEMPROOT" not in os.environ
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.parametrize(("free", "enough"), [(256 << 20, True), ((256 << 20) - 1, False)])
def test_a_small_memory_is_left_alone(monkeypatch, free, enough):
    monkeypatch.setattr(in_memory.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert in_memory.has_room() is enough


def test_where_there_is_none_there_is_no_room(monkeypatch):
    monkeypatch.setattr(in_memory, "SHM", "/no/such/place")
    assert not in_memory.has_room()
