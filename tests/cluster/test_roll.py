"""Consumers read from a replica in their rack. Listeners come and go (KIP-226), and all brokers tell of them. A broker
that is told to stop hands over what it leads first: producers see no error, and nothing is lost.

LONG=1: all three brokers, by `mpbroker cluster roll`. Gaps are measured by perf/cluster_roll.py.
"""

import json
import os
import signal
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from mpbroker.client.config_admin import BROKER, Resource, change_configs
from mpbroker.client.config_admin import TOPIC as TOPIC_KIND
from mpbroker.client.network_client import NetworkClient
from mpbroker.config.replication_throttle import LEADER_RATE
from mpbroker.config.topic_table import LEADER_THROTTLE
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from mpbroker.supervisor.status import read_status
from tests.harness.acknowledged_load import Load
from tests.harness.broker import wait_until
from tests.harness.running_cluster import RunningCluster, ends_of

pytestmark = pytest.mark.slow
TOPIC, PARTITIONS = "rolled", 6
NEAR, RECORDS = "near", 200
MOVED = "moved"
SELECTOR = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"


def read_all(cluster):
    """Partition → offset → value."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "log_level": 0})
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


def stop_controller(cluster):
    """The controller, which leads partitions, is told to stop. By the time it is gone others lead, as its log shows;
    clients hear of it within moments."""
    status = cluster.status()
    node = status["controller"]
    pid = next(broker["pid"] for broker in status["brokers"] if broker["node_id"] == node)
    assert node in {leader for leader, _ in cluster.partitions(TOPIC).values()}
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the broker", 40)
    log = (cluster.directory / f"broker-{node}.log").read_text()
    assert "controlled_shutdown_failed" not in log
    handed, stopped = log.index("handed_over"), log.index("stopped exit_code=0")
    assert log.index("stop_replica") < handed < stopped, "its roles ended before it stopped"
    wait_until(lambda: cluster.status()["controller"] not in (node, -1), "another controller", 30)
    wait_until(lambda: _others_lead(cluster, node), "all to hear that others lead")


def _others_lead(cluster, node):
    found = cluster.partitions(TOPIC)
    return len(found) == PARTITIONS and all(
        leader not in (node, -1) and len(isr) == 2 for leader, isr in found.values()
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with RunningCluster(tmp_path_factory.mktemp("roll") / "c", "broker.rack=rack-{node}", SELECTOR) as cluster:
        for topic, partitions in ((NEAR, 1), (TOPIC, PARTITIONS)):
            cluster.admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(20)
            cluster.wait_for_isr(topic, 3)
        yield cluster


def test_consumers_read_from_the_replica_in_their_rack(cluster):
    """Whom librdkafka asked stands in its statistics."""
    leader = cluster.partitions(NEAR)[0][0]
    near = next(node for node in (1, 2, 3) if node != leader)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce(NEAR, str(number), partition=0)
    assert producer.flush(10) == 0
    told = []
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "near", "client.rack": f"rack-{near}"}
    settings |= {"statistics.interval.ms": 100, "stats_cb": told.append, "log_level": 0}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(NEAR, 0, 0)])
    values = []
    wait_until(lambda: _take(consumer, values) == RECORDS, "all records")
    assert values == [str(number).encode() for number in range(RECORDS)]
    wait_until(  # they are told ten times a second, the first of them before it has asked anybody
        lambda: _take(consumer, values) and told and _asked(told[-1], near) == (leader, near, True),
        "statistics that tell of the near replica",
    )
    consumer.close()


def _asked(statistics, near):
    """Who leads, whom the consumer asks, and whether it has fetched from the near one."""
    found = json.loads(statistics)
    partition = found["topics"].get(NEAR, {}).get("partitions", {}).get("0", {})
    fetches = {each["nodeid"]: each["req"].get("Fetch", 0) for each in found["brokers"].values()}
    return partition.get("leader"), partition.get("broker"), fetches.get(near, 0) > 0


def _take(consumer, values):
    for message in consumer.consume(1000, 0.2):
        assert message.error() is None
        values.append(message.value())
    return len(values)


def test_any_broker_changes_topics_settings(cluster):
    """As in Kafka, whose tools ask one of them: who is not the controller asks that one."""
    for number, address in enumerate(cluster.bootstrap.split(",")):
        host, port = address.split(":")
        change = IncrementalAlterableConfig(name="retention.ms", value=str(1000 + number))
        wanted = IncrementalAlterConfigsResource(resource_type=2, resource_name=NEAR, configs=[change])
        unknown = IncrementalAlterConfigsResource(resource_type=2, resource_name="nothing", configs=[change])
        client = NetworkClient(host, int(port))
        request = IncrementalAlterConfigsRequest(resources=[wanted, unknown])
        answer = client.call(request, IncrementalAlterConfigsResponse, 1)
        client.close()
        assert [(one.resource_name, one.error_code) for one in answer.responses] == [(NEAR, 0), ("nothing", 3)]
        wait_until(lambda wanted=str(1000 + number): _retention(cluster) == wanted, "the setting")


def _retention(cluster):
    resource = ConfigResource(ConfigResource.Type.TOPIC, NEAR)
    return cluster.admin.describe_configs([resource])[resource].result(10)["retention.ms"].value


def _client(cluster, node):
    host, port = cluster.bootstrap.split(",")[node - 1].split(":")
    return NetworkClient(host, int(port))


def test_a_replica_that_comes_is_throttled_while_a_rate_is_set(cluster):
    """What kafka-reassign-partitions --throttle asks for, and takes away at the end (KIP-73)."""
    cluster.admin.create_topics([NewTopic(MOVED, 1, 1)])[MOVED].result(20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "linger.ms": 0})
    for _ in range(60):
        producer.produce(MOVED, os.urandom(100_000))
    assert producer.flush(20) == 0
    leader = wait_until(lambda: max(cluster.partitions(MOVED).get(0, (0, []))[0], 0), "any broker to know its leader")
    comes = leader % 3 + 1
    with _client(cluster, leader) as client, _client(cluster, cluster.status()["controller"]) as controller:
        for rate in ("fast", "-1"):
            with pytest.raises(KafkaError, match="Invalid value .* for configuration leader.replication"):
                change_configs(client, Resource(BROKER, str(leader)), {LEADER_RATE: rate})
        change_configs(client, Resource(BROKER, str(leader)), {LEADER_RATE: "1"})
        change_configs(controller, Resource(TOPIC_KIND, MOVED), {LEADER_THROTTLE: f"0:{leader}"})
        wanted = ReassignableTopic(MOVED, [ReassignablePartition(partition_index=0, replicas=[leader, comes])])
        answer = controller.call(
            AlterPartitionReassignmentsRequest(topics=[wanted]), AlterPartitionReassignmentsResponse, 0
        )
        assert [one.error_code for one in answer.responses[0].partitions] == [0]
        log = cluster.directory / f"broker-{comes}" / f"{MOVED}-0"
        wait_until(lambda: sum(path.stat().st_size for path in log.glob("*.log")), "the first records")
        time.sleep(0.5)
        assert sum(path.stat().st_size for path in log.glob("*.log")) < 5_000_000, "held back"
        change_configs(client, Resource(BROKER, str(leader)), {LEADER_RATE: None})
        cluster.wait_for_isr(MOVED, 2)


def test_all_brokers_tell_of_a_listener_that_comes_and_goes(cluster):
    ports = [int(address.rpartition(":")[2]) for address in cluster.bootstrap.split(",")]
    with_extra = {node: _listen(cluster, node, ports[node - 1], "EXTRA") for node in (1, 2)}
    wait_until(lambda: _told_on(with_extra[1]) == with_extra, "broker 1 to tell of both")
    led = Producer({"bootstrap.servers": f"127.0.0.1:{with_extra[2]}", "log_level": 0}).list_topics(TOPIC, 10)
    hidden = {one.error.code() for one in led.topics[TOPIC].partitions.values() if one.error is not None}
    assert hidden == {ErrorCode.LISTENER_NOT_FOUND}, "broker 3 leads some, and cannot be reached here"
    _listen(cluster, 2, ports[1])
    wait_until(lambda: _told_on(with_extra[1]) == {1: with_extra[1]}, "broker 1 to tell of itself alone")
    _listen(cluster, 1, ports[0])
    assert _told_on(ports[0]) == dict(enumerate(ports, 1)), "who asks elsewhere notices nothing"


def _listen(cluster, node, port, *more):
    """The broker listens on these, too, or on those of its file again; the port of the first."""
    data_dir = str(cluster.directory / f"broker-{node}")
    present = {one["name"]: one["port"] for one in read_status(data_dir)["listeners"]}
    wanted = {name: f"{name}://127.0.0.1:{present.get(name, 0)}" for name in (*present, *more)}
    protocols = ",".join(f"{name}:PLAINTEXT" for name in wanted)
    changes = {"listeners": ",".join(wanted.values()), "listener.security.protocol.map": protocols}
    with NetworkClient("127.0.0.1", port) as client:
        change_configs(client, Resource(BROKER, str(node)), changes if more else dict.fromkeys(changes))
    if not more:
        return None
    found = wait_until(
        lambda: [one["port"] for one in read_status(data_dir)["listeners"] if one["name"] == more[0]], "the listener"
    )
    return found[0]


def _told_on(port):
    """Broker → port, as a client hears it that asks there."""
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    return {one.id: one.port for one in client.list_topics(timeout=10).brokers.values()}


def test_no_error_and_nothing_lost(cluster):
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
