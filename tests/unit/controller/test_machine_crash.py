"""Only a crash of the machine makes a start unclean: not a kill, not a clean stop before the machine went down."""

import json

import pytest

from mpbroker.controller.machine_crash import FILE, unclean_start
from mpbroker.log.clean_shutdown import MARKER, write_marker


@pytest.fixture
def home(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(b"records")
    (tmp_path / FILE).write_text(json.dumps({"machine": "boot-1", "start": "1", "unclean": False}))
    return tmp_path


def _start(home, machine, start):
    """A start takes the marker away."""
    unclean = unclean_start([str(home)], machine, start)
    (home / MARKER).unlink(missing_ok=True)
    return unclean


def test_a_killed_broker_lost_nothing(home):
    assert not _start(home, "boot-1", "2")


def test_a_machine_that_went_down(home):
    assert _start(home, "boot-2", "2")
    assert _start(home, "boot-2", "2"), "another process of the same start"
    assert _start(home, "boot-2", "3"), "killed before anybody heard of it"
    write_marker(str(home))
    assert not _start(home, "boot-2", "4")
    assert not _start(home, "boot-2", "5")


def test_a_clean_stop_before_the_machine_was_restarted(home):
    write_marker(str(home))
    assert not _start(home, "boot-2", "2")
    assert not _start(home, "boot-2", "2"), "the marker is gone, and the start the same"


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", "{"])
def test_logs_of_nobody_knows_which_machine(home, content):
    (home / FILE).unlink()
    if content is not None:
        (home / FILE).write_text(content)
    assert _start(home, "boot-1", "2")


def test_a_new_directory(tmp_path):
    assert not _start(tmp_path, "boot-1", "1")
    assert not _start(tmp_path, "boot-1", "2")


def test_one_directory_of_several_was_not_left_cleanly(home, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write_marker(str(home))
    assert unclean_start([str(home), str(other)], "boot-2", "2")
