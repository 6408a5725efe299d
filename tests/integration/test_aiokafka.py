"""aiokafka: it opens with ApiVersions 0 and asks Metadata in a version without the creation flag."""

import asyncio
import itertools

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.harness.sample_records import keyed_or_valued, samples

_numbers = itertools.count()


async def _write(broker, topic, written, **settings):
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **settings)
    await producer.start()
    try:
        return [
            await producer.send_and_wait(topic, record.value, record.key, 0, record.timestamp_ms, record.headers)
            for record in written
        ]
    finally:
        await producer.stop()


async def _read(broker, topic, count):
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        return [await asyncio.wait_for(consumer.getone(), 20) for _ in range(count)]
    finally:
        await consumer.stop()


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("settings", [{"acks": 1}, {"enable_idempotence": True}])
def test_auto_created_topic_takes_and_returns_records(broker, codec, settings):
    topic, written = f"aio-{next(_numbers)}", keyed_or_valued(samples())

    async def scenario():
        results = await _write(broker, topic, written, compression_type=codec, **settings)
        assert [result.offset for result in results] == list(range(len(written)))
        found = await _read(broker, topic, len(written))
        assert [(r.key, r.value, list(r.headers), r.timestamp) for r in found] == [tuple(r) for r in written]

    asyncio.run(scenario())
