"""A pipe for each process that watches a shared store: rung after a commit, silent once drained, gone when closed."""

import os
import select
import stat

import pytest

from mpbroker.metadata import store_bell
from mpbroker.metadata.store_bell import StoreBell, ring_all
from tests.harness.descriptors import open_descriptors


@pytest.fixture
def bells(tmp_path):
    made = [StoreBell(tmp_path) for _ in range(2)]
    yield made
    for bell in made:
        if bell.path.exists():
            bell.close()


def rung(bell):
    return bool(select.select([bell.descriptor], [], [], 0)[0])


def test_everybody_is_rung_and_silent_after_he_has_heard(bells, tmp_path):
    first, second = bells
    assert first.path != second.path and not rung(first)
    for _ in range(2):
        ring_all(tmp_path)
        assert rung(first) and rung(second)
        first.drain()
        assert not rung(first) and rung(second)
        second.drain()
        second.drain()


def test_a_pipe_is_our_users_alone_and_its_name_says_whose_it_is(bells, tmp_path):
    for bell in bells:
        mode = bell.path.stat().st_mode
        assert stat.S_ISFIFO(mode) and mode & 0o777 == 0o600
        assert bell.path.name.startswith(f"bell-{os.getpid()}-")
        assert not os.get_inheritable(bell.descriptor) and not os.get_blocking(bell.descriptor)
    assert sorted(os.listdir(tmp_path)) == sorted(bell.path.name for bell in bells), "nothing half made is left"


def test_pipes_that_nobody_has_open_are_taken_away_and_nothing_else(bells, tmp_path):
    dead, other = tmp_path / "bell-1-1", tmp_path / "other"
    for path in (dead, other):
        os.mkfifo(path)
    (tmp_path / "bell-file").write_bytes(b"")
    ring_all(tmp_path)
    assert not dead.exists() and other.exists() and all(rung(bell) for bell in bells)


def test_who_has_been_rung_often_enough_holds_nobody_up(bells, tmp_path):
    descriptor = os.open(bells[0].path, os.O_WRONLY | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(descriptor, bytes(65536))
    os.close(descriptor)
    before = open_descriptors()
    ring_all(tmp_path)
    assert rung(bells[1]) and open_descriptors() <= before
    bells[0].drain()
    assert not rung(bells[0])


def test_a_closed_one_is_gone(bells, tmp_path):
    descriptor = bells[0].descriptor
    bells[0].path.unlink()  # by somebody who thought that it was dead
    bells[0].close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    bells[1].close()
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_of_the_same_number_left_is_in_nobodys_way(tmp_path, monkeypatch):
    monkeypatch.setattr(store_bell, "_numbers", iter([7, 7]))
    os.mkfifo(tmp_path / f".bell-{os.getpid()}-7")
    bell = StoreBell(tmp_path)
    assert os.listdir(tmp_path) == [f"bell-{os.getpid()}-7"] and not rung(bell)
    StoreBell(tmp_path).close()
    bell.close()
    assert os.listdir(tmp_path) == []
