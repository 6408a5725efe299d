"""One connection of a generator against a socket that answers as the test wants."""

import contextlib
import socket
import struct
import time

import pytest

from mpbroker.analysis.lab.client_log import COLUMNS, NEVER, ClientLog, read
from mpbroker.analysis.lab.load_connection import SO_TIMESTAMPNS, LoadConnection
from mpbroker.analysis.lab.schedule import CLOSED, ClosedLoop, spans
from mpbroker.client import prepared_request

INTENDED, READY, SENT, ARRIVED, DONE = (
    next(n for n, (name, _) in enumerate(COLUMNS) if name == f"{wanted}_ns")
    for wanted in ("intended", "ready", "sent", "arrived", "done")
)


@pytest.fixture(scope="module", autouse=True)
def the_kernel_stamps():
    """It begins to stamp what arrives a moment after the first socket of the machine asks for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.bind(("127.0.0.1", 0))
        asking.settimeout(5)
        asking.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        for _ in range(200):
            asking.sendto(b"x", asking.getsockname())
            time.sleep(0.01)
            read_s = time.time()
            _, ((_, _, stamp),), _, _ = asking.recvmsg(1, 64)
            seconds, nanoseconds = struct.unpack("@ll", stamp)
            if seconds + nanoseconds / 1e9 < read_s - 0.005:  # of its arrival, not of the moment it was read
                break
        yield


@pytest.fixture
def pair():
    """(the connection's factory, the accepted peer)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        made = []

        def connect(log, **limits):
            request = prepared_request.produce("t", 0, [b"x"], 1, "me")
            made.append(
                LoadConnection(3, listener.getsockname(), request, limits.pop("in_flight", 2), 100, log, **limits)
            )
            peer, _ = listener.accept()
            peer.settimeout(10)
            made.append(peer)
            return made[-2], peer

        yield connect
        for each in made:
            each.close()


def _answer(corr_id, error=0):
    """A Produce 7 answer for topic "t"."""
    body = struct.pack(">iih", corr_id, 1, 1) + b"t" + struct.pack(">iihqqqi", 1, 0, error, 0, -1, 0, 0)
    return struct.pack(">i", len(body)) + body


def _request(peer):
    (length,) = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))
    frame = peer.recv(length, socket.MSG_WAITALL)
    return struct.unpack_from(">hhi", frame)


def _receive(connection, count):
    deadline, got = time.monotonic() + 10, 0
    while got < count and time.monotonic() < deadline and not connection.closed:
        got += connection.receive()
    return got


def _rows(log, tmp_path):
    log.write(tmp_path / "log", {})
    columns = read(tmp_path / "log").columns
    return list(zip(*(columns[name] for name, _ in COLUMNS), strict=True))


def test_answers_are_matched_and_written_down(pair, tmp_path):
    log = ClientLog(10)
    connection, peer = pair(log)
    connection.send(5)
    connection.send(6)
    assert not connection.may_send() and connection.waiting == 2
    assert [_request(peer) for _ in range(2)] == [(0, 7, 100), (0, 7, 101)]
    both = _answer(100) + _answer(101, error=3)
    peer.sendall(both[:20])
    assert connection.receive() == 0
    peer.sendall(both[20:])
    assert _receive(connection, 2) == 2 and connection.may_send()
    rows = _rows(log, tmp_path)
    assert [row[:4] for row in rows] == [(3, 100, 0, 5), (3, 101, 3, 6)]
    assert all(sent <= arrived <= done for *_, sent, arrived, done in rows)


def test_a_full_pipeline_is_not_the_generators_fault(pair, tmp_path):
    log = ClientLog(10)
    connection, peer = pair(log, in_flight=1)
    connection.send(5)
    peer.sendall(_answer(100))
    assert _receive(connection, 1) == 1
    connection.send(6)  # was due long ago, and had to wait for the first answer
    peer.sendall(_answer(101))
    assert _receive(connection, 1) == 1
    first, second = _rows(log, tmp_path)
    assert first[READY] == first[INTENDED] == 5
    assert second[INTENDED] == 6 and second[READY] == first[ARRIVED] < first[DONE]


def test_each_request_waits_for_its_own_place(pair, tmp_path):
    """A place in flight is free when its answer came; not when it was read, nor with the first of several."""
    log = ClientLog(10)
    connection, peer = pair(log, in_flight=2)
    connection.send(1)
    connection.send(2)
    for corr_id in (100, 101):
        peer.sendall(_answer(corr_id))
        assert _receive(connection, 1) == 1
        time.sleep(0.02)  # the generator is busy with something else
    for number in (3, 4):
        connection.send(number)
        peer.sendall(_answer(99 + number))
    assert _receive(connection, 2) == 2
    first, second, third, fourth = _rows(log, tmp_path)
    assert third[READY] == first[ARRIVED] < second[ARRIVED] == fourth[READY]
    assert third[SENT] - third[READY] > 40_000_000


