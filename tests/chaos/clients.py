"""Clients of the soak: each is a thread that writes or reads until told to stop, and records what it did in the
history."""

from __future__ import annotations

import random
import threading
import time

from confluent_kafka import KafkaError, Message, Producer

from tests.harness.history import FAILED, FINAL, OK, UNKNOWN, History, Read, Write, payload, value_of
from tests.harness.raw_records import RawFetcher, RawProducer, records_in

RETRY_PAUSE_S = 0.02
NO_EFFECT = frozenset({3, 5, 6, 9})  # answers after which a broker has appended nothing: unknown topic, no leader, ...


class Client(threading.Thread):
    """A client with its own random numbers; an exception in it is kept for the end."""

    def __init__(self, name: str, history: History, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.history = history
        self.random = random.Random(f"{seed}/{name}")
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Work until told to stop."""
        try:
            while not self.stopping.is_set():
                self.step()
            self.finish()
        except BaseException as error:
            self.error = error

    def step(self) -> None:
        """One operation."""
        raise NotImplementedError

    def finish(self) -> None:
        """After the last step."""


class NeverRetries(Client):
    """A raw producer without idempotence: acks=all, one request at a time, each value sent exactly once.

    Half of its requests carry several records; a request is one batch, so its records stand together.
    """

    def __init__(
        self, name: str, history: History, seed: int, host: str, port: int, topic: str, partitions: int, pause_s: float
    ) -> None:
        super().__init__(name, history, seed)
        self._producer = RawProducer(host, port, topic)
        self._partitions, self._pause_s = partitions, pause_s
        self._counter = 0

    def step(self) -> None:
        """Send one request and note what came of each record."""
        partition = self.random.randrange(self._partitions)
        counters = range(self._counter, self._counter + self.random.choice((1, 1, 2, 5)))
        self._counter = counters.stop
        values = [payload((self.name, counter), self.random.choice((0, 100, 1000))) for counter in counters]
        start_ns = time.monotonic_ns()
        answer = self._producer.produce(partition, values)
        end_ns = time.monotonic_ns()
        session = str(self._producer.connections)
        for place, counter in enumerate(counters):
            if answer is None or (answer.error and answer.error not in NO_EFFECT):
                result, offset = UNKNOWN, -1
            else:
                result, offset = (FAILED, -1) if answer.error else (OK, answer.base_offset + place)
            self.history.add(Write(self.name, session, partition, counter, start_ns, end_ns, result, offset))
        time.sleep(RETRY_PAUSE_S if answer is None else self._pause_s)

    def finish(self) -> None:
        """Leave."""
        self._producer.close()


class Idempotent(Client):
    """A librdkafka producer with idempotence: it retries as much as it likes, and nothing may be there twice."""

    def __init__(
        self, name: str, history: History, seed: int, host: str, port: int, topic: str, partitions: int, pause_s: float
    ) -> None:
        super().__init__(name, history, seed)
        self._producer = Producer(
            {
                "bootstrap.servers": f"{host}:{port}",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "client.id": name,
            }
        )
        self._topic, self._partitions, self._pause_s = topic, partitions, pause_s
        self._counter = 0

    def step(self) -> None:
        """Queue one record."""
        counter, self._counter = self._counter, self._counter + 1
        partition = self.random.randrange(self._partitions)
        start_ns = time.monotonic_ns()

        def delivered(error: KafkaError | None, message: Message) -> None:
            result = UNKNOWN if error is not None else OK
            self.history.add(
                Write(
                    self.name,
                    "0",
                    partition,
                    counter,
                    start_ns,
                    time.monotonic_ns(),
                    result,
                    -1 if error is not None else message.offset(),
                )
            )

        self._producer.produce(
            self._topic, payload((self.name, counter), 100), partition=partition, on_delivery=delivered
        )
        self._producer.poll(0)
        time.sleep(self._pause_s)

    def finish(self) -> None:
        """Wait until every record is delivered or given up."""
        left = self._producer.flush(70)
        assert left == 0, f"{left} records of {self.name} have neither been delivered nor given up"


class Reader(Client):
    """Follows every partition from the start, in one session per life of its offsets."""

    def __init__(
        self, name: str, history: History, seed: int, host: str, port: int, topic: str, partitions: int
    ) -> None:
        super().__init__(name, history, seed)
        self._fetcher = RawFetcher(host, port, topic)
        self._offsets = dict.fromkeys(range(partitions), 0)

    def step(self) -> None:
        """One fetch of each partition."""
        for partition in self._offsets:
            if not read_once(self._fetcher, self.history, self.name, partition, self._offsets, max_wait_ms=20):
                time.sleep(RETRY_PAUSE_S)

    def finish(self) -> None:
        """Leave."""
        self._fetcher.close()


def read_once(
    fetcher: RawFetcher, history: History, session: str, partition: int, offsets: dict[int, int], max_wait_ms: int
) -> bool:
    """Fetch from the noted offset and note what came; False when no answer came."""
    start_ns = time.monotonic_ns()
    answer = fetcher.fetch(partition, offsets[partition], max_wait_ms)
    if answer is None or answer.error:
        return False
    records = tuple((offset, value_of(value)) for offset, value in records_in(answer.records, offsets[partition]))
    history.add(Read(session, partition, start_ns, time.monotonic_ns(), answer.high_watermark, records))
    if records:
        offsets[partition] = records[-1][0] + 1
    return True


def drain(host: str, port: int, topic: str, partitions: int, history: History, timeout_s: float = 60) -> None:
    """The final reads: every partition from its start to its high watermark."""
    fetcher, offsets = RawFetcher(host, port, topic), dict.fromkeys(range(partitions), 0)
    deadline = time.monotonic() + timeout_s
    for partition in offsets:
        while True:
            assert time.monotonic() < deadline, f"partition {partition} could not be read to its end in {timeout_s} s"
            before = offsets[partition]
            if not read_once(fetcher, history, FINAL, partition, offsets, max_wait_ms=0):
                time.sleep(RETRY_PAUSE_S)
            elif history.reads[-1].high_watermark <= offsets[partition]:
                break
            else:
                assert offsets[partition] > before, (
                    f"partition {partition} gives nothing at {before}, below its high watermark"
                )
    fetcher.close()
