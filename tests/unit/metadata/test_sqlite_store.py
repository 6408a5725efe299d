"""The store of one broker, on its file: how durable it is made, what it does at its bounds, what each failure becomes.

That it behaves as every store does stands in test_meta_store.py."""

import os
import re
import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from mpbroker.metadata import sqlite_store
from mpbroker.metadata.meta_store import (
    Absent,
    Batch,
    Committed,
    Compacted,
    Delete,
    DeletePrefix,
    Entry,
    Event,
    Health,
    Limits,
    Progress,
    Put,
    Session,
    StoreError,
    StoreTimeout,
    StoreTooNew,
    Unknown,
)
from mpbroker.metadata.sqlite_store import SqliteStore, primary_code
from tests.harness.descriptors import open_descriptors


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metadata.db"


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """The file of an empty store."""
    path = tmp_path_factory.mktemp("empty") / "metadata.db"
    SqliteStore(path).close()
    return path


@pytest.fixture
def opened(path, empty):
    """A function that opens an empty one, which waits for no disk."""

    def open_it(**how):
        shutil.copy(empty, path)
        made = SqliteStore(path, **how)
        made._db.execute("PRAGMA synchronous=OFF")
        return made

    return open_it


@pytest.fixture
def store(opened):
    made = opened(history_revisions=3, timeout_ms=40)
    yield made
    made.close()


def put(store, *keys):
    assert isinstance(store.txn([], [Put(key, b"v") for key in keys], tag="t"), Committed)


def numbers(store, **meta):
    """Make the store as old as that."""
    for name, value in meta.items():
        store._db.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))


def log(store, changes):
    """Make it remember these: (revision, key)."""
    rows = [(rev, 0, key, b"v", 1, 1, None) for rev, key in changes]
    store._db.execute("BEGIN")
    store._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    store._db.execute("COMMIT")


def pragma(store, name):
    return store._db.execute(f"PRAGMA {name}").fetchone()[0]


def test_what_was_committed_survives_a_power_loss(path):
    made = SqliteStore(path, timeout_ms=40)
    assert (pragma(made, "journal_mode"), pragma(made, "synchronous"), pragma(made, "user_version")) == ("wal", 2, 1)
    assert pragma(made, "busy_timeout") == 40
    made.close()


