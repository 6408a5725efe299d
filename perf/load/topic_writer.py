"""A producer (librdkafka, acks=all) that writes to one partition of several topics every few milliseconds, and notes
when each record was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Producer

QUICK: Final = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
"""A client that asks again soon: what is left of a gap is the brokers'."""
PAUSE_S, PATIENCE_S = 0.005, 120.0


class TopicWriter:
    """`settings`: beside those of the library."""

    def __init__(self, bootstrap: str, topics: Sequence[str], settings: Mapping[str, int]) -> None:
        fixed: dict[str, str | int] = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "log_level": 0,
            "message.timeout.ms": 120_000,
            "queue.buffering.max.messages": 1_000_000,
        }
        self._producer = Producer({**fixed, **settings})
        self._topics = topics
        self.acknowledged_s: defaultdict[str, list[float]] = defaultdict(list)
        self.failed = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def last_s(self, topic: str) -> float:
        """When the last acknowledgement came; 0: none so far."""
        times = self.acknowledged_s[topic]
        return times[-1] if times else 0.0

    def __enter__(self) -> TopicWriter:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)

    def _run(self) -> None:
        while not self._over.is_set():
            for topic in self._topics:
                self._producer.produce(topic, b"x" * 100, partition=0, on_delivery=self._delivered)
            self._producer.poll(0.0)
            time.sleep(PAUSE_S)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed += 1
        else:
            self.acknowledged_s[message.topic()].append(time.monotonic())  # type: ignore[attr-defined]
