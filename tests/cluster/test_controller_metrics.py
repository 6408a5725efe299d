"""What three brokers show of their cluster: metrics under Kafka's names, the state-change log, roles in the traces. One
broker is killed and comes back meanwhile."""

import json
import time
import urllib.request

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from mpbroker.analysis.engine.input.trace_input import open_input
from tests.harness.running_cluster import PATIENCE_S, RunningCluster

pytestmark = pytest.mark.slow
TOPIC, PARTITIONS = "shown", 4
CONTROLLER = "kafka_controller_kafkacontroller_"
CHANNELS = "kafka_controller_controllerchannelmanager_"
REPLICAS = "kafka_server_replicamanager_"


def scrape(cluster, broker):
    """Name → labels → value."""
    plan = json.loads((cluster.directory / "cluster.json").read_text())
    port = next(node["admin_port"] for node in plan["nodes"] if node["node_id"] == broker)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            rows = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in rows, f"{sample.name} stands there twice"
            rows[labels] = sample.value
    return found


def plain(found, name):
    return found[name][()]


def until(look, holds):
    """What `look` sees once it holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    return seen


def have_applied(shown):
    """Whether the brokers have the roles that the controller gave them, which clients may hear of before they do."""
    return (
        all(CONTROLLER + "globaltopiccount" in found for found in shown)
        and all(plain(found, REPLICAS + "partitioncount") == PARTITIONS for found in shown)
        and sum(plain(found, REPLICAS + "leadercount") for found in shown) == PARTITIONS
        and sum(plain(found, REPLICAS + "underreplicatedpartitions") for found in shown) == 0
    )


def has_told_all(found):
    """Whether the controller shows the topic, and that it has told every broker of it."""
    return (
        plain(found, CONTROLLER + "globalpartitioncount") == PARTITIONS
        and all(count >= 2 for count in found.get(CHANNELS + "requestrateandqueuetimems_count", {}).values())
        and plain(found, "kafka_controller_controllereventmanager_eventqueuesize") == 0
    )


def check_everybody_lives(cluster, controller):
    shown = until(lambda: [scrape(cluster, broker) for broker in (1, 2, 3)], have_applied)
    for broker, found in enumerate(shown, 1):
        assert plain(found, CONTROLLER + "activecontrollercount") == (broker == controller)
        assert plain(found, REPLICAS + "underminisrpartitioncount") == 0
        assert plain(found, REPLICAS + "offlinereplicacount") == 0
    found = until(lambda: scrape(cluster, controller), has_told_all)
    assert plain(found, CONTROLLER + "globaltopiccount") == 1 and plain(found, CONTROLLER + "activebrokercount") == 3
    assert plain(found, CONTROLLER + "offlinepartitionscount") == 0
    assert plain(found, CONTROLLER + "preferredreplicaimbalancecount") == 0
    brokers = {(("broker_id", str(broker)),) for broker in (1, 2, 3)}
    assert set(found[CHANNELS + "queuesize"]) == brokers
    assert set(found[CHANNELS + "requestrateandqueuetimems_count"]) == brokers
    assert plain(found, "kafka_controller_controllereventmanager_eventqueuetimems_count") >= 1


def check_one_is_dead(cluster, controller, victim):
    """Its partitions are led by others, which lack a replica; it is not in sync any more."""
    found = until(
        lambda: scrape(cluster, controller),
        lambda found: (
            plain(found, CONTROLLER + "activebrokercount") == 2
            and plain(found, CONTROLLER + "preferredreplicaimbalancecount") > 0
        ),
    )
    assert plain(found, "kafka_controller_controllerstats_leaderelectionrateandtimems_count") >= 1
    assert plain(found, "kafka_controller_controllerstats_uncleanleaderelections_total") == 0
    others = [broker for broker in (1, 2, 3) if broker != victim]
    until(  # they apply what the controller has decided a moment later
        lambda: [scrape(cluster, broker) for broker in others],
        lambda both: all(
            sum(plain(found, REPLICAS + name) for found in both) == PARTITIONS
            for name in ("underreplicatedpartitions", "atminisrpartitioncount")
        ),
    )


def test_what_a_cluster_shows(tmp_path):
    with RunningCluster(tmp_path / "c", "auto.leader.rebalance.enable=false") as cluster:
        cluster.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(20)
        cluster.wait_for_isr(TOPIC, 3)
        controller = cluster.status()["controller"]
        check_everybody_lives(cluster, controller)
        victim = next(leader for leader, _ in cluster.partitions(TOPIC).values() if leader != controller)
        cluster.kill(victim)
        check_one_is_dead(cluster, controller, victim)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        for number in range(100):
            producer.produce(TOPIC, b"x", partition=number % PARTITIONS)
        assert producer.flush(20) == 0
        cluster.start(victim)
        cluster.wait_for_isr(TOPIC, 3)
        leaders = {leader for leader, _ in cluster.partitions(TOPIC).values()}
        until(  # a leader counts when it is answered, which is after all brokers may know
            lambda: [plain(scrape(cluster, broker), REPLICAS + "isrexpands_total") for broker in leaders],
            lambda grown: sum(grown) == PARTITIONS,
        )
        caught_up = until(
            lambda: scrape(cluster, victim),
            lambda found: found["kafka_server_replicafetchermanager_maxlag"][("clientid", "Replica"),] == 0,
        )
        assert plain(caught_up, REPLICAS + "leadercount") == 0
        lines = (cluster.directory / f"broker-{controller}" / "state-change.log").read_text().splitlines()
        stop_ns = time.time_ns()
    changed = [line for line in lines if " partition_state_changed " in line and f"topic={TOPIC}" in line]
    assert len({line.split("partition=")[1].split()[0] for line in changed}) == PARTITIONS
    assert any(" control_request_sent " in line and "request=LeaderAndIsr" in line for line in lines)
    assert any(" control_request_answered " in line and "outcome=NONE" in line for line in lines)
    check_roles(cluster, victim, stop_ns)


def check_roles(cluster, victim, stop_ns):
    """In each leader epoch at most one broker led; who took over from the dead one says so."""
    rows = (
        open_input([cluster.directory / f"broker-{broker}" / "traces" for broker in (1, 2, 3)])
        .role_changes()
        .to_pylist()
    )
    rows = [row for row in rows if row["topic"] == TOPIC]
    led = [(row["partition"], row["leader_epoch"], row["broker"]) for row in rows if row["new_role"] == "leader"]
    assert len({one[:2] for one in led}) == len(set(led)), "two leaders of one epoch"
    first = {partition for partition, epoch, _ in led if epoch == 0}
    assert first == set(range(PARTITIONS))
    taken = {partition for partition, epoch, broker in led if epoch > 0 and broker != victim}
    assert taken >= {partition for partition, epoch, broker in led if epoch == 0 and broker == victim} != set()
    assert all(row["high_watermark"] <= row["log_end"] for row in rows)
    assert all(row["leader"] is None for row in rows if row["new_role"] == "none"), "given up: nobody"
    led_by_nobody = [row for row in rows if row["leader"] is None and row["new_role"] != "none"]
    assert all(row["epoch_ns"] >= stop_ns for row in led_by_nobody), "a slow stop leaves followers whose leader is gone"
