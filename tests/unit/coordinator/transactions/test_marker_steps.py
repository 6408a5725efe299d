"""Single markers: where they are written, when one that was refused is tried again, and when all are through."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.transactions import marker_sender as module
from mpbroker.coordinator.transactions.marker_sender import (
    BROKEN_RETRY_MS,
    BUSY,
    MOVED_RETRY_MS,
    NO_SHARD,
    RETRY_MS,
    MarkerSender,
)
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import OFFSETS_TOPIC

NOW_MS, ONE, OTHER = 500, ("t", 1), ("t", 0)


class World:
    """A sender of parts, and one sending of two markers; `done` says what was called."""

    def __init__(self, shard=3):
        self.done, self.coordinates, self.result = [], True, SimpleNamespace(busy=False, error=0)
        note = self.done.append
        made = self.made = MarkerSender.__new__(MarkerSender)
        topic = SimpleNamespace(id=b"T", partitions=[10, 11])
        made._metadata = SimpleNamespace(topic=lambda name: topic if name in ("t", OFFSETS_TOPIC) else None)
        made._clock = SimpleNamespace(monotonic_ms=lambda: NOW_MS, wall_ms=lambda: 9_000)
        made._coordinates = lambda *who: self.coordinates
        made._are_gone = lambda shard: False
        made._port = SimpleNamespace(watch=lambda ordinal: note(("watch", ordinal)))
        made._logs = SimpleNamespace(
            log=SimpleNamespace(append_marker=lambda *words, **how: note(("append", *words[:5])) or self.result),
            options_of=lambda topic: ("options",),
        )
        made._appends = SimpleNamespace(await_end=lambda *words: note(("await", *words[:4])))
        made._crash_point, made._offsets_ended = note, lambda *words: note(("ended", *words))
        made._others, made._waiting = None, []
        self.markers = SimpleNamespace(
            shard=shard, producer_id=7, producer_epoch=2, coordinator_epoch=5, committed=True, partitions=(ONE, OTHER)
        )
        self.sending = SimpleNamespace(markers=self.markers, codes={}, then=lambda codes: note(dict(codes)))


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(
    ("code", "after_ms"),
    [
        (BUSY, RETRY_MS),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, MOVED_RETRY_MS),
        (ErrorCode.KAFKA_STORAGE_ERROR, BROKEN_RETRY_MS),
    ],
)
def test_one_that_was_refused_is_tried_again_after_a_while(world, code, after_ms):
    world.made._refused(world.sending, ONE, code, NOW_MS)
    assert world.made._waiting == [(NOW_MS + after_ms, world.sending, ONE)] and world.done == []
    assert world.made.next_due_ms() == NOW_MS + after_ms


def test_a_coordinator_that_is_one_no_more_tries_nothing_again(world):
    world.coordinates = False
    world.made._refused(world.sending, ONE, BUSY, NOW_MS)
    assert world.made._waiting == [] and world.made.next_due_ms() is None


def test_an_administrator_is_told_and_waits_for_locks_alone():
    world = World(shard=NO_SHARD)
    world.coordinates = False
    world.made._refused(world.sending, ONE, BUSY, NOW_MS)
    assert len(world.made._waiting) == 1
    world.made._refused(world.sending, ONE, ErrorCode.KAFKA_STORAGE_ERROR, NOW_MS)
    assert world.sending.codes == {ONE: ErrorCode.KAFKA_STORAGE_ERROR} and len(world.made._waiting) == 1


def test_what_somebody_else_decided_meanwhile_is_over(world):
    code = min(module._OVERTAKEN)
    world.made._refused(world.sending, ONE, code, NOW_MS)
    assert world.sending.codes == {ONE: code} and world.made._waiting == [] and world.done == []
    world.made._settle(world.sending, OTHER, 0)
    assert world.done == [{ONE: code, OTHER: 0}], "all are through"


@pytest.mark.parametrize(
    ("busy", "error", "waits_ms"), [(False, 0, None), (True, 7, RETRY_MS), (False, int(BUSY) + 1000, BROKEN_RETRY_MS)]
)
def test_a_marker_is_acknowledged_when_it_is_as_safe_as_a_record(world, busy, error, waits_ms):
    world.result = SimpleNamespace(busy=busy, error=error, end_offset=40, leader_epoch=6)
    world.made._append(world.sending, ONE, world.made._metadata.topic("t"))
    append = ("append", 11, 7, 2, 5, True)
    if error:
        assert world.done == [append, *([("watch", 11)] if busy else [])]
        assert [due_ms for due_ms, *_ in world.made._waiting] == [NOW_MS + waits_ms]
    else:
        assert world.done == [append, "coordinator.marked", ("await", 11, 40, 6, NOW_MS)]


@pytest.mark.parametrize(("partition", "ended"), [(ONE, []), ((OFFSETS_TOPIC, 1), [("ended", 1, 7, True)])])
def test_offsets_of_a_transaction_end_with_their_marker(world, partition, ended):
    world.made._acknowledged(world.sending, partition, ErrorCode.REQUEST_TIMED_OUT)
    assert len(world.made._waiting) == 1 and world.done == []
    world.made._acknowledged(world.sending, partition, 0)
    assert world.done == ended and world.sending.codes == {partition: ErrorCode.NONE}


def test_those_that_are_due_are_written_and_others_told_once(world):
    written, made = [], world.made
    made._write = lambda sending, one: written.append(one)
    made._others = SimpleNamespace(flush=lambda: world.done.append("flush"))
    made._waiting = [(NOW_MS, world.sending, ONE), (NOW_MS + 1, world.sending, OTHER)]
    made.retry(NOW_MS)
    assert written == [ONE] and world.done == ["flush"] and made.next_due_ms() == NOW_MS + 1


@pytest.mark.parametrize(
    ("leads", "shard", "here"), [(None, 3, True), (True, 3, True), (False, 3, False), (False, NO_SHARD, True)]
)
def test_a_marker_is_written_by_the_leader(leads, shard, here):
    world = World(shard)
    made = world.made
    made._append = lambda sending, one, topic: world.done.append("here")
    if leads is not None:
        made._others = SimpleNamespace(
            leads_here=lambda *one: leads, write_marker=lambda markers, one, then: world.done.append((one, then))
        )
    made._write(world.sending, ONE)
    if here:
        assert world.done == ["here"]
        return
    [(one, then)] = world.done
    then(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert one == ONE and len(made._waiting) == 1
    then(0)
    assert world.sending.codes == {ONE: 0}


@pytest.mark.parametrize(("name", "partition"), [("gone", 0), ("t", 2)])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_partition_that_is_not_known_here_is_waited_for_while_metadata_may_lag(world, name, partition, is_gone):
    world.made._are_gone = lambda shard: is_gone
    world.made._write(world.sending, (name, partition))
    assert len(world.made._waiting) == (not is_gone)
    assert world.sending.codes == ({(name, partition): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if is_gone else {})


def test_the_first_that_is_due_says_when_to_look_again(world):
    world.made._waiting = [(NOW_MS + 9, world.sending, ONE), (NOW_MS + 3, world.sending, OTHER)]
    assert world.made.next_due_ms() == NOW_MS + 3
