"""`num.network.threads` and `num.io.threads` while the broker works: processes come and go, no connection ends for it,
and every record is there once and in order. Workers killed in the middle cost connections, nothing else."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from mpbroker.client.config_admin import BROKER, Resource, change_configs
from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import KafkaError as Refused
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, api_versions
from tests.harness.raw_records import (
    batch,
    create_by_metadata,
    fetch_request,
    fetched,
    produce_request,
    produced,
    records_in,
)
from tests.integration.test_changed_settings import create

pytestmark = pytest.mark.slow
ONE_EACH = {"num.network.threads": 1, "num.io.threads": 1, "group.initial.rebalance.delay.ms": 0}
COUNTS = (2, 4, 2, 1)
TRICKLE_S = 0.0005
LAST_READ_S = 30  # for what was sent before the end


def change(broker: Broker, **counts: int | None) -> None:
    with NetworkClient("127.0.0.1", broker.port()) as client:
        named = {f"num.{key}.threads": None if count is None else str(count) for key, count in counts.items()}
        change_configs(client, Resource(BROKER, "0"), named)


def running(broker: Broker, role: str) -> list[int]:
    return sorted(row["index"] for row in broker.status()["processes"] if row["role"] == role)


def wait_for(broker: Broker, count: int, roles: tuple[str, ...] = ("processor", "handler")) -> None:
    def there() -> bool:
        rows = [row for row in broker.status()["processes"] if row["role"] in roles]
        return len(rows) == count * len(roles) and all(row["state"] == "running" for row in rows)

    wait_until(there, f"{count} of each", 10)


class Pipeliner(threading.Thread):
    """Sends batches on one connection, some requests ahead and cut at any byte; what it got is in `offsets`."""

    def __init__(self, port: int, topic: str, partition: int, large: bool) -> None:
        super().__init__(daemon=True)
        self.connection = RawConnection(port, timeout_s=20)
        self.topic, self.partition, self.large = topic, partition, large
        self.stopping, self.until = False, 0.0
        self.offsets: list[tuple[int, int]] = []
        self.failure: object = None

    def run(self) -> None:
        try:
            self._work(random.Random(self.partition))
        except Exception as error:
            self.failure = error

    def _work(self, dice: random.Random) -> None:
        for first in itertools.count(0, 3):
            if self.stopping:
                return
            size = dice.choice((1, 100, 100_000)) if self.large else 20
            values = [b"%d:" % number + b"x" * size for number in range(first, first + 3)]
            data = b"".join(
                produce_request(first + at, self.topic, self.partition, batch([value]))
                for at, value in enumerate(values)
            )
            while data:
                cut = dice.randrange(1, len(data) + 1)
                self.connection.send(data[:cut])
                data = data[cut:]
                time.sleep(TRICKLE_S)
            for number in range(first, first + 3):
                answer = self.connection.receive()
                assert answer is not None, "the connection was closed"
                assert answer[0] == number, "answers in the order of their requests"
                result = produced(answer[1])
                assert result.error == 0, result
                self.offsets.append((number, result.base_offset))

    def finish(self) -> None:
        self.stopping = True
        self.join(20)
        assert self.failure is None and not self.is_alive(), self.failure
        assert self.offsets == [(number, number) for number in range(len(self.offsets))], "each once, in order"


class Clients:
    """An idempotent producer and a consumer of today, on the partition given."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.errors: list[KafkaError] = []
        common = {"bootstrap.servers": broker.bootstrap, "error_cb": self.errors.append, "socket.timeout.ms": 20_000}
        self.topic, self.sent, self.acknowledged = topic, 0, 0
        self.failed: list[KafkaError] = []
        self.read: list[int] = []
        self.stopping, self.until = False, 0.0
        self.producer = Producer({**common, "enable.idempotence": True, "linger.ms": 2, "compression.type": "lz4"})
        self.consumer = Consumer({**common, "group.id": "g", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100})
        self.consumer.subscribe([topic])
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._read)]
        for thread in self.threads:
            thread.start()

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(error)

    def _send(self) -> None:
        while not self.stopping:
            if self.sent - self.acknowledged < 2000:
                self.sent += 1  # before it is: the reader does not end between the two
                self.producer.produce(self.topic, b"%d" % (self.sent - 1), on_delivery=self._delivered)
            self.producer.poll(0.001)
        self.producer.flush(20)

    def _read(self) -> None:
        while not (self.stopping and (len(self.read) >= self.sent or time.monotonic() > self.until)):
            for message in self.consumer.consume(500, 0.1):
                assert message.error() is None, message.error()
                self.read.append(int(message.value()))
        self.consumer.close()

    def stop(self) -> None:
        self.until = time.monotonic() + LAST_READ_S
        self.stopping = True

    def finish(self) -> None:
        for thread in self.threads:
            thread.join(40)
        assert self.failed == [] and self.acknowledged == self.sent > 0
        assert self.read == list(range(self.sent)), "every record once and in order"


