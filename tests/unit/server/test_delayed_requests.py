"""Requests that wait, of parts: what each waits for exactly, what it says at the end of its time, and to whom."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.delete_records import DeleteRecordsPartitionResult, DeleteRecordsResponse
from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from mpbroker.purgatory.delayed_operation import DelayedOperationPurgatory
from mpbroker.server import awaited_leader, delayed_fetch
from mpbroker.server.apis import NO_ANSWER, PARKED
from mpbroker.server.delayed_delete_records import DelayedDeleteRecords, MovedStart
from mpbroker.server.delayed_fetch import DelayedFetch, FetchWithoutMemory
from mpbroker.server.delayed_produce import DelayedProduce
from mpbroker.server.replica_read import FetchPlan, PartitionRead
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.layout import ParkedKind

LATE, GONE, MOVED = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER


class World:
    """`did`: what was called, in order. `state`: that of every partition."""

    def __init__(self):
        self.did, note = [], lambda *words: self.did.append(words)
        self.state = SimpleNamespace(
            role=0, leader_since=3, leader_epoch=3, maximal_isr=0b11, min_isr=2, hw=10, flushed_offset=10,
            start_written=0,
        )  # fmt: skip
        self.request = SimpleNamespace(api_version=10, listener=0, generation=1, flag_timed_out=lambda: note("late"))
        clock = ManualClock()
        self.context = SimpleNamespace(
            clock=clock, purgatory=DelayedOperationPurgatory(clock.monotonic_ms()), cluster=None, node_id=5,
            count=lambda *words: note("count", *words), resume=lambda request: note("resume"),
            answer=lambda request, message: note("answer", message), is_ending=lambda: False,
            port=SimpleNamespace(
                cell=self.cell, park=lambda request, kind: note("park", kind),
                answer_none=lambda request: note("no answer"),
            ),
            log_manager=SimpleNamespace(
                state=lambda ordinal: self.state, flush_on_commit=False, request_flush=lambda: note("flush"),
                leader_epoch=lambda ordinal: 6,
            ),
            metadata=SimpleNamespace(refresh=lambda: note("refresh"), topic_by_id=lambda topic_id: "topic"),
            config=SimpleNamespace(broker_rack="r", mpbroker_experiment_keep_produces_at_demotion=False),
            listener=lambda index: SimpleNamespace(name="OUT", advertised_host="here", advertised_port=9),
            fetch_deadline_ms=None, produce_deadline_ms=None,
        )  # fmt: skip

    def cell(self, request, number):
        return SimpleNamespace(ordinal=40 + number, end_offset=10, leader_epoch=3) if number < 2 else None

    def produce(self, acks=-1, results=None, timeout_ms=100):
        self.results = results or [PartitionProduceResponse(index=0, base_offset=7, error_code=0)]
        self.response = ProduceResponse()
        message = ProduceRequest(acks=acks, timeout_ms=timeout_ms)
        return DelayedProduce.of(self.context, self.request, message, self.results, self.response)

    def now_ms(self):
        return self.context.clock.monotonic_ms()


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(
    ("change", "acks", "code"),
    [
        ({}, -1, 0),
        ({"hw": 9}, -1, None),
        ({"hw": 9}, 1, 0),
        ({"maximal_isr": 0b100}, -1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        ({"maximal_isr": 0b100, "hw": 9}, -1, None),
        ({"maximal_isr": 0b100}, 1, 0),
        ({"leader_since": 4}, 1, MOVED),
        ({"role": 1}, -1, MOVED),
        (None, 1, GONE),
    ],
)
def test_what_an_append_is_acknowledged_with(world, change, acks, code):
    """Once the high watermark is where it ends, or at once for acks=1; counted if it is in error all the same."""
    if change is None:
        world.state = None
    else:
        vars(world.state).update(change)
    operation = world.produce(acks)
    assert (operation is None) == (code is not None)
    assert world.results[0].error_code == (code or 0)
    assert world.did == ([("count", "produce_partition_errors", 1)] if code else [])


def test_what_is_synced_first_asks_for_it_and_waits(world):
    world.context.log_manager.flush_on_commit = True
    assert world.produce(1) is None and world.did == []
    world.state.flushed_offset = 9
    operation = world.produce(1)
    assert world.did == [("flush",)] and not operation.try_complete()
    world.state.flushed_offset = 10
    assert operation.try_complete()


def test_without_a_sync_nobody_asks_for_one(world):
    world.state.hw = 9
    assert world.produce() is not None and world.did == []


def test_who_moved_is_told_where_at_once_too(world):
    world.state.leader_since = 4
    assert world.produce() is None
    leader = world.results[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (5, 6)
    [place] = world.response.node_endpoints
    assert (place.node_id, place.host, place.port, place.rack) == (5, "here", 9, "r")


@pytest.mark.parametrize(
    ("timeout_ms", "given_ms", "waits_ms"), [(100, None, 100), (0, None, 0), (-1, None, 0), (9, 3, 3)]
)
def test_how_long_an_append_waits(world, timeout_ms, given_ms, waits_ms):
    """One that waited natively has its time from then."""
    world.state.hw = 9
    begun_ms = world.now_ms()
    if given_ms is not None:
        world.context.produce_deadline_ms = begun_ms + given_ms
    assert world.produce(timeout_ms=timeout_ms).deadline_ms == begun_ms + waits_ms


def test_at_the_end_of_its_time_what_is_not_acknowledged_has_no_offset(world):
    world.state.hw = 9
    results = [PartitionProduceResponse(index=number, base_offset=7, error_code=0) for number in range(3)]
    results[1].error_code = GONE  # refused before it was appended: there is nothing to wait for
    operation = world.produce(results=results)
    assert operation.keys == (40,)
    operation.on_expiration()
    operation.on_complete()
    assert [(one.error_code, one.base_offset) for one in results] == [(LATE, -1), (GONE, 7), (0, 7)]
    assert world.did == [
        ("late",),
        ("count", "purgatory_expired"),
        ("resume",),
        ("count", "produce_partition_errors", 1),
        ("answer", world.response),
    ]


# ---- Fetch


def delayed_fetch_of(world, monkeypatch, plans, **fields):
    plans = iter(plans)
    asked = []

    def plan(context, message, version):
        asked.append((message, version))
        world.did.append(("plan",))
        return next(plans)

    monkeypatch.setattr(delayed_fetch, "plan_fetch", plan)
    message = FetchRequest(**{"max_wait_ms": 100, "min_bytes": 50} | fields)
    reads = [PartitionRead(0, 40), PartitionRead(1), PartitionRead(2, 42), PartitionRead(3, 0)]
    first = FetchPlan([(("t", b""), reads)])
    fetch = SimpleNamespace(message=message)
    send = lambda *words: world.did.append(("send", *words[2:]))  # noqa: E731
    return DelayedFetch(world.context, world.request, fetch, first, send), fetch


@pytest.mark.parametrize(
    ("found", "fields", "ending", "completes"),
    [
        ((49, False), {}, False, False),
        ((50, False), {}, False, True),
        ((51, False), {}, False, True),
        ((0, True), {}, False, True),
        ((0, False), {}, True, True),
        ((0, False), {"min_bytes": 0}, False, True),
        ((0, False), {"min_bytes": -1}, False, True),
        ((0, False), {"min_bytes": 1}, False, False),
    ],
)
def test_what_ends_a_long_poll(world, monkeypatch, found, fields, ending, completes):
    """It looks with the topics as they are now."""
    world.context.is_ending = lambda: ending
    plan = FetchPlan([], total_bytes=found[0], is_urgent=found[1])
    operation, fetch = delayed_fetch_of(world, monkeypatch, [plan], **fields)
    assert sorted(operation.keys) == [0, 40, 42], "what is not here cannot move"
    assert operation.try_complete() is completes
    assert world.did == [("refresh",), ("plan",)]
    operation.on_complete()
    sent = plan if completes else FetchPlan([])
    assert world.did[2:] == [("resume",), ("send", fetch, sent)]


@pytest.mark.parametrize(("max_wait_ms", "given_ms", "waits_ms"), [(100, None, 100), (0, None, 0), (100, 30, 30)])
def test_a_fetch_gets_what_is_there_at_the_end_of_its_time(world, monkeypatch, max_wait_ms, given_ms, waits_ms):
    begun_ms = world.now_ms()
    if given_ms is not None:
        world.context.fetch_deadline_ms = begun_ms + given_ms
    plan = FetchPlan([], total_bytes=7)
    operation, fetch = delayed_fetch_of(world, monkeypatch, [plan], max_wait_ms=max_wait_ms)
    assert operation.deadline_ms == begun_ms + waits_ms
    operation.on_expiration()
    operation.on_complete()
    assert world.did == [("late",), ("count", "purgatory_expired"), ("plan",), ("resume",), ("send", fetch, plan)]


def test_an_answer_without_memory_is_tried_as_long_as_another_try_comes_in_time(world):
    def without_memory(until_ms):
        send = lambda *words: world.did.append(("send", *words[2:]))  # noqa: E731
        return FetchWithoutMemory(world.context, world.request, "fetch", "plan", send, until_ms)

    retry_ms = FetchWithoutMemory.RETRY_MS
    first = without_memory(None)
    assert first.deadline_ms == world.now_ms() + retry_ms
    assert first.until_ms == world.now_ms() + FetchWithoutMemory.PATIENCE_MS
    assert first.has_patience() and not first.try_complete()
    assert without_memory(world.now_ms() + retry_ms).has_patience()
    assert not without_memory(world.now_ms() + retry_ms - 1).has_patience()
    first.on_complete()
    assert world.did == [("resume",), ("send", "fetch", "plan", first.until_ms)]
    world.context.is_ending = lambda: True
    assert not first.has_patience()


# ---- DeleteRecords


@pytest.fixture
def deletion(world):
    results = [DeleteRecordsPartitionResult(partition_index=number, low_watermark=4) for number in range(2)]
    moved = [MovedStart(b"id", 40 + number, 4, result) for number, result in enumerate(results)]
    response = DeleteRecordsResponse()
    operation = DelayedDeleteRecords(world.context, world.request, 99, moved, response)
    return SimpleNamespace(results=results, response=response, operation=operation)


def test_equal_starts_are_not_the_same_one():
    """Each has its own place in the answer."""
    result = DeleteRecordsPartitionResult(partition_index=0)
    assert MovedStart(b"id", 1, 4, result) != MovedStart(b"id", 1, 4, result)


@pytest.mark.parametrize(("written", "settled"), [(3, False), (4, True), (5, True)])
def test_a_log_start_is_told_when_it_is_written_down(world, deletion, written, settled):
    world.state.start_written = written
    assert deletion.operation.try_complete() is settled and world.did == [("refresh",)]
    assert sorted(deletion.operation.keys) == [40, 41]
    assert [one.low_watermark for one in deletion.results] == [written if settled else 4] * 2
    deletion.operation.on_complete()
    assert world.did[1:] == [("resume",), ("answer", deletion.response)]


@pytest.mark.parametrize(("topic", "code"), [(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("topic", GONE)])
def test_of_what_is_gone_meanwhile_nothing_is_told(world, deletion, topic, code):
    world.context.metadata.topic_by_id = lambda topic_id: topic
    world.state = None
    assert deletion.operation.try_complete()
    assert [(one.error_code, one.low_watermark) for one in deletion.results] == [(code, -1)] * 2


def test_what_is_settled_is_not_late(world, deletion):
    world.context.log_manager.state = lambda ordinal: SimpleNamespace(start_written=4 if ordinal == 40 else 3)
    assert not deletion.operation.try_complete()
    deletion.operation.on_expiration()
    assert [one.error_code for one in deletion.results] == [0, LATE]
    assert world.did == [("refresh",), ("late",), ("count", "purgatory_expired")]


# ---- who leads


def test_an_answer_is_held_back_until_it_names_a_leader(world):
    """And looked at again every few milliseconds; in between the request is parked."""
    made = iter([PARKED, NO_ANSWER])
    begun_ms, look_ms = world.now_ms(), awaited_leader.LOOK_EVERY_MS
    assert awaited_leader.hold(world.context, world.request, lambda: next(made)) is PARKED
    assert world.did == [("park", ParkedKind.CONTROLLER)]
    assert world.context.purgatory.advance(begun_ms + look_ms - 1) == 0
    assert world.context.purgatory.advance(begun_ms + look_ms) == 1
    assert world.did[1:] == [("resume",)], "what is held once more is not answered"
    operation = awaited_leader.AwaitedLeader(world.context, world.request, lambda: next(made))
    assert not operation.try_complete()
    operation.on_complete()
    assert world.did[2:] == [("resume",), ("no answer",)]


@pytest.mark.parametrize(("alone", "ending"), [(True, False), (False, True), (False, False)])
def test_only_a_cluster_that_goes_on_elects_anybody(world, alone, ending):
    asked = []
    cluster = SimpleNamespace(lost_within=lambda *words: asked.append(words) or frozenset({3}))
    world.context.cluster = None if alone else cluster
    world.context.is_ending = lambda: ending
    waits = not alone and not ending
    assert awaited_leader.awaited(world.context, world.request) == (frozenset({3}) if waits else frozenset())
    assert asked == ([("OUT", awaited_leader.HELD_MS)] if waits else [])
