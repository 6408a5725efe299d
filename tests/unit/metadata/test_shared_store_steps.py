"""Single decisions of a shared SQLite store, on a clock that only the test moves: for whom it waits and how long, which
journal it uses, whom it takes for dead."""

import os
import re
import sqlite3
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from mpbroker.metadata import sqlite_shared_store as module
from mpbroker.metadata.meta_store import Compacted, Entry, Session, StoreError, StoreTimeout, Unknown
from mpbroker.metadata.session_files import Holder
from mpbroker.metadata.sqlite_shared_store import SharedSqliteStore, _Row
from tests.harness.descriptors import open_descriptors

HERE, THERE = "this machine", "another"
TTL_MS = 9000


class Time:
    """`slept`: how long each sleep was."""

    def __init__(self):
        self.now_ns, self.slept, self.meanwhile = 1_000_000_000_000, [], lambda: None

    def time_ns(self):
        return self.now_ns

    monotonic_ns = time_ns

    def monotonic(self):
        return self.now_ns / 1e9

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now_ns += round(seconds * 1e9)
        self.meanwhile()


@pytest.fixture
def time(monkeypatch):
    made = Time()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def store(tmp_path):
    made = SharedSqliteStore.__new__(SharedSqliteStore)
    made.path, made._machine, made._timeout_ms, made._pid = "/d/metadata.db", HERE, 50, os.getpid()
    made._files = SimpleNamespace(directory=tmp_path)
    return made


class Statement:
    """A connection that fails so often, with this code."""

    def __init__(self, failures, code=sqlite3.SQLITE_BUSY):
        self.failures, self.code, self.done = failures, code, 0

    def execute(self, statement):
        assert statement == "BEGIN"
        self.done += 1
        if self.done <= self.failures:
            error = sqlite3.OperationalError("words")
            error.sqlite_errorcode = self.code
            raise error


def test_a_lock_is_waited_for_in_short_uneven_steps_up_to_its_time(store, time):
    db = Statement(4)
    store._lock(db, "BEGIN")
    assert db.done == 5 and len(time.slept) == 4
    assert all(0.0005 <= seconds <= 0.0035 for seconds in time.slept) and len({*time.slept}) > 1
    db, time.slept, begun = Statement(10**9), [], time.now_ns
    with pytest.raises(sqlite3.OperationalError):
        store._lock(db, "BEGIN")
    assert 50 <= (time.now_ns - begun) / 1e6 <= 53.5 and db.done == len(time.slept) + 1


def test_the_last_try_is_when_the_time_is_over(store, time):
    store._timeout_ms = 0
    db = Statement(1)
    store._lock(db, "BEGIN")  # the deadline has come and has not passed
    assert db.done == 2
    with pytest.raises(sqlite3.OperationalError):
        store._lock(Statement(2), "BEGIN")


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR])
def test_what_is_no_lock_is_not_waited_for(store, time, code):
    with pytest.raises(sqlite3.OperationalError):
        store._lock(Statement(1, code), "BEGIN")
    assert not time.slept
    store._lock(Statement(1, sqlite3.SQLITE_BUSY | 2 << 8), "BEGIN")
    assert len(time.slept) == 1, "busy, with an extension"


