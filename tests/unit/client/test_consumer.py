"""How the consumer moves through batches, and what it does when a fetch fails."""

import socket
from types import SimpleNamespace

import pytest

from mpbroker.client.consumer import Consumer
from mpbroker.client.network_client import ConnectionLost
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.record.batch_builder import RecordBatchBuilder, control_batch, encode_batch

LOST = "lost"


class Client:
    """Leads every partition; answers each Fetch with the next of the given (error code, bytes), or loses the
    connection; the last for ever."""

    timeout_ms = 1000

    def __init__(self, *answers, reach=(0, 0)):
        self.answers, self.reach, self.asked, self.connections = list(answers), reach, [], 1

    def by_leader(self, topic, partitions):
        return {self: list(partitions)}

    def pauses(self):
        return [0.05] * 8

    def look_again(self, lost=None):
        self.connections += lost is self

    def call(self, request, response, version):
        wanted = request.topics[0].partitions[0]  # ListOffsets
        row = SimpleNamespace(partition_index=0, error_code=0, offset=self.reach[wanted.timestamp == -1])
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[row])])

    def ask(self, request, highest):
        self.asked.append({one.partition: one.fetch_offset for one in request.topics[0].partitions})

    def answer_to(self, asked, response, timeout_ms):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == LOST:
            raise ConnectionLost("gone")
        return self.response(0, *answer)

    @staticmethod
    def response(number, code, records):
        data = SimpleNamespace(partition_index=number, error_code=code, records=records)
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[data])])


class Member(Client):
    """One of two brokers, which leads one partition; its socket is readable when its answer has come."""

    def __init__(self, number):
        super().__init__((0, _batch(0, b"%d" % number)))
        self.number, (self.here, self.there) = number, socket.socketpair()

    def fileno(self):
        return self.here.fileno()

    def answer_to(self, asked, response, timeout_ms):
        self.here.recv(1)
        return self.response(self.number, *self.answers[0])


class Pair(Client):
    """Their cluster."""

    def __init__(self):
        super().__init__()
        self.members = [Member(number) for number in range(2)]

    def by_leader(self, topic, partitions):
        return {self.members[number]: [number] for number in partitions}


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


def test_a_leader_that_has_nothing_holds_up_no_other():
    pair = Pair()
    consumer = Consumer(pair, "t", {0: 0, 1: 0})
    pair.members[1].there.send(b"!")
    assert _values(consumer) == [b"1"] and consumer.positions == {0: 0, 1: 1}
    pair.members[0].there.send(b"!")
    assert _values(consumer) == [b"0"] and consumer.positions == {0: 1, 1: 1}
    assert [member.asked for member in pair.members] == [[{0: 0}], [{1: 0}, {1: 1}]]
    for member in pair.members:
        member.here.close()
        member.there.close()
