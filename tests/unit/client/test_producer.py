"""What the producer puts into a request, when it tries again, and what it counts."""

from types import SimpleNamespace

import pytest

from mpbroker.client.network_client import ConnectionLost
from mpbroker.client.producer import Outgoing, Producer
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.record import compression
from mpbroker.record.record_batch import iterate_batches, iterate_records

PRODUCER_ID = 4711
LOST, CTRL_C = "lost", "ctrl-c"


class Broker:
    """Leads everything; answers each Produce request with the next of the given codes, and keeps the batches."""

    def __init__(self, *codes):
        self.codes, self.requests, self.ids, self.connections, self.looks = list(codes), [], 0, 1, 0

    def call(self, request, response, version):
        if isinstance(request, InitProducerIdRequest):
            self.ids += 1
            return SimpleNamespace(error_code=0, producer_id=PRODUCER_ID, producer_epoch=0)
        if not hasattr(request, "topic_data"):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)  # DescribeConfigs
        self.requests.append(request)
        code = self.codes.pop(0)
        if code == LOST:
            raise ConnectionLost("gone")
        if code == CTRL_C:
            raise KeyboardInterrupt
        partition = SimpleNamespace(error_code=code, base_offset=42)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[partition])])

    def of(self, topic, partition):
        return self

    def look_again(self, lost=None):
        self.looks += 1
        self.connections += lost is self

    def pauses(self):
        return [0.05] * 8

    def send_only(self, request, version):
        self.requests.append(request)

    def version_for(self, request, most):
        return most

    def batches(self):
        return [request.topic_data[0].partition_data[0].records for request in self.requests]

    def sequences(self):
        infos = [next(iterate_batches(batch))[0] for batch in self.batches()]
        return [(info.producer_id, info.base_sequence) for info in infos]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("mpbroker.client.producer.time.sleep", lambda seconds: None)


def _values(*found):
    return [Outgoing(None, value) for value in found]


def test_records_go_out_as_one_batch():
    broker = Broker(ErrorCode.NONE)
    records = [Outgoing(None, b"a", 5), Outgoing(b"k", None, 6, [(b"h", b"v")])]
    assert Producer(broker, "t", acks=1, codec=compression.ZSTD).send(3, records) == 42
    (request,) = broker.requests
    ((info, _),) = iterate_batches(broker.batches()[0])
    found = [(one.key, one.value, one.timestamp, list(one.headers)) for one in iterate_records(broker.batches()[0])]
    assert found == [(None, b"a", 5, []), (b"k", None, 6, [(b"h", b"v")])]
    assert (info.codec, info.producer_id) == (compression.ZSTD, -1)
    assert (request.acks, request.topic_data[0].name, request.topic_data[0].partition_data[0].index) == (1, "t", 3)


def test_an_error_that_passes_is_tried_again_and_another_is_raised():
    broker = Broker(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE)
    assert Producer(broker, "t").send(0, _values(b"a")) == 42
    assert (broker.looks, broker.connections) == (1, 1)  # who leads is asked again, over the same connection
    producer = Producer(Broker(ErrorCode.INVALID_RECORD), "t")
    with pytest.raises(KafkaError) as caught:
        producer.send(0, _values(b"a"))
    assert (caught.value.code, producer.acknowledged) == (ErrorCode.INVALID_RECORD, 0)


def test_it_gives_up_after_a_bounded_number_of_tries():
    broker = Broker(*[ErrorCode.LEADER_NOT_AVAILABLE] * 100)
    with pytest.raises(KafkaError):
        Producer(broker, "t").send(0, _values(b"a"))
    assert len(broker.requests) == 9


def test_sequences_count_per_partition_and_a_lost_answer_repeats_them():
    broker = Broker(ErrorCode.NONE, LOST, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.NONE, ErrorCode.NONE)
    producer = Producer(broker, "t")
    producer.send(0, _values(b"a", b"b"))
    producer.send(0, _values(b"c"))
    producer.send(1, _values(b"d"))
    producer.send(0, _values(b"e"))
    assert broker.sequences() == [(PRODUCER_ID, n) for n in (0, 2, 2, 0, 3)]
    assert broker.batches()[1] == broker.batches()[2]
    assert (broker.ids, broker.connections, producer.acknowledged, producer.unknown) == (1, 2, 5, 0)


def test_without_sequences_a_lost_answer_is_not_repeated():
    broker = Broker(ErrorCode.NONE, LOST)
    producer = Producer(broker, "t", acks=1)
    producer.send(0, _values(b"a"))
    with pytest.raises(ConnectionLost, match=r"gone \(a batch of \d+ bytes\)"):
        producer.send(0, _values(b"b", b"c"))
    assert (producer.acknowledged, producer.unknown, broker.connections) == (1, 2, 1)


def test_what_found_no_leader_was_not_sent():
    class Nobody(Broker):
        def of(self, topic, partition):
            raise ConnectionLost("nobody there")

    broker = Nobody()
    producer = Producer(broker, "t", acks=1)
    with pytest.raises(ConnectionLost, match="^nobody there$"):
        producer.send(0, _values(b"a"))
    assert (producer.unknown, broker.looks) == (0, 8)


def test_what_was_under_way_when_it_is_interrupted_is_not_known():
    producer = Producer(Broker(ErrorCode.NONE, CTRL_C), "t")
    producer.send(0, _values(b"a"))
    with pytest.raises(KeyboardInterrupt):
        producer.send(0, _values(b"b", b"c"))
    assert (producer.acknowledged, producer.unknown) == (1, 2)


def test_a_batch_that_is_too_large_is_halved_until_a_record_is():
    broker = Broker(ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE, 10)
    producer = Producer(broker, "t")
    with pytest.raises(KafkaError, match="t-0: a record takes .* bytes as a batch"):
        producer.send(0, _values(b"a", b"b", b"c", b"x" * 1000))
    stored = [[record.value[:1] for record in iterate_records(batch)] for batch in broker.batches()]
    assert stored == [[b"a", b"b", b"c", b"x"], [b"a", b"b"], [b"c", b"x"], [b"c"], [b"x"]]
    assert broker.sequences() == [(PRODUCER_ID, n) for n in (0, 0, 2, 2, 3)]
    assert producer.acknowledged == 3


def test_without_acks_nothing_is_known():
    broker = Broker()
    producer = Producer(broker, "t", acks=0)
    assert producer.send(0, _values(b"a")) is None
    assert [record.value for record in iterate_records(broker.batches()[0])] == [b"a"]
    assert (producer.acknowledged, producer.unknown) == (0, 1)
