"""However a request ends, it leaves exactly one trace record, and the client knows how many there must be.

The client gives every request a number of its own, so nothing here compares two counters of the broker with each other.
"""

from __future__ import annotations

import itertools
import os
import signal
import struct
from collections import Counter

import pytest

from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.metadata import MetadataRequest
from mpbroker.trace import manifest, record, statistics
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, batch, create_topic, fetch_request, produce_request
from tests.harness.raw_client import RawConnection, frame
from tests.harness.trace_records import requests_of

MANY = 10
FIRST = 1_000_000  # of our numbers: other requests have others
LARGE_BYTES = 300_000  # goes through the arena
IDLE_MS = 2500  # more than a slow machine pauses between two requests of a connection


class Client:
    """Sends requests and remembers the number of each."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._numbers = itertools.count(FIRST)
        self.sent: list[int] = []

    def connect(self) -> RawConnection:
        """A new connection."""
        return RawConnection(self.broker.port())

    def frame(self, message, version: int) -> bytes:
        """One more request."""
        self.sent.append(next(self._numbers))
        return encode_request_frame(message, version, self.sent[-1], "counting")

    def raw_frame(self, api_key: int, version: int, body: bytes) -> bytes:
        """One more request, of bytes as they are."""
        self.sent.append(next(self._numbers))
        return frame(api_key, version, self.sent[-1], body)


def _received(broker: Broker) -> int:
    return broker.status()["counters"]["requests_received"]


def _stop_and_compare(broker: Broker, client: Client, before: int | None = None) -> dict[int, record.TraceRecord]:
    """After the broker has stopped: one record for each number that was sent; the records by number."""
    wait_until(lambda: broker.status()["counters"]["entries_in_use"] == 0, "all entries to be free")
    counters = broker.status()["counters"]
    assert broker.stop() == 0
    found = requests_of(broker)
    numbers = Counter(one.corr_id for one in found if FIRST <= one.corr_id < 2 * FIRST)
    assert numbers == Counter(client.sent), "one record for each request, none twice"
    if before is not None:
        assert counters["requests_received"] - before == len(client.sent)
    assert counters["requests_received"] == counters["requests_finished"] == len(found)
    told = statistics.collect(manifest.segments(broker.data_dir / "traces", complaints=[]))
    assert (told.finished, told.records, told.dropped, told.sampled_out) == (len(found), len(found), 0, 0)
    return {one.corr_id: one for one in found}


def _answered(client: Client) -> None:
    with client.connect() as connection:
        connection.send(b"".join(client.frame(ApiVersionsRequest(), 0) for _ in range(MANY)))
        connection.send(b"".join(client.frame(fetch_request("t", {0: 0}), 11) for _ in range(MANY)))
        connection.send(client.raw_frame(3, 1, struct.pack(">i", 0) + bytes(LARGE_BYTES)))
        assert all(connection.receive() for _ in range(2 * MANY + 1))


def _answered_with_nothing(client: Client) -> list[int]:
    begin = len(client.sent)
    with client.connect() as connection:
        connection.send(b"".join(client.frame(produce_request("t", {0: batch(b"a")}, 0), 7) for _ in range(MANY)))
        assert connection.ask(client.frame(ApiVersionsRequest(), 0))
    return client.sent[begin:-1]


def _closed(client: Client) -> None:
    for _ in range(MANY):
        for data in (
            client.frame(produce_request("unknown", {0: batch(b"a")}, 0), 7),
            client.frame(produce_request("t", {0: batch(b"a")[:-1] + b"!"}, 0), 7),
            client.raw_frame(3, 1, b"\0"),
        ):
            with client.connect() as connection:
                connection.send(data)
                assert connection.is_closed()


def _client_gone(client: Client) -> None:
    """Its fetch waits when it leaves; and one leaves without reading a large answer."""
    begin = _received(client.broker)
    connections = [client.connect() for _ in range(MANY)]
    for connection in connections:
        connection.send(client.frame(fetch_request("t", {0: 1 << 20}, max_wait_ms=300), 11))
        connection.send(client.frame(fetch_request("t", {1: 0}, max_wait_ms=300), 11))
    wait_until(lambda: _received(client.broker) >= begin + 2 * MANY, "all of them to be read")
    for connection in connections:
        connection.close()


def _closed_by_the_broker(client: Client) -> list[int]:
    """Idle for too long with a request in flight, which then gets its record: the answer finds no connection."""
    begin = len(client.sent)
    connections = [client.connect() for _ in range(MANY)]
    for connection in connections:
        connection.send(client.frame(fetch_request("t", {1: 0}, max_wait_ms=60_000), 11))
    assert all(connection.is_closed() for connection in connections)
    aborted = client.sent[begin:]
    with client.connect() as connection:
        assert connection.ask(client.frame(produce_request("t", {1: batch(b"a")}), 7))
    return aborted


def _refused_at_the_door(broker: Broker) -> None:
    """Never given to anybody: no record, each counted."""
    for data in [frame(38, 0, 5_000_000, bytes(32)), struct.pack(">i", -1)] * MANY:
        with RawConnection(broker.port()) as connection:
            connection.send(data)
            assert connection.is_closed()
    counters = broker.status()["counters"]
    assert (counters["requests_unsupported"], counters["bad_frames"]) == (MANY, MANY)


def test_every_request_of_a_living_broker_leaves_one_record(tmp_path):
    overrides = {"num.network.threads": 2, "num.io.threads": 2, "connections.max.idle.ms": IDLE_MS}
    with Broker(tmp_path, overrides=overrides) as broker:
        with Peer(broker.port()) as peer:
            assert create_topic(peer, "t", 2).error_code == 0
        before, client = _received(broker), Client(broker)
        _answered(client)
        silent = _answered_with_nothing(client)
        _closed(client)
        _client_gone(client)
        aborted = _closed_by_the_broker(client)
        _refused_at_the_door(broker)
        wait_until(lambda: broker.status()["counters"]["answers_without_connection"] >= MANY, "their answers")
        found = _stop_and_compare(broker, client, before)
    assert all(found[number].flags & record.ABORTED and found[number].purg_kind for number in aborted)
    assert {(found[n].api_key, found[n].resp_bytes, found[n].flags & record.ABORTED) for n in silent} == {(0, 0, 0)}


#: Moments at which a process dies with a request in its hands, each passed by the nth request that comes there; and how
#: many of those requests are answered all the same. A processor that dies in recovery was dropping such a request.
PROCESSOR_DIES = {
    "on its way in": ("processor.published:6,processor.pushed:12", 0),
    "on its way out": ("processor.collected:6,processor.traced:12,processor.free.extent:18,processor.freed:24", 3),
    "while it is counted": (
        "processor.received.counting:6,processor.received.counted:12,processor.finished.counting:18,"
        "processor.finished.counted:24",
        2,
    ),
    "dropped in recovery": ("processor.pushed:6,recover.traced,processor.collected:18,recover.before_ring:3", 0),
}
HANDLER_DIES = {
    "with the request": "handler.claimed:10,append.intent:6,append.committed:8",
    "with the answer": "append.cell:3,handler.answer_written:10,handler.done:16,handler.hinted:22",
    "in recovery": "handler.claimed:6,recover.handler.scanned,handler.answer_written:14,recover.handler.put_back:2",
}


def _asked_one_by_one(broker: Broker, client: Client) -> list[int]:
    """Metadata and Produce in turn, each on a connection of its own; those that got no answer."""
    lost = []
    for number in range(40):
        asked = MetadataRequest(topics=None) if number % 2 else produce_request("t", {0: batch(b"%d" % number)})
        with client.connect() as connection:
            if connection.ask(client.frame(asked, 7)) is None:
                lost.append(client.sent[-1])
    return lost


def _one_worker_each(tmp_path, points: str) -> Broker:
    overrides = {"num.network.threads": 1, "num.io.threads": 1}
    return Broker(tmp_path, overrides=overrides, env={"MPBROKER_CRASH": points})


def _await_deaths(broker: Broker, points: str) -> None:
    deaths = len(points.split(","))
    wait_until(lambda: broker.log().count("worker_died") == deaths, "every point to have killed somebody")


@pytest.mark.parametrize("moment", PROCESSOR_DIES)
def test_a_request_whose_processor_dies_leaves_one_record(tmp_path, moment):
    points, answered = PROCESSOR_DIES[moment]
    with _one_worker_each(tmp_path, points) as broker:
        with Peer(broker.port()) as peer:
            assert create_topic(peer, "t", 2).error_code == 0
        client = Client(broker)
        lost = _asked_one_by_one(broker, client)
        _await_deaths(broker, points)
        found = _stop_and_compare(broker, client)
    assert len(lost) == len(points.split(",")) - points.count("recover.") - answered
    assert all(found[number].flags & record.ABORTED for number in lost)


@pytest.mark.parametrize("moment", HANDLER_DIES)
def test_a_request_whose_handler_dies_leaves_one_record(tmp_path, moment):
    with _one_worker_each(tmp_path, HANDLER_DIES[moment]) as broker:
        with Peer(broker.port()) as peer:
            assert create_topic(peer, "t", 2).error_code == 0
        client = Client(broker)
        assert not _asked_one_by_one(broker, client)
        _await_deaths(broker, HANDLER_DIES[moment])
        found = _stop_and_compare(broker, client)
    assert any(one.flags & record.REDISPATCHED for one in found.values())


def test_a_request_that_was_never_received_is_counted_nowhere(tmp_path):
    """Its processor died while it wrote it down: nobody can know what it was. The client sees its connection end."""
    points = "processor.fill:6,processor.filled:12"
    with _one_worker_each(tmp_path, points) as broker:
        with Peer(broker.port()) as peer:
            assert create_topic(peer, "t", 2).error_code == 0
        client = Client(broker)
        lost = _asked_one_by_one(broker, client)
        _await_deaths(broker, points)
        assert len(lost) == 2
        client.sent = [number for number in client.sent if number not in lost]
        _stop_and_compare(broker, client)


def test_a_request_that_kills_its_handlers_leaves_one_record_and_is_refused_after(tmp_path):
    points = {"MPBROKER_CRASH": "append.locked,append.intent"}
    with Broker(tmp_path, overrides={"num.io.threads": 2}, env=points) as broker:
        with Peer(broker.port()) as peer:
            assert create_topic(peer, "t").error_code == 0
        before, client = _received(broker), Client(broker)
        killing = client.frame(produce_request("t", {0: batch(b"a")}), 7)
        with client.connect() as connection:
            assert connection.ask(killing) and connection.is_closed()
        for _ in range(MANY):
            with client.connect() as connection:
                connection.send(killing)
                assert connection.is_closed()
        assert broker.status()["counters"]["frames_refused"] == MANY
        found = _stop_and_compare(broker, client, before)
    assert found[client.sent[0]].error == -1 and found[client.sent[0]].flags & record.REDISPATCHED


def test_what_waited_for_a_place_when_its_processor_died_leaves_one_record(tmp_path):
    """Handlers stand still: one request is with them, one fills the plane, one is parked, as the processor dies."""
    overrides = {"num.network.threads": 1, "num.io.threads": 1, "queued.max.requests": 1}
    with Broker(tmp_path, overrides=overrides) as broker:
        before, client = _received(broker), Client(broker)
        stopped = broker.kill("handler", 0, signal.SIGSTOP)
        try:
            connections = [client.connect() for _ in range(2)]
            for connection in connections:
                connection.send(client.frame(ApiVersionsRequest(), 0))
            wait_until(lambda: broker.status()["counters"]["plane_full"], "a request to be parked")
            broker.wait_restarted("processor", 0, broker.kill("processor", 0))
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert all(connection.is_closed() for connection in connections)
        _stop_and_compare(broker, client, before)
