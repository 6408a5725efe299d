"""librdkafka through confluent-kafka: every way to write, every way to read back."""

import itertools

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.harness.sample_records import samples

_numbers = itertools.count()


def new_topic(broker, partitions=1, **config) -> str:
    name = f"ck-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(20)
    return name


def produce(broker, topic, records, partition=0, **settings):
    """Writes the records and returns (offset, error) of each, in order of delivery."""
    delivered = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **settings})
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            timestamp=record.timestamp_ms,
            headers=record.headers,
            on_delivery=lambda e, m: delivered.append((m.offset(), e)),
        )
        producer.poll(0)
    assert producer.flush(30) == 0
    return delivered


def read(broker, topic, count, start=0, partition=0):
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 20_000_000,
        }
    )
    consumer.assign([TopicPartition(topic, partition, start)])
    found = []
    silent_polls = 0
    while len(found) < count and silent_polls < 40:
        message = consumer.poll(0.5)
        silent_polls += message is None
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
    consumer.close()
    return found


def same(message, record) -> bool:
    headers = [(name, value) for name, value in message.headers() or []]
    return (message.key(), message.value(), headers, message.timestamp()[1]) == (
        record.key,
        record.value,
        record.headers,
        record.timestamp_ms,
    )


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_byte_for_byte(broker, acks, codec):
    topic, written = new_topic(broker), samples()
    results = produce(broker, topic, written, acks=acks, **{"compression.type": codec})
    assert all(error is None for _, error in results)
    found = read(broker, topic, len(written))
    assert [m.offset() for m in found] == list(range(len(written)))
    assert all(same(message, record) for message, record in zip(found, written, strict=True))


def test_idempotent_producer_gets_offsets_in_order(broker):
    topic, written = new_topic(broker), samples() * 20
    results = produce(broker, topic, written, **{"enable.idempotence": True})
    assert results == [(n, None) for n in range(len(written))]
    assert len(read(broker, topic, len(written))) == len(written)


def test_auto_created_topic_has_the_brokers_partitions(broker):
    name = f"auto-{next(_numbers)}"
    assert produce(broker, name, samples()[:3])[-1] == (2, None)
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics
    assert len(topics[name].partitions) == 1


def test_value_of_ten_megabytes_needs_the_limit_raised(broker):
    big = samples(largest_bytes=10_000_000)[12]
    client = {"message.max.bytes": 20_000_000, "acks": "all"}
    refused = produce(broker, new_topic(broker), [big], **client)
    assert refused[0][1].name() == "MSG_SIZE_TOO_LARGE"
    topic = new_topic(broker, **{"max.message.bytes": "12000000"})
    assert produce(broker, topic, [big], **client) == [(0, None)]
    assert same(read(broker, topic, 1)[0], big)


def test_reading_from_a_timestamp_and_from_the_end(broker):
    topic, written = new_topic(broker), samples()
    produce(broker, topic, written)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    at = TopicPartition(topic, 0, written[7].timestamp_ms)
    assert consumer.offsets_for_times([at], timeout=10)[0].offset == 7
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, len(written))
    consumer.close()


def test_topic_settings_show_with_their_source(broker):
    topic = new_topic(broker, **{"retention.ms": "12345"})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    configs = admin.describe_configs([resource])[resource].result(10)
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == ("12345", 1)
    assert configs["segment.bytes"].value == "1073741824"
    assert configs["segment.bytes"].is_default


def test_deleted_topic_is_gone_and_comes_back_empty(broker):
    topic = new_topic(broker)
    produce(broker, topic, samples())
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(20)
    assert topic not in admin.list_topics(timeout=10).topics
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    assert produce(broker, topic, samples()[:1]) == [(0, None)]
