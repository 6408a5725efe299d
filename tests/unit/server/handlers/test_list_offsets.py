"""ListOffsets: ends, starts and timestamps of real logs, and what is refused."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.layout import ReplicaRole
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import part, produce

T0 = 1_700_000_000_000


@pytest.fixture
def broker(tmp_path):
    """A topic `t` with records at T0, T0 + 10 and T0 + 20 ms in partition 0, none in partition 1."""
    made = InProcessBroker(tmp_path)
    made.create_topic("t", partitions=2)
    for codec in (0, 1):
        records = [(b"k", b"v", T0 + 10 * number) for number in ((0, 1), (2,))[codec]]
        assert part(made.call(produce(records=encode_batch(records, codec=codec)), 7)).error_code == 0
    return made


def ask(broker, *asked: ListOffsetsPartition, topic: str = "t", version: int = 5, isolation_level: int = 0):
    topics = [ListOffsetsTopic(name=topic, partitions=list(asked))]
    message = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
    return broker.call(message, version).topics[0].partitions


def at(timestamp: int, partition: int = 0, epoch: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (-2, (-1, 0, 0)),
        (-1, (-1, 3, 0)),
        (0, (T0, 0, 0)),
        (T0 + 1, (T0 + 10, 1, 0)),
        (T0 + 20, (T0 + 20, 2, 0)),
        (T0 + 21, (-1, -1, -1)),
    ],
)
def test_the_first_record_at_or_after_a_time(broker, timestamp, found, isolation_level):
    [one] = ask(broker, at(timestamp), isolation_level=isolation_level)
    assert (one.error_code, one.timestamp, one.offset, one.leader_epoch) == (0, *found)


def test_an_empty_partition_begins_and_ends_at_0(broker):
    assert [ask(broker, at(timestamp, 1))[0].offset for timestamp in (-2, -1, 0)] == [0, 0, -1]


@pytest.mark.parametrize(
    ("asked", "topic", "code"),
    [
        (at(-3), "t", ErrorCode.UNSUPPORTED_VERSION),
        (at(-1, 2), "t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (at(-1, -1), "t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (at(-1), "nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (at(-1, epoch=1), "t", ErrorCode.UNKNOWN_LEADER_EPOCH),
        (at(-1, epoch=-2), "t", ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_what_is_refused(broker, asked, topic, code):
    [one] = ask(broker, asked, topic=topic)
    assert (one.error_code, one.timestamp, one.offset, one.leader_epoch) == (code, -1, -1, -1)


def test_a_partition_named_twice_is_refused_in_both_places(broker):
    found = ask(broker, at(-1), at(-1, 1), at(-2))
    assert [one.error_code for one in found] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


def test_an_isolation_level_that_does_not_exist_fails_all(broker):
    assert [one.error_code for one in ask(broker, at(-1), at(-1, 1), isolation_level=2)] == [-1, -1]


def test_the_largest_timestamp_is_that_of_the_first_record_that_has_it(broker):
    assert part(broker.call(produce(records=encode_batch([(b"k", b"v", T0 + 5)])), 7)).error_code == 0
    [one] = ask(broker, at(-3), version=7)
    assert (one.error_code, one.timestamp, one.offset, one.leader_epoch) == (0, T0 + 20, 2, 0)
    [none] = ask(broker, at(-3, 1), version=7)
    assert (none.error_code, none.timestamp, none.offset, none.leader_epoch) == (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "version", "code"),
    [(-1, 5, 78), (-1, 4, 5), (T0 + 1, 5, 78), (T0, 5, 0), (-2, 5, 0), (-4, 8, 0), (-5, 9, 0)],
)
def test_a_new_leader_does_not_know_the_end_before_its_high_watermark_is_in_its_epoch(
    tmp_path, timestamp, version, code
):
    """Or the end that a client is told goes back when the leader changes (KIP-207)."""
    made = InProcessBroker(tmp_path, replicated=True)
    made.create_topic("t")
    for epoch, isr in enumerate(([0], [0, 1])):
        assert made.log.become(0, ReplicaRole.LEADER, epoch, epoch, [0, 1], isr, 0, 1, 0) == 0
        records = encode_batch([(b"k", b"v", T0 + 20 * epoch)])
        assert part(made.call(produce(records=records, acks=1), 7)).error_code == 0
    assert made.log.become(0, ReplicaRole.LEADER, 2, 2, [0, 1], [0, 1], 0, 1, 0) == 0
    assert ask(made, at(timestamp), version=version)[0].error_code == code
    assert made.log.become(0, ReplicaRole.LEADER, 3, 3, [0, 1], [0], 0, 1, 0) == 0
    assert ask(made, at(timestamp), version=version)[0].error_code == 0


@pytest.mark.parametrize(
    ("timestamp", "first_version", "found"), [(-3, 7, (T0 + 20, 2, 0)), (-4, 8, (-1, 0, 0)), (-5, 9, (-1, -1, -1))]
)
def test_each_special_timestamp_has_a_version_that_it_came_with(broker, timestamp, first_version, found):
    for version in range(1, 11):
        [one] = ask(broker, at(timestamp), version=version)
        if version < first_version:
            assert one.error_code == ErrorCode.UNSUPPORTED_VERSION
        else:
            assert (one.error_code, one.timestamp, one.offset, one.leader_epoch) == (0, *found)


@pytest.mark.parametrize("timestamp", [-6, -7, -(2**63)])
@pytest.mark.parametrize("version", [1, 9, 10])
def test_other_negative_timestamps_are_of_no_version(broker, timestamp, version):
    [one] = ask(broker, at(timestamp), version=version)
    assert (one.error_code, one.timestamp, one.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
