"""DeleteRecords: the log start moves at once, and is told when the log keeper has written it down."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import PartitionBusyError
from mpbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from mpbroker.server.apis import PARKED
from mpbroker.server.handlers import delete_records as handler
from mpbroker.shm.layout import ParkedKind
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, produce

HIGH_WATERMARK = -1


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path)


def filled(broker, name="t", records=10, **settings):
    ordinals = broker.create_topic(name, **settings)
    if records:
        broker.call(produce(name, batch(*[b"x"] * records)), 7)
    return ordinals[0]


def deleting(*asked, timeout_ms=5000):
    topics = [
        DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(number, offset)])
        for name, number, offset in asked
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def told(answer):
    return [
        (topic.name, part.partition_index, part.low_watermark, part.error_code)
        for topic in answer.topics
        for part in topic.partitions
    ]


def begun(broker, *asked, **options):
    broker.send(deleting(*asked, **options), 2)
    broker.step()
    return broker.collect()


def written_down(broker, ordinal, offset):
    assert broker.log.start_written(ordinal, offset, None) == 0
    broker.step()
    return told(broker.decode(deleting(), 2, broker.collect()[0][2]))


def test_it_moves_at_once_and_is_answered_when_it_is_written_down(broker):
    ordinal = filled(broker)
    assert begun(broker, ("t", 0, 4)) == []
    assert broker.log.state(ordinal).log_start == 4 and broker.log.starts_asked() == [ordinal]
    assert written_down(broker, ordinal, 4) == [("t", 0, 4, 0)]
    assert broker.log.starts_asked() == []


def test_a_start_that_is_written_down_already_is_answered_at_once(broker):
    ordinal = filled(broker)
    begun(broker, ("t", 0, 4))
    written_down(broker, ordinal, 4)
    assert told(broker.call(deleting(("t", 0, 2)), 2)) == [("t", 0, 4, 0)]


def test_a_start_that_retention_moved_is_told_when_it_is_written_down_too(broker):
    ordinal = filled(broker)
    broker.log.set_log_start(ordinal, 6)
    assert begun(broker, ("t", 0, 2)) == []
    assert written_down(broker, ordinal, 6) == [("t", 0, 6, 0)]


def test_minus_one_is_the_high_watermark(broker):
    ordinal = filled(broker)
    begun(broker, ("t", 0, HIGH_WATERMARK))
    assert written_down(broker, ordinal, 10) == [("t", 0, 10, 0)]
    assert broker.log.state(ordinal).leo == 10


def test_what_it_refuses_as_kafka_does(broker):
    filled(broker)
    filled(broker, "keeps", cleanup_policy="compact")
    filled(broker, "__consumer_offsets", records=0, internal=True)
    refused = [
        ("t", 0, 11, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("keeps", 0, 0, ErrorCode.POLICY_VIOLATION),
        ("__consumer_offsets", 0, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    for name, number, offset, code in refused:
        assert told(broker.call(deleting((name, number, offset)), 2)) == [(name, number, -1, code)]


def test_what_nobody_writes_down_is_timed_out_and_stays_deleted(broker):
    ordinal = filled(broker)
    assert begun(broker, ("t", 0, 4), timeout_ms=0) == []
    broker.clock.advance(1001)
    broker.step()
    answer = broker.decode(deleting(), 2, broker.collect()[0][2])
    assert told(answer) == [("t", 0, 4, ErrorCode.REQUEST_TIMED_OUT)]
    assert broker.log.state(ordinal).log_start == 4


def test_a_partition_that_goes_offline_meanwhile_says_so(broker):
    ordinal = filled(broker)
    begun(broker, ("t", 0, 4))
    broker.log.set_flags(ordinal, 0, 2)
    broker.step()
    answer = broker.decode(deleting(), 2, broker.collect()[0][2])
    assert told(answer) == [("t", 0, -1, ErrorCode.KAFKA_STORAGE_ERROR)]


def test_a_topic_that_is_deleted_from_and_compacted_gives_records_up(broker):
    ordinal = filled(broker, cleanup_policy="compact,delete")
    assert begun(broker, ("t", 0, 4)) == []
    assert written_down(broker, ordinal, 4) == [("t", 0, 4, 0)]


class World:
    """Topic t, whose row 40 is `busy` and whose others are moved; `did`: what was called."""

    def __init__(self, monkeypatch):
        self.did, self.busy, self.now_ms = [], {40}, 1000
        note = lambda *words: self.did.append(words)  # noqa: E731
        topic = SimpleNamespace(
            id=b"T" * 16, partitions=[40, 41], internal=False, settings=SimpleNamespace(cleanup_policy=("delete",))
        )
        self.context = SimpleNamespace(
            metadata=SimpleNamespace(refresh=lambda: None, topic={"t": topic}.get, topic_by_id=lambda _: topic),
            clock=SimpleNamespace(monotonic_ms=lambda: self.now_ms),
            log_manager=SimpleNamespace(
                delete_records=self._delete, request_flush=lambda: note("flush"),
                state=lambda ordinal: SimpleNamespace(start_written=0),
            ),
            port=SimpleNamespace(park=lambda request, kind: note("park", kind)),
            purgatory=SimpleNamespace(try_complete_else_watch=lambda one: note("watch", one.deadline_ms, one.keys)),
        )  # fmt: skip
        waits = lambda context, request, busy, until_ms, again: note("wait", busy, until_ms, again)  # noqa: E731
        monkeypatch.setattr(handler, "wait_for_partitions", waits)

    def _delete(self, topic, ordinal, offset):
        self.did.append(("delete", ordinal, offset))
        if ordinal in self.busy:
            raise PartitionBusyError(ordinal)
        return 0, offset


def test_a_busy_partition_is_waited_for_and_at_last_timed_out(monkeypatch):
    """The others' log starts are moved meanwhile, and then the log keeper is rung for them."""
    world, message = World(monkeypatch), deleting(("t", 0, 4), ("t", 1, 5), timeout_ms=5000)
    assert handler.handle(world.context, "request", message) is PARKED
    tried = [("delete", 40, 4), ("delete", 41, 5)]
    *before, (_, busy, until_ms, again) = world.did
    assert (before, busy, until_ms) == (tried, {40}, 6000)
    world.now_ms = 6000
    world.did.clear()
    assert again(until_ms) is PARKED
    assert world.did == [*tried, ("flush",), ("park", ParkedKind.PRODUCE), ("watch", 6000, (41,))]
    world.did.clear()
    answer = handler._run(world.context, "request", deleting(("t", 0, 4)), 6000)
    assert told(answer) == [("t", 0, -1, ErrorCode.REQUEST_TIMED_OUT)] and world.did == tried[:1]