def test_the_name_of_a_new_file_survives_it_too(path, monkeypatch):
    synced, before = [], open_descriptors()
    name_of = lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: E731
    monkeypatch.setattr(sqlite_store.os, "fsync", lambda descriptor: synced.append(name_of(descriptor)))
    made = SqliteStore(path)
    assert synced == [str(path.parent)]
    made.close()
    assert open_descriptors() <= before
    monkeypatch.chdir(path.parent)
    SqliteStore("here.db").close()
    assert synced == [str(path.parent)] * 2


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_of_another_schema_is_left_alone(path, version):
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={version}")
    with pytest.raises(StoreTooNew, match=rf"schema {version}, this one knows 1\): start that version$"):
        SqliteStore(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_file_that_is_none_is_named_and_no_descriptor_stays(path):
    path.write_bytes(b"no database at all, and long enough to be looked at" * 20)
    before = open_descriptors()
    with pytest.raises(StoreError, match=f"^{re.escape(str(path))} cannot be used as metadata store: "):
        SqliteStore(path)
    assert open_descriptors() <= before


def test_a_copy_of_the_one_file_is_a_copy_of_the_store(opened, path, tmp_path):
    made = opened()
    put(made, "a")
    reader = sqlite3.connect(path)  # for the last one SQLite would do it by itself
    reader.execute("SELECT count(*) FROM kv").fetchone()
    made.close()
    shutil.copy(path, tmp_path / "copy.db")
    reader.close()
    copy = SqliteStore(tmp_path / "copy.db")
    assert copy.get("a") == (1, Entry("a", b"v", 1, 1, 1, None))
    copy.close()
    with pytest.raises(sqlite3.ProgrammingError):
        made._db.execute("SELECT 1")


def test_a_file_that_cannot_be_written_at_the_end_is_closed_all_the_same(store, monkeypatch):
    class Full:
        closed = False

        def execute(self, statement):
            raise sqlite3.OperationalError("disk I/O error")

        def close(self):
            self.closed = True

    monkeypatch.setattr(store, "_db", Full())
    store.close()
    assert store._db.closed


@pytest.mark.parametrize("page", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("entries", [0, 1, 3, 4])
def test_pages_are_full_but_for_the_last_and_none_is_empty_but_the_only_one(store, entries, page):
    keys = [f"a{number}" for number in range(entries)]
    put(store, "0", *keys, "b")
    pages = list(store.scan("a", page=page))
    assert {each.rev for each in pages} == {1}
    assert [entry.key for each in pages for entry in each.entries] == keys
    expected = [page] * (entries // page) + ([entries % page] if entries % page else [])
    assert [len(each.entries) for each in pages] == (expected or [0])


def test_a_scan_is_of_the_present_only(store):
    put(store, "a")
    put(store, "b")
    assert [one.entries for one in store.scan("", at=2)] == [one.entries for one in store.scan("")]
    for at in (1, 3):
        with pytest.raises(Compacted) as told:
            next(store.scan("", at=at))
        assert told.value.min_rev == 2


@pytest.mark.parametrize(("rev", "oldest"), [(61, 0), (62, 0), (63, 61), (64, 0), (127, 125)])
def test_history_is_trimmed_every_64_revisions(store, rev, oldest):
    """To as many as were asked for: a watch that is behind by more begins anew."""
    log(store, [(each, "k") for each in range(rev - 10, rev + 1)])
    numbers(store, rev=rev)
    put(store, "a")
    left = [row for (row,) in store._db.execute("SELECT rev FROM log ORDER BY rev")]
    assert left == [each for each in range(rev - 10, rev + 2) if each > oldest]
    assert store._db.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone() == (oldest,)


@pytest.mark.parametrize("compacted", [60, 61, 62])
def test_what_is_trimmed_never_comes_back(store, compacted):
    numbers(store, rev=63, compacted=compacted)
    put(store, "a")
    expected = max(compacted, 61)
    assert store._db.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone() == (expected,)
    assert store._changes("", expected + 1)[1] == 65
    with pytest.raises(Compacted) as told:
        store._changes("", expected)
    assert told.value.min_rev == expected + 1


def test_a_long_history_is_read_in_parts_of_a_thousand_revisions(store):
    log(store, [(rev, "a" if rev % 2 else "b") for rev in range(1, 2501)])
    numbers(store, rev=2500)
    found, at = [], 1
    for following in (1001, 2001, 2501, 2501):
        batches, at = store._changes("a", at)
        assert at == following
        found += [batch.rev for batch in batches]
    assert found == list(range(1, 2500, 2))
    assert store._changes("a", 2600) == ([], 2600), "what is to come yet"


def test_changes_of_a_transaction_are_one_batch_in_their_order(store):
    put(store, "b", "a")
    store.txn([], [DeletePrefix("b"), Put("c", b""), Delete("none"), DeletePrefix("no/")], tag="t")
    store.txn([], [Delete("a")], tag="t")
    of_a, of_b, of_c = Entry("a", b"v", 1, 1, 1), Entry("b", b"v", 1, 1, 1), Entry("c", b"", 1, 2, 2)
    assert store._changes("", 1) == (
        [
            Batch(1, (Event("b", of_b), Event("a", of_a))),
            Batch(2, (Event("b", None), Event("c", of_c))),
            Batch(3, (Event("a", None),)),
        ],
        4,
    )
    assert store._changes("c", 1)[0] == [Batch(2, (Event("c", of_c),))]


def test_a_watch_sleeps_when_nothing_has_come(opened):
    slept = []
    made = opened(poll_ms=70, sleep=slept.append)
    put(made, "a")
    watch = made.watch("a", 1)
    assert next(watch).rev == 1 and next(watch) == Progress(1) and slept == []
    assert next(watch) == Progress(1) and slept == [0.07]
    put(made, "a")
    assert next(watch).rev == 2 and slept == [0.07, 0.07]
    made.close()


def test_sessions_own_their_keys(store):
    one, other = store.session_open(5000, "me"), store.session_open(6000, "you")
    assert (one, other) == (Session(1, "me", 5000), Session(2, "you", 6000))
    puts = [Put("b", b"v", 1), Put("a", b"v", 1), Put("c", b"v", 2), Put("d", b"v")]
    assert isinstance(store.txn([], puts, tag="t"), Committed)
    store.session_close(one)
    assert store._changes("", 2)[0] == [Batch(2, (Event("a", None), Event("b", None)))], "in one transaction"
    assert (store.session_renew(one), store.session_renew(other)) == (False, True)
    with pytest.raises(StoreError, match="^session 1 has ended$"):
        store.txn([], [Put("e", b"v"), Put("a", b"v", 1)], tag="t")
    assert store.get("e") == (2, None) and not store._db.in_transaction
    assert store.session_open(1, "me").id == 3, "no number is used again"


def test_what_a_handle_of_another_process_does(store, monkeypatch):
    session, own = store.session_open(1, "me"), os.getpid()
    monkeypatch.setattr(sqlite_store.os, "getpid", lambda: own + 1)
    for call in (
        store.revision,
        store.verify,
        lambda: store.get("a"),
        lambda: next(store.scan("")),
        lambda: store.txn([], [], tag="t"),
        lambda: store.session_open(1, "me"),
        lambda: store.session_renew(session),
        lambda: store.session_close(session),
    ):
        with pytest.raises(StoreError, match="opened by the process that uses it"):
            call()
    store.close()
    monkeypatch.undo()
    assert store.revision() == 0, "its owner's is open still"


def test_health_and_limits(store):
    assert store.health() == Health("sqlite", 0, sqlite3.sqlite_version, 0)
    assert store.limits == Limits(100_000, 64 << 20)
    put(store, "a")
    assert store.txn([Absent("a")], [], tag="t").current == (Entry("a", b"v", 1, 1, 1),)


@pytest.mark.parametrize("lost", [None, "rev", "compacted"])
def test_a_store_without_its_revision_is_damaged(store, path, lost):
    put(store, "a")
    if lost is None:
        store.verify()
        return
    store._db.execute("DELETE FROM meta WHERE name = ?", (lost,))
    with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: its revision is missing$"):
        store.verify()


@pytest.mark.parametrize("what", ["row", "check"])
def test_damage_that_sqlite_sees_is_said(store, path, monkeypatch, what):
    def execute(statement):
        if "quick_check" in statement:
            return SimpleNamespace(fetchone=lambda: ("broken page" if what == "check" else "ok",))
        if statement.startswith("SELECT key") and what == "row":
            raise sqlite3.DatabaseError("broken row")
        return real.execute(statement)

    real = store._db
    monkeypatch.setattr(store, "_db", SimpleNamespace(execute=execute))
    with pytest.raises(StoreError, match=f"^{re.escape(str(path))}: broken {'page' if what == 'check' else 'row'}$"):
        store.verify()


def test_a_file_that_stays_locked_ends_in_a_timeout(store, path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreTimeout, match=f"^t: {re.escape(str(path))} is locked by another process: "):
        store.txn([], [Put("a", b"v")], tag="t")
    other.execute("ROLLBACK")
    put(store, "a")
    other.close()


class Failing:
    """A connection of which one statement fails."""

    def __init__(self, statement, code):
        self.statement, self.in_transaction, self.done = statement, True, []
        self.error = sqlite3.OperationalError("words")
        self.error.sqlite_errorcode = code

    def execute(self, statement, *_given):
        self.done.append(statement)
        if statement == self.statement:
            raise self.error
        if statement == "ROLLBACK":
            self.in_transaction = False
        return SimpleNamespace(fetchone=lambda: (0,))


#: SQLITE_BUSY_SNAPSHOT: the code with an extension above its lowest byte.
BUSY, BUSY_SNAPSHOT, FULL, IOERR_FSYNC = 5, 5 | 2 << 8, 13, 10 | 4 << 8


@pytest.mark.parametrize("is_ended", [False, True])
@pytest.mark.parametrize("code", [BUSY, BUSY_SNAPSHOT, FULL, IOERR_FSYNC])
def test_a_commit_that_fails_is_undone_and_only_a_busy_one_is_known_to_be(store, path, code, is_ended):
    told, db = [], Failing("COMMIT", code)
    db.in_transaction = not is_ended
    store._committed = lambda: told.append(1)
    if code & 0xFF == BUSY:
        with pytest.raises(StoreTimeout, match=f"^t: {re.escape(str(path))} is being read by another process: words$"):
            store._commit(db, Committed(1), "t")
    else:
        assert store._commit(db, Committed(1), "t") == Unknown("t")
    assert db.done == (["COMMIT"] if is_ended else ["COMMIT", "ROLLBACK"]) and not told
    assert store._commit(Failing("", 0), Committed(1), "t") == Committed(1) and told == [1]


@pytest.mark.parametrize(("code", "kind"), [(BUSY, StoreTimeout), (BUSY_SNAPSHOT, StoreTimeout), (FULL, StoreError)])
@pytest.mark.parametrize("statement", ["BEGIN", "SELECT value FROM meta", "COMMIT"])
def test_a_read_that_fails_says_whether_it_was_for_a_lock(store, path, monkeypatch, statement, code, kind):
    monkeypatch.setattr(store, "_db", Failing(statement, code))
    with pytest.raises(StoreError, match=f"^{re.escape(str(path))} cannot be read: words$") as told:
        store.revision()
    assert type(told.value) is kind


@pytest.mark.parametrize("is_ended", [False, True])
def test_what_fails_within_a_transaction_leaves_none_behind(store, monkeypatch, is_ended):
    db = Failing("", 0)

    def inside(given):
        assert given is db
        db.in_transaction = not is_ended
        raise db.error

    monkeypatch.setattr(store, "_db", db)
    with pytest.raises(StoreError, match="^t: words$"):
        store._transaction(inside, "t")
    assert db.done == (["BEGIN IMMEDIATE"] if is_ended else ["BEGIN IMMEDIATE", "ROLLBACK"])
    db.error = KeyError("a bug")
    with pytest.raises(KeyError):
        store._transaction(inside, "t")


def test_an_error_of_the_module_itself_is_none_of_sqlites():
    assert primary_code(Failing("", BUSY_SNAPSHOT).error) == BUSY
    assert primary_code(sqlite3.Error("no code")) not in range(102), "its highest code is 101"
