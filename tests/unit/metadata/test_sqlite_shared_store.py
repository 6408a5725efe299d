"""A SQLite store that brokers of one machine share: who lives, who is woken, what is refused."""

import fcntl
import os
import select
import signal
import sqlite3

import pytest

from mpbroker.metadata import session_files, sqlite_shared_store
from mpbroker.metadata.meta_store import Absent, Committed, Delete, Put, StoreError, StoreTimeout
from mpbroker.metadata.session_files import NEVER_MS, OwnerAlive, OwnerLock, SessionFiles, machine_id
from mpbroker.metadata.sqlite_shared_store import WAL_IS_SAFE, SharedSqliteStore
from mpbroker.metadata.store_place import network_kind
from tests.harness.store_owner import living_owner
from tests.harness.waiting_child import end

TTL_MS = 9000


class Clock:
    """Milliseconds that a test moves."""

    def __init__(self):
        self.now_ms = 1_000_000

    def __call__(self):
        return self.now_ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def open_store(tmp_path, clock):
    stores = []

    def one(**more):
        stores.append(SharedSqliteStore(tmp_path / "metadata.db", monotonic_ms=clock, **more))
        return stores[-1]

    yield one
    for store in stores:
        store.close()


def _register(store, name="broker-1", key="brokers/1"):
    session = store.session_open(TTL_MS, name)
    assert isinstance(store.txn([Absent(key)], [Put(key, b"x", session.id)], tag="t"), Committed)
    return session


def test_a_commit_wakes_the_watches_of_others(open_store):
    watch, writer = open_store().open_watch("w/", 1), open_store()
    assert watch.take() == []
    assert not select.select([watch], [], [], 0)[0]
    writer.txn([], [Put("w/1", b"a"), Put("x", b"")], tag="t")
    assert select.select([watch], [], [], 5)[0]
    assert [(batch.rev, [event.key for event in batch.events]) for batch in watch.take()] == [(1, ["w/1"])]
    writer.txn([], [Delete("x")], tag="t")
    assert (watch.take(), watch.rev) == ([], 2)
    watch.close()


def test_a_watch_that_nobody_rings_looks_by_itself(open_store, monkeypatch):
    watch, writer = open_store().open_watch("w/", 1), open_store()
    monkeypatch.setattr(sqlite_shared_store, "ring_all", lambda directory: None)  # a writer killed before it rang
    assert watch.take() == []
    writer.txn([], [Put("w/1", b"a")], tag="t")
    assert [batch.rev for batch in watch.take(wait_ms=5000)] == [1]
    watch.close()


def test_bells_of_the_dead_are_taken_away(open_store, tmp_path):
    store = open_store()
    os.mkfifo(tmp_path / "metadata.db-sessions" / "bell-1-1")
    store.txn([], [Put("a", b"")], tag="t")
    assert not list((tmp_path / "metadata.db-sessions").glob("bell-*"))


def test_a_broker_of_many_logs_hears_of_the_dead_too(open_store, tmp_path, monkeypatch):
    """Its descriptors are above those that select.select takes."""
    real = os.pidfd_open

    def above(pid):
        low = real(pid)
        try:
            return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 1100)
        finally:
            os.close(low)

    monkeypatch.setattr(os, "pidfd_open", above)
    mine, other = open_store(), open_store()
    with living_owner(tmp_path / "metadata.db", "broker-1") as pid:
        _register(mine)
        watch = other.open_watch("", other.revision() + 1)
        assert watch.take() == [] and watch.take() == []
        end(pid)
        (batch,) = watch.take(wait_ms=5000)
        assert [(event.key, event.entry) for event in batch.events] == [("brokers/1", None)]
        watch.close()


def test_a_session_ends_with_its_owner_at_once_and_all_its_keys_together(open_store, tmp_path):
    mine, other = open_store(), open_store()
    with living_owner(tmp_path / "metadata.db", "broker-1") as pid:
        session = _register(mine)
        mine.txn([], [Put("controller", b"1", session.id), Put("stays", b"")], tag="t")
        watch = other.open_watch("", other.revision() + 1)
        assert watch.take() == []  # from now on it knows whom to wait for
        assert other.end_dead_sessions() == 0
        end(pid)
        assert select.select([watch], [], [], 5)[0]
        (batch,) = watch.take()
        assert [(event.key, event.entry) for event in batch.events] == [("brokers/1", None), ("controller", None)]
        assert (other.session_find(session.id), mine.session_renew(session)) == (None, False)
        assert other.get("stays")[1] is not None
        watch.close()


def test_a_patient_store_leaves_a_death_to_others(open_store, tmp_path):
    mine, patient, other = open_store(), open_store(patience_ms=3_600_000), open_store()
    with living_owner(tmp_path / "metadata.db", "broker-1") as pid:
        session = _register(mine)
        waits, watch = patient.open_watch("", patient.revision() + 1), other.open_watch("", other.revision() + 1)
        assert (waits.take(), watch.take()) == ([], [])
        end(pid)
        assert waits.take() == [] and patient.session_find(session.id) is not None
        assert [event.key for batch in watch.take() for event in batch.events] == ["brokers/1"]
        assert [event.key for batch in waits.take() for event in batch.events] == ["brokers/1"]
        for one in (waits, watch):
            one.close()


