"""librdkafka's in-memory mock cluster as a process of its own: `python -m tests.harness.mock_cluster` prints HOST:PORT.

It lives until its standard input ends, so it cannot outlast whoever started it.
"""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType


class MockCluster:
    """A child process with one mock broker. `pid` is where its CPU time is found."""

    def __enter__(self) -> MockCluster:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.mock_cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        host, _, port = self.process.stdout.readline().strip().rpartition(":")
        self.host, self.port, self.pid = host, int(port), self.process.pid
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


def main() -> None:
    """Run the mock until standard input ends."""
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
