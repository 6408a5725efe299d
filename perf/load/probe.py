"""A light client that asks ApiVersions and waits; and what the broker's trace says about where each of its requests
was."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from mpbroker.trace import manifest, record, segment

PAUSE_S = 0.004
RECEIVE_BYTES = 1 << 16
SO_TIMESTAMPNS = 35  # Linux on most machines; Python's socket module does not name it
TIMESPEC = struct.Struct("=qq")
API_VERSIONS = 18
_REQUEST = struct.Struct(">ihhih")  # ApiVersions 0 without a client id
_SEND_DONE, _ENQUEUED, _DEQUEUED = (record.STAGES.index(name) for name in ("send_done", "enqueued", "dequeued"))
SLOWEST = 0.05


class Probe:
    """One connection. Of every answer: `waited_ms` until it was in the socket, `seen_ms` until read; by correlation
    id."""

    def __init__(self, port: int, first_corr_id: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._corr_id = first_corr_id
        self.waited_ms: dict[int, float] = {}
        self.seen_ms: dict[int, float] = {}

    def ask(self) -> None:
        """One request and its whole answer."""
        self._corr_id += 1
        request = _REQUEST.pack(_REQUEST.size - 4, API_VERSIONS, 0, self._corr_id, -1)
        begun_ns = time.time_ns()
        self._socket.sendall(request)
        answer, arrived_ns = self._receive()
        while len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
            piece, arrived_ns = self._receive()
            answer += piece
        self.waited_ms[self._corr_id] = (arrived_ns - begun_ns) / 1e6
        self.seen_ms[self._corr_id] = (time.time_ns() - begun_ns) / 1e6

    def _receive(self) -> tuple[bytes, int]:
        """What has come, and when the kernel had it."""
        piece, ancillary, _, _ = self._socket.recvmsg(RECEIVE_BYTES, socket.CMSG_SPACE(TIMESPEC.size))
        if not piece:
            raise ConnectionError("the broker closed a probe's connection")
        seconds, nanoseconds = TIMESPEC.unpack(ancillary[0][2][: TIMESPEC.size])
        return piece, seconds * 1_000_000_000 + nanoseconds

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def percentile(times_ms: dict[int, float], share: float) -> float:
    """In milliseconds."""
    ordered = sorted(times_ms.values())
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def ask_in_turn(ports: dict[str, int], seconds: float, first_corr_id: int) -> dict[str, Probe]:
    """One probe per port, asking in turn for some time; no correlation id is used twice."""
    probes = {name: Probe(port, first_corr_id + (number << 20)) for number, (name, port) in enumerate(ports.items())}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for one in probes.values():
            one.ask()
            time.sleep(PAUSE_S)
    for one in probes.values():
        one.close()
    return probes


class Seen(NamedTuple):
    """Of one request, in milliseconds: unread in the socket, in the request ring, first byte read to answer sent."""

    rx_wait_ms: float
    queue_ms: float
    total_ms: float


def trace_of_probes(traces: Path) -> dict[int, Seen]:
    """Every ApiVersions request of a trace directory, by its correlation id."""
    found = {}
    for info in manifest.segments(traces):
        for chunk in segment.read_chunks(info):
            for at in range(0, len(chunk), record.RECORD_BYTES):
                one = record.unpack(chunk, at)
                if one.kind == record.REQUEST and one.api_key == API_VERSIONS:
                    found[one.corr_id] = _seen(one)
    return found


def _seen(one: record.TraceRecord) -> Seen:
    ticks = [
        0 if each == record.NOT_REACHED else each
        for each in (one.rx_wait, one.stage[_DEQUEUED] - one.stage[_ENQUEUED], one.stage[_SEND_DONE])
    ]
    return Seen(*(each * record.TICK_NS / 1e6 for each in ticks))


def share_seen(probe: Probe, trace: dict[int, Seen]) -> dict[str, float]:
    """Means over the slowest 5 % of a probe's requests: rx_wait and queue, and their share of what the client
    waited."""
    limit = percentile(probe.waited_ms, 1 - SLOWEST)
    slow = [
        (probe.waited_ms[corr_id], trace[corr_id])
        for corr_id in probe.waited_ms
        if probe.waited_ms[corr_id] >= limit and corr_id in trace
    ]
    if not slow:
        raise RuntimeError("the trace has none of the probe's slowest requests")
    waited = fmean(ms for ms, _ in slow)
    rx_wait, queue, total = (fmean(seen[part] for _, seen in slow) for part in range(3))
    return {
        "slowest_ms": waited,
        "rx_wait_ms": rx_wait,
        "queue_ms": queue,
        "in_broker_ms": total - queue,
        "on_the_way_ms": waited - rx_wait - total,
        "rx_wait_and_queue_share": (rx_wait + queue) / waited,
    }
