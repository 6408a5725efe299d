"""One conformance suite for every MetaStore driver; the property test runs each against the in-memory model."""

import os
import random
import sqlite3
from contextlib import ExitStack
from itertools import islice

import pytest

from mpbroker.metadata.etcd_gateway import EndPoint
from mpbroker.metadata.etcd_store import EtcdStore
from mpbroker.metadata.meta_store import (
    Absent,
    Batch,
    Committed,
    Compacted,
    Conflict,
    Delete,
    DeletePrefix,
    Entry,
    MetaStore,
    ModRev,
    Progress,
    Put,
    StoreError,
    StoreTimeout,
    Value,
    Version,
)
from mpbroker.metadata.sqlite_shared_store import WAL_IS_SAFE, SharedSqliteStore
from mpbroker.metadata.sqlite_store import SqliteStore
from tests.harness.etcd_server import EtcdServer
from tests.harness.memory_store import MemoryStore
from tests.harness.store_owner import living_owner


def _sqlite(tmp_path, **more):
    return SqliteStore(tmp_path / "metadata.db", sleep=lambda _seconds: None, **more)


def _shared(tmp_path, journal="persist", **more):
    library = WAL_IS_SAFE if journal == "wal" else (3, 40, 1)
    return SharedSqliteStore(tmp_path / "metadata.db", library=library, sleep=lambda _seconds: None, **more)


def _etcd(etcd):
    etcd.empty()
    return EtcdStore([EndPoint("127.0.0.1", etcd.port(member)) for member in etcd.members])


MAKERS = {
    "memory": lambda tmp_path, **more: MemoryStore(**more),
    "sqlite": _sqlite,
    "shared-persist": _shared,
    "shared-wal": lambda tmp_path, **more: _shared(tmp_path, "wal", **more),
}


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(params=[*MAKERS, "etcd"])
def store(request, tmp_path):
    if request.param == "etcd":
        made = _etcd(request.getfixturevalue("etcd"))
    else:
        made = MAKERS[request.param](tmp_path, history_revisions=100)
    yield made
    made.close()


@pytest.fixture
def base(store):
    """The revision that a test begins with: an etcd that was used before has one."""
    return store.revision()


@pytest.fixture
def owner(store):
    """The name of somebody who may have sessions in the store."""
    with ExitStack() as stack:
        if isinstance(store, SharedSqliteStore):
            stack.enter_context(living_owner(store.path, "broker-0"))
        yield "broker-0"


def _everything(store: MetaStore, prefix: str = "") -> list[Entry]:
    return [entry for page in store.scan(prefix, page=3) for entry in page.entries]


def compact(store, rev):
    """Have etcd forget what was before a revision."""
    store._gateway.read("/v3/kv/compaction", {"revision": str(rev), "physical": True})


def test_a_new_store_is_empty(store, base):
    assert isinstance(store, EtcdStore) or base == 0
    assert store.get("a") == (base, None)
    (page,) = store.scan("")
    assert (page.rev, page.entries) == (base, ())


def test_put_counts_versions_and_revisions(store, base):
    assert store.txn([], [Put("a", b"1"), Put("b", b"2")], tag="t") == Committed(base + 1)
    assert store.txn([], [Put("a", b"3")], tag="t") == Committed(base + 2)
    assert store.get("a") == (base + 2, Entry("a", b"3", 2, base + 1, base + 2))
    assert store.get("b") == (base + 2, Entry("b", b"2", 1, base + 1, base + 1))


def test_a_key_created_again_starts_at_version_one(store, base):
    store.txn([], [Put("a", b"1")], tag="t")
    store.txn([], [Delete("a")], tag="t")
    store.txn([], [Put("a", b"1")], tag="t")
    assert store.get("a")[1] == Entry("a", b"1", 1, base + 3, base + 3)


def test_a_transaction_without_effect_leaves_the_revision_alone(store, base):
    store.txn([], [Put("a", b"1")], tag="t")
    assert store.txn([], [], tag="t") == Committed(base + 1)
    assert store.txn([], [Delete("zz"), DeletePrefix("zz/")], tag="t") == Committed(base + 1)


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        (Absent("a"), False),
        (Absent("x"), True),
        (Version("a", 1), True),
        (Version("a", 2), False),
        (Version("x", 1), False),
        (ModRev("a", 1), True),  # counted from the test's beginning
        (ModRev("a", 3), False),
        (Value("a", b"1"), True),
        (Value("a", b"2"), False),
        (Value("x", b""), False),
    ],
)
def test_every_kind_of_check(store, base, check, holds):
    store.txn([], [Put("a", b"1")], tag="t")
    if isinstance(check, ModRev):
        check = ModRev(check.key, base + check.mod_rev)
    outcome = store.txn([Absent("other"), check], [Put("b", b"2")], tag="t")
    if holds:
        assert outcome == Committed(base + 2)
    else:
        assert outcome == Conflict((None, store.get(check.key)[1]))
        assert store.get("b") == (base + 1, None)


