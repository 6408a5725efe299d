"""The native path and the Python handler answer the same, to the byte, and what is not plain is left alone."""

import pytest

from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.counters import Counter
from tests.harness.in_process_broker import InProcessBroker


def batch(*values: bytes, **settings) -> bytes:
    return encode_batch([(b"k", value, 1_700_000_000_000) for value in values], **settings)


def request(*parts, acks=1, topic="t", transactional_id=None) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in parts]
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        transactional_id=transactional_id,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )


def in_transaction(sequence: int, producer_id: int = 0) -> bytes:
    return batch(b"t", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)


@pytest.fixture
def pair(tmp_path):
    """Two brokers with the same topics: one with the native path warmed up, one without it."""
    brokers = []
    for name in ("native", "python"):
        directory = tmp_path / name
        directory.mkdir()
        broker = InProcessBroker(directory)
        broker.create_topic("t", partitions=3)
        broker.create_topic("stamped", message_timestamp_type="LogAppendTime")
        brokers.append(broker)
    brokers[1].handler.context.native_topics._enabled = False
    for broker in brokers:
        for topic in ("t", "stamped"):
            broker.call(request((0, batch(b"first")), topic=topic), 7)
    return brokers[0], brokers[0].handler.context.native_topics.native, brokers[1]


def both(pair, message, version=7, client_id="test"):
    native, _path, python = pair
    answers = []
    for broker in (native, python):
        broker.send(message, version, client_id)
        broker.step()
        [(_, kind, frame)] = broker.collect()
        answers.append((kind, frame))
    assert answers[0] == answers[1]
    return answers[0]


@pytest.mark.parametrize("version", range(3, 8))
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_plain_requests_are_served_natively_with_the_same_bytes(pair, version, acks):
    for topic in ("t", "stamped"):
        both(pair, request((0, batch(b"a", b"b")), acks=acks, topic=topic), version)
    both(pair, request((0, batch(b"a")), (2, batch(b"c")), (1, batch(b"d")), acks=acks), version)
    assert pair[1].served == 3


def test_errors_found_at_the_append_are_the_same(pair):
    fenced = batch(b"x", producer_id=0, producer_epoch=0, base_sequence=5)
    both(pair, request((0, fenced)))
    both(pair, request((0, batch(b"y", producer_id=0, producer_epoch=0, base_sequence=77))))
    both(pair, request((0, fenced)))
    both(pair, request((0, batch(b"z" * 1_100_000)), (1, batch(b"ok"))))
    both(pair, request((0, batch(b"q")[:-1] + b"?"), acks=0))
    assert pair[1].served == 5


@pytest.mark.parametrize(
    "message",
    [
        request((9, batch(b"a"))),
        request((0, batch(b"a")), topic="unknown"),
        request((0, b"")),
        request((0, batch(b"a")), acks=5),
        request((0, in_transaction(0)), transactional_id="tx"),
        request((0, in_transaction(0))),
        request(),
    ],
)
def test_everything_else_is_left_to_python(pair, message):
    both(pair, message)
    assert pair[1].served == 0


def state_of(broker: InProcessBroker, partition: int):
    context = broker.handler.context
    return context.log_manager.log.state(context.metadata.topic("t").partitions[partition])


def verify(pair, producer_id: int = 0) -> None:
    for broker in (pair[0], pair[2]):
        context = broker.handler.context
        for ordinal in context.metadata.topic("t").partitions[:2]:
            assert context.log_manager.log.verify(ordinal, producer_id, 0) == 0


def test_batches_of_a_verified_transaction_are_served_natively(pair):
    verify(pair)
    for sequence in (0, 1, 1):
        sent = request((0, in_transaction(sequence)), (1, in_transaction(sequence)), transactional_id="tx")
        both(pair, sent)
    assert pair[1].served == 3
    for broker in (pair[0], pair[2]):
        state = state_of(broker, 0)
        assert (state.leo, state.hw, state.lso, state.open_transactions) == (3, 3, 1, 1)


def test_a_transaction_that_one_partition_does_not_know_is_refused_there_alone(pair):
    """The native path finds it when it has appended to the other one; that is in its cell."""
    verify(pair)
    for version, code in ((10, 19), (10, 48), (11, 120)):
        for broker in (pair[0], pair[2]):
            broker.core.transactions_ready = code != 19
        sent = request((0, in_transaction(0)), (2, in_transaction(0)), transactional_id="tx")
        _kind, frame = both(pair, sent, version)
        answer = pair[0].decode(sent, version, frame)
        assert [part.error_code for part in answer.responses[0].partition_responses] == [0, code]
    assert pair[1].served == 0 and state_of(pair[0], 2).leo == 0


def test_change_of_metadata_makes_it_forget(pair):
    native, path, _ = pair
    native.create_topic("later")
    native.call(request((0, batch(b"a"))), 7)
    assert path.served == 0
    native.call(request((0, batch(b"b"))), 7)
    assert path.served == 1


