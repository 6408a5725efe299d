"""Full queues: nothing is lost, nobody is refused, the control plane goes on. Handlers are held by SIGSTOP."""

import os
import signal
import struct
from contextlib import contextmanager

from tests.conformance.conftest import CONTROL_PLANE, LISTENERS
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer
from tests.harness.raw_client import RawConnection, api_versions, frame

CLIENTS = 12
QUEUED = 5


@contextmanager
def _stopped(broker, role: str, *indexes: int):
    pids = [broker.kill(role, index, signal.SIGSTOP) for index in indexes]
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _data_handlers(broker) -> list[int]:
    """The handlers that do not wait for control requests only."""

    def settled():
        rows = [row for row in broker.status()["processes"] if row["role"] == "handler"]
        return rows if sum(row["wait"] == "control-request" for row in rows) == 1 else None

    rows = wait_until(settled, "the reserved handler to wait")
    return [row["index"] for row in rows if row["wait"] != "control-request"]


def _ring(broker, name: str) -> dict:
    return next(ring for ring in broker.status()["rings"] if ring["name"] == name)


def test_a_full_data_ring_parks_one_request_a_processor_and_leaves_control_alone(tmp_path):
    overrides = CONTROL_PLANE | {"queued.max.requests": QUEUED, "num.io.threads": 1, "num.network.threads": 2}
    with Broker(tmp_path, overrides=overrides, listeners=LISTENERS) as broker:
        connections = [RawConnection(broker.port()) for _ in range(CLIENTS)]
        assert all(connection.ask(api_versions(0)) for connection in connections)
        with _stopped(broker, "handler", *_data_handlers(broker)):
            for number, connection in enumerate(connections):
                connection.send(api_versions(number))
            wait_until(lambda: broker.status()["counters"]["plane_full"] >= 2, "both processors to find the ring full")
            assert _ring(broker, "data")["depth"] == QUEUED
            with RawConnection(broker.port(2)) as control:
                assert [control.ask(api_versions(n))[0] for n in range(30)] == list(range(30))
            assert _ring(broker, "data")["depth"] == _ring(broker, "data")["peak"] == QUEUED
            assert _ring(broker, "data")["capacity"] == QUEUED
        assert [connection.receive()[0] for connection in connections] == list(range(CLIENTS))
        assert _ring(broker, "data")["depth"] == 0
        for connection in connections:
            connection.close()


def test_the_control_ring_takes_twenty(tmp_path):
    overrides = CONTROL_PLANE | {"num.io.threads": 1, "num.network.threads": 1}
    with Broker(tmp_path, overrides=overrides, listeners=LISTENERS) as broker:
        connections = [RawConnection(broker.port(2)) for _ in range(25)]
        assert all(connection.ask(api_versions(0)) for connection in connections)
        with _stopped(broker, "handler", 0, 1):
            for number, connection in enumerate(connections):
                connection.send(api_versions(number))
            wait_until(lambda: broker.status()["counters"]["plane_full"] >= 1, "the control ring to be full")
            assert _ring(broker, "control")["depth"] == _ring(broker, "control")["capacity"] == 20
        assert [connection.receive()[0] for connection in connections] == list(range(25))
        for connection in connections:
            connection.close()


def test_bytes_of_requests_held_are_bounded(tmp_path):
    limit, large = 1_000_000, 700_000
    overrides = {
        "queued.max.request.bytes": limit,
        "socket.request.max.bytes": limit,
        "num.io.threads": 1,
        "num.network.threads": 1,
    }
    with Broker(tmp_path, overrides=overrides) as broker:
        connections = [Peer(broker.port()) for _ in range(4)]
        assert all(connection.answers() for connection in connections)
        request = frame(3, 1, 9, struct.pack(">i", 0) + b"\0" * large)
        with _stopped(broker, "handler", 0):
            for connection in connections:
                connection.socket.setblocking(False)
            left = {connection: memoryview(request) for connection in connections}

            def pump() -> int:
                for connection, rest in left.items():
                    try:
                        left[connection] = rest[connection.socket.send(rest) :] if rest else rest
                    except BlockingIOError:
                        continue
                return broker.status()["counters"]["queued_bytes"]

            wait_until(lambda: pump() > limit, "the bound to be passed by one request")
            for _ in range(50):
                assert pump() <= limit + large + 100
        for connection, rest in left.items():
            connection.socket.settimeout(15)
            connection.socket.sendall(rest)
        assert [struct.unpack(">i", connection.receive_raw()[:4])[0] for connection in connections] == [9] * 4
        for connection in connections:
            connection.socket.close()