def test_a_closed_loop_means_to_send_when_the_answer_has_come(pair, tmp_path):
    log = ClientLog(10)
    connection, peer = pair(log, in_flight=1)
    connection.schedule = ClosedLoop(spans(0, [1e9], [CLOSED]))
    connection.send(connection.schedule.take(5, connection.free_since_ns))
    peer.sendall(_answer(100))
    time.sleep(0.03)  # the answer is there, the generator busy
    assert _receive(connection, 1) == 1
    connection.send(connection.schedule.take(time.monotonic_ns(), connection.free_since_ns))
    peer.sendall(_answer(101))
    assert _receive(connection, 1) == 1
    first, second = _rows(log, tmp_path)
    assert second[INTENDED] == second[READY] == first[ARRIVED] < first[DONE] - 25_000_000


def test_the_kernel_says_when_an_answer_came(pair, tmp_path):
    log = ClientLog(10)
    connection, peer = pair(log)
    connection.send(5)
    _request(peer)
    peer.sendall(_answer(100))
    before_reading = time.monotonic_ns() + 50_000_000
    while time.monotonic_ns() < before_reading:
        time.sleep(0.01)
    assert _receive(connection, 1) == 1
    ((*_, sent, arrived, done),) = _rows(log, tmp_path)
    assert sent <= arrived < before_reading <= done


def test_what_the_socket_does_not_take_waits(pair):
    connection, peer = pair(ClientLog(1 << 20), in_flight=1 << 20)
    while connection.unsent is None and connection.sent < 1 << 20:
        connection.send(1)
    assert connection.unsent is not None and not connection.may_send()
    peer.setblocking(False)
    received, deadline = 0, time.monotonic() + 10
    frame_bytes = len(prepared_request.produce("t", 0, [b"x"], 1, "me").frame)
    while received < connection.sent * frame_bytes and time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            received += len(peer.recv(1 << 20))
        connection.flush()
    assert received == connection.sent * frame_bytes and connection.unsent is None


def test_what_waited_for_a_full_socket_was_held_back_until_it_was_flushed(pair, tmp_path):
    log = ClientLog(1 << 16)
    connection, peer = pair(log, in_flight=1 << 16)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    while connection.unsent is None and connection.sent < 1 << 16:
        connection.send(1)
    peer.setblocking(False)
    before_flush, deadline = time.monotonic_ns(), time.monotonic() + 10
    while connection.unsent is not None and time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            peer.recv(1 << 20)
        connection.flush()
    connection.send(2)
    connection.give_up()
    *_, last_before, last = _rows(log, tmp_path)
    assert last_before[READY] == 1 and last[INTENDED] == 2 and before_flush <= last[READY] <= last[SENT]


def test_a_closed_connection_gives_up_its_requests(pair, tmp_path):
    log = ClientLog(10)
    connection, peer = pair(log)
    connection.send(5)
    _request(peer)
    peer.close()
    assert _receive(connection, 1) == 0 and connection.closed
    assert connection.give_up() == 1
    assert [row[-1] for row in _rows(log, tmp_path)] == [NEVER]


def test_a_limit_on_requests(pair):
    connection, _peer = pair(ClientLog(10), in_flight=5, requests_most=2)
    connection.send(1)
    assert connection.may_send() and not connection.done
    connection.send(1)
    assert connection.done and not connection.may_send()


def test_a_foreign_answer_is_no_answer(pair):
    connection, peer = pair(ClientLog(10))
    connection.send(5)
    peer.sendall(_answer(7))
    with pytest.raises(RuntimeError, match="answer 7 came for request 100"):
        _receive(connection, 1)


def test_a_slow_reader_leaves_answers_in_the_socket(pair):
    """At 1000 bytes a second it takes 50 at a time, and says when it reads again."""
    connection, peer = pair(ClientLog(10), read_bytes_per_s=1000)
    connection.schedule = ClosedLoop(spans(0, [1e9], [CLOSED]))
    connection.send(0)
    answer = struct.pack(">ii", 204, 100) + bytes(200)
    peer.sendall(answer)
    time.sleep(0.05)
    taken, reads = 0, 0
    while not taken and reads < 10:
        begun = time.monotonic_ns()
        taken, reads = connection.receive(), reads + 1
        assert connection.reads_again_ns - begun >= 40_000_000 or taken
    assert (taken, reads) == (1, -(-len(answer) // 50))
