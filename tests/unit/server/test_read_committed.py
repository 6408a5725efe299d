"""What a Fetch and a ListOffsets of committed records answer, by real log files, one step at a time."""

import pytest

from mpbroker._native import LogOptions
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.record_batch import iterate_batches
from tests.harness.in_process_broker import InProcessBroker

TIME_MS = 1_700_000_000_000


class World:
    """A broker with a topic, in whose partition producers write transactions."""

    def __init__(self, path) -> None:
        self.broker = InProcessBroker(path)
        self.broker.create_topic("t")
        context = self.broker.handler.context
        context.metadata.refresh()
        self.log = context.log_manager.log
        self.row = context.metadata.topic("t").partitions[0]
        self.sequences: dict[int, int] = {}

    def write(self, producer: int) -> None:
        """One record in a transaction of this producer."""
        assert self.log.verify(self.row, producer, 0) == 0
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + 1
        batch = encode_batch(
            [(b"k", b"v", TIME_MS)],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
        message = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data], transactional_id="tx")
        answer = self.broker.call(message, 7)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def end(self, producer: int, committed: bool) -> None:
        """The coordinator's marker, as another process writes it: whoever waits is rung."""
        marker = self.log.append_marker(self.row, producer, 0, 0, committed, LogOptions(), TIME_MS)
        assert marker.error == 0

    def fetch(self, offset: int = 0, isolation: int = 1, max_wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            isolation_level=isolation,
            topics=[FetchTopic(topic="t", partitions=[asked])],
        )

    def read(self, version: int = 11, **asked: int):
        return self.broker.call(self.fetch(**asked), version).responses[0].partitions[0]

    def end_offset(self, isolation: int, timestamp: int = -1) -> int:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
        topics = [ListOffsetsTopic(name="t", partitions=[asked])]
        message = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
        return self.broker.call(message, 5).topics[0].partitions[0].offset


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def aborted(part) -> list[tuple[int, int]] | None:
    rows = part.aborted_transactions
    return None if rows is None else [(row.producer_id, row.first_offset) for row in rows]


def offsets(part) -> list[int]:
    return [info.base_offset for info, _ in iterate_batches(part.records)]


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_a_reader_of_committed_records_is_told_what_to_skip(world, version):
    for producer in (1, 2, 1, 3):
        world.write(producer)  # at 0 to 3
    world.end(1, committed=False)
    world.end(2, committed=True)
    part = world.read(version)
    assert offsets(part) == [0, 1, 2] and part.last_stable_offset == 3
    assert part.high_watermark == 6 and aborted(part) == [(1, 0)]
    part = world.read(version, isolation=0)
    assert offsets(part) == list(range(6)) and aborted(part) is None and part.last_stable_offset == 3
    world.end(3, committed=False)
    assert aborted(world.read(version)) == [(1, 0), (3, 3)]
    assert aborted(world.read(version, offset=5)) == [(3, 3)]  # it may begin in the middle of a transaction
    assert aborted(world.read(version, offset=7)) == []


def test_the_end_for_readers_of_committed_records_is_the_last_stable_offset(world):
    world.write(1)
    world.write(2)
    world.end(2, committed=True)
    assert (world.end_offset(1), world.end_offset(0)) == (0, 3)
    assert (world.end_offset(1, TIME_MS), world.end_offset(0, TIME_MS)) == (-1, 0)
    world.end(1, committed=True)
    assert (world.end_offset(1), world.end_offset(1, TIME_MS)) == (4, 0)


def test_a_waiting_reader_is_answered_when_the_last_stable_offset_moves(world):
    """Not before: records of open transactions end above it, and it looks once for each of them."""
    world.write(1)
    world.broker.send(world.fetch(max_wait_ms=5000), 11)
    world.broker.step()
    world.write(2)
    for _ in range(3):
        world.broker.step()
    assert world.broker.collect() == []
    world.end(1, committed=True)
    world.broker.step()
    [(_, _, frame)] = world.broker.collect()
    part = world.broker.decode(world.fetch(), 11, frame).responses[0].partitions[0]
    assert offsets(part) == [0]


def test_the_end_for_readers_of_committed_records_whatever_the_producers_id(world):
    """Rows of producers hang in chains by their id: the first open transaction is found in each."""
    end = 0
    for producer in range(1000, 1064):
        world.write(1)
        world.write(producer)
        world.end(1, committed=True)
        assert world.end_offset(1) == end + 1, producer
        world.end(producer, committed=True)
        end += 4
        assert world.end_offset(1) == end