@pytest.mark.parametrize(("tries", "in_time"), [(0, True), (1, True), (10, True), (12, False)])
def test_one_at_a_time_opens_the_file(store, time, monkeypatch, tmp_path, tries, in_time):
    asked, before = [], open_descriptors()

    def flock(descriptor, how):
        asked.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        assert how == module.fcntl.LOCK_EX | module.fcntl.LOCK_NB
        if len(asked) <= tries:
            raise BlockingIOError

    monkeypatch.setattr(module.fcntl, "flock", flock)
    if in_time:
        with store._alone(50):
            assert len(open_descriptors() - before) == 1, "it is held meanwhile"
    else:
        with (
            pytest.raises(StoreTimeout, match=f"^{re.escape(str(tmp_path))}: another process is opening the store$"),
            store._alone(50),
        ):
            raise AssertionError
    assert set(asked) == {f"{tmp_path}/.opening"} and time.slept == [0.005] * min(tries, 11)
    assert open_descriptors() <= before
    assert (tmp_path / ".opening").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("is_safe", "mode", "schema", "granted", "asked", "is_used"),
    [
        (True, "wal", 1, None, None, True),
        (True, "delete", 0, "wal", "wal", True),
        (True, "delete", 0, "delete", "wal", False),
        (True, "persist", 1, "persist", "persist", True),
        (True, "delete", 1, "persist", "persist", True),
        (True, "persist", 0, None, "wal", True),  # somebody uses it: it stays as it is
        (True, "delete", 0, None, "wal", False),
        (False, "wal", 1, "persist", "persist", True),
        (False, "wal", 0, None, "persist", False),
        (False, "wal", 1, "wal", "persist", False),
        (False, "delete", 0, "persist", "persist", True),
    ],
)
def test_which_journal_is_used(store, is_safe, mode, schema, granted, asked, is_used):
    """A new file gets the best one; that of an older release keeps its own, but for a log that cannot be shared."""
    changed = []

    def execute(statement):
        if statement.startswith("PRAGMA journal_mode="):
            changed.append(statement.partition("=")[2])
            if granted is None:
                raise sqlite3.OperationalError("locked")
            return SimpleNamespace(fetchone=lambda: (granted,))
        return SimpleNamespace(fetchone=lambda: (mode,) if statement == "PRAGMA journal_mode" else (schema,))

    store._wal_is_safe = is_safe
    if is_used:
        store._use_journal(SimpleNamespace(execute=execute))
    else:
        with pytest.raises(StoreError, match=rf"^/d/metadata\.db is open in a journal mode \({granted or mode}\) that"):
            store._use_journal(SimpleNamespace(execute=execute))
    assert changed == ([asked] if asked else [])


class Brokers:
    """Sessions in the store, when each was last said to live, and who holds their owners' locks."""

    def __init__(self, store, time):
        self.rows, self.beats, self.holders = [], {}, {}
        store._rows = lambda: self.rows
        store._files = SimpleNamespace(
            beat_changed_ns=lambda number: self.beats[number],
            holder=lambda owner: self.holders.get(owner),
            silent_ms=lambda number: (time.now_ns - self.beats[number]) // 1_000_000,
            directory=store._files.directory,
        )
        self.now_ns = time.now_ns

    def add(self, number, machine, silent_ms, ttl_ms=TTL_MS, locked_by=None):
        self.rows.append(_Row(number, f"broker-{number}", ttl_ms, "start", machine))
        self.beats[number] = self.now_ns - silent_ms * 1_000_000
        if locked_by:
            self.holders[f"broker-{number}"] = Holder(locked_by, "start", 7)


@pytest.fixture
def brokers(store, time):
    return Brokers(store, time)


@pytest.mark.parametrize("silent_ms", [TTL_MS, TTL_MS + 1])
@pytest.mark.parametrize("locked_by", [None, HERE])
def test_sessions_of_another_machine_that_are_long_silent_are_of_before_a_reboot(
    store, brokers, time, silent_ms, locked_by
):
    brokers.add(1, THERE, silent_ms, locked_by=locked_by)
    brokers.add(2, HERE, 0, locked_by=HERE)
    store._refuse_another_machine()
    assert not time.slept


def test_ones_that_may_live_are_given_the_time_to_say_so(store, brokers, time):
    brokers.add(1, THERE, TTL_MS - 1)
    brokers.add(2, THERE, 0, ttl_ms=4000)
    brokers.add(3, THERE, 50_000, ttl_ms=20_000)
    brokers.add(4, HERE, 0, ttl_ms=30_000)
    store._refuse_another_machine()
    assert time.slept == [9.0], "as long as the longest of those"
    time.now_ns = brokers.now_ns
    time.meanwhile = lambda: brokers.beats.update({2: time.now_ns})
    with pytest.raises(StoreError, match=r"^/d/metadata\.db is used by brokers of another machine \(broker-1\): "):
        store._refuse_another_machine()


@pytest.mark.parametrize("silent_ms", [0, TTL_MS])
def test_a_lock_of_another_machine_is_enough(store, brokers, time, silent_ms):
    brokers.add(1, THERE, silent_ms, locked_by=THERE)
    with pytest.raises(StoreError, match="another machine"):
        store._refuse_another_machine()
    assert not time.slept