def test_an_owner_that_started_again_does_not_keep_its_old_sessions(open_store, tmp_path):
    store = open_store()
    with living_owner(tmp_path / "metadata.db", "broker-1") as pid:
        old = _register(store)
        end(pid)
        with living_owner(tmp_path / "metadata.db", "broker-1"):  # before anybody looked
            assert store.end_dead_sessions() == 1
            assert store.session_find(old.id) is None
            new = _register(store)
            assert store.end_dead_sessions() == 0
            assert store.get("brokers/1")[1].session == new.id != old.id


def test_a_stopped_broker_loses_its_session_although_its_supervisor_lives(open_store, tmp_path, clock):
    stopped, other = open_store(), open_store()
    with living_owner(tmp_path / "metadata.db", "broker-1"):
        session = _register(stopped)
        clock.now_ms += TTL_MS
        assert other.end_dead_sessions() == 0
        assert stopped.session_renew(session)
        clock.now_ms += TTL_MS
        assert other.end_dead_sessions() == 0
        clock.now_ms += 1
        assert other.end_dead_sessions() == 1
        assert not stopped.session_renew(session)  # it goes on, and is told
        assert not list((tmp_path / "metadata.db-sessions").glob("s-*"))
        with pytest.raises(StoreError, match="ended"):
            stopped.txn([], [Put("a", b"", session.id)], tag="t")


def test_one_that_came_back_while_somebody_was_about_to_end_it_stays(open_store, tmp_path, clock, monkeypatch):
    slow, other = open_store(), open_store()
    with living_owner(tmp_path / "metadata.db", "broker-1"):
        session = _register(slow)
        clock.now_ms += TTL_MS + 1
        first_look = other._is_dead

        def looks_then_it_renews(row):
            dead = first_look(row)
            slow._files.beat(session.id)
            return dead

        monkeypatch.setattr(other, "_is_dead", looks_then_it_renews)
        assert other.end_dead_sessions() == 0
        assert slow.session_renew(session)


def test_no_session_without_a_supervisor_that_holds_the_lock(open_store):
    with pytest.raises(StoreError, match="broker-1 cannot begin a session"):
        open_store().session_open(TTL_MS, "broker-1")


def test_an_owner_is_there_once(tmp_path):
    with living_owner(tmp_path / "metadata.db", "broker-1") as pid:
        with pytest.raises(OwnerAlive, match=f"broker-1 runs already .*pid {pid}"):
            OwnerLock(tmp_path / "metadata.db", "broker-1")
        OwnerLock(tmp_path / "metadata.db", "broker-2").close()


def test_whoever_is_killed_while_ending_a_session_leaves_it_to_the_next(open_store, tmp_path):
    store = open_store()
    with living_owner(tmp_path / "metadata.db", "broker-1"):
        _register(store)
    reading, writing = os.pipe()
    janitor = os.fork()
    if janitor == 0:
        try:
            mine = SharedSqliteStore(tmp_path / "metadata.db")
            mine._committed = lambda: None
            commit = mine._commit
            mine._commit = lambda *given: (os.write(writing, b"!"), signal.pause(), commit(*given))
            mine.end_dead_sessions()
        finally:
            os._exit(1)
    assert os.read(reading, 1) == b"!"  # everything is written, nothing is committed
    assert store.get("brokers/1")[1] is not None
    os.kill(janitor, signal.SIGKILL)
    os.waitpid(janitor, 0)
    assert store.end_dead_sessions() == 1
    assert store.get("brokers/1")[1] is None
    os.close(reading)
    os.close(writing)


