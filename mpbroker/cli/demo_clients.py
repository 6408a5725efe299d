"""The client the demo writes and reads with: librdkafka if it is installed, else our own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Protocol

READ_TIMEOUT_S = 60.0


class DemoClient(Protocol):
    """What the demo needs of a client."""

    name: str

    def send(self, partition: int, value: bytes) -> None: ...

    def flush(self) -> None: ...

    def read_all(self, partitions: int, records: int) -> dict[int, list[bytes]]: ...


class LibrdkafkaClient:
    """confluent-kafka, idempotent, acks=all."""

    name = "confluent-kafka (librdkafka)"

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._bootstrap, self._topic = bootstrap, topic
        self._failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "log_level": 0,
            }
        )

    def send(self, partition: int, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))

    def flush(self) -> None:
        left = self._producer.flush(READ_TIMEOUT_S)
        if left or self._failed:
            raise RuntimeError(f"{left} records not acknowledged, {len(self._failed)} failed: {self._failed[:1]}")

    def read_all(self, partitions: int, records: int) -> dict[int, list[bytes]]:
        """Values by partition, until the expected number came or nothing more comes."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "demo", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        found: dict[int, list[bytes]] = {}
        count, silent = 0, 0
        while count < records and silent < 10:
            messages = consumer.consume(1000, 1.0)
            silent = 0 if messages else silent + 1
            for message in messages:
                found.setdefault(message.partition() or 0, []).append(message.value() or b"")
            count += len(messages)
        consumer.close()
        return found


class OwnClient:
    """mpbroker's internal client, where no other is installed: one connection, idempotent, acks=all."""

    name = "mpbroker's internal client (install confluent-kafka for a real one)"
    BATCH_RECORDS = 50

    def __init__(self, bootstrap: str, topic: str) -> None:
        from mpbroker.client.bootstrap import connect
        from mpbroker.client.partition_leaders import PartitionLeaders
        from mpbroker.client.producer import Outgoing, Producer
        from mpbroker.client.topic_admin import ensure_partitions

        self._client, self._topic = connect(bootstrap, "demo"), topic
        ensure_partitions(self._client, topic, create=True)
        self._leaders = PartitionLeaders(self._client)
        self._producer = Producer(self._leaders, topic)
        self._waiting: dict[int, list[Outgoing]] = {}
        self._record = Outgoing

    def send(self, partition: int, value: bytes) -> None:
        waiting = self._waiting.setdefault(partition, [])
        waiting.append(self._record(None, value))
        if len(waiting) == self.BATCH_RECORDS:
            self._producer.send(partition, self._waiting.pop(partition))

    def flush(self) -> None:
        for partition in list(self._waiting):
            self._producer.send(partition, self._waiting.pop(partition))

    def read_all(self, partitions: int, records: int) -> dict[int, list[bytes]]:
        """Values by partition, until the expected number came or nothing more comes."""
        from mpbroker.client.consumer import Consumer

        found: dict[int, list[bytes]] = {}
        count, silent = 0, 0
        consumer = Consumer(self._leaders, self._topic, dict.fromkeys(range(partitions), 0))
        while count < records and silent < 10:
            before = count
            for partition, record in consumer.poll(500):
                found.setdefault(partition, []).append(record.value or b"")
                count += 1
            silent = silent + 1 if count == before else 0
        self._client.close()
        return found


def open_client(bootstrap: str, topic: str) -> DemoClient:
    """The best client there is."""
    return LibrdkafkaClient(bootstrap, topic) if find_spec("confluent_kafka") else OwnClient(bootstrap, topic)
