"""Consume-process-produce chains of every client library (librdkafka, Java 3.9 and 4, franz-go) on three brokers whose
leaders change: copies and offsets in one transaction, exactly once.

The chains run side by side while brokers that lead their partitions, coordinate their transactions or their groups are
killed with their whole tree, and while preferred leaders are elected again. `make clients` builds the programs; without
them librdkafka's chain is alone. LONG=1: thirty losses.
"""

import os
import random
import threading
import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import NewTopic

from tests.chaos.chain_programs import ChainProgram, available, disagreements
from tests.harness.broker import wait_until
from tests.harness.running_cluster import RunningCluster, ends_of
from tests.harness.transaction_chain import PARTITIONS

LONG = bool(os.environ.get("LONG"))
LOSSES, PATIENCE_S = (30, 120) if LONG else (2, 90)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if LONG else 300)]
SOURCE, STATE, OFFSETS = "chain-source", "__transaction_state", "__consumer_offsets"
SETTINGS = (
    "min.insync.replicas=2",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.session.timeout.ms=6000",
    "leader.imbalance.check.interval.seconds=2",
    "leader.imbalance.per.broker.percentage=0",
)


class Feeder(threading.Thread):
    """The source grows until `over`, exactly once: a record that fails is a fault of the run."""

    def __init__(self, bootstrap):
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer(settings)
        self.over, self.failed, self.sent = threading.Event(), [], 0

    def run(self):
        while not self.over.wait(0.05):
            for _ in range(5):
                number = self.sent
                self._producer.produce(SOURCE, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._told)
                self.sent += 1
            self._producer.poll(0)
        if self._producer.flush(60):
            self.failed.append("records without an answer")

    def _told(self, error, message):
        if error is not None:
            self.failed.append(str(error))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with RunningCluster(tmp_path_factory.mktemp("chains") / "c", *SETTINGS) as running:
        topics = [NewTopic(name, PARTITIONS, 3) for name in (SOURCE, *(f"target-{name}" for name in available()))]
        for made in running.admin.create_topics(topics).values():
            made.result(20)
        for topic in topics:
            running.wait_for_isr(topic.topic, 3)
        yield running


def all_go_on(chains):
    """Each has ended so many transactions since now, by commit. What librdkafka alone has not in half of the time waits
    in a handle of it that it has thrown away (tests/harness/transaction_chain.py): it is begun again, once a test."""
    wanted = {one.name: one.count("committed") + 2 for one in chains}
    half = time.monotonic() + PATIENCE_S / 2

    def are_there():
        behind = [one for one in chains if one.count("committed") < wanted[one.name]]
        if time.monotonic() > half and [(one.name, one.times_begun) for one in behind] == [("confluent", 1)]:
            behind[0].begin_again()
        return not behind

    try:
        wait_until(are_there, "commits of all", PATIENCE_S)
    except AssertionError as late:
        behind = [(one.name, one.errors[-3:]) for one in chains if one.count("committed") < wanted[one.name]]
        raise AssertionError(f"{late}: {behind}") from late


def a_victim(cluster, chains, choice, number):
    """A broker that leads: in turn a chain's target, its transaction's state, its group's offsets, the source."""
    topic = (choice.choice(chains).target, STATE, OFFSETS, SOURCE)[number % 4]
    leaders = [leader for leader, _ in cluster.partitions(topic).values() if leader > 0]
    return choice.choice(leaders)


def in_sync(cluster, chains):
    for topic in (SOURCE, STATE, OFFSETS, *(one.target for one in chains)):
        cluster.wait_for_isr(topic, 3)


def leaders_of(cluster):
    """Who leads what, of all topics."""
    topics = cluster.admin.list_topics(timeout=10).topics.values()
    return {
        (topic.topic, one.id): (one.leader, one.replicas[0]) for topic in topics for one in topic.partitions.values()
    }


def wait_for_markers(cluster, chains):
    """A commit is answered before its markers are written, and until then who reads what is committed stops before it.
    Where they never come, the records that are missing tell."""
    deadline = time.monotonic() + 20
    while not all(is_decided(cluster, one.target) for one in chains) and time.monotonic() < deadline:
        time.sleep(0.1)


def is_decided(cluster, topic):
    """No transaction is under way in it: committed records are readable up to the end."""
    ends = []
    for isolation in ("read_uncommitted", "read_committed"):
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "ends", "log_level": 0}
        consumer = Consumer(settings | {"isolation.level": isolation})
        try:
            ends.append(ends_of(consumer, topic, PARTITIONS))
        finally:
            consumer.close()
    return ends[0] == ends[1]


def test_exactly_once_through_changes_of_leaders(cluster, tmp_path):
    choice = random.Random(7)
    feeder = Feeder(cluster.bootstrap)
    feeder.start()
    chains = [ChainProgram(name, cluster.bootstrap, SOURCE, 7, tmp_path) for name in available()]
    try:
        all_go_on(chains)
        for number in range(LOSSES):
            victim = a_victim(cluster, chains, choice, number)
            cluster.kill(victim)
            all_go_on(chains)
            cluster.start(victim)
            in_sync(cluster, chains)
            if number % 2 == 0:  # back to the first replicas while transactions are under way
                wait_until(lambda: all(led == first for led, first in leaders_of(cluster).values()), "leaders", 30)
            all_go_on(chains)
        feeder.over.set()
        feeder.join(60)
        for one in chains:
            one.end()
        unfinished = [one.name for one in chains if not one.close(PATIENCE_S)]
        wait_for_markers(cluster, chains)
    finally:
        feeder.over.set()
        for one in chains:
            one.close(0)
    assert not unfinished and not feeder.failed, (unfinished, feeder.failed[:3])
    for one in chains:
        copies, wrong = disagreements(cluster.bootstrap, SOURCE, one, one.outcomes)
        assert not wrong, (wrong, one.errors[-5:])
        assert copies > 50, one.errors[-5:]
