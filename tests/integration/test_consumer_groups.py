"""Consumer groups as an ordinary client uses them: subscribe, read, commit, go on where the group stopped."""

import time

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.broker import Broker, wait_until

SETTINGS = {
    "group.initial.rebalance.delay.ms": 100,
    "num.partitions": 4,
    "offsets.topic.num.partitions": 5,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 200,
}


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS) as running:
        yield running


def produce(broker, first, count):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(first, first + count):
        producer.produce("t", str(number).encode(), str(number).encode())
    assert producer.flush(30) == 0


def consumer(broker, group="g", **settings):
    base = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
    }
    made = Consumer({**base, **settings})
    made.subscribe(["t"])
    return made


def read(reader, count, timeout_s=30.0):
    """The values of so many records."""
    found, deadline = [], time.monotonic() + timeout_s
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} records"
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            found.append(int(message.value()))
    return found


def committed(broker, group="g"):
    """Sum of the group's committed offsets, which is how many records it has read."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [future] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return sum(max(one.offset, 0) for one in future.result(10).topic_partitions)


def test_a_group_goes_on_where_it_stopped(broker):
    produce(broker, 0, 100)
    reader = consumer(broker)
    first = read(reader, 100)
    reader.commit(asynchronous=False)
    reader.close()
    produce(broker, 100, 50)
    reader = consumer(broker)
    assert sorted(first + read(reader, 50)) == list(range(150))
    reader.close()


def test_it_goes_on_after_the_broker_was_stopped_and_started(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        produce(broker, 0, 100)
        reader = consumer(broker)
        read(reader, 100)
        reader.commit(asynchronous=False)
        reader.close()
        broker.stop()
        broker.start()
        produce(broker, 100, 20)
        assert committed(broker) == 100
        reader = consumer(broker)
        assert sorted(read(reader, 20)) == list(range(100, 120))
        reader.close()


def test_the_number_of_partitions_of_the_topic_counts_not_the_setting(tmp_path):
    """Else no group is found again after the setting was changed."""
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        produce(broker, 0, 100)
        commit_all(broker)
    for partitions in (3, 50):
        with Broker(tmp_path, overrides=SETTINGS | {"offsets.topic.num.partitions": partitions}) as broker:
            assert committed(broker) == 100


def delete_and_make_again(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["t"])["t"].result(10)
    admin.create_topics([NewTopic("t", 4, 1)])["t"].result(10)


def commit_all(broker):
    reader = consumer(broker)
    read(reader, 100)
    reader.commit(asynchronous=False)
    reader.close()


def test_offsets_go_with_their_topic(tmp_path):
    """Also when nobody of the group has asked since the broker was started."""
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        produce(broker, 0, 100)
        commit_all(broker)
        assert committed(broker) == 100
        delete_and_make_again(broker)
        assert committed(broker) == 0  # nothing is committed
        produce(broker, 0, 100)
        commit_all(broker)
        broker.stop()
        broker.start()
        wait_until(lambda: broker.status()["counters"]["committed_offsets"], "the load")
        delete_and_make_again(broker)
        assert committed(broker) == 0


def test_two_members_share_the_partitions(broker):
    produce(broker, 0, 400)
    readers = [consumer(broker), consumer(broker)]

    def shared():
        for reader in readers:
            reader.poll(0.1)
        parts = [{one.partition for one in reader.assignment()} for reader in readers]
        return sorted(map(len, parts)) == [2, 2] and set.union(*parts) == set(range(4))

    wait_until(shared, "two partitions for each", 30)
    readers[0].close()
    wait_until(lambda: (readers[1].poll(0.1), len(readers[1].assignment()))[1] == 4, "all for the one that stays", 30)
    readers[1].close()


def test_a_dead_coordinator_loses_nothing(broker):
    produce(broker, 0, 100)
    reader = consumer(broker)
    found = read(reader, 50)
    reader.commit(asynchronous=False)
    before = committed(broker)
    pid = broker.kill("coordinator", 0)
    broker.wait_restarted("coordinator", 0, pid)
    assert committed(broker) == before
    found += read(reader, 50)
    reader.commit(asynchronous=False)
    assert sorted(found) == list(range(100)) and committed(broker) == 100
    reader.close()


def test_clients_write_nothing_into_the_internal_topic(broker):
    reader = consumer(broker)
    reader.poll(1)
    reader.close()
    failed = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("__consumer_offsets", b"x", b"x", on_delivery=lambda error, _message: failed.append(error.code()))
    producer.flush(10)
    assert failed == [KafkaError.TOPIC_EXCEPTION]
    [topic] = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics("__consumer_offsets").topics.values()
    assert len(topic.partitions) == 5


def test_a_reader_without_a_group_commits(broker):
    produce(broker, 0, 10)
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "alone", "enable.auto.commit": False})
    reader.assign([TopicPartition("t", 0, 0)])
    [done] = reader.commit(offsets=[TopicPartition("t", 0, 3)], asynchronous=False)
    assert done.error is None
    [found] = reader.committed([TopicPartition("t", 0)], 10)
    assert found.offset == 3
    reader.close()


def test_members_of_the_next_generation_protocol_and_of_the_classic_one_share_a_group(broker):
    """librdkafka with `group.protocol=consumer` joins a classic group, which changes its protocol while it is used."""
    produce(broker, 0, 100)
    classic = consumer(broker, **{"heartbeat.interval.ms": 200})
    assert sorted(read(classic, 100)) == list(range(100))
    classic.commit(asynchronous=False)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "group.protocol": "consumer"}
    modern = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    modern.subscribe(["^t$"])

    def shared() -> bool:
        for one in (classic, modern):
            assert one.poll(0.1) is None
        return len(classic.assignment()) == len(modern.assignment()) == 2

    wait_until(shared, "two partitions for each", 60)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [found] = admin.describe_consumer_groups(["g"]).values()
    assert str(found.result(10).type) == "ConsumerGroupType.CONSUMER"
    produce(broker, 100, 40)
    deadline, values = time.monotonic() + 30, []
    while len(values) < 40:
        assert time.monotonic() < deadline
        values += [int(one.value()) for reader in (classic, modern) if (one := reader.poll(0.1)) and not one.error()]
    assert sorted(values) == list(range(100, 140))
    modern.commit(asynchronous=False)
    modern.close()
    wait_until(lambda: (classic.poll(0.1), len(classic.assignment()) == 4)[1], "all partitions for one", 60)
    classic.close()
