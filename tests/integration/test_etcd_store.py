"""The etcd driver beside members that die, stop and lose their leader."""

import threading
import time

import pytest

from mpbroker.metadata.broker_registration import Registered, register
from mpbroker.metadata.cluster_records import BrokerRecord
from mpbroker.metadata.controller_election import Another, Elected, elect
from mpbroker.metadata.etcd_gateway import EndPoint
from mpbroker.metadata.etcd_store import EtcdStore
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Committed, Conflict, Put, StoreError, StoreTimeout, Unknown, Version
from tests.harness.broker import wait_until
from tests.harness.etcd_server import EtcdServer

pytestmark = pytest.mark.slow
TTL_MS = 2000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with EtcdServer(tmp_path_factory.mktemp("etcd"), members=3) as server:
        yield server


@pytest.fixture
def opened(server):
    server.empty()
    stores = []

    def one():
        stores.append(EtcdStore([EndPoint("127.0.0.1", server.port(member)) for member in server.members]))
        return stores[-1]

    yield one
    for store in stores:
        store.close()


def _collect(watch, wanted, timeout_s=10.0):
    """(revision, key) of changes until there are as many as wanted."""
    found, deadline = [], time.monotonic() + timeout_s
    while len(found) < wanted and time.monotonic() < deadline:
        found += [(batch.rev, event.key, event.entry) for batch in watch.take(200) for event in batch.events]
    return found


def test_a_session_that_nobody_renews_ends_with_its_keys(opened):
    store, keys = opened(), Keys("c")
    first = register(store, keys, BrokerRecord(1, "m", "d", "start-1", []), TTL_MS)
    assert isinstance(first, Registered)
    won = elect(store, keys, 1, "a", first.session)
    watch = store.open_watch(keys.prefix, store.revision() + 1)
    assert isinstance(elect(opened(), keys, 2, "b", store.session_open(9000, "broker-2")), Another)
    gone = _collect(watch, 2)
    assert {(key, entry) for _, key, entry in gone} == {(keys.broker(1), None), (keys.controller, None)}
    assert len({rev for rev, _, _ in gone}) == 1
    assert not store.session_renew(first.session)
    next_one = elect(opened(), keys, 2, "c", store.session_open(9000, "broker-2"))
    assert isinstance(next_one, Elected) and next_one.epoch == won.epoch + 1
    assert isinstance(store.txn([won.guard], [Put("x", b"")], tag="zombie"), Conflict)
    watch.close()


def _count_up(store, until, done):
    """Add to a counter, one by one, whatever happens to etcd; `done` gets what was answered."""
    while not until.is_set():
        try:
            _, entry = store.get("n")
            number = int(entry.value) if entry else 0
            check = [Version("n", entry.version)] if entry else []
            outcome = store.txn(check, [Put("n", str(number + 1).encode())], tag="n")
        except StoreTimeout:
            continue
        done.append(outcome)


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_without_its_leader_it_goes_on_and_no_change_is_missed(opened, server, fault):
    store, watcher = opened(), opened()
    watch = watcher.open_watch("n", store.revision() + 1)
    until, done = threading.Event(), []
    writer = threading.Thread(target=_count_up, args=(opened(), until, done))
    writer.start()
    try:
        wait_until(lambda: len(done) > 20, "writes")
        leader = server.leader()
        getattr(server, fault)(leader)
        before = sum(isinstance(outcome, Committed) for outcome in done)
        wait_until(lambda: sum(isinstance(outcome, Committed) for outcome in done) > before + 20, "writes after", 20.0)
    finally:
        until.set()
        writer.join()
    server.start(leader) if fault == "kill" else server.resume(leader)
    committed = [outcome.rev for outcome in done if isinstance(outcome, Committed)]
    _, entry = store.get("n")
    assert len(committed) <= int(entry.value) <= len(committed) + sum(isinstance(one, Unknown) for one in done)
    seen = _collect(watch, int(entry.value), 20.0)
    assert [int(each.value) for _, _, each in seen] == list(range(1, int(entry.value) + 1))
    assert {rev for rev, _, _ in seen} >= set(committed)
    watch.close()
    wait_until(lambda: all(server.ask(member, "/v3/kv/range", {"key": "AA=="}) for member in server.members), "health")


def test_a_watch_of_a_member_that_stopped_goes_on_at_another(server):
    leader = server.leader()
    member, other = (one for one in server.members if one != leader)
    store = EtcdStore([EndPoint("127.0.0.1", server.port(one)) for one in (leader, member, other)])
    watch = store.open_watch("w/", store.revision() + 1)
    watch.take()
    assert watch._end_point.address == server.addresses[member]
    server.pause(member)
    try:
        writer = EtcdStore([EndPoint("127.0.0.1", server.port(one)) for one in server.members if one != member])
        assert isinstance(writer.txn([], [Put("w/1", b"")], tag="t"), Committed)
        assert [key for _, key, _ in _collect(watch, 1)] == ["w/1"]
        writer.close()
    finally:
        server.resume(member)
    watch.close()
    store.close()


def test_without_a_majority_nothing_is_answered_and_everything_ends_in_time(server):
    store = EtcdStore([EndPoint("127.0.0.1", server.port(member)) for member in server.members], timeout_ms=1200)
    others = [member for member in server.members if server.addresses[member] != store._gateway.end_point.address]
    for member in others:
        server.pause(member)
    try:
        with pytest.raises(StoreTimeout):
            store.get("a")
        try:
            assert isinstance(store.txn([], [Put("a", b"")], tag="t"), Unknown)
        except StoreError as error:
            assert isinstance(error, StoreTimeout)
    finally:
        for member in others:
            server.resume(member)
        store.close()
    wait_until(lambda: all(server.ask(member, "/v3/kv/range", {"key": "AA=="}) for member in server.members), "health")
