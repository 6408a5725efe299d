"""Clients that ask for much and read nothing, or a little now and then: they cost no more memory than is allowed,
others get their records all the while, and connections that hold memory are closed."""

import os
import socket
import threading
import time

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
SLOW_CLIENTS, SIP_BYTES, SIP_PAUSE_S = 40, 2048, 0.02
FEW_S = 15  # a waiting fetch is told after 30 s that there is no memory
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


def sipping_client(port: int) -> socket.socket:
    """Asks for much; its window is small from the beginning, so that the broker's kernel keeps little for it and takes
    some more all the time."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(fetch_request(1, "t", 0, 1, max_bytes=ASKED_BYTES))
    connection.setblocking(False)
    return connection


class Sippers:
    """Clients that ask for much, and take SIP_BYTES each SIP_PAUSE_S."""

    def __init__(self, port: int) -> None:
        self.sockets = [sipping_client(port) for _ in range(SLOW_CLIENTS)]
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._sip)
        self._thread.start()

    def _sip(self) -> None:
        reading = self.sockets
        while not self._ends.wait(SIP_PAUSE_S):
            reading = [one for one in reading if self._takes(one)]

    def _takes(self, one: socket.socket) -> bool:
        try:
            return one.recv(SIP_BYTES) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """They give up."""
        self._ends.set()
        self._thread.join()
        for one in self.sockets:
            one.close()


def test_clients_that_read_too_slowly_starve_nobody(tmp_path):
    """Each takes something all the time, and would hold its memory for minutes."""
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        fill(broker)
        reader = RawFetcher("127.0.0.1", broker.port(), "t")
        sippers = Sippers(broker.port())
        try:
            wait_until(lambda: broker.status()["counters"]["answer_memory_exhausted"] > 0, "no memory to be left")

            def read_until_some_are_closed():
                begun_s = time.monotonic()
                found = reader.fetch(0, 1, max_bytes=ASKED_BYTES)
                waited_s = time.monotonic() - begun_s
                assert found is not None and found.error == 0 and len(found.records) > RECORD_BYTES, waited_s
                assert waited_s < FEW_S and reader.connections == 1
                return broker.status()["counters"]["answers_stuck"] > 0

            wait_until(read_until_some_are_closed, "clients that read too slowly to be closed", 30)
            read_until_some_are_closed()
            assert broker.log().count("answer_not_taken") > 0
        finally:
            sippers.close()
            reader.close()
