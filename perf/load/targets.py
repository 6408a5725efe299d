"""The brokers a load is put on: ours, librdkafka's mock, and others that run already."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.harness.broker import Broker
from tests.harness.mock_cluster import MockCluster


class Target(NamedTuple):
    """A running broker and the root of its process tree."""

    name: str
    host: str
    port: int
    pid: int


@contextmanager
def ours(overrides: dict[str, object] | None = None, directory: Path | None = None) -> Iterator[Target]:
    """A broker of this checkout, with files in a directory of its own, deleted afterwards."""
    place = Path(directory or tempfile.mkdtemp(prefix="mpbroker-bench-"))
    try:
        with Broker(place, overrides={"num.partitions": 4, **(overrides or {})}) as broker:
            yield Target("mpbroker", "127.0.0.1", broker.port(), broker.pid)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def mock() -> Iterator[Target]:
    """librdkafka's mock cluster in a child process; it keeps records in memory, and little of them."""
    with MockCluster() as cluster:
        yield Target("librdkafka-mock", cluster.host, cluster.port, cluster.pid)


def running(name: str, address: str, pid: int) -> Target:
    """A broker somebody else started. `address` is HOST:PORT."""
    host, _, port = address.rpartition(":")
    return Target(name, host or "127.0.0.1", int(port), pid)
