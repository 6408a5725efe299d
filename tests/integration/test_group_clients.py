"""Consumer groups with several client libraries: members come and go, partitions move, records are all read."""

import asyncio
import threading
import time

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from tests.harness.broker import Broker, wait_until

PARTITIONS, RECORDS = 5, 200
SETTINGS = {"group.initial.rebalance.delay.ms": 300, "offsets.topic.num.partitions": 5}
SESSION_MS, BEAT_MS = 6000, 300


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("groups"), overrides=SETTINGS) as running:
        yield running


@pytest.fixture
def topic(broker, request):
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        future.result(10)
    return name


def produce(broker, topic, first, count=RECORDS):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(first, first + count):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


class Confluent:
    """A member by confluent-kafka, polled in a thread of its own until it is closed."""

    def __init__(self, broker, topic, group, **settings):
        base = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": BEAT_MS,
            "partition.assignment.strategy": "cooperative-sticky",
        }
        self._consumer = Consumer({**base, **{name.replace("_", "."): value for name, value in settings.items()}})
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self.owned: set[int] = set()
        self.values: list[int] = []
        self.rebalances = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _assigned(self, consumer, partitions):
        self.rebalances += 1
        self.owned |= {one.partition for one in partitions}

    def _revoked(self, consumer, partitions):
        self.owned -= {one.partition for one in partitions}

    def _poll(self):
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values.append(int(message.value()))
                self._consumer.commit(message, asynchronous=False)
        self._consumer.close()

    def close(self):
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


class KafkaPython:
    """The same by kafka-python."""

    def __init__(self, broker, topic, group, **settings):
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=BEAT_MS,
            **settings,
        )
        self.owned: set[int] = set()
        self.values: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self):
        while not self._stop.is_set():
            batches = self._consumer.poll(timeout_ms=100)
            self.owned = {one.partition for one in self._consumer.assignment()}
            self.values += [int(record.value) for records in batches.values() for record in records]
            if batches:
                self._consumer.commit()
        self._consumer.close()

    def close(self):
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


def shared(members):
    """Whether every partition has one owner, and every member its part."""
    owned = [partition for member in members for partition in member.owned]
    return sorted(owned) == list(range(PARTITIONS)) and all(member.owned for member in members)


def all_read(members, count):
    return lambda: len({value for member in members for value in member.values}) >= count


@pytest.mark.slow
@pytest.mark.parametrize("make", [Confluent, KafkaPython])
def test_members_come_and_go(broker, topic, make):
    """One to five members and back to one; each record is read, each partition has one owner at a time."""
    members = []
    try:
        for number in range(5):
            members.append(make(broker, topic, topic))
            wait_until(lambda: shared(members), f"{number + 1} members share the partitions", 30)
            produce(broker, topic, number * RECORDS)
            wait_until(all_read(members, (number + 1) * RECORDS), "all is read", 30)
        gone = [members.pop() for _ in range(3)]
        for member in gone:
            member.close()
        wait_until(lambda: shared(members), "those who stay take over", 30)
        produce(broker, topic, 5 * RECORDS)
        wait_until(all_read([*members, *gone], 6 * RECORDS), "all is read", 30)
    finally:
        for member in members:
            member.close()


@pytest.mark.slow
def test_old_clients_and_new_ones_in_one_group(broker, topic):
    """Their versions of JoinGroup differ, their strategy is the one they share."""
    members = []
    try:
        members.append(Confluent(broker, topic, topic, partition_assignment_strategy="range"))
        members.append(KafkaPython(broker, topic, topic))
        wait_until(lambda: shared(members), "two libraries share the partitions", 30)
        produce(broker, topic, 0)
        wait_until(all_read(members, RECORDS), "all is read", 30)
        values = [value for member in members for value in member.values]
        assert sorted(values) == list(range(RECORDS)), "nothing is read twice"
    finally:
        for member in members:
            member.close()


@pytest.mark.slow
def test_a_static_member_comes_back_without_a_rebalance(broker, topic):
    patient = {"session_timeout_ms": 30_000}  # longer than it takes to come back
    stays = Confluent(broker, topic, topic, group_instance_id="one", **patient)
    leaves = Confluent(broker, topic, topic, group_instance_id="two", **patient)
    try:
        wait_until(lambda: shared([stays, leaves]), "two static members share the partitions", 30)
        before, owned = stays.rebalances, set(leaves.owned)
        leaves.close()  # a static member does not say that it leaves
        leaves = Confluent(broker, topic, topic, group_instance_id="two", **patient)
        wait_until(lambda: leaves.owned == owned, "it has its partitions again", 20)
        produce(broker, topic, 0)
        wait_until(all_read([stays, leaves], RECORDS), "all is read", 30)
        assert stays.rebalances == before
    finally:
        stays.close()
        leaves.close()


@pytest.mark.slow
def test_aiokafka_members_share_and_commit(broker, topic):
    async def group():
        members = [
            AIOKafkaConsumer(
                topic,
                bootstrap_servers=broker.bootstrap,
                group_id=topic,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=BEAT_MS,
            )
            for _ in range(2)
        ]
        for member in members:
            await member.start()
        try:
            deadline = time.monotonic() + 30
            while sorted(len(member.assignment()) for member in members) != [2, 3]:
                assert time.monotonic() < deadline
                await asyncio.gather(*(member.getmany(timeout_ms=100) for member in members))
            produce(broker, topic, 0)
            found = []
            while len(found) < RECORDS:
                assert time.monotonic() < deadline
                for member in members:
                    batches = await member.getmany(timeout_ms=200)
                    found += [int(record.value) for records in batches.values() for record in records]
                    if batches:
                        await member.commit()
            return found
        finally:
            for member in members:
                await member.stop()

    assert sorted(asyncio.run(group())) == list(range(RECORDS))
    produce(broker, topic, RECORDS, 10)
    reader = Confluent(broker, topic, topic, partition_assignment_strategy="roundrobin")
    try:
        wait_until(lambda: len(reader.values) == 10, "another library goes on where aiokafka stopped", 30)
        assert sorted(reader.values) == list(range(RECORDS, RECORDS + 10))
    finally:
        reader.close()