@contextmanager
def load(broker: Broker) -> Iterator[Clients]:
    create(broker, "t")
    clients = Clients(broker, "t")
    try:
        wait_until(lambda: clients.read, "the first record", 20)
        yield clients
    finally:
        clients.stop()
    clients.finish()


def test_counts_change_and_no_client_notices(tmp_path):
    with Broker(tmp_path, overrides=ONE_EACH) as broker:
        topics = ("small-a", "large-a", "small-b", "large-b")
        for topic in topics:
            create_by_metadata("127.0.0.1", broker.port(), topic)
        for count in (2, 4):
            change(broker, network=count, io=count)
            wait_for(broker, count)
        with load(broker) as clients:
            raw = [Pipeliner(broker.port(), topic, 0, topic.startswith("large")) for topic in topics]
            idle = [RawConnection(broker.port()) for _ in range(60)]
            for one in raw:
                one.start()
            halves = []
            for number, connection in enumerate(idle):
                request = api_versions(number)
                halves.append(request[number % len(request) :])
                connection.send(request[: number % len(request)])
            for count in (2, 1, 2, 1):
                change(broker, network=count, io=count)
                wait_for(broker, count)
                assert (running(broker, "processor"), running(broker, "handler")) == (list(range(count)),) * 2
                time.sleep(0.2)
            for number, connection in enumerate(idle):
                answer = connection.ask(halves[number])
                assert answer is not None and answer[0] == number, "half a request went along"
                connection.close()
            for one in raw:
                one.finish()
            assert clients.errors == []
        assert broker.status()["counters"]["connections_passed_back"] >= 3 * len(idle) // 4
        assert "worker_died" not in broker.log()


def test_workers_killed_while_they_come_and_go(tmp_path):
    dice = random.Random(7)
    with Broker(tmp_path, overrides=ONE_EACH) as broker, load(broker):
        for count in COUNTS * (10 if os.environ.get("LONG") else 1):
            change(broker, network=count, io=count)
            for role in ("processor", "handler", "acceptor"):
                alive = [row for row in broker.status()["processes"] if row["role"] == role and row["pid"]]
                with contextlib.suppress(ProcessLookupError):  # it has just left
                    os.kill(dice.choice(alive)["pid"], signal.SIGKILL)
            wait_for(broker, count)
        assert "reset" not in broker.log().split()


def test_a_parked_request_goes_to_another_handler_and_holds_its_processor(tmp_path):
    """A long poll is answered by the handler that is left; its processor waits for it, and goes then."""
    with Broker(tmp_path, overrides=ONE_EACH) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        change(broker, network=2, io=2)
        wait_for(broker, 2)
        polls = [RawConnection(broker.port()) for _ in range(4)]
        for number, poll in enumerate(polls):
            poll.send(fetch_request(number, "t", 0, 0, max_wait_ms=20_000))
        wait_until(lambda: broker.status()["counters"]["requests_parked"] >= 4, "four long polls")
        change(broker, network=1, io=1)
        wait_for(broker, 1, ("handler",))
        wait_until(lambda: broker.row("processor", 1)["state"] == "stopping", "a processor that leaves")
        with RawConnection(broker.port()) as producer:
            answer = producer.ask(produce_request(9, "t", 0, batch([b"x"])))
            assert answer is not None and produced(answer[1]).error == 0
        for number, poll in enumerate(polls):
            answer = poll.receive()
            assert answer is not None and answer[0] == number
            assert [value for _, value in records_in(fetched(answer[1]).records)] == [b"x"]
            assert poll.ask(api_versions(100 + number)), "on the same connection"
            poll.close()
        wait_for(broker, 1)


def test_counts_are_kept_over_a_restart_and_bounded(tmp_path):
    with Broker(tmp_path, overrides=ONE_EACH) as broker:
        change(broker, network=2, io=2)
        wait_for(broker, 2)
        with pytest.raises(Refused, match="not be greater than double the current value 2"):
            change(broker, io=5)
    with Broker(tmp_path, overrides=ONE_EACH) as broker:
        wait_for(broker, 2)
        pid = broker.kill("handler", 1, number=signal.SIGSEGV)  # everything starts again
        broker.wait_restarted("handler", 1, pid)
        change(broker, network=None, io=None)
        wait_for(broker, 1)
