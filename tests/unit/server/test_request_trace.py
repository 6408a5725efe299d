"""What a trace record says of a request's body."""

from types import SimpleNamespace

import pytest

from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.record.batch_builder import encode_batch
from mpbroker.server.request_trace import describe_control, describe_fetch, describe_produce, topic_hash


def told(describe, *arguments):
    """Partitions, the first topic, the number that the API gives, acks."""
    kept = []
    describe(SimpleNamespace(set_trace=lambda *values: kept.append(values)), *arguments)
    [values] = kept
    return values


def test_a_topic_is_known_by_its_name():
    assert 0 != topic_hash("t") != topic_hash("u")


@pytest.mark.parametrize(("acks", "bits"), [(0, 0), (1, 1), (-1, 3)])
def test_of_a_produce_its_records(acks, bits):
    one, three = (encode_batch([(b"k", b"v")] * count) for count in (1, 3))
    sent = {"t": [(0, one), (1, None)], "u": [(2, three)]}
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=at, records=data) for at, data in each])
        for name, each in sent.items()
    ]
    assert told(describe_produce, ProduceRequest(acks=acks, topic_data=topics)) == (3, topic_hash("t"), 4, bits)
    assert told(describe_produce, ProduceRequest(acks=acks)) == (0, 0, 0, bits)


def test_a_claim_of_more_records_than_a_trace_can_hold_is_cut():
    batch = bytearray(encode_batch([(b"k", b"v")]))
    batch[23:27] = (2**31 - 1).to_bytes(4, "big")  # the last offset delta: 2^31 records
    data = [PartitionProduceData(index=number, records=bytes(batch)) for number in range(2)]
    topics = [TopicProduceData(name="t", partition_data=data)]
    assert told(describe_produce, ProduceRequest(topic_data=topics))[2] == 2**32 - 1


@pytest.mark.parametrize(("max_wait_ms", "ready"), [(-1, 0), (0, 0), (500, 500)])
def test_of_a_fetch_how_long_it_would_wait(max_wait_ms, ready):
    message = FetchRequest(max_wait_ms=max_wait_ms)
    assert told(describe_fetch, message, 7, "t") == (7, topic_hash("t"), ready, 0)
    assert told(describe_fetch, message, 0, "") == (0, 0, ready, 0)


@pytest.mark.parametrize(("epoch", "shown"), [(-1, 0), (0, 0), (8, 8)])
def test_of_a_controllers_request_its_epoch(epoch, shown):
    assert told(describe_control, epoch, [("t", 0), ("u", 4)]) == (2, topic_hash("t"), shown, 0)
    assert told(describe_control, epoch, [("", 3)]) == (1, 0, shown, 0)
    assert told(describe_control, epoch, []) == (0, 0, shown, 0)
