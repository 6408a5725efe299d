"""What a process shows of itself while it waits in the extension, and when it has waited; others run meanwhile."""

import os
import select
import threading
import time

import pytest

from mpbroker import _native
from mpbroker.shm.waits import WaitName
from tests.harness.small_core import small_core

FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"
HANDLER_SLOT, CONTROLLER_SLOT, SERVICE_SLOT = 48, 112, 120
LONG_MS, LONG_S = 60_000.0, 60.0
CLIENT_BYTES = 64  # of a client's name, as steady_frames.h has room for it


class Waiting:
    """A call in a thread of its own; `marked` waits until its process says what it waits for."""

    def __init__(self, row, call) -> None:
        self._row, self._told = row, []
        self._thread = threading.Thread(target=lambda: self._told.append(call()), daemon=True)
        self._thread.start()

    def marked(self, shown="wait") -> int:
        """`shown`: what is 0 until then."""
        until_s = time.monotonic() + LONG_S
        while getattr(self._row, shown) == 0 and time.monotonic() < until_s:
            time.sleep(0.001)
        return self._row.wait

    def ended(self):
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()
        return self._told[0]


@pytest.fixture
def core():
    return small_core().core


def test_a_service_says_that_it_waits(core):
    row, names = _native.ProcessRow(core, SERVICE_SLOT), set()
    for already in (0, 77):
        row.wait, row.heartbeat_ns = already, 0
        waiting = Waiting(row, lambda: core.wait_service(SERVICE_SLOT, LONG_MS))
        names.add(waiting.marked("heartbeat_ns"))
        assert 0 < row.heartbeat_ns <= time.monotonic_ns()
        begun_ns = time.monotonic_ns()
        core.ring_service(SERVICE_SLOT)
        assert waiting.ended() is True and row.wait == 0
        assert row.heartbeat_ns >= begun_ns
    assert names == {WaitName.SERVICE, 77}, "what it said before it waited holds"


def test_a_service_that_nobody_rings(core):
    row = _native.ProcessRow(core, SERVICE_SLOT)
    begun_ns = time.monotonic_ns()
    assert core.wait_service(SERVICE_SLOT, 3.0) is False
    assert time.monotonic_ns() - begun_ns >= 3_000_000 and row.wait == 0 and row.heartbeat_ns >= begun_ns + 3_000_000


def test_a_controller_says_that_it_waits(core):
    row = _native.ProcessRow(core, CONTROLLER_SLOT)
    sends, takes = _native.CommandPort(core, HANDLER_SLOT), _native.CommandPort(core, CONTROLLER_SLOT)
    waiting = Waiting(row, lambda: takes.claim(LONG_MS))
    assert waiting.marked() == WaitName.COMMAND and 0 < row.heartbeat_ns <= time.monotonic_ns()
    begun_ns = time.monotonic_ns()
    number = sends.send(b"command", 9)
    assert waiting.ended() == (number, 9, b"command")
    assert row.wait == 0 and row.heartbeat_ns >= begun_ns
    begun_ns = time.monotonic_ns()
    assert takes.claim(2.0) is None
    assert time.monotonic_ns() - begun_ns >= 2_000_000 and row.heartbeat_ns >= begun_ns + 2_000_000
    second = sends.send(b"", 10)
    begun_ns = time.monotonic_ns()
    assert takes.claim(LONG_MS) == (second, 10, b""), "what is there is not waited for"
    assert time.monotonic_ns() - begun_ns < LONG_MS * 1e6 and row.heartbeat_ns >= begun_ns


