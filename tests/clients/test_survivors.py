"""Kafka's Java client (3.9, and 4 in the protocol of KIP-848) and franz-go go on through the loss of brokers.

Each program has an idempotent producer and a group's member that reads from the replica in its rack (KIP-392); all run
side by side against three brokers, of which one that leads is killed with its whole tree and started again, then the
one that is read from. What was acknowledged and read is counted where the clients print it. `make clients` builds them.
"""

import subprocess
import threading
from collections import Counter
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.clients.build import DIRECTORY, is_built
from tests.harness.broker import wait_until
from tests.harness.running_cluster import RunningCluster, ends_of

PARTITIONS, PATIENCE_S = 3, 60
SETTINGS = (
    "broker.rack=rack-{node}",
    "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "min.insync.replicas=2",
    "offsets.topic.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.heartbeat.interval.ms=500",
    "group.consumer.min.heartbeat.interval.ms=500",
)
PROTOCOLS = {"java-3.9": ["classic"], "java-4": ["consumer"], "franz-survivor": []}
PROGRAMS = [name for name in PROTOCOLS if is_built(name)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not PROGRAMS, reason="no program is built: make clients"),
]


def command(name: str) -> list[str]:
    """What starts a program."""
    where = DIRECTORY / name
    if not name.startswith("java"):
        return [str(where / name)]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", quiet, "-cp", f"{where}:{where}/jars/*", "Survivor"]


class Survivor(threading.Thread):
    """A program, and what it printed: `acked` and `read` are (partition, offset, number)."""

    def __init__(self, name: str, bootstrap: str, rack: str) -> None:
        super().__init__(daemon=True)
        self.name, self.topic = name, name
        words = [*command(name), bootstrap, self.topic, rack, *PROTOCOLS[name]]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.acked: list[tuple[int, ...]] = []
        self.read: list[tuple[int, ...]] = []
        self.fetched: Counter[int] = Counter()
        self.seen_before: Counter[int] = Counter()
        self.wrong: list[str] = []
        self.is_done = False
        self.start()

    def run(self) -> None:
        for line in self._process.stdout or ():
            word, *rest = line.split()
            if word in ("acked", "read"):
                getattr(self, word).append(tuple(map(int, rest)))
            elif word == "fetched":
                self.fetched[int(rest[0])] = int(rest[1])
            elif word == "done":
                self.is_done = True
            elif word not in ("commit", "SLF4J:"):
                self.wrong.append(line)

    def finish(self) -> None:
        """Its input ends; it reads what it was told is written."""
        self._process.stdin.close()
        self.join(PATIENCE_S)
        self._process.wait(PATIENCE_S)

    def destroy(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with RunningCluster(tmp_path_factory.mktemp("survivors") / "c", *SETTINGS) as running:
        topics = [NewTopic(name, PARTITIONS, 3) for name in PROGRAMS]
        for made in running.admin.create_topics(topics).values():
            made.result(20)
        for name in PROGRAMS:
            running.wait_for_isr(name, 3)
        yield running


def all_go_on(survivors, records: int = 150) -> None:
    """Each of them has so many more acknowledged, and read, in every partition."""
    wanted = {
        (one, kind, partition): sum(row[0] == partition for row in getattr(one, kind)) + records // PARTITIONS
        for one in survivors
        for kind in ("acked", "read")
        for partition in range(PARTITIONS)
    }

    def are_there() -> bool:
        return all(
            sum(row[0] == partition for row in getattr(one, kind)) >= count
            for (one, kind, partition), count in wanted.items()
        )

    wait_until(are_there, f"records of all: {[(one.name, one.wrong) for one in survivors]}", PATIENCE_S)


def is_read_nearby(survivors, near: int) -> bool:
    """Nearly all bytes since the last look came from the replica in the rack."""
    since = [one.fetched - one.seen_before for one in survivors]
    return all(each[near] > 20_000 and each[near] > 4 * (each.total() - each[near]) for each in since)


def wait_read_nearby(survivors, near: int) -> None:
    for one in survivors:
        one.seen_before = Counter(one.fetched)
    wait_until(lambda: is_read_nearby(survivors, near), f"reads from {near}: {survivors[0].fetched}", PATIENCE_S)


def lose(cluster, victim: int, survivors) -> None:
    """Killed with its tree; everybody goes on without it, and with it."""
    cluster.kill(victim)
    all_go_on(survivors)
    cluster.start(victim)
    for one in survivors:
        cluster.wait_for_isr(one.topic, 3)
    all_go_on(survivors)


@pytest.fixture(scope="module")
def survivors(cluster):
    """After all that happens to their brokers."""
    near, other = 1, 2
    found = [Survivor(name, cluster.bootstrap, f"rack-{near}") for name in PROGRAMS]
    try:
        all_go_on(found)
        wait_read_nearby(found, near)
        leaders = {cluster.partitions(name)[number][0] for name in PROGRAMS for number in range(PARTITIONS)}
        assert {near, other} <= leaders, "those who are lost lead"
        lose(cluster, other, found)
        wait_read_nearby(found, near)
        lose(cluster, near, found)
        for one in found:
            one.finish()
        yield {one.name: one for one in found}
    finally:
        for one in found:
            one.destroy()


def final_log(cluster, topic: str) -> dict[tuple[int, int], int]:
    """(partition, offset) → number, as another client reads it."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "look", "log_level": 0})
    ends = ends_of(consumer, topic, PARTITIONS)
    consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
    found: dict[tuple[int, int], int] = {}

    def is_all_there() -> bool:
        for one in consumer.consume(1000, 0.2):
            assert one.error() is None
            found[one.partition(), one.offset()] = int(one.value())
        return len(found) == sum(ends)

    wait_until(is_all_there, "the final log", PATIENCE_S)
    consumer.close()
    return found


@pytest.mark.parametrize("name", PROTOCOLS)
def test_nothing_is_lost_doubled_or_out_of_order(cluster, survivors, name):
    if name not in survivors:
        pytest.skip(f"{name} is not built: make clients")
    one = survivors[name]
    assert one.is_done and not one.wrong, one.wrong[:5]
    log = final_log(cluster, one.topic)
    assert sorted(log.values()) == list(range(len(one.acked))), "each once, and every one was acknowledged"
    assert {(partition, offset): number for partition, offset, number in one.acked} == log
    for partition in range(PARTITIONS):
        numbers = [log[at] for at in sorted(log) if at[0] == partition]
        assert all(before < after for before, after in pairwise(numbers)), "in the order they were sent"
    assert {(partition, offset): number for partition, offset, number in one.read} == log
    group = f"{one.topic}-group"
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(one.topic, number) for number in range(PARTITIONS)])
    committed = cluster.admin.list_consumer_group_offsets([asked])[group].result(20).topic_partitions
    assert sum(each.offset for each in committed) == len(log)
