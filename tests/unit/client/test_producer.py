"""What the producer puts into a request, and when it tries again."""

from types import SimpleNamespace

import pytest

from mpbroker.client.producer import Producer
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.record.record_batch import iterate_records


class Broker:
    """Answers each Produce request with the next of the given codes, and keeps the requests."""

    def __init__(self, *codes):
        self.codes, self.requests = list(codes), []

    def call(self, request, response, version):
        self.requests.append(request)
        partition = SimpleNamespace(error_code=self.codes.pop(0), base_offset=42)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[partition])])

    def send_only(self, request, version):
        self.requests.append(request)

    def version_for(self, request, most):
        return most


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("mpbroker.client.producer.time.sleep", lambda seconds: None)


def records_of(request):
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    return [(record.offset, record.key, record.value) for record in iterate_records(partition.records)]


def test_records_go_out_as_one_batch():
    broker = Broker(ErrorCode.NONE)
    assert Producer(broker, "t", acks=1).send(3, [(None, b"a"), (b"k", None)]) == 42
    (request,) = broker.requests
    assert records_of(request) == [(0, None, b"a"), (1, b"k", None)]
    assert (request.acks, request.topic_data[0].name, request.topic_data[0].partition_data[0].index) == (1, "t", 3)


def test_an_error_that_passes_is_tried_again_and_another_is_raised():
    broker = Broker(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE)
    assert Producer(broker, "t").send(0, [(None, b"a")]) == 42
    with pytest.raises(KafkaError) as caught:
        Producer(Broker(ErrorCode.MESSAGE_TOO_LARGE), "t").send(0, [(None, b"a")])
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_without_acks_nothing_is_known():
    broker = Broker()
    assert Producer(broker, "t", acks=0).send(0, [(None, b"a")]) is None
    assert records_of(broker.requests[0]) == [(0, None, b"a")]