def test_a_handler_is_woken_by_a_request(core):
    row = _native.ProcessRow(core, HANDLER_SLOT)
    processor, handler = _native.ProcessorPort(core, 0), _native.HandlerPort(core, 0)
    waiting = Waiting(row, lambda: handler.serve_or_claim(LONG_MS))
    assert waiting.marked() == WaitName.REQUEST
    assert 0 < row.heartbeat_ns <= time.monotonic_ns()
    processor.submit(0, 5, 6, 7, FRAME, 1)
    request = waiting.ended()
    assert request is not None and request.connection == 5 and row.wait == 0
    handler.answer_none(request)
    begun_ns = time.monotonic_ns()
    assert handler.serve_or_claim(2.0) is None
    assert time.monotonic_ns() - begun_ns >= 2_000_000 and row.heartbeat_ns >= begun_ns
    waiting = Waiting(row, lambda: handler.serve_or_claim(-1))
    waiting.marked()
    core.ring_handler(0)
    assert waiting.ended() is None and handler.take_dirty() == (True, [])


def test_a_follower_waits_for_its_leaders(tmp_path):
    """As long as it is told, and for what has no fetch here; a descriptor that is none is an error of the system."""

    log = _native.Log(small_core(replicated=True).core, [str(tmp_path)], 118)
    epoll = select.epoll()
    fetches = _native.SteadyFetches(log, epoll.fileno())
    for timeout_ms in (-1, 0, 2):
        begun_ns = time.monotonic_ns()
        assert fetches.poll(timeout_ms) == []
        assert time.monotonic_ns() - begun_ns >= max(timeout_ms - 1, 0) * 1_000_000
    reading, writing = os.pipe()
    epoll.register(reading, select.EPOLLIN)
    os.write(writing, b"x")
    assert fetches.poll(60_000) == [(reading, select.EPOLLIN)]
    for wrong in ("x", None):
        with pytest.raises(TypeError):
            fetches.poll(wrong)
        with pytest.raises(TypeError):
            fetches.take_back(wrong)
    with pytest.raises(KeyError, match=f"{reading} is not served here"):
        fetches.take_back(reading)
    with pytest.raises(OSError, match="Bad file descriptor|Invalid argument"):
        _native.SteadyFetches(log, reading).poll(0)
    os.close(reading), os.close(writing), epoll.close()
    log.close()
    with pytest.raises(ValueError, match="closed"):
        fetches.poll(0)


STEADY = (9, "client", 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)


def test_a_fetch_is_given_back_as_it_was_begun(tmp_path):
    log, options = _native.Log(small_core(replicated=True).core, [str(tmp_path)], 118), _native.LogOptions()
    fetches = _native.SteadyFetches(log, 0)
    row = (bytes(16), 21, 3, 22, 1 << 40, 23, 24, 25, options)
    assert fetches.begin(*STEADY, [row]) is True
    found = fetches.take_back(9)
    assert found == (11, 13, True, 20, 0, b"", b"", [(3, 1 << 40, 23, 24, 25, False, 0)])
    with pytest.raises(KeyError):
        fetches.take_back(9)
    most = _native.STEADY_PARTITIONS
    assert fetches.begin(*STEADY, [row] * most) is True and len(fetches.take_back(9)[-1]) == most
    with pytest.raises(ValueError, match="a longer name, or more partitions, than are served here"):
        fetches.begin(*STEADY, [row] * (most + 1))
    longest = max(length for length in range(1, 600) if _begins(fetches, "c" * length))
    assert longest == CLIENT_BYTES and not _begins(fetches, "c" * (longest + 1))
    for wrong in ((bytes(15), *row[1:]), (bytes(17), *row[1:]), (*row[:2], 99, *row[3:])):
        with pytest.raises(ValueError, match="a topic id has 16 bytes|no partition row 99"):
            fetches.begin(*STEADY, [wrong])
    begun = [fetches.begin(fd, *STEADY[1:], []) for fd in range(_native.STEADY_LEADERS + 1)]
    assert begun == [True] * _native.STEADY_LEADERS + [False]
    fetches.take_back(5)
    assert fetches.begin(99, *STEADY[1:], []) is True and fetches.take_back(99)[0] == 11
    log.close()


def _begins(fetches, name) -> bool:
    """Whether a fetch of a client with that name is served; it is given back."""
    try:
        fetches.begin(9, name, *STEADY[2:], [])
    except ValueError:
        return False
    fetches.take_back(9)
    return True
