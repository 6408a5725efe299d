"""A broker that is told to stop hands over what it leads first: producers see no error, and nothing is lost.

LONG=1: all three brokers, by `mpbroker cluster roll`. Gaps are measured by perf/cluster_roll.py.
"""

import os
import signal
import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.harness.acknowledged_load import Load
from tests.harness.broker import wait_until
from tests.harness.running_cluster import RunningCluster

pytestmark = pytest.mark.slow
TOPIC, PARTITIONS = "rolled", 6


def read_all(cluster):
    """Partition → offset → value."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "log_level": 0})
    ends = {n: consumer.get_watermark_offsets(TopicPartition(TOPIC, n), timeout=10)[1] for n in range(PARTITIONS)}
    consumer.assign([TopicPartition(TOPIC, n, 0) for n in range(PARTITIONS)])
    found = {n: {} for n in range(PARTITIONS)}
    deadline = time.monotonic() + 20
    while any(max(found[n], default=-1) + 1 < end for n, end in ends.items()):
        assert time.monotonic() < deadline, {n: len(rows) for n, rows in found.items()}
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            found[message.partition()][message.offset()] = message.value()
    consumer.close()
    return found


def stop_controller(cluster):
    """The controller, which leads partitions, is told to stop. By the time it is gone others lead."""
    status = cluster.status()
    node = status["controller"]
    pid = next(broker["pid"] for broker in status["brokers"] if broker["node_id"] == node)
    assert node in {leader for leader, _ in cluster.partitions(TOPIC).values()}
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the broker")
    log = (cluster.directory / f"broker-{node}.log").read_text()
    assert "controlled_shutdown_failed" not in log
    handed, stopped = log.index("handed_over"), log.index("stopped exit_code=0")
    assert log.index("stop_replica") < handed < stopped, "its roles ended before it stopped"
    wait_until(lambda: cluster.status()["controller"] not in (node, -1), "another controller", 10)
    assert all(leader not in (node, -1) and len(isr) == 2 for leader, isr in cluster.partitions(TOPIC).values())


def test_no_error_and_nothing_lost(tmp_path):
    with RunningCluster(tmp_path / "c") as cluster:
        cluster.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(20)
        cluster.wait_for_isr(TOPIC, 3)
        with Load(cluster.bootstrap, TOPIC, PARTITIONS) as load:
            time.sleep(0.3)
            if os.environ.get("LONG"):
                cluster.run("roll")
                cluster.wait_for_isr(TOPIC, 3)
            else:
                stop_controller(cluster)
            time.sleep(0.3)
        assert load.failed == []
        found = read_all(cluster)
        for partition, values in load.acknowledged.items():
            assert len(values) > 10
            assert {offset: found[partition].get(offset) for offset in values.values()} == {
                offset: value for value, offset in values.items()
            }