def test_delete_prefix_takes_exactly_what_begins_with_it(store):
    store.txn([], [Put(key, b"") for key in ("p", "p/", "p/1", "p/2", "p0", "q")], tag="t")
    store.txn([], [DeletePrefix("p/")], tag="t")
    assert [entry.key for entry in _everything(store)] == ["p", "p0", "q"]


@pytest.mark.parametrize(
    "ops",
    [
        [Put("a", b""), Delete("a")],
        [Put("a/b", b""), DeletePrefix("a/")],
        [DeletePrefix("a/"), DeletePrefix("a/b")],
        [DeletePrefix("a"), DeletePrefix("a")],
        [Put("", b"")],
        [Put("ä", b"")],
        [Put("k" * 1025, b"")],
        [Put("k", b"x" * ((64 << 20) + 1))],
        [DeletePrefix("")],
    ],
)
def test_what_no_driver_could_do_is_refused(store, base, ops):
    with pytest.raises(ValueError, match=r"key|bytes"):
        store.txn([], ops, tag="t")
    assert store.revision() == base


def test_too_many_operations_are_refused(store):
    with pytest.raises(ValueError, match="allowed are"):
        store.txn([], [Put(f"k{i}", b"") for i in range(store.limits.max_ops + 1)], tag="t")


def test_scan_pages_in_key_order_at_one_revision(store, base):
    store.txn([], [Put(f"k/{i:03d}", b"") for i in range(10)], tag="t")
    pages = store.scan("k/", page=3)
    first = next(pages)
    pages = [first, *pages]
    assert [len(page.entries) for page in pages] == [3, 3, 3, 1]
    assert {page.rev for page in pages} == {base + 1}
    assert [entry.key for page in pages for entry in page.entries] == [f"k/{i:03d}" for i in range(10)]


def test_a_scan_does_not_see_or_hold_up_a_later_transaction(store, base):
    store.txn([], [Put(f"k/{i}", b"") for i in range(6)], tag="t")
    pages = store.scan("k/", page=3)
    first = next(pages)
    assert store.txn([], [DeletePrefix("k/")], tag="t") == Committed(base + 2)
    assert len(first.entries) + sum(len(page.entries) for page in pages) == 6


def test_scan_at_a_revision_that_is_gone(store, base):
    store.txn([], [Put("a", b"")], tag="t")
    assert [page.rev for page in store.scan("", at=base + 1)] == [base + 1]
    store.txn([], [Put("b", b"")], tag="t")
    if isinstance(store, EtcdStore):  # which keeps older ones, until they are compacted
        assert [entry.key for page in store.scan("", at=base + 1) for entry in page.entries] == ["a"]
        compact(store, base + 2)
    with pytest.raises(Compacted):
        list(store.scan("", at=base + 1))


def test_watch_gives_a_transaction_as_one_batch_and_then_progress(store, base):
    store.txn([], [Put("w/1", b"a"), Put("x", b""), Put("w/2", b"b")], tag="t")
    store.txn([], [Delete("w/1")], tag="t")
    got = list(islice(store.watch("w/", base + 1), 3))
    assert [type(item) for item in got] == [Batch, Batch, Progress]
    assert [(event.key, event.entry and event.entry.value) for event in got[0].events] == [("w/1", b"a"), ("w/2", b"b")]
    assert [(event.key, event.entry) for event in got[1].events] == [("w/1", None)]
    assert [item.rev for item in got] == [base + 1, base + 2, base + 2]


def test_a_watch_goes_on_from_where_it_was(store, base):
    events = store.watch("w/", base + 1)
    assert next(events) == Progress(base)
    store.txn([], [Put("other", b"")], tag="t")
    assert base <= next(events).rev <= base + 1
    store.txn([], [Put("w/1", b"")], tag="t")
    assert next(event for event in events if isinstance(event, Batch)).rev == base + 2


def test_a_watch_from_a_trimmed_revision_is_told_so(store, base):
    for i in range(180):
        store.txn([], [Put("a", str(i).encode())], tag="t")
    if isinstance(store, EtcdStore):
        compact(store, base + 60)
    with pytest.raises(Compacted) as caught:
        list(islice(store.watch("a", base + 1), 5))
    watch = store.watch("a", caught.value.min_rev)
    assert next(item for item in watch if isinstance(item, Batch)).rev == caught.value.min_rev
    assert base + 180 - caught.value.min_rev < 100 + 64
    if not isinstance(store, EtcdStore):  # where one that was compacted up to is still told
        with pytest.raises(Compacted):
            next(store.watch("a", caught.value.min_rev - 1))


