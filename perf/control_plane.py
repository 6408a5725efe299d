"""How long a light client waits beside heavy producers: on the data listener, on the control-plane listener, and idle.

    python -m perf.control_plane [--producers 64] [--seconds 5] [--runs 3] [--json FILE]

64 producers of 16 kB requests run in a process of their own on the data listener; two probes ask ApiVersions in turn,
one on each listener, with a pause between. Printed are medians over the runs of each run's p50 and p99, from sending to
the moment the kernel has the whole answer in the probe's socket: that is how long the broker let the client wait, and
what a client on another machine would see. `…_seen_…` is when the probe had it: on this machine it also waits for a core,
beside the flood, and in that the listener makes no difference.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from perf.load import processes
from tests.harness.broker import Broker
from tests.harness.raw_records import create_by_metadata

TOPIC = "flood"
PROBE = struct.pack(">ihhih", 10, 18, 0, 7, -1)  # ApiVersions 0 without a client id
PAUSE_S = 0.004
RECEIVE_BYTES = 1 << 16
SO_TIMESTAMPNS = 35  # Linux on most machines; Python's socket module does not name it
TIMESPEC = struct.Struct("=qq")
LISTENERS = ("PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0")
OVERRIDES = {"control.plane.listener.name": "CONTROLLER", "num.partitions": 4,
             "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}


class Probe:
    """One connection that asks and waits. Of every answer: `waited_ms` until it was in the socket, `seen_ms` until read."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.waited_ms: list[float] = []
        self.seen_ms: list[float] = []

    def ask(self) -> None:
        """One request and its whole answer."""
        begun_ns = time.time_ns()
        self._socket.sendall(PROBE)
        answer, arrived_ns = self._receive()
        while len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
            piece, arrived_ns = self._receive()
            answer += piece
        self.waited_ms.append((arrived_ns - begun_ns) / 1e6)
        self.seen_ms.append((time.time_ns() - begun_ns) / 1e6)

    def _receive(self) -> tuple[bytes, int]:
        """What has come, and when the kernel had it."""
        piece, ancillary, _, _ = self._socket.recvmsg(RECEIVE_BYTES, socket.CMSG_SPACE(TIMESPEC.size))
        if not piece:
            raise ConnectionError("the broker closed a probe's connection")
        seconds, nanoseconds = TIMESPEC.unpack(ancillary[0][2][:TIMESPEC.size])
        return piece, seconds * 1_000_000_000 + nanoseconds


def percentile(times_ms: list[float], share: float) -> float:
    """In milliseconds."""
    ordered = sorted(times_ms)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def probe(ports: dict[str, int], seconds: float) -> dict[str, float]:
    """Asks on every listener in turn for some time; p50 and p99 of each, in milliseconds."""
    probes = {name: Probe(port) for name, port in ports.items()}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for one in probes.values():
            one.ask()
            time.sleep(PAUSE_S)
    return {f"{name}_{seen}{label}_ms": percentile(times_ms, share)
            for name, one in probes.items() for seen, times_ms in (("", one.waited_ms), ("seen_", one.seen_ms))
            for label, share in (("p50", 0.5), ("p99", 0.99))}


def run_once(producers: int, seconds: float) -> dict[str, float]:
    """A fresh broker: idle probes, then probes beside the flood."""
    with tempfile.TemporaryDirectory(prefix="mpbroker-control-") as directory:
        with Broker(Path(directory), overrides=OVERRIDES, listeners=LISTENERS) as broker:
            ports = {"data": broker.port(0), "control": broker.port(1)}
            create_by_metadata("127.0.0.1", ports["data"], TOPIC)
            idle = {f"idle_{name}": value for name, value in probe(ports, 1.0).items()}
            flood = subprocess.Popen([sys.executable, "-m", "perf.load.flood", str(ports["data"]), TOPIC,
                                      str(producers), str(seconds + 2)], stdout=subprocess.PIPE, text=True,
                                     start_new_session=True)  # a share of the cores of its own, as clients elsewhere have
            time.sleep(1.0)
            beside = probe(ports, seconds)
            requests_per_s = float(flood.communicate(timeout=seconds + 60)[0])
    return {**idle, **beside, "flood_requests_per_s": requests_per_s}


def main() -> int:
    """Measure and print; nothing is judged here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    runs = [run_once(arguments.producers, arguments.seconds) for _ in range(arguments.runs)]
    result = {key: median(run[key] for run in runs) for key in runs[0]}
    for label in ("p50", "p99", "seen_p50", "seen_p99"):
        result[f"{label}_ratio"] = result[f"control_{label}_ms"] / result[f"data_{label}_ms"]
    for key, value in result.items():
        print(f"{key:24} {value:10.3f}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"machine": processes.machine(), "runs": runs, "median": result},
                                                   indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
