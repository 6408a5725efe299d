"""kafka-python: producer (idempotent by default), consumer by assignment, administration."""

import itertools

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from tests.harness.sample_records import keyed_or_valued, samples

_numbers = itertools.count()


def new_topic(broker, partitions=1) -> str:
    name = f"kp-{next(_numbers)}"
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(name=name, num_partitions=partitions, replication_factor=1)])
    admin.close()
    return name


def read(broker, topic, count, start=0):
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), start)
    found = []
    for _ in range(60):
        for batch in consumer.poll(timeout_ms=500).values():
            found += batch
        if len(found) >= count:
            break
    consumer.close()
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(
    "settings", [{"acks": "all"}, {"acks": 1, "enable_idempotence": False}, {"acks": 0, "enable_idempotence": False}]
)
def test_records_come_back_byte_for_byte(broker, codec, settings):
    topic, written = new_topic(broker), keyed_or_valued(samples())
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec, linger_ms=5, **settings)
    sent = [
        producer.send(topic, record.value, record.key, record.headers, 0, record.timestamp_ms) for record in written
    ]
    producer.flush(30)
    assert all(future.succeeded() for future in sent)
    producer.close()
    found = read(broker, topic, len(written))
    assert [(r.key, r.value, list(r.headers), r.timestamp) for r in found] == [tuple(record) for record in written]


def test_earliest_latest_and_timestamps(broker):
    topic, written = new_topic(broker), keyed_or_valued(samples())
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for record in written:
        producer.send(topic, record.value, record.key, partition=0, timestamp_ms=record.timestamp_ms)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    partition = TopicPartition(topic, 0)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: len(written)}
    found = consumer.offsets_for_times({partition: written[5].timestamp_ms})[partition]
    assert (found.offset, found.timestamp) == (5, written[5].timestamp_ms)
    consumer.close()
