"""kafka-consumer-groups of Kafka 4.3 shows groups of both protocols: members, state, offsets, types.

`make clients` fetches it; without it this is skipped."""

import subprocess

import pytest
from confluent_kafka import Consumer, Producer

from tests.clients.build import DIRECTORY, is_built
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, create_topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
TOOLS = "tools-4"
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 200,
}
GROUPS = {"old": "classic", "new": "consumer"}


def tool(broker, *words):
    """The rows it prints, without their headers."""
    java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{DIRECTORY / TOOLS}/jars/*"]
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    done = subprocess.run(
        [*java, command, "--bootstrap-server", broker.bootstrap, *words], text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    return [row for row in rows if row[0] in GROUPS]


def join(broker, group):
    """A member that has read and committed all ten records."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": f"client-of-{group}"}
    consumer = Consumer(
        settings | {"group.protocol": GROUPS[group], "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["t"])
    read: list[bytes] = []

    def all_read():
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            read.append(message.value())
        return len(read) == 10

    wait_until(all_read, "ten records", 30)
    consumer.commit(asynchronous=False)
    return consumer


def test_groups_of_both_protocols(tmp_path):
    if not is_built(TOOLS):
        pytest.skip(f"{TOOLS} is not built: make clients")
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        with Peer(broker.port()) as peer:
            assert create_topic(peer, "t", 2).error_code == 0
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(10):
            producer.produce("t", b"%d" % number, partition=number % 2)
        assert producer.flush(20) == 0
        members = [join(broker, group) for group in GROUPS]
        both = [word for group in GROUPS for word in ("--group", group)]
        states = {row[0]: row for row in tool(broker, "--describe", *both, "--state")}
        assert {group: (row[-2], row[-1]) for group, row in states.items()} == dict.fromkeys(GROUPS, ("Stable", "1"))
        shown = {row[0]: row for row in tool(broker, "--describe", *both, "--members", "--verbose")}
        assert all(f"client-of-{group}" in row and "t:0,1" in " ".join(row) for group, row in shown.items()), shown
        offsets = tool(broker, "--describe", *both, "--offsets")
        assert sorted(row[:6] for row in offsets) == sorted(
            [group, "t", str(number), "5", "5", "0"] for group in GROUPS for number in range(2)
        )
        for group, protocol in GROUPS.items():
            assert [row[0] for row in tool(broker, "--list", "--type", protocol)] == [group]
        for member in members:
            member.close()
