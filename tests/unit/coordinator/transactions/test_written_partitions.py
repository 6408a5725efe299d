"""What a write adds to its transaction: who is asked, for how long it waits, and which code the producer hears."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import GiveBack, GroupRequest, Now
from mpbroker.coordinator.transactions import written_partitions
from mpbroker.coordinator.transactions.transitions import Producer
from mpbroker.coordinator.transactions.written_partitions import (
    PATIENCE_MS,
    RETRY_MS,
    _code_for,
    add_written,
    handle,
)
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.produce import ProduceRequest
from tests.harness.peer import batch, produce_request

PRODUCER, PARTITIONS = Producer(7, 3), frozenset({("t", 1)})
MOVING, FENCED, STALE = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
AGAIN, ABORTABLE, NOT_NOW = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.INVALID_TXN_STATE,
)


class World:
    """Whoever is asked is noted, and answers when the test says so."""

    def __init__(self, monkeypatch, *, in_cluster=False, shard=None):
        self.asked, self.told, self.timers, self.effects = [], [], [], []
        self.shard, self.patched = shard, monkeypatch
        self.env = SimpleNamespace(
            in_cluster=in_cluster,
            timers=SimpleNamespace(at=lambda ms, call: self.timers.append((ms, call))),
            ask_coordinator=lambda *words: self._note("coordinator", words[:-1], words[-1]),
            ask=self.effects.append,
            has_partition=lambda topic, partition: topic == "t",
        )
        patch = monkeypatch.setattr
        patch(written_partitions, "verify_added", lambda *words: self._note("verify", words[:-1], words[-1]))
        patch(written_partitions, "add", lambda *words: self._note("add", (*words[:5], words[6]), words[5]))

    def _note(self, who, words, answered):
        self.asked.append((who, words))
        self.answered = answered

    def write(self, verify_only=False):
        add_written(
            self.env,
            lambda name: self.shard,
            "tx",
            PRODUCER,
            PARTITIONS,
            Now(1000, 5),
            lambda code, now: self.told.append((code, now.ms)),
            verify_only,
        )


@pytest.mark.parametrize(
    ("in_cluster", "shard", "verify_only", "expected"),
    [
        (False, None, False, ("add", (None, "tx", PRODUCER, PARTITIONS, Now(1000, 5), 2))),
        (False, "shard", True, ("verify", ("shard", "tx", PRODUCER, PARTITIONS, Now(1000, 5)))),
        (False, None, True, ("verify", (None, "tx", PRODUCER, PARTITIONS, Now(1000, 5)))),
        (True, "shard", False, ("add", ("shard", "tx", PRODUCER, PARTITIONS, Now(1000, 5), 2))),
        (True, None, False, ("coordinator", ("tx", PRODUCER, PARTITIONS, False))),
        (True, None, True, ("coordinator", ("tx", PRODUCER, PARTITIONS, True))),
    ],
)
def test_who_is_asked(monkeypatch, in_cluster, shard, verify_only, expected):
    world = World(monkeypatch, in_cluster=in_cluster, shard=shard)
    world.write(verify_only)
    assert world.asked == [expected]


def test_whoever_does_not_say_so_adds(monkeypatch):
    world = World(monkeypatch)
    add_written(world.env, lambda name: None, "tx", PRODUCER, PARTITIONS, Now(1, 1), lambda code, now: None)
    assert [who for who, _ in world.asked] == ["add"]


def test_while_the_last_transaction_ends_it_is_tried_again_for_a_while(monkeypatch):
    world = World(monkeypatch)
    world.write()
    last_ms = 1000 + PATIENCE_MS
    for at_ms in (1000, 1002, last_ms - 1):
        world.answered(MOVING, Now(at_ms, 5))
        [(due_ms, attempt)] = world.timers
        assert due_ms == at_ms + RETRY_MS and not world.told
        world.timers.clear()
        attempt(Now(due_ms, 5))
    assert len(world.asked) == 4
    world.answered(MOVING, Now(last_ms, 5))
    assert (world.told, world.timers) == ([(MOVING, last_ms)], [])


@pytest.mark.parametrize(("code", "told"), [(0, 0), (FENCED, STALE), (NOT_NOW, NOT_NOW)])
def test_any_other_answer_is_the_writes(monkeypatch, code, told):
    world = World(monkeypatch)
    world.write()
    world.answered(code, Now(1001, 5))
    assert (world.told, world.timers) == ([(told, 1001)], [])


@pytest.mark.parametrize(
    ("code", "version_10", "version_11", "version_12"),
    [
        (0, 0, 0, 0),
        (ErrorCode.NETWORK_EXCEPTION, AGAIN, AGAIN, AGAIN),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, AGAIN, AGAIN, AGAIN),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, AGAIN, AGAIN, AGAIN),
        (ErrorCode.NOT_COORDINATOR, AGAIN, AGAIN, AGAIN),
        (ErrorCode.REQUEST_TIMED_OUT, AGAIN, AGAIN, AGAIN),
        (MOVING, AGAIN, AGAIN, MOVING),
        (ABORTABLE, NOT_NOW, ABORTABLE, ABORTABLE),
        (STALE, STALE, STALE, STALE),
    ],
)
def test_the_code_in_the_words_of_the_version(code, version_10, version_11, version_12):
    assert [_code_for(version, code) for version in (10, 11, 12)] == [version_10, version_11, version_12]


def test_a_request_without_a_transaction_here_goes_back(monkeypatch):
    world = World(monkeypatch)
    request = GroupRequest(token=1, api_key=0, version=11, message=None)
    handle(world.env, lambda name: None, request, ProduceRequest(transactional_id="tx"), Now(1, 1))
    assert world.effects == [GiveBack(request, NOT_NOW)] and not world.asked


@pytest.mark.parametrize(("version", "who"), [(9, "verify"), (11, "verify"), (12, "add"), (13, "add")])
def test_from_version_12_on_a_write_adds_its_partitions(monkeypatch, version, who):
    """Those that exist, of batches that are in a transaction."""
    world = World(monkeypatch)
    settings = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 0}
    written, plain = batch(b"", transactional=True, **settings), batch(b"", **settings)
    message = produce_request("t", {0: written, 1: plain, 2: None, 4: written})
    message.topic_data += produce_request("gone", {5: written}).topic_data
    message.transactional_id = "tx"
    request = GroupRequest(token=1, api_key=0, version=version, message=message)
    handle(world.env, lambda name: None, request, message, Now(1000, 5))
    [(asked, words)] = world.asked
    assert (asked, words[1:4]) == (who, ("tx", PRODUCER, frozenset({("t", 0), ("t", 4)})))
    world.answered(ABORTABLE, Now(1001, 5))
    assert world.effects == [GiveBack(request, NOT_NOW if version < 11 else ABORTABLE)]


def test_a_request_that_names_no_transaction_asks_for_the_empty_one(monkeypatch):
    world = World(monkeypatch)
    records = batch(b"", transactional=True, producer_id=7, producer_epoch=3, base_sequence=0)
    request = GroupRequest(token=1, api_key=0, version=12, message=None)
    handle(world.env, lambda name: None, request, produce_request("t", {0: records}), Now(1, 1))
    assert world.asked[0][1][1] == ""