def test_sessions_own_keys_until_they_are_closed(store, base, owner):
    session = store.session_open(9000, owner)
    store.txn([], [Put("s", b"1", session.id), Put("t", b"2")], tag="t")
    assert store.session_renew(session)
    store.session_close(session)
    assert not store.session_renew(session)
    assert store.get("s") == (base + 2, None)
    with pytest.raises(StoreError, match="ended"):
        store.txn([], [Put("u", b""), Put("s", b"1", session.id)], tag="t")
    assert store.get("u") == (base + 2, None)


def test_another_process_may_not_use_it(store, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for use in (store.revision, lambda: store.get("a"), lambda: store.txn([], [], tag="t"), store.health):
        with pytest.raises(StoreError, match="opened by the process"):
            use()


def test_health_names_the_driver(store):
    assert store.health().member.split()[0] in ("memory", "sqlite", "etcd")


def _random_check(rng, keys, current):
    key = rng.choice(keys)
    entry = current.get(key)
    return rng.choice(
        [
            Absent(key),
            Version(key, entry.version if entry and rng.random() < 0.7 else rng.randint(1, 3)),
            ModRev(key, entry.mod_rev if entry and rng.random() < 0.7 else rng.randint(1, 50)),
            Value(key, entry.value if entry and rng.random() < 0.7 else b"?"),
        ]
    )


def _random_ops(rng, keys):
    ops = [rng.choice([Put(key, rng.randbytes(3)), Delete(key)]) for key in rng.sample(keys, rng.randint(0, 4))]
    prefix = rng.choice("abc") + "/"
    if rng.random() < 0.2:
        ops = [op for op in ops if not op.key.startswith(prefix)] + [DeletePrefix(prefix)]
    return ops


DRIVERS = [("sqlite", 0), ("sqlite", 1), ("shared-persist", 2), ("shared-wal", 3), ("etcd", 4)]


@pytest.mark.parametrize(("driver", "seed"), DRIVERS)
def test_a_driver_behaves_as_the_model_does(tmp_path, driver, seed, request):
    def opened():
        if driver == "etcd":
            server = request.getfixturevalue("etcd")
            return EtcdStore([EndPoint("127.0.0.1", server.port(0))])
        return MAKERS[driver](tmp_path, history_revisions=1000)

    if driver == "etcd":
        request.getfixturevalue("etcd").empty()
    rng = random.Random(seed)
    keys = [f"{letter}/{n}" for letter in "abc" for n in range(4)] + ["a", "b0"]
    model, real = MemoryStore(history_revisions=1000), opened()
    model._rev = base = real.revision()
    for step in range(250):
        current = {entry.key: entry for entry in _everything(model)}
        checks = [_random_check(rng, keys, current) for _ in range(rng.choice([0, 0, 1, 2]))]
        ops = _random_ops(rng, keys)
        assert model.txn(checks, ops, tag=str(step)) == real.txn(checks, ops, tag=str(step))
        prefix = rng.choice(["", "a", "a/", "b", "zz"])
        assert _everything(model, prefix) == _everything(real, prefix)
        if rng.random() < 0.05:
            real.close()
            real = opened()
    prefix, start = rng.choice(["", "a/", "b"]), base + rng.randint(1, 20)
    expected = [item for item in islice(model.watch(prefix, start), 60) if isinstance(item, Batch)]
    found = (item for item in real.watch(prefix, start) if isinstance(item, Batch))
    assert expected == list(islice(found, len(expected)))
    real.close()


def test_committed_data_is_there_after_reopening(tmp_path):
    first = _sqlite(tmp_path)
    first.txn([], [Put("a", b"1")], tag="t")
    first.close()
    second = _sqlite(tmp_path)
    assert second.get("a") == (1, Entry("a", b"1", 1, 1, 1))
    (level,) = second._db.execute("PRAGMA synchronous").fetchone()
    assert level == 2  # FULL
    second.close()


def test_a_locked_file_ends_in_a_timeout_and_changes_nothing(tmp_path):
    store = _sqlite(tmp_path, timeout_ms=10)
    other = sqlite3.connect(tmp_path / "metadata.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreTimeout, match="locked"):
        store.txn([], [Put("a", b"1")], tag="create a")
    other.execute("ROLLBACK")
    assert store.txn([], [Put("a", b"1")], tag="create a") == Committed(1)
    other.close()
    store.close()


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "metadata.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match=r"metadata\.db cannot be used"):
        _sqlite(tmp_path)


def test_a_file_of_a_newer_program_is_refused(tmp_path):
    _sqlite(tmp_path).close()
    with sqlite3.connect(tmp_path / "metadata.db") as db:
        db.execute("PRAGMA user_version=9")
    db.close()
    with pytest.raises(StoreError, match="schema 9"):
        _sqlite(tmp_path)