@pytest.mark.parametrize(
    ("message", "version", "reason"),
    [
        (request((0, batch(b"a"))), 11, Counter.PRODUCE_NATIVE),
        (request((0, batch(b"a" * 100, codec=4))), 11, Counter.PRODUCE_NATIVE),
        (request((0, batch(b"a")), acks=5), 11, Counter.PRODUCE_LEFT_FRAME),
        (request(), 9, Counter.PRODUCE_LEFT_FRAME),
        (request((0, in_transaction(0)), transactional_id="tx"), 7, Counter.PRODUCE_LEFT_TRANSACTION),
        (request((0, in_transaction(0)), transactional_id="tx"), 11, Counter.PRODUCE_LEFT_TRANSACTION),
        (request((0, batch(b"a", transactional=True))), 11, Counter.PRODUCE_LEFT_TRANSACTION),
        (request((0, batch(b"a")), topic="unknown"), 11, Counter.PRODUCE_LEFT_TOPIC),
        (request((9, batch(b"a"))), 11, Counter.PRODUCE_LEFT_PARTITIONS),
        (request((0, batch(b"a")), (0, batch(b"b"))), 11, Counter.PRODUCE_LEFT_PARTITIONS),
        (request((0, b"")), 11, Counter.PRODUCE_LEFT_BATCH),
        (request((0, batch(b"a", log_append_time=True)), topic="stamped"), 11, Counter.PRODUCE_LEFT_RECORDS),
    ],
)
def test_a_counter_says_which_way_a_request_went_and_why(pair, message, version, reason):
    row = pair[0].handler.context.row
    before = {counter: row.counter(counter) for counter in Counter}
    both(pair, message, version)
    assert {
        counter: row.counter(counter) - before[counter]
        for counter in Counter
        if counter.name.startswith(("PRODUCE_NATIVE", "PRODUCE_LEFT")) and row.counter(counter) > before[counter]
    } == {reason: 1}


@pytest.mark.parametrize("version", [7, 8, 9, 13])
def test_truncated_and_garbled_frames_never_crash_it(pair, version):
    import random

    native, _path, _ = pair
    from mpbroker.protocol.headers import encode_request_frame

    sent = request((0, batch(b"a", codec=1)), (1, batch(b"b")))
    sent.topic_data[0].topic_id = native.handler.context.metadata.topic("t").id
    whole, rng = encode_request_frame(sent, version, 1, "c")[4:], random.Random(version)
    for _ in range(2000):
        frame = bytearray(whole[: rng.randrange(10, len(whole) + 1)])
        for _ in range(rng.randrange(3)):
            frame[rng.randrange(8, len(frame))] = rng.randrange(256)
        if native.processor.submit(0, 1, 1, 0, bytes(frame), native.clock.monotonic_ns()) >= 0:
            native.step()
            native.clock.advance(2000)
            native.step()
            native.collect()
    assert native.call(request((0, batch(b"after"))), 7).responses[0].partition_responses[0].error_code == 0


def test_one_call_serves_what_it_can_and_returns_the_first_other_request(pair):
    native, path, _ = pair
    messages = [
        request((0, batch(b"a"))),
        request((1, batch(b"b")), acks=0),
        request((0, batch(b"c")), topic="unknown"),
        request((0, batch(b"q")[:-1] + b"?")),
    ]
    for message in messages:
        native.send(message, 7, "test")
    left = native.handler.port.serve_or_claim(60_000)
    assert bytes(left.payload).endswith(messages[2].topic_data[0].partition_data[0].records)
    assert len(native.collect()) == 2 and path.served == 2
    assert native.handler.port.serve_or_claim(0) is None
    assert len(native.collect()) == 1 and path.served == 3
    assert native.handler.context.row.counter(Counter.PRODUCE_PARTITION_ERRORS) == 1


def test_without_memory_for_the_answer_python_serves_it_and_appends_once(pair):
    native, path, _python = pair
    port = native.handler.port
    message = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[PartitionProduceData(index=index, records=batch(b"a")) for index in range(count)],
            )
            for name, count in (("t", 3), ("stamped", 1))
        ],
    )
    tokens = []
    while (room := port.allocate(16384)) is not None:
        tokens.append(room[1])
    port.release(tokens.pop())  # for the result cells; nothing is left for the answer
    native.send(message, 7, "test")
    native.step()
    assert path.served == 0 and native.collect() == []
    for token in tokens:
        port.release(token)
    for _ in range(50):
        native.clock.advance(100)
        native.step()
    [(_, _, frame)] = native.collect()
    answer = native.decode(message, 7, frame)
    offsets = [part.base_offset for topic in answer.responses for part in topic.partition_responses]
    assert offsets == [1, 0, 0, 1]
