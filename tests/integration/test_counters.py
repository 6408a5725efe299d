"""Counters of a running broker: what is provoked is counted, and by as much as it happened where that is known."""

import struct
import time

from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, frame
from tests.harness.raw_records import RawFetcher, RawProducer, batch, produce_request

OVERRIDES = {
    "mpbroker.max.topics": 2,
    "max.connections.per.ip": 6,
    "connections.max.idle.ms": 4000,
    "mpbroker.frame.timeout.ms": 500,
    "log.segment.bytes": 1000,
    "log.retention.bytes": 2000,
    "log.retention.check.interval.ms": 100,
    "log.initial.task.delay.ms": 0,
    "log.flush.interval.messages": 5,
    "log.flush.scheduler.interval.ms": 100,
}
#: Counted at least once by `provoke`; those it does not reach are counted in the tests of their own subject.
PROVOKED = {
    "requests_received", "requests_finished", "bytes_received", "bytes_sent", "requests_claimed", "requests_answered",
    "requests_parked", "handler_wakes", "processor_wakes", "recoveries", "commands_sent", "commands_done",
    "log_appends", "log_append_bytes", "log_duplicates", "log_rolls", "connections_accepted", "connections_taken",
    "connections_closed", "connections_refused_per_ip", "connections_idle", "frames_timed_out", "bad_frames",
    "requests_refused", "requests_unsupported", "purgatory_expired", "produce_partition_errors",
    "controller_table_full", "log_flushes", "segments_deleted", "producer_snapshots",
}  # fmt: skip


def create(port, name):
    """The error code of creating a topic."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    with RawConnection(port) as connection:
        _, payload = connection.ask(encode_request_frame(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 0, 1))
    return decode(CreateTopicsResponse, 0, payload, 0).topics[0].error_code


def closed_for(port, data):
    connection = RawConnection(port)
    connection.send(data)
    assert connection.is_closed()
    connection.close()


def records(port):
    """Appends enough to roll, one of them twice with the same sequence, one that is damaged; a fetch that waits."""
    producer = RawProducer("127.0.0.1", port, "t")
    for number in range(30):
        assert producer.produce(0, [b"x" * 200]).error == 0, number
    with RawConnection(port) as connection:
        once = produce_request(1, "t", 0, batch([b"once" * 100], producer=(5, 0, 0)))
        for _ in range(2):
            assert connection.ask(once) is not None
        connection.ask(produce_request(2, "t", 0, batch([b"x"])[:-1] + b"!"))
        assert connection.ask(produce_request(3, "t", 0, batch([b"y" * 900], producer=(5, 0, 1)))) is not None
    fetcher = RawFetcher("127.0.0.1", port, "t")
    end = producer.produce(0, [b"last"]).base_offset + 1
    assert fetcher.fetch(0, end, max_wait_ms=50).error == 0
    fetcher.close()
    producer.close()


def taken(port):
    """A connection that was let in: those that were just closed may still count for this address."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        connection = RawConnection(port)
        try:
            if connection.ask(frame(18, 0, 1)) is not None:
                return connection
        except ConnectionError:
            pass
        connection.close()
    raise AssertionError("no connection is let in")


def connections(broker):
    """Too many, one that sends nothing, one that stops in the middle of a request, some that send what nobody reads."""
    port = broker.port()
    closed_for(port, b"GET / HTTP/1.1\r\n\r\n")
    closed_for(port, frame(39, 0, 1))
    closed_for(port, frame(3, 1, 1, b"\0"))
    silent, stuck = taken(port), taken(port)
    stuck.send(struct.pack(">i", 100) + b"half")
    many = [RawConnection(port) for _ in range(8)]
    wait_until(lambda: broker.status()["counters"]["connections_refused_per_ip"], "the quota of this address")
    for one in many:
        one.close()
    assert stuck.is_closed() and silent.is_closed()
    for one in (silent, stuck):
        one.close()


def test_what_is_provoked_is_counted(tmp_path):
    with Broker(tmp_path, overrides=OVERRIDES) as broker:
        port = broker.port()
        assert [create(port, name) for name in ("t", "second", "third")] == [0, 0, 44]
        records(port)
        connections(broker)
        pid = broker.kill("handler", 0)
        broker.wait_restarted("handler", 0, pid)

        def missing():
            counted = broker.status()["counters"]
            return sorted(name for name in PROVOKED if not counted.get(name))

        deadline = time.monotonic() + 10
        while missing() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert missing() == []
        counters = broker.status()["counters"]
        assert (counters["requests_unsupported"], counters["bad_frames"]) == (1, 1)
        assert (counters["log_duplicates"], counters["controller_table_full"]) == (1, 1)
        assert counters["connections_closed"] <= counters["connections_taken"] <= counters["connections_accepted"]
        wait_until(lambda: _balance(broker), "every connection to be closed")


def _balance(broker):
    """Once no client is left, as many connections are closed as were taken; the supervisor's own is among them."""
    counters = broker.status()["counters"]
    return counters["connections_closed"] == counters["connections_taken"]
