"""Three brokers, a replicated topic, a leader killed with its whole tree: nothing acknowledged is lost, and who types
into `mpbroker produce` does not notice."""

import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.harness.broker import wait_until
from tests.harness.running_cluster import RunningCluster, ends_of

pytestmark = pytest.mark.slow
TOPIC, PARTITIONS = "replicated", 3
TYPED = "typed"


class Writer:
    """An acks=all producer, and what was acknowledged to it."""

    def __init__(self, cluster):
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 30_000,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self.acknowledged, self.failed, self._sent = [], [], 0

    def _answered(self, error, message):
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.append((message.partition(), message.offset(), message.value()))

    def write_for(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for partition in range(PARTITIONS):
                value = f"{partition}-{self._sent}".encode()
                self._producer.produce(TOPIC, partition=partition, value=value, on_delivery=self._answered)
            self._sent += 1
            self._producer.poll(0.005)

    def finish(self):
        assert self._producer.flush(30) == 0
        assert self.failed == []


class Typist:
    """`mpbroker produce` at one broker, and what was typed."""

    def __init__(self, broker):
        words = ["produce", TYPED, "-b", broker]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mpbroker", *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._lines = []

    def type(self, count):
        for _ in range(count):
            self._lines.append(b"line %d" % len(self._lines))
            self._process.stdin.write(self._lines[-1] + b"\n")
            self._process.stdin.flush()
            time.sleep(0.01)  # batches, which all partitions get in turn

    def finish(self):
        """Everything typed; nothing was told but that it is written."""
        _, told = self._process.communicate(timeout=60)
        assert (self._process.returncode, told.decode()) == (0, f"{len(self._lines)} records written to {TYPED}\n")
        return sorted(self._lines)


def is_anything_typed(cluster):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "typed", "log_level": 0})
    try:
        return any(ends_of(consumer, TYPED, PARTITIONS))
    finally:
        consumer.close()


def consumed(broker):
    """All records as `mpbroker consume` prints them."""
    words = ["consume", TYPED, "-e", "-b", broker]
    done = subprocess.run([sys.executable, "-m", "mpbroker", *words], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return sorted(done.stdout.splitlines())


def read_all(cluster):
    """Partition → offset → value."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer(settings | {"log_level": 0})
    ends = dict(enumerate(ends_of(consumer, TOPIC, PARTITIONS)))
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


def log_of(cluster, broker, partition):
    """The bytes of a replica."""
    directory = cluster.directory / f"broker-{broker}" / f"{TOPIC}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_a_killed_leader_loses_nothing_and_comes_back(tmp_path):
    with RunningCluster(tmp_path / "c", "min.insync.replicas=2") as cluster:
        for made in cluster.admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (TOPIC, TYPED)]).values():
            made.result(20)
        cluster.wait_for_isr(TOPIC, 3)
        writer = Writer(cluster)
        writer.write_for(0.5)
        before = cluster.partitions(TOPIC)
        assert sorted(leader for leader, _ in before.values()) == [1, 2, 3], "leaders are spread"
        victim = cluster.status()["controller"]
        brokers = cluster.bootstrap.split(",")
        typist = Typist(brokers.pop(victim - 1))
        typist.type(20)
        wait_until(lambda: is_anything_typed(cluster), "records by the broker that the typist knows", 30)
        cluster.kill(victim)
        typist.type(20)
        writer.write_for(1.5)
        writer.finish()
        typed = typist.finish()
        assert consumed(brokers[0]) == typed
        cluster.wait_for_isr(TOPIC, 2)
        after = cluster.partitions(TOPIC)
        assert all(leader not in (victim, -1) and victim not in isr for leader, isr in after.values())
        status = cluster.status()
        assert status["controller"] not in (victim, -1) and status["controller_epoch"] == 2
        cluster.start(victim)
        cluster.wait_for_isr(TOPIC, 3)
        found = read_all(cluster)
        assert {n: len(rows) for n, rows in found.items()} == {
            n: sum(1 for one in writer.acknowledged if one[0] == n) for n in range(PARTITIONS)
        }, "each once"
        for partition, offset, value in writer.acknowledged:
            assert found[partition][offset] == value
        for partition in range(PARTITIONS):
            logs = {log_of(cluster, broker, partition) for broker in (1, 2, 3)}
            assert len(logs) == 1 and logs != {b""}, f"replicas of partition {partition} differ"
