"""What lies unread in a socket is seen: rx_wait counts from the moment the kernel had it. Linux stamps what TCP
receives."""

import os
import signal
import time

import pytest

from mpbroker.trace import record
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import RawProducer, batch, create_by_metadata, fetch_request, produce_request
from tests.harness.trace_records import records_of, requests_of

TOPIC = "waited-for"
SLACK_NS = 5_000_000  # between our clock and the moment the kernel takes the bytes over
PRODUCE, FETCH = 0, 1


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path, overrides={"num.partitions": 1, "num.network.threads": 1}) as broker:
        create_by_metadata("127.0.0.1", broker.port(), TOPIC)
        producer = RawProducer("127.0.0.1", broker.port(), TOPIC)
        wait_until(lambda: (answer := producer.produce(0, [b"the only one"])) and answer.error == 0, "the topic")
        producer.close()
        yield broker


def _record(broker, correlation_id, api_key):
    return next(one for one in requests_of(broker) if (one.api_key, one.corr_id) == (api_key, correlation_id))


@pytest.mark.parametrize("size", [10, 60_000], ids=["small", "received-into-the-arena"])
def test_a_processor_that_does_not_run(broker, size):
    client = RawConnection(broker.port())
    assert client.ask(produce_request(1001, TOPIC, 0, batch([b"first"]), 1)) is not None
    pid = broker.kill("processor", 0, signal.SIGSTOP)
    try:
        client.send(produce_request(1002, TOPIC, 0, batch([b"x" * size]), 1))
        sent_ns = time.monotonic_ns()
        time.sleep(0.06)
        continued_ns = time.monotonic_ns()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert client.receive() is not None
    client.close()
    broker.stop()
    assert _record(broker, 1001, PRODUCE).rx_wait != record.NOT_REACHED
    assert _record(broker, 1002, PRODUCE).rx_wait * record.TICK_NS > continued_ns - sent_ns - SLACK_NS


def test_a_muted_connection(broker):
    """The second of two requests is not read before the first is answered: its wait is in rx_wait, not lost."""
    client = RawConnection(broker.port())
    parked = broker.status()["counters"]["requests_parked"]
    client.send(fetch_request(1001, TOPIC, 0, 1, max_wait_ms=30_000))  # what is produced ends it, not its time
    wait_until(lambda: broker.status()["counters"]["requests_parked"] > parked, "the first to be parked")
    client.send(fetch_request(1002, TOPIC, 0, 1, max_wait_ms=1))
    sent_ns = time.monotonic_ns()
    time.sleep(0.06)
    ended_ns = time.monotonic_ns()
    producer = RawProducer("127.0.0.1", broker.port(), TOPIC)
    assert producer.produce(0, [b"the second"]).error == 0
    producer.close()
    assert client.receive() is not None
    assert client.receive() is not None
    client.close()
    broker.stop()
    first, second = _record(broker, 1001, FETCH), _record(broker, 1002, FETCH)
    answered_ns = first.t0_ns + first.stage_ns(record.STAGES.index("resp_enq"))
    assert second.t0_ns - second.rx_wait * record.TICK_NS < answered_ns < second.t0_ns
    assert second.rx_wait * record.TICK_NS > ended_ns - sent_ns - SLACK_NS > 50_000_000


def test_a_connection_that_no_processor_takes(broker):
    """Opened is when it was accepted; and its first bytes have their stamp, though no processor knew the socket yet."""
    accepted = broker.status()["counters"]["connections_accepted"]
    pid = broker.kill("processor", 0, signal.SIGSTOP)
    try:
        with RawConnection(broker.port()) as client:
            client.send(fetch_request(1003, TOPIC, 0, 0))
            wait_until(lambda: broker.status()["counters"]["connections_accepted"] > accepted, "the acceptor")
            continued_ns = time.monotonic_ns()
            os.kill(pid, signal.SIGCONT)
            assert client.receive() is not None
    finally:
        os.kill(pid, signal.SIGCONT)
    broker.stop()
    one = _record(broker, 1003, FETCH)
    (opened,) = [each for each in records_of(broker, record.CONNECTION_OPEN) if each.conn_id == one.conn_id]
    assert opened.t0_ns < continued_ns < one.t0_ns
    assert one.t0_ns - one.rx_wait * record.TICK_NS < continued_ns


def test_requests_that_come_together(broker):
    """The second one is read while the first one's answer is still held, to be sent with its own."""
    with RawConnection(broker.port()) as client:
        client.send(
            produce_request(1004, TOPIC, 0, batch([b"x"]), 1) + produce_request(1005, TOPIC, 0, batch([b"y"]), 1)
        )
        assert client.receive() is not None and client.receive() is not None
    broker.stop()
    assert [_record(broker, number, PRODUCE).inflight for number in (1004, 1005)] == [0, 1]
