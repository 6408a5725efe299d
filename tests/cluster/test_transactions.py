"""Transactions and groups of three brokers: markers to every leader, exactly once through the loss of whole brokers,
commits that no loss takes back. One cluster for all.

LONG=1: a broker is killed again and again while the chain copies.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata
from kafka import KafkaConsumer
from kafka.errors import KafkaError

from tests.harness.broker import wait_until
from tests.harness.running_cluster import RunningCluster
from tests.harness.transaction_chain import PARTITIONS, Chain, copied, copies

LONG = bool(os.environ.get("LONG"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if LONG else 120)]
SETTINGS = (
    "min.insync.replicas=2",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=300",
)
TRIED_AGAIN = ("NOT_COORDINATOR", "_TRANSPORT", "_TIMED_OUT")
STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
RECORDS, KILLS, PATIENCE_S = (4000, 30, 900) if LONG else (90, 1, 60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with RunningCluster(tmp_path_factory.mktemp("brokers") / "c", *SETTINGS) as running:
        yield running


def make(cluster, *names, partitions=3):
    for name in names:
        deadline = time.monotonic() + 20
        while not is_created(cluster, name, partitions):
            assert time.monotonic() < deadline, f"nobody creates {name}"
            time.sleep(0.1)
        known_everywhere(cluster, name, partitions)
        cluster.wait_for_isr(name, 3)


def is_created(cluster, name, partitions):
    """False: the controller was lost a moment ago. librdkafka remembers it until it asks for metadata."""
    try:
        cluster.admin.create_topics([NewTopic(name, partitions, 3)])[name].result(20)
    except KafkaException as error:
        assert error.args[0].name() == "NOT_CONTROLLER", error
        cluster.admin.list_topics(timeout=10)
        return False
    return True


def known_everywhere(cluster, name, partitions):
    """Every broker shows the topic whole, a moment after the controller has made it. kafka-python that asks one which
    does not know it yet asks again after its metadata's age alone."""
    deadline = time.monotonic() + 10
    for address in cluster.bootstrap.split(","):
        while partitions_by(address, name) != partitions:
            assert time.monotonic() < deadline, f"{address} does not know {name}"
            time.sleep(0.05)


