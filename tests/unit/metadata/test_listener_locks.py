"""Whether a broker's listener is served, by the locks of its processors: seen by processes that hold none."""

import fcntl
import os
import signal

import pytest

from mpbroker.config.cluster_store import ClusterStorePlace
from mpbroker.metadata import listener_locks
from mpbroker.metadata.listener_locks import ListenerLock, ListenerLocks
from mpbroker.metadata.session_files import LISTENERS_LOCKED, OwnerLock, SessionFiles, directory_of, lock_pid
from mpbroker.record.checksum import crc32c
from tests.harness.waiting_child import waiting_child


@pytest.fixture
def place(tmp_path):
    return ClusterStorePlace("", str(tmp_path / "metadata.db"))


def supervisor(place, broker=1):
    return waiting_child(lambda: OwnerLock(place.sqlite_path, f"broker-{broker}"))


def processor(place, broker=1, listener="OUT"):
    return waiting_child(lambda: ListenerLock(place, broker, listener))


def test_a_listener_is_dead_when_its_last_processor_is(place):
    locks = ListenerLocks(place)
    with supervisor(place):
        assert locks.is_dead(1, "OUT")
        with processor(place), processor(place, listener="IN"):
            assert not locks.is_dead(1, "OUT") and not locks.is_dead(1, "IN")
            with processor(place):
                pass
            assert not locks.is_dead(1, "OUT")
        assert locks.is_dead(1, "OUT") and locks.is_dead(1, "IN")
        with processor(place):  # its successor
            assert not locks.is_dead(1, "OUT")


def test_who_loses_a_connection_finds_the_lock_gone(place):
    """However late the process is reaped: a dying one gives up its locks, then its connections."""
    locks = ListenerLocks(place)
    with supervisor(place), processor(place) as (child, connection):
        assert not locks.is_dead(1, "OUT")
        os.kill(child, signal.SIGKILL)
        assert connection.recv(1) == b""
        assert locks.is_dead(1, "OUT")


def test_of_a_broker_without_such_locks_nobody_says_that_it_is_dead(place):
    locks = ListenerLocks(place)
    assert not locks.is_dead(1, "OUT")  # there is no such file
    with supervisor(place):
        path = directory_of(place.sqlite_path) / "broker-1"
        os.truncate(path, LISTENERS_LOCKED.at)  # as of a release that has none
        assert not locks.is_dead(1, "OUT")
    assert not ListenerLocks(ClusterStorePlace("", "", (("h", 1),))).is_dead(1, "OUT")


def test_the_owners_lock_is_another_one(place):
    files = SessionFiles(place.sqlite_path, lambda: 0)
    with processor(place):
        assert files.holder("broker-1") is None
        with supervisor(place) as (child, _):
            assert files.holder("broker-1").pid == child
        assert files.holder("broker-1") is None
    files.close()


def test_brokers_of_other_releases_look_at_the_same_place(place):
    """While a cluster of one machine is upgraded, old and new ones ask each other's files."""
    assert tuple(LISTENERS_LOCKED) == (512, b"listeners\n")
    with supervisor(place), processor(place) as (child, _):  # noqa: SIM117
        with open(directory_of(place.sqlite_path) / "broker-1", "r+b") as file:
            assert lock_pid(file.fileno(), (1 << 20) + crc32c(b"OUT")) == child
            assert lock_pid(file.fileno(), (1 << 20) + crc32c(b"IN")) is None
            assert lock_pid(file.fileno(), (1 << 20) + crc32c(b"OUT") + 1) is None, "that of another listener, perhaps"
            assert file.read()[512:] == b"listeners\n"


def test_whose_file_is_made_first_by_a_processor_is_our_users_alone(place):
    directory_of(place.sqlite_path).mkdir()
    with processor(place):
        assert (directory_of(place.sqlite_path) / "broker-1").stat().st_mode & 0o777 == 0o600


def test_a_file_is_opened_once_whatever_number_it_got(place, monkeypatch):
    locks, opened = ListenerLocks(place), []
    monkeypatch.setattr(listener_locks.os, "open", lambda *words: opened.append(words) or 0)
    monkeypatch.setattr(listener_locks.os, "pread", lambda *words: LISTENERS_LOCKED.text)
    monkeypatch.setattr(listener_locks, "lock_pid", lambda *words: None)
    for _ in range(2):
        assert locks.is_dead(1, "OUT")
    assert len(opened) == 1


def test_a_lock_is_of_one_byte_and_so_is_the_question(place, tmp_path):
    """Those beside it belong to others."""

    def fifth_byte():
        descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, 5)
        return descriptor

    with waiting_child(fifth_byte) as (child, _), open(tmp_path / "file", "r+b") as file:
        assert [lock_pid(file.fileno(), byte) for byte in (4, 5, 6)] == [None, child, None]
    with supervisor(place) as (child, _), open(directory_of(place.sqlite_path) / "broker-1", "r+b") as file:
        assert [lock_pid(file.fileno(), byte) for byte in (0, 1)] == [child, None]
        assert lock_pid(file.fileno()) == child
