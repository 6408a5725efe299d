"""Files beside a shared store: who holds an owner's lock, when a session last said it lives, what is swept away."""

import errno
import os

import pytest

from mpbroker.metadata import session_files
from mpbroker.metadata.session_files import (
    LISTENERS_LOCKED,
    NEVER_MS,
    OwnerAlive,
    OwnerLock,
    SessionFiles,
    directory_of,
    machine_id,
)
from tests.harness.descriptors import open_descriptors


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "metadata.db")


class Clock:
    now_ms = 1000

    def __call__(self):
        return self.now_ms


@pytest.fixture
def files(store):
    made = SessionFiles(store, Clock())
    yield made
    made.close()


def test_a_lock_says_who_has_it_and_nothing_of_an_earlier_one(store):
    directory_of(store).mkdir()
    path = directory_of(store) / "broker-1"
    path.write_bytes(b"x" * 5000)
    before = open_descriptors()
    lock = OwnerLock(store, "broker-1")
    content = path.read_bytes()
    assert content[LISTENERS_LOCKED.at :] == LISTENERS_LOCKED.text
    machine, start = content[: LISTENERS_LOCKED.at].decode().split()
    assert machine == machine_id() and len(start) == 32 and content.startswith(b"\n")
    assert content[len(f"\n{machine} {start}") : LISTENERS_LOCKED.at].strip(b"\n") == b""
    for _ in range(2):
        lock.close()
    assert open_descriptors() <= before


def test_files_are_our_users_alone(store, files):
    OwnerLock(store, "broker-1").close()
    files.beat(7)
    assert files.directory == directory_of(store) and files.directory.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in files.directory.iterdir()} == {
        "broker-1": 0o600,
        "s-7": 0o600,
    }


@pytest.mark.parametrize(
    ("number", "raised", "sentence"),
    [
        (errno.EAGAIN, OwnerAlive, r"^broker-1 runs already on this machine and store \(pid unknown\)$"),
        (errno.EACCES, OwnerAlive, r"^broker-1 runs already on this machine and store \(pid unknown\)$"),
        (errno.ENOLCK, OSError, "no"),
    ],
)
def test_a_lock_that_is_not_to_be_had_leaves_no_descriptor(store, monkeypatch, number, raised, sentence):
    def refuse(*_):
        raise OSError(number, "no")

    before = open_descriptors()
    monkeypatch.setattr(session_files.fcntl, "lockf", refuse)
    with pytest.raises(raised, match=sentence):
        OwnerLock(store, "broker-1")
    assert open_descriptors() <= before


def test_how_long_a_session_has_been_silent(files):
    clock = files._monotonic_ms
    assert (files.silent_ms(7), files.beat_changed_ns(7)) == (NEVER_MS, 0)
    files.beat(7)
    assert files.silent_ms(7) == 0 and files.beat_changed_ns(7) > 0
    clock.now_ms += 30
    assert (files.silent_ms(7), files.silent_ms(8)) == (30, NEVER_MS)
    files.beat(7)
    assert files.silent_ms(7) == 0
    os.truncate(files.directory / "s-7", 3)
    assert files.silent_ms(7) == NEVER_MS


def test_what_a_session_left_goes_with_its_descriptor(files):
    before = open_descriptors()
    for session in (7, 8, 9):
        files.beat(session)
    assert len(open_descriptors() - before) == 3
    files.forget(7)
    assert len(open_descriptors() - before) == 2 and files.silent_ms(7) == NEVER_MS
    files.forget(7)
    for name in ("s-10", "s-x", "other"):
        (files.directory / name).write_bytes(b"")
    files.sweep({9, 11})
    assert sorted(os.listdir(files.directory)) == ["other", "s-9", "s-x"]
    assert len(open_descriptors() - before) == 1
    files.close()
    assert open_descriptors() <= before
    files.beat(9)
    assert files.silent_ms(9) == 0, "it can be used again"


def test_an_owner_without_a_file_or_a_lock_is_held_by_nobody(store, files):
    before = open_descriptors()
    assert files.holder("broker-1") is None and open_descriptors() <= before
    OwnerLock(store, "broker-1").close()
    for _ in range(2):
        assert files.holder("broker-1") is None
    assert len(open_descriptors() - before) == 1


def test_a_descriptor_may_have_the_number_0(store, files, monkeypatch):
    """Where standard input is closed the first file gets it."""
    closed = []
    monkeypatch.setattr(session_files.os, "close", closed.append)
    lock = OwnerLock.__new__(OwnerLock)
    lock._descriptor = 0
    for _ in range(2):
        lock.close()
    assert closed == [0]
    monkeypatch.setattr(files, "_beats", {7: 0})
    files.forget(7)
    assert closed == [0, 0]
    monkeypatch.undo()


def test_files_are_opened_once_whatever_number_they_got(files, monkeypatch):
    opened = []
    for kept in ("_beats", "_owners"):
        monkeypatch.setattr(files, kept, {})
    monkeypatch.setattr(session_files.os, "open", lambda path, *_: opened.append(path.name) or 0)
    monkeypatch.setattr(session_files.os, "pread", lambda *words: b"\nmachine start\n")
    monkeypatch.setattr(session_files.os, "pwrite", lambda *words: None)
    monkeypatch.setattr(session_files, "lock_pid", lambda *words: 77)
    for _ in range(2):
        assert files.holder("broker-1") == ("machine", "start", 77)
        files.beat(7)
    assert opened == ["broker-1", "s-7"]


@pytest.mark.parametrize("content", [b"", b"\nmachine\n", b"\nmachine start more\n"])
def test_a_lock_of_which_nobody_knows_whose_it_is_is_nobodys(files, monkeypatch, content):
    (files.directory / "broker-1").write_bytes(content)
    monkeypatch.setattr(session_files, "lock_pid", lambda *words: 77)
    assert files.holder("broker-1") is None


def test_whoever_is_first_makes_the_directory_our_users_alone(store):
    OwnerLock(store, "broker-1").close()
    assert directory_of(store).stat().st_mode & 0o777 == 0o700
