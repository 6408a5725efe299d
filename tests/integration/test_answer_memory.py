"""Clients that ask for much and read nothing: they cost no more memory than is allowed, others get their records all
the while, and connections that hold memory are closed."""

import os
import socket

from tests.harness.broker import Broker, wait_until
from tests.harness.footprint import pss_bytes
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import RawFetcher, RawProducer, create_by_metadata, fetch_request

MIB = 1 << 20
ANSWER_BYTES = 24 * MIB
OTHER_BYTES = 24 * MIB  # what else may grow meanwhile: buffers, the interpreters' heaps
SETTINGS = {
    "num.partitions": 1,
    "num.io.threads": 2,
    "mpbroker.answer.memory.bytes": ANSWER_BYTES * 3 // 2,  # the coordinator has the third part
    "mpbroker.trace.enabled": "false",
}
MESSAGE_TOO_LARGE = 10
SILENT_CLIENTS, ASKED_BYTES = 40, 36 * MIB
RECORDS, RECORD_BYTES = 80, 1_000_000


def fill(broker: Broker) -> None:
    create_by_metadata("127.0.0.1", broker.port(), "t")
    producer = RawProducer("127.0.0.1", broker.port(), "t")
    wait_until(lambda: producer.produce(0, [b"first"]).error == 0, "the topic")
    for _ in range(RECORDS):
        assert producer.produce(0, [os.urandom(RECORD_BYTES)]).error == 0
    producer.close()


def silent_client(port: int) -> RawConnection:
    """Asks for much, and never reads."""
    connection = RawConnection(port)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.send(fetch_request(1, "t", 0, 1, max_bytes=ASKED_BYTES))
    return connection


def test_a_batch_that_no_answer_can_hold_is_refused(tmp_path):
    """Each of the two handlers has 12 MiB, of which records may take 11."""
    with Broker(tmp_path, overrides=SETTINGS | {"message.max.bytes": 50 * MIB}) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        producer = RawProducer("127.0.0.1", broker.port(), "t")
        wait_until(lambda: producer.produce(0, [b"first"]).error == 0, "the topic")
        assert producer.produce(0, [bytes(11 * MIB)]).error == MESSAGE_TOO_LARGE
        assert producer.produce(0, [bytes(11 * MIB - 1000)]).error == 0
        reader = RawFetcher("127.0.0.1", broker.port(), "t")
        assert len(reader.fetch(0, 1, max_bytes=MIB).records) > 11 * MIB - 1000
        for client in (producer, reader):
            client.close()


def test_clients_that_do_not_read_starve_nobody(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        fill(broker)
        before_bytes, most_bytes, sizes = pss_bytes(broker), 0, []
        reader = RawFetcher("127.0.0.1", broker.port(), "t")
        silent = [silent_client(broker.port()) for _ in range(SILENT_CLIENTS)]
        wait_until(lambda: broker.status()["counters"]["fetches_shortened"] > 0, "memory to be short")

        def read_until_some_are_closed():
            nonlocal most_bytes
            found = reader.fetch(0, 1, max_bytes=ASKED_BYTES)
            assert found.error == 0
            sizes.append(len(found.records))
            most_bytes = max(most_bytes, pss_bytes(broker))
            return broker.status()["counters"]["answers_stuck"] > 0

        wait_until(read_until_some_are_closed, "clients that do not read to be closed", 30)
        read_until_some_are_closed()
        assert min(sizes) > RECORD_BYTES and reader.connections == 1, sizes
        assert most_bytes < before_bytes + ANSWER_BYTES + OTHER_BYTES, (before_bytes, most_bytes)
        assert broker.log().count("answer_not_taken") > 0
        for connection in (*silent, reader):
            connection.close()
