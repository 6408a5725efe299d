"""Compaction in a real broker: a topic with `cleanup.policy=compact` keeps the newest of each key for consumers that
read it from its beginning, while producers go on, while the log keeper is killed, and over a kill of everything."""

import signal
import time

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.broker import Broker, wait_until

pytestmark = pytest.mark.slow
OVERRIDES = {"log.cleaner.backoff.ms": 200, "log.initial.task.delay.ms": 0, "num.io.threads": 2}
TOPIC = {"cleanup.policy": "compact", "segment.bytes": "30000", "min.cleanable.dirty.ratio": "0.05"}
KEYS = 40


def create(broker, topic, **config):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = TOPIC | {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(20)


def produce(broker, topic, rounds, first_round=0, **settings):
    """`rounds` times every key; value: the number of the round. All acknowledged."""
    failed = []
    small = {"linger.ms": 2, "batch.num.messages": 50, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **small, **settings})
    for number in range(first_round, first_round + rounds):
        for key in range(KEYS):
            value = b"%d:" % number + b"x" * 50
            producer.produce(topic, value, b"key-%d" % key, 0, on_delivery=lambda e, m: e and failed.append(e))
        producer.poll(0)
    assert producer.flush(60) == 0 and not failed


def read(broker, topic):
    """Every record from the beginning: [(offset, key, value)]."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, deadline = [], time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def newest(records):
    return {key: value.partition(b":")[0] for _, key, value in records if value is not None}


def compacted(broker):
    return broker.status()["counters"]["logs_compacted"]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_consumers_get_the_newest_of_each_key(tmp_path, codec):
    with Broker(tmp_path, overrides=OVERRIDES) as broker:
        create(broker, "t")
        produce(broker, "t", 100, **{"compression.type": codec})
        wait_until(lambda: compacted(broker) >= 1, "a compaction", 20)
        produce(broker, "t", 100, 100, **{"compression.type": codec})
        wait_until(lambda: len(read(broker, "t")) < 200 * KEYS / 2, "compactions of what came later", 60)
        records = read(broker, "t")
        assert newest(records) == {b"key-%d" % key: b"199" for key in range(KEYS)}
        offsets = [offset for offset, _, _ in records]
        assert offsets == sorted(set(offsets)) and offsets[-1] == 200 * KEYS - 1
        broker.stop()
        broker.start()
        again = read(broker, "t")  # some may be gone by a compaction that was still to come
        assert newest(again) == newest(records) and set(again) <= set(records) and again[-1] == records[-1]


def test_kills_of_the_log_keeper_and_of_everything_lose_nothing(tmp_path):
    broker = Broker(tmp_path, overrides=OVERRIDES).start()
    try:
        create(broker, "t")
        for part in range(6):
            produce(broker, "t", 30, 30 * part)
            time.sleep(0.1 * part)
            pid = broker.kill("log-keeper")
            broker.wait_restarted("log-keeper", 0, pid)
        produce(broker, "t", 30, 180)
        wait_until(lambda: compacted(broker) >= 1, "a compaction", 20)
        assert newest(read(broker, "t")) == {b"key-%d" % key: b"209" for key in range(KEYS)}
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait(20)
        broker.start()
        assert newest(read(broker, "t")) == {b"key-%d" % key: b"209" for key in range(KEYS)}
    finally:
        broker.stop(check=False)


def test_a_tombstone_deletes_its_key(tmp_path):
    with Broker(tmp_path, overrides=OVERRIDES) as broker:
        create(broker, "t", delete_retention_ms="100", segment_ms="300")
        produce(broker, "t", 2)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", None, b"key-7", 0)
        assert producer.flush(20) == 0

        def gone():
            produce(broker, "t", 1, 5)
            producer.produce("t", None, b"key-7", 0)
            producer.flush(20)
            time.sleep(0.3)
            values = [value for _, key, value in read(broker, "t") if key == b"key-7"]
            return len(values) < 4

        wait_until(gone, "older values and tombstones of the key to go", 40)


def test_a_record_without_a_key_is_refused(tmp_path):
    with Broker(tmp_path, overrides=OVERRIDES) as broker:
        create(broker, "t")
        refused = []
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": False, "acks": "1"})
        producer.produce("t", b"no key", on_delivery=lambda error, _: refused.append(error))
        producer.flush(20)
        assert refused[0].code() == KafkaError.INVALID_RECORD
        assert read(broker, "t") == []
