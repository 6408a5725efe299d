"""How the consumer moves through batches, and what it does when a fetch fails."""

from types import SimpleNamespace

import pytest

from mpbroker.client.consumer import Consumer
from mpbroker.client.network_client import ConnectionLost
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.record.batch_builder import RecordBatchBuilder, control_batch, encode_batch

LOST = "lost"


class Client:
    """Answers each Fetch with the next of the given (error code, bytes), or loses the connection; the last for ever."""

    timeout_ms = 1000

    def __init__(self, *answers, reach=(0, 0)):
        self.answers, self.reach, self.asked, self.connections = list(answers), reach, [], 1

    def call(self, request, response, version, timeout_ms=None):
        if not isinstance(request, FetchRequest):  # ListOffsets
            wanted = request.topics[0].partitions[0]
            row = SimpleNamespace(partition_index=0, error_code=0, offset=self.reach[wanted.timestamp == -1])
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[row])])
        self.asked.append({one.partition: one.fetch_offset for one in request.topics[0].partitions})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == LOST:
            raise ConnectionLost("gone")
        data = SimpleNamespace(partition_index=0, error_code=answer[0], records=answer[1])
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[data])])

    def reconnect(self):
        self.connections += 1


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("mpbroker.client.consumer.time.sleep", lambda seconds: None)


def _batch(base_offset, *values):
    return encode_batch([(None, value) for value in values], base_offset=base_offset)


def _values(consumer):
    return [record.value for _, record in consumer.poll(0)]


def test_a_batch_may_begin_before_the_position():
    consumer = Consumer(Client((0, _batch(0, b"a", b"b", b"c") + _batch(3, b"d"))), "t", {0: 1})
    assert _values(consumer) == [b"b", b"c", b"d"]
    assert consumer.positions == {0: 4}


def test_markers_at_the_end_are_passed():
    """Else a reader that goes to the end would ask for the marker again and again."""
    marker = bytearray(control_batch(True, 1, 0, 0, 5))
    marker[:8] = (1).to_bytes(8, "big")
    consumer = Consumer(Client((0, _batch(0, b"a") + bytes(marker))), "t", {0: 0})
    assert _values(consumer) == [b"a"]
    assert consumer.positions == {0: 2}


def test_a_partition_taken_out_is_read_no_further():
    client = Client((0, _batch(0, b"a", b"b") + _batch(2, b"c")))
    consumer = Consumer(client, "t", {0: 0, 1: 7})
    found = []
    for partition, record in consumer.poll(0):
        found.append(record.value)
        del consumer.positions[partition]
    assert found == [b"a"] and consumer.positions == {1: 7}


def test_records_of_a_compressed_batch_stay_what_they_are():
    builder = RecordBatchBuilder(codec=4)
    for value in (b"a" * 100, b"b" * 100):
        builder.append(None, value)
    other = _batch(2, b"c" * 100)
    assert _values(Consumer(Client((0, builder.build() + other)), "t", {0: 0})) == [b"a" * 100, b"b" * 100, b"c" * 100]


def test_what_may_pass_is_tried_again_from_the_same_position():
    client = Client(LOST, (ErrorCode.LEADER_NOT_AVAILABLE, b""), (0, _batch(5, b"a")))
    consumer = Consumer(client, "t", {0: 5})
    assert _values(consumer) == [b"a"]
    assert (client.asked, client.connections) == ([{0: 5}] * 3, 2)


@pytest.mark.parametrize("answer", [LOST, (ErrorCode.LEADER_NOT_AVAILABLE, b"")])
def test_it_gives_up_after_a_bounded_number_of_tries(answer):
    client = Client(answer)
    with pytest.raises((ConnectionLost, KafkaError)):
        _values(Consumer(client, "t", {0: 0}))
    assert len(client.asked) == 9


def test_an_offset_that_is_not_there_is_told_with_what_is():
    client = Client((ErrorCode.OFFSET_OUT_OF_RANGE, b""), reach=(3, 8))
    with pytest.raises(KafkaError, match="t-0: offset 99 is out of range: the partition has 3 to 8"):
        _values(Consumer(client, "t", {0: 99}))
    assert len(client.asked) == 1