def test_a_writer_stopped_in_a_transaction_costs_others_their_deadline_and_no_more(open_store, tmp_path):
    store = open_store(timeout_ms=20)
    holder = sqlite3.connect(tmp_path / "metadata.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    for call in (lambda: store.txn([], [Put("a", b"")], tag="t"), lambda: store.get("a"), lambda: store.scan("")):
        with pytest.raises(StoreTimeout, match="locked"):
            list(call())
    holder.execute("ROLLBACK")
    holder.close()
    assert store.txn([], [Put("a", b"")], tag="t") == Committed(1)


def test_a_reader_that_does_not_leave_ends_a_commit_in_a_timeout_that_changed_nothing(open_store, tmp_path):
    store = open_store(timeout_ms=20)
    reader = sqlite3.connect(tmp_path / "metadata.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM kv").fetchone()
    with pytest.raises(StoreTimeout, match="read by another process"):
        store.txn([], [Put("a", b"")], tag="t")
    reader.execute("COMMIT")
    reader.close()
    assert store.get("a") == (0, None)
    assert store.txn([], [Put("a", b"")], tag="t") == Committed(1)


def _journal(store):
    return store._db.execute("PRAGMA journal_mode").fetchone()[0]


def test_the_journal_is_one_that_the_library_can_share(open_store):
    first = open_store(library=(3, 51, 2))
    assert _journal(first) == "persist"
    assert _journal(open_store(library=WAL_IS_SAFE)) == "persist"  # it stays what it is while others use it


def test_a_write_ahead_log_is_used_where_it_is_safe_and_given_up_where_it_is_not(open_store):
    new = open_store(library=WAL_IS_SAFE)
    new.txn([], [Put("a", b"1")], tag="t")
    assert _journal(new) == "wal"
    with pytest.raises(StoreError, match=r"cannot share: start all brokers with the same SQLite, 3\.51\.3"):
        open_store(library=(3, 51, 2), timeout_ms=50)
    new.close()
    old = open_store(library=(3, 51, 2))
    assert _journal(old) == "persist"
    assert old.get("a")[1].value == b"1"


def test_brokers_of_a_second_machine_are_refused(open_store, tmp_path):
    with living_owner(tmp_path / "metadata.db", "broker-1"):
        _register(open_store())
        with pytest.raises(StoreError, match=r"used by brokers of another machine \(broker-1\).*etcd"):
            open_store(machine="another")


def test_a_second_machine_is_noticed_by_its_beats_where_locks_do_not_reach(open_store, tmp_path, monkeypatch):
    store = open_store()
    with living_owner(tmp_path / "metadata.db", "broker-1"):
        session = _register(store)
    # its lock is gone: as a file system without locks between machines shows it
    monkeypatch.setattr(sqlite_shared_store.time, "sleep", lambda seconds: store._files.beat(session.id))
    with pytest.raises(StoreError, match="another machine"):
        open_store(machine="another")


def test_after_a_reboot_the_sessions_of_before_are_over(open_store, tmp_path, monkeypatch):
    store = open_store()
    with living_owner(tmp_path / "metadata.db", "broker-1"):
        _register(store)
    monkeypatch.setattr(sqlite_shared_store.time, "sleep", lambda seconds: None)
    after = open_store(machine="the same, started again")
    assert after.end_dead_sessions() == 1
    assert after.get("brokers/1")[1] is None


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 {device} / /data rw,relatime shared:2 master:1 - {kind} server:/export rw
"""


@pytest.mark.parametrize(
    ("kind", "network"),
    [("nfs4", True), ("cifs", True), ("9p", True), ("fuse.sshfs", True), ("ext4", False), ("fuseblk", False)],
)
def test_network_file_systems_are_known_by_their_kinds(tmp_path, kind, network):
    device = os.stat(tmp_path).st_dev
    mounts = MOUNTS.format(device=f"{os.major(device)}:{os.minor(device)}", kind=kind)
    assert network_kind(tmp_path, mounts) == (kind if network else "")


def test_a_store_on_a_network_file_system_is_refused(open_store, monkeypatch):
    monkeypatch.setattr(sqlite_shared_store, "network_kind", lambda path: "nfs4")
    with pytest.raises(StoreError, match=r"network file system \(nfs4\).*use etcd"):
        open_store()


def test_this_machine_has_an_id():
    assert len(machine_id()) == 36


def test_a_lock_that_is_given_up_twice_closes_nothing_of_others(tmp_path):
    lock = OwnerLock(tmp_path / "metadata.db", "broker-1")
    lock.close()
    others = os.open(tmp_path, os.O_RDONLY)  # gets the same number
    lock.close()
    os.fstat(others)
    os.close(others)


def test_a_store_that_is_closed_holds_no_descriptor_of_its_sessions(open_store):
    store = open_store()
    store._files.beat(7)
    begun = {*store._files._beats.values(), *store._files._owners.values()}
    assert begun
    store.close()
    assert not store._files._beats and not store._files._owners
    for descriptor in begun:
        with pytest.raises(OSError):
            os.fstat(descriptor)


def test_beats_of_sessions_that_are_no_more_are_swept(tmp_path, clock):
    files = SessionFiles(tmp_path / "metadata.db", clock)
    for number in (1, 2, 30):
        files.beat(number)
    (files.directory / "s-x").write_text("")
    files.sweep({2})
    assert sorted(path.name for path in files.directory.glob("s-*")) == ["s-2", "s-x"]
    assert files.silent_ms(2) == 0 and files.silent_ms(1) == NEVER_MS
    files.close()


def test_a_lock_that_cannot_be_looked_at_is_the_stores_failure(tmp_path, clock, monkeypatch):
    def fail(_):
        raise OSError(5, "Input/output error")

    files = SessionFiles(tmp_path / "metadata.db", clock)
    assert files.holder("broker-1") is None
    lock = OwnerLock(tmp_path / "metadata.db", "broker-1")
    monkeypatch.setattr(session_files, "lock_pid", fail)
    with pytest.raises(StoreError, match="broker-1: Input/output error"):
        files.holder("broker-1")
    files.close()
    lock.close()
