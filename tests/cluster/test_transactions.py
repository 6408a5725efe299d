"""Transactions and groups of three brokers: markers to every leader, exactly once through the loss of whole brokers,
commits that no loss takes back. One cluster for all.

LONG=1: a broker is killed again and again while the chain copies.
"""

import os
import time

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.harness.running_cluster import RunningCluster
from tests.harness.transaction_chain import PARTITIONS, Chain, copied

LONG = bool(os.environ.get("LONG"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if LONG else 120)]
SETTINGS = (
    "min.insync.replicas=2",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=300",
)
STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
RECORDS, KILLS, PATIENCE_S = (4000, 30, 900) if LONG else (150, 1, 60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with RunningCluster(tmp_path_factory.mktemp("brokers") / "c", *SETTINGS) as running:
        yield running


def make(cluster, *names, partitions=3):
    made = cluster.admin.create_topics([NewTopic(name, partitions, 3) for name in names])
    for name in names:
        made[name].result(20)
        cluster.wait_for_isr(name, 3)


def files_of(cluster, topic, partition, suffix):
    """Of each replica, by broker: names and contents of the files that have something in them."""
    found = {}
    for broker in (1, 2, 3):
        directory = cluster.directory / f"broker-{broker}" / f"{topic}-{partition}"
        files = {path.name: path.read_bytes() for path in sorted(directory.glob(f"*{suffix}"))}
        found[broker] = {name: content for name, content in files.items() if content}
    return found


def all_alike(cluster, topic, suffix):
    """Waits until the replicas are equal, as they are within a fetch of the last append."""
    deadline = time.monotonic() + 10
    for partition in range(len(cluster.partitions(topic))):
        found = files_of(cluster, topic, partition, suffix)
        while found[1] != found[2] or found[1] != found[3]:
            assert time.monotonic() < deadline, f"replicas of {topic}-{partition} differ: {found}"
            time.sleep(0.05)
            found = files_of(cluster, topic, partition, suffix)
        yield found[1]


def test_markers_reach_the_leaders_on_all_brokers(cluster):
    make(cluster, "out")
    for number in range(4):  # ids of several coordinators
        settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"t{number}", "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(20)
        for turn in range(4):
            producer.begin_transaction()
            for partition in range(3):
                producer.produce("out", f"{number}-{turn}", partition=partition)
            producer.flush(10)
            (producer.abort_transaction if turn % 2 else producer.commit_transaction)(10)
    assert {leader for leader, _ in cluster.partitions(STATE).values()} == {1, 2, 3}, "coordinators are spread"
    found = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "r", "isolation.level": "read_committed"})
    found.assign([TopicPartition("out", partition, 0) for partition in range(3)])
    values = []
    deadline = time.monotonic() + 10
    while len(values) < 24 and time.monotonic() < deadline:
        values += [(one.partition(), one.value().decode()) for one in found.consume(24, 0.2)]
    found.close()
    assert sorted(values) == [(p, f"{n}-{t}") for p in range(3) for n in range(4) for t in (0, 2)]
    assert all(len(index) == 1 for index in all_alike(cluster, "out", ".txnindex"))
    assert all(log for log in all_alike(cluster, "out", ".log"))


def fill(cluster, records):
    """A topic to copy from, and one to copy to."""
    make(cluster, "source", "target", partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(records):
        producer.produce("source", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def coordinator(cluster, topic, key):
    """Which broker."""
    value = 0
    for letter in key:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    partitions = cluster.partitions(topic)
    return partitions[abs(signed) % len(partitions)][0]


def test_exactly_once_through_the_loss_of_brokers(cluster):
    fill(cluster, RECORDS)
    chain = Chain(cluster.bootstrap, "source", "target", RECORDS)
    chain.start()
    for number in range(KILLS):
        until = time.monotonic() + 20
        while chain.is_alive() and chain.committed < 4 * (number + 1) and time.monotonic() < until:
            time.sleep(0.02)
        topic, key = ((STATE, "target-tx"), (OFFSETS, chain.group))[number % 2]
        victim = coordinator(cluster, topic, key)
        cluster.kill(victim)
        time.sleep(1 if LONG else 0)
        cluster.start(victim)
    chain.join(PATIENCE_S)
    assert not chain.is_alive(), (chain.wrong, cluster.logs())
    assert chain.committed > KILLS, chain.wrong
    assert sorted(map(int, copied(cluster.bootstrap, "target"))) == list(range(RECORDS)), chain.wrong


def committed(cluster, group, topic):
    """How far the group is, as its coordinator of the moment says."""
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    for _ in range(100):
        try:
            found = cluster.admin.list_consumer_group_offsets([asked])[group].result(10)
            return found.topic_partitions[0].offset
        except Exception as error:
            assert error.args[0].retriable() or error.args[0].name() in ("NOT_COORDINATOR", "_TRANSPORT"), error
            time.sleep(0.05)
    raise AssertionError("nobody coordinates the group")


def test_what_was_committed_survives_the_coordinators_broker(cluster):
    make(cluster, "read", partitions=1)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "survivors", "log_level": 0}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.subscribe(["read"])
    victim, acknowledged, until = None, -1, time.monotonic() + 20
    while acknowledged < 400 and time.monotonic() < until:
        consumer.poll(0)
        try:
            consumer.commit(offsets=[TopicPartition("read", 0, acknowledged + 1)], asynchronous=False)
        except Exception:
            continue
        acknowledged += 1
        if acknowledged == 100:
            victim = coordinator(cluster, OFFSETS, "survivors")
            cluster.kill(victim)
            assert committed(cluster, "survivors", "read") >= 100
    assert acknowledged == 400, "commits go on within seconds"
    assert committed(cluster, "survivors", "read") >= acknowledged
    consumer.close()
    cluster.start(victim)
    assert committed(cluster, "survivors", "read") >= acknowledged
    cluster.wait_for_isr(OFFSETS, 3)
    assert all(all_alike(cluster, OFFSETS, ".log"))
