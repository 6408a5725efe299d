"""The consumers of kafka-python and aiokafka in groups (confluent-kafka's: test_consumer_groups.py), and kcat -G."""

import asyncio
import shutil
import subprocess

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from mpbroker.client.bootstrap import connect
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.client.producer import Outgoing, Producer
from mpbroker.client.topic_admin import create_topic
from mpbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.harness.broker import Broker, wait_until
from tests.harness.group_client import GroupClient

SETTINGS = {"group.initial.rebalance.delay.ms": 100, "offsets.topic.num.partitions": 5}
KCAT = shutil.which("kcat") or shutil.which("kafkacat")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("broker"), overrides=SETTINGS) as running:
        yield running


def fill(broker, topic, first, count):
    """Records 'first' … in partition 0 of two."""
    with connect(broker.bootstrap, "fill") as client:
        if first == 0:
            create_topic(client, topic, 2, {})
        producer = Producer(PartitionLeaders(client), topic)
        producer.send(0, [Outgoing(None, b"%d" % number) for number in range(first, first + count)])


def kafka_python(broker, topic):
    return KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=f"{topic}-readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20000,
    )


def test_kafka_python_goes_on_where_its_group_stopped(broker):
    fill(broker, "kp", 0, 30)
    reader = kafka_python(broker, "kp")
    assert [int(next(reader).value) for _ in range(30)] == list(range(30))
    reader.commit()
    reader.close()
    fill(broker, "kp", 30, 10)
    reader = kafka_python(broker, "kp")
    assert [int(next(reader).value) for _ in range(10)] == list(range(30, 40))
    assert reader.committed(KafkaPythonPartition("kp", 0)) == 30
    reader.close()


def test_an_admin_client_sees_the_group(broker):
    fill(broker, "seen", 0, 5)
    reader = kafka_python(broker, "seen")
    assert int(next(reader).value) == 0
    reader.commit()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    listed = admin.list_consumer_groups().result(10)
    assert "seen-readers" in [one.group_id for one in listed.valid] and not listed.errors
    group = admin.describe_consumer_groups(["seen-readers"])["seen-readers"].result(10)
    [member] = group.members
    assert (group.state.name, member.host) == ("STABLE", "/127.0.0.1")
    assert {(one.topic, one.partition) for one in member.assignment.topic_partitions} == {("seen", 0), ("seen", 1)}
    reader.close()
    admin.delete_consumer_groups(["seen-readers"])["seen-readers"].result(10)
    assert "seen-readers" not in [one.group_id for one in admin.list_consumer_groups().result(10).valid]


async def _read(broker, topic, count):
    reader = AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=f"{topic}-readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await reader.start()
    try:
        found = [int((await asyncio.wait_for(reader.getone(), 20)).value) for _ in range(count)]
        await reader.commit()
        return found, await reader.committed(TopicPartition(topic, 0))
    finally:
        await reader.stop()


def test_aiokafka_goes_on_where_its_group_stopped(broker):
    fill(broker, "aio", 0, 30)
    assert asyncio.run(_read(broker, "aio", 30)) == (list(range(30)), 30)
    fill(broker, "aio", 30, 10)
    assert asyncio.run(_read(broker, "aio", 10)) == (list(range(30, 40)), 40)


@pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
def test_kcat_reads_in_a_group(broker):
    fill(broker, "kc", 0, 5)
    command = [KCAT, "-u", "-b", broker.bootstrap, "-G", "kc-readers", "-X", "auto.offset.reset=earliest", "kc"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
        found = [reader.stdout.readline() for _ in range(5)]
        reader.terminate()
    assert found == [b"%d\n" % number for number in range(5)]


def test_a_member_that_falls_silent_is_forgotten(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS | {"group.min.session.timeout.ms": 500}) as broker:
        client = GroupClient(broker.port())
        client.find("g")
        message = JoinGroupRequest(
            group_id="g", session_timeout_ms=4000, rebalance_timeout_ms=4000, protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("p", b"")],
        )  # fmt: skip
        joined = client.ask(message, 0)  # no id is required yet
        assert (joined.error_code, joined.generation_id) == (0, 1)
        given = [SyncGroupRequestAssignment(joined.member_id, b"all")]
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id, assignments=given)
        assert client.ask(sync, 0).assignment == b"all"
        asked = DescribeGroupsRequest(groups=["g"])
        assert client.ask(asked, 0).groups[0].group_state == "Stable"
        wait_until(lambda: client.ask(asked, 0).groups[0].group_state == "Empty", "the end of its session", 30)
        assert wait_until(lambda: broker.status()["counters"]["group_members_expired"], "the counter") == 1
        client.close()
