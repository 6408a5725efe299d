"""A leader whose partition directory is gone does not lead with an empty log: its followers would throw theirs away."""

import os
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.harness.running_cluster import RunningCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("LONG"), reason="two restarts of a broker"),
]
TOPIC = "alone"


def end_of(cluster) -> int:
    """The partition's end, -1 where nobody tells."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "x", "log_level": 0})
    try:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=2)[1]
    except KafkaException:
        return -1
    finally:
        consumer.close()


def test_its_partition_is_offline_until_it_is_back(tmp_path):
    soon = ("replica.high.watermark.checkpoint.interval.ms=100", "log.initial.task.delay.ms=0")
    with RunningCluster(tmp_path / "c", *soon) as cluster:
        cluster.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(10)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        for number in range(5):
            producer.produce(TOPIC, b"%d" % number)
        assert producer.flush(20) == 0 and end_of(cluster) == 5
        [directory] = tmp_path.glob(f"c/**/{TOPIC}-0")
        checkpoint = directory.parent / "replication-offset-checkpoint"
        deadline = time.monotonic() + 10
        while not (checkpoint.exists() and f"{TOPIC} 0 5" in checkpoint.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        [(leader, _)] = cluster.partitions(TOPIC).values()
        kept = tmp_path / "kept"
        cluster.kill(leader)
        directory.rename(kept)
        cluster.start(leader)
        log = tmp_path.joinpath(f"c/broker-{leader}.log")
        while f"partition_offline partition={TOPIC}-0" not in log.read_text():
            assert time.monotonic() < deadline + 20, cluster.logs()
            time.sleep(0.05)
        assert not directory.exists() and end_of(cluster) == -1
        cluster.kill(leader)
        kept.rename(directory)
        cluster.start(leader)
        while end_of(cluster) != 5:
            assert time.monotonic() < deadline + 40, cluster.logs()