def partitions_by(address, name):
    """A new client's first question goes to the broker that it was given."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    return len(admin.list_topics(timeout=10).topics.get(name, TopicMetadata()).partitions)


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


def states_of(cluster):
    """Transactional id → state, as an administrator sees it; nothing while a marker is on its way."""
    words = ["txn", "list", "--json", "--bootstrap-server", cluster.bootstrap.split(",")[0]]
    listed = subprocess.run([sys.executable, "-m", "mpbroker", *words], capture_output=True, check=True).stdout
    states = {one["transactional_id"]: one["state"] for one in json.loads(listed)}
    return {} if "PrepareAbort" in states.values() else states


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
    states = wait_until(lambda: states_of(cluster), "markers, which follow the answer", 20)
    assert {name: state for name, state in states.items() if name in ("t0", "t1", "t2", "t3")} == dict.fromkeys(
        ("t0", "t1", "t2", "t3"), "CompleteAbort"
    ), "those of every broker"
    found = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "r", "isolation.level": "read_committed"})
    found.assign([TopicPartition("out", partition, 0) for partition in range(3)])
    values = []
    deadline = time.monotonic() + 20
    while len(values) < 24 and time.monotonic() < deadline:
        values += [(one.partition(), one.value().decode()) for one in found.consume(24, 0.2)]
    found.close()
    assert sorted(values) == [(p, f"{n}-{t}") for p in range(3) for n in range(4) for t in (0, 2)]
    assert all(len(index) == 1 for index in all_alike(cluster, "out", ".txnindex"))
    assert all(log for log in all_alike(cluster, "out", ".log"))


def fill(cluster, records):
    """A topic to copy from, and one to copy to."""
    make(cluster, "read-from", "write-to", partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(records):
        producer.produce("read-from", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def coordinator(cluster, topic, key):
    """Which broker."""
    value = 0
    for letter in key:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    partitions = cluster.partitions(topic)
    return partitions[abs(signed) % len(partitions)][0]


def finish(cluster, chain):
    """Waits for the end of the chain. librdkafka may stop within a call, with nothing under way and beyond its timeout
    (tests/chaos/test_transaction_kills.py); a connection that closes wakes it."""
    deadline, seen = time.monotonic() + PATIENCE_S, None
    while chain.is_alive() and time.monotonic() < deadline:
        chain.join(8)
        done = (chain.committed, chain.aborted, chain.producers)
        if done == seen and chain.is_alive():
            close_connections(cluster)
        seen = done


def close_connections(cluster):
    """The processors die, and their successors begin with none."""
    for broker in (1, 2, 3):
        words = ["status", "--json", "--data-dir", str(cluster.directory / f"broker-{broker}")]
        shown = subprocess.run([sys.executable, "-m", "mpbroker", *words], capture_output=True, check=True).stdout
        for row in json.loads(shown)["processes"]:
            if row["role"] == "processor":
                os.kill(row["pid"], signal.SIGKILL)


def test_exactly_once_through_the_loss_of_brokers(cluster):
    """librdkafka, which does not know what became of a batch whose leader died, gives its sequences to other records of
    its next transaction; they are refused, and the chain goes on with a new producer (ADR 24)."""
    fill(cluster, RECORDS)
    chain = Chain(cluster.bootstrap, "read-from", "write-to", RECORDS)
    chain.start()
    for number in range(KILLS):
        until = time.monotonic() + 20
        while chain.is_alive() and chain.committed < 4 * (number + 1) and time.monotonic() < until:
            time.sleep(0.02)
        topic, key = ((STATE, "write-to-tx"), (OFFSETS, chain.group))[number % 2]
        victim = coordinator(cluster, topic, key)
        cluster.kill(victim)
        time.sleep(1 if LONG else 0)
        cluster.start(victim)
    finish(cluster, chain)
    assert not chain.is_alive(), (chain.wrong, cluster.logs())
    assert chain.committed > KILLS, chain.wrong
    expected = sorted((number % PARTITIONS, number // PARTITIONS) for number in range(RECORDS))
    found, deadline = copies(copied(cluster.bootstrap, "write-to")), time.monotonic() + 20
    while len(found) < RECORDS and time.monotonic() < deadline:  # a commit is answered before its markers are written
        time.sleep(0.1)
        found = copies(copied(cluster.bootstrap, "write-to"))
    missing, doubled = set(expected) - set(found), {one for one in found if found.count(one) > 1}
    assert found == expected, (missing, doubled, chain.wrong)


def committed(cluster, group, topic):
    """How far the group is, as its coordinator of the moment says."""
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            found = cluster.admin.list_consumer_group_offsets([asked], request_timeout=3)[group].result(10)
            return found.topic_partitions[0].offset
        except TimeoutError:
            continue
        except KafkaException as error:
            assert error.args[0].retriable() or error.args[0].name() in TRIED_AGAIN, error
            time.sleep(0.05)
    raise AssertionError("nobody coordinates the group")


class Reader(threading.Thread):
    """Reads `topic` in a group of its own with one of the client libraries, and commits what it got."""

    def __init__(self, cluster, topic, kind):
        super().__init__(daemon=True)
        self.bootstrap, self.topic, self.kind = cluster.bootstrap, topic, kind
        self.group = f"{kind}-readers"
        self.seen, self.stopping = set(), threading.Event()

    def run(self):
        if self.kind == "aiokafka":
            asyncio.run(self._aiokafka())
        elif self.kind == "kafka-python":
            self._kafka_python()
        else:
            self._confluent({"group.protocol": "consumer"} if self.kind == "next" else {"session.timeout.ms": 6000})

    def _confluent(self, settings):
        common = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "log_level": 0}
        consumer = Consumer(common | settings | {"enable.auto.commit": False, "auto.offset.reset": "earliest"})
        consumer.subscribe([self.topic])
        while not self.stopping.is_set():
            got = [one for one in consumer.consume(10, 0.2) if not one.error()]
            self.seen.update((one.partition(), one.offset()) for one in got)
            with suppress(KafkaException):  # then the next one says it
                if got:
                    consumer.commit(asynchronous=False)
        consumer.close()

    def _kafka_python(self):
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
        )
        while not self.stopping.is_set():
            for rows in consumer.poll(200).values():
                self.seen.update((one.partition, one.offset) for one in rows)
            with suppress(KafkaError):
                consumer.commit()
        consumer.close(autocommit=False)

    async def _aiokafka(self):
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
        )
        await consumer.start()
        while not self.stopping.is_set():
            for rows in (await consumer.getmany(timeout_ms=200)).values():
                self.seen.update((one.partition, one.offset) for one in rows)
            with suppress(AioKafkaError):
                await consumer.commit()
        await consumer.stop()


def all_read(readers, count):
    """Within seconds."""
    deadline = time.monotonic() + 30
    while any(len(one.seen) < count for one in readers):
        assert time.monotonic() < deadline, {one.kind: [*sorted(one.seen)[-1:], len(one.seen)] for one in readers}
        time.sleep(0.05)


def write(cluster, count):
    """All of them acknowledged."""
    producer, errors = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0}), []
    for number in range(count):
        producer.produce(
            "read", b"%d" % number, partition=number % 3, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(20) == 0 and errors == [None] * count, [error for error in errors if error][:3]


@pytest.mark.skipif(not LONG, reason="four client libraries through a loss take half a minute")
def test_groups_go_on_and_keep_what_they_committed(cluster):
    make(cluster, "read")
    readers = [Reader(cluster, "read", kind) for kind in ("classic", "next", "kafka-python", "aiokafka")]
    for reader in readers:
        reader.start()
    write(cluster, 90)
    all_read(readers, 90)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "survivors", "log_level": 0}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    victim, acknowledged, until = -1, 0, time.monotonic() + 30
    while acknowledged < 160 and time.monotonic() < until:
        with suppress(KafkaException):
            consumer.commit(offsets=[TopicPartition("read", 0, acknowledged + 1)], asynchronous=False)
            acknowledged += 1
        if acknowledged == 60 and victim < 0:
            victim = coordinator(cluster, OFFSETS, "survivors")
            cluster.kill(victim)
            assert committed(cluster, "survivors", "read") >= 60
    assert acknowledged == 160, "commits go on within seconds"
    write(cluster, 90)
    all_read(readers, 180)
    cluster.start(victim)
    assert committed(cluster, "survivors", "read") >= acknowledged
    for reader in readers:
        reader.stopping.set()
    for reader in readers:
        reader.join(20)
        assert committed(cluster, reader.group, "read") == 60, reader.kind
    consumer.close()
    cluster.wait_for_isr(OFFSETS, 3)
    assert any(all_alike(cluster, OFFSETS, ".log"))
