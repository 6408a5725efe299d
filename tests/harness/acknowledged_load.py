"""Producers with acks=all of several client libraries, each partition's acknowledgements with their times.

For tests of a cluster that loses or restarts brokers: what clients were told is kept to be compared with what is there,
and the longest time that a partition went without an acknowledgement can be asked for.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from itertools import pairwise
from typing import Final

SETTLE_S: Final = 30
PAUSE_S: Final = 0.02
KINDS: Final = ("librdkafka idempotent", "librdkafka", "kafka-python")


class Load:
    """`kinds` write to all partitions of a topic until `finish`; `acknowledged`: partition → value → offset."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, kinds: tuple[str, ...] = KINDS) -> None:
        self.acknowledged: dict[int, dict[bytes, int]] = defaultdict(dict)
        self.failed: list[str] = []
        self.times_s: dict[tuple[str, int], list[float]] = defaultdict(list)
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=(kind,)) for kind in kinds]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.finish()

    def finish(self) -> None:
        """No more records; returns when each is acknowledged or has failed."""
        self._over.set()
        for thread in self._threads:
            thread.join(2 * SETTLE_S)

    def gaps_s(self) -> dict[str, float]:
        """Of each kind of client the longest time without an acknowledgement of a partition."""
        longest: dict[str, float] = {}
        for (kind, _), times in self.times_s.items():
            gap = max((after - before for before, after in pairwise(times)), default=0.0)
            longest[kind] = max(longest.get(kind, 0.0), gap)
        return longest

    def _guarded(self, kind: str) -> None:
        try:
            (self._write_kafka_python if kind == "kafka-python" else self._write_librdkafka)(kind)
        except Exception as error:
            self.failed.append(f"{kind}: {error!r}")

    def _done(self, kind: str, partition: int, value: bytes, offset: int) -> None:
        self.times_s[kind, partition].append(time.monotonic())
        self.acknowledged[partition][value] = offset

    def _write_librdkafka(self, kind: str) -> None:
        from confluent_kafka import Producer

        def answered(error: object, message: object) -> None:
            if error is not None:
                self.failed.append(f"{kind}: {error}")
            else:
                self._done(kind, message.partition(), message.value(), message.offset())  # type: ignore[attr-defined]

        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": kind.endswith("idempotent"),
                "message.timeout.ms": 1000 * SETTLE_S,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        number = 0
        while not self._over.is_set():
            for partition in range(self._partitions):
                value = f"{kind} {number}".encode()
                producer.produce(self._topic, partition=partition, value=value, on_delivery=answered)
            number += 1
            producer.poll(0)
            time.sleep(PAUSE_S)
        if producer.flush(SETTLE_S):
            self.failed.append(f"{kind}: records without an answer")

    def _write_kafka_python(self, kind: str) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", linger_ms=0)
        number, open_futures = 0, []
        while not self._over.is_set():
            for partition in range(self._partitions):
                value = f"{kind} {number}".encode()
                future = producer.send(self._topic, value, partition=partition)
                future.add_callback(lambda told, value=value: self._done(kind, told.partition, value, told.offset))
                open_futures.append(future)
            number += 1
            time.sleep(PAUSE_S)
        for future in open_futures:
            try:
                future.get(SETTLE_S)
            except Exception as error:
                self.failed.append(f"{kind}: {error!r}")
        producer.close()