def test_a_lock_that_is_taken_meanwhile_is_seen(store, brokers, time):
    brokers.add(1, THERE, 0)
    time.meanwhile = lambda: brokers.holders.update({"broker-1": Holder(THERE, "start", 0)})
    with pytest.raises(StoreError, match="another machine"):
        store._refuse_another_machine()


@pytest.mark.parametrize(
    ("holder", "silent_ms", "is_dead"),
    [
        (Holder(HERE, "start", 7), TTL_MS, False),
        (Holder(HERE, "start", 7), TTL_MS + 1, True),
        (Holder(HERE, "another start", 7), 0, True),
        (None, 0, True),
    ],
)
def test_a_session_lives_while_its_owner_does_and_its_process_says_so(store, brokers, holder, silent_ms, is_dead):
    brokers.add(1, HERE, silent_ms)
    brokers.holders["broker-1"] = holder
    assert store._is_dead(brokers.rows[0]) is is_dead
    assert store.owners() == {"broker-1": 7 if holder else 0}


def test_only_dead_sessions_are_ended(store, brokers, monkeypatch):
    brokers.add(1, HERE, 0)
    brokers.add(2, HERE, 0, locked_by=HERE)
    brokers.add(3, HERE, TTL_MS + 1, locked_by=HERE)
    ended = []
    monkeypatch.setattr(store, "_end", lambda ids, still: ended.append((ids, still)) or len(ids))
    assert store.end_dead_sessions() == 2 and ended == [([1, 3], store._is_dead)]
    brokers.rows = brokers.rows[1:2]
    assert store.end_dead_sessions() == 0 and len(ended) == 1, "no transaction where there is nothing to do"
    assert store.session_find(2) == Session(2, "broker-2", TTL_MS) and store.session_find(3) is None


@pytest.mark.parametrize(("entries", "sizes"), [(0, [0]), (1, [1]), (2, [2]), (3, [2, 1]), (4, [2, 2]), (5, [2, 2, 1])])
def test_a_scan_is_read_at_once_and_given_out_in_pages(store, entries, sizes):
    found = [Entry(f"a{number}", b"", 1, 1, 1) for number in range(entries)]
    store._read_all = lambda prefix: (7, list(found))
    pages = list(store.scan("a", page=2))
    assert [len(page.entries) for page in pages] == sizes and {page.rev for page in pages} == {7}
    assert [entry for page in pages for entry in page.entries] == found
    assert len(list(store.scan("a", at=7))) == 1
    with pytest.raises(Compacted, match="7"):
        list(store.scan("a", at=6))


@contextmanager
def unsure(store):
    """The disk does not say whether a transaction has come to it."""
    done = []
    store._transaction = lambda inside, tag: done.append(tag) or Unknown(tag)
    yield done


def test_a_session_of_which_the_disk_says_nothing_is_none(store, brokers):
    brokers.holders["broker-1"] = Holder(HERE, "start", 7)
    why = r"^/d/metadata\.db: the disk did not take the session of broker-1$"
    with unsure(store) as done, pytest.raises(StoreError, match=why):
        store.session_open(TTL_MS, "broker-1")
    with unsure(store) as ended:
        assert store._end([1], lambda row: True) == 0, "its files stay until it has gone for certain"
    assert (done, ended) == (["session_open"], ["end sessions"])


def test_one_that_says_it_lives_is_told_whether_it_does(store, brokers):
    beats, forgotten = [], []
    store._db = None
    store._files.beat, store._files.forget = beats.append, forgotten.append
    brokers.add(1, HERE, 0)
    assert store.session_renew(Session(1, "broker-1", TTL_MS)) is True and (beats, forgotten) == ([1], [])
    assert store.session_renew(Session(2, "broker-2", TTL_MS)) is False and (beats, forgotten) == ([1, 2], [2])


def test_sharing_begins_with_the_release_that_can():
    """Before it a write-ahead log that several processes write and check-point can be damaged."""
    assert module.WAL_IS_SAFE == (3, 51, 3)
