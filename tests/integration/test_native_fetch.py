"""Ordinary consumers are served natively: of each client less than one request in a hundred is left to Python."""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from tests.harness.broker import Broker

pytestmark = pytest.mark.slow
TOPIC, PARTITIONS, RECORDS = "natively", 3, 3000
FETCHES = 250
WAIT_MS = 1  # short waits make many requests
ENOUGH_S = 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("native"), overrides={"num.io.threads": 1}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
        producer = Producer({"bootstrap.servers": running.bootstrap, "batch.size": 2000})
        for number in range(RECORDS):
            producer.produce(TOPIC, b"value %d" % number, partition=number % PARTITIONS)
        assert producer.flush(20) == 0
        yield running


def fetches(broker) -> tuple[int, dict[str, int]]:
    """(served natively, left to Python by why)"""
    counters = broker.status()["counters"]
    left = {name: n for name, n in counters.items() if name.startswith("fetch_left_") and n}
    return counters["fetch_native"], left


def with_confluent_kafka(bootstrap, is_enough) -> int:
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "fetch.wait.max.ms": WAIT_MS}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([TOPIC])
    read = 0
    while read < RECORDS or not is_enough():
        read += sum(message.error() is None for message in consumer.consume(500, 0.2))
    consumer.close()
    return read


def with_kafka_python(bootstrap, is_enough) -> int:
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id="k", fetch_max_wait_ms=WAIT_MS
    )
    read = 0
    while read < RECORDS or not is_enough():
        read += sum(map(len, consumer.poll(200).values()))
    consumer.close()
    return read


def with_aiokafka(bootstrap, is_enough) -> int:
    async def consume() -> int:
        consumer = AIOKafkaConsumer(
            TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id="a", fetch_max_wait_ms=WAIT_MS
        )
        await consumer.start()
        read = 0
        while read < RECORDS or not is_enough():
            read += sum(map(len, (await consumer.getmany(timeout_ms=200)).values()))
        await consumer.stop()
        return read

    return asyncio.run(consume())


@pytest.mark.parametrize("consume", [with_confluent_kafka, with_kafka_python, with_aiokafka])
def test_nearly_every_fetch_of_a_client_is_native(broker, consume):
    before, left_before = fetches(broker)
    until = time.monotonic() + ENOUGH_S
    read = consume(broker.bootstrap, lambda: fetches(broker)[0] - before >= FETCHES or time.monotonic() > until)
    native, left = fetches(broker)
    assert read == RECORDS
    assert native - before >= FETCHES
    assert (sum(left.values()) - sum(left_before.values())) * 100 < native - before, left
