"""From exec to the first answered ApiVersions, and the memory of the idle process tree."""

from __future__ import annotations

import socket
import struct
import tempfile
import time
from pathlib import Path

from perf.load.processes import pss_kib
from tests.harness.broker import Broker
from tests.harness.raw_client import RawConnection, api_versions

IDLE_S = 2.0
#: Start as an installed program does: with the bytecode that the first start left (or `make install` made).
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": ""}


def free_port() -> int:
    """A port that nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def start_ms() -> float:
    """Milliseconds from exec to the first answered ApiVersions, with an empty data directory."""
    with tempfile.TemporaryDirectory(prefix="mpbroker-bench-") as directory:
        port = free_port()
        broker = Broker(Path(directory), listeners=[f"PLAINTEXT://127.0.0.1:{port}"], env=_ENVIRONMENT)
        begun = time.monotonic()
        process = broker.spawn()
        try:
            while not _answers(port):
                assert process.poll() is None, broker.log()
                assert time.monotonic() < begun + 30, "no answer in 30 s"
                time.sleep(0.001)
            taken_ms = (time.monotonic() - begun) * 1000
            process.terminate()
            process.wait(10)
        finally:
            broker.destroy()
        return taken_ms


def idle_pss_mib() -> float:
    """MiB of the process tree a moment after the start, with the default configuration and no client."""
    with (
        tempfile.TemporaryDirectory(prefix="mpbroker-bench-") as directory,
        Broker(Path(directory), env=_ENVIRONMENT) as broker,
    ):
        time.sleep(IDLE_S)
        return pss_kib(broker.pid) / 1024


def _answers(port: int) -> bool:
    try:
        with RawConnection(port, timeout_s=10) as connection:
            answer = connection.ask(api_versions(1))
    except OSError:
        return False
    return answer is not None and struct.unpack_from(">h", answer[1])[0] == 0
