"""Kafka's own server.properties start a broker: the keys and values of its files, written here anew."""

import json
from pathlib import Path

import pytest

from mpbroker.config.kafka_only import IGNORED, REFUSED, why_ignored
from mpbroker.config.table import locate
from mpbroker.errors import ConfigError

NAMES = json.loads((Path(__file__).parent / "data" / "kafka_broker_names.json").read_text())

COMMON = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
MAP = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
SHARE = {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}
ZOOKEEPER = {
    **COMMON,
    "broker.id": "0",
    "log.dirs": "/tmp/kafka-logs",
    "zookeeper.connect": "localhost:2181",
    "zookeeper.connection.timeout.ms": "18000",
    "group.initial.rebalance.delay.ms": "0",
}
KRAFT = {
    **COMMON,
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": MAP,
    "log.dirs": "/tmp/kraft-combined-logs",
}
BROKER = {
    **COMMON,
    "process.roles": "broker",
    "node.id": "2",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": MAP,
    "log.dirs": "/tmp/kraft-broker-logs",
}
CONTROLLER = {
    **COMMON,
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "CONTROLLER://:9093",
    "advertised.listeners": "CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/tmp/kraft-controller-logs",
}
FOUR = {"controller.quorum.bootstrap.servers": "localhost:9093", **SHARE}


def four(keys):
    return {key: value for key, value in keys.items() if key != "controller.quorum.voters"} | FOUR


FILES = {
    "3.9 server.properties": ZOOKEEPER,
    "3.9 kraft/server.properties": KRAFT,
    "3.9 kraft/broker.properties": BROKER,
    "3.9 kraft/controller.properties": CONTROLLER,
    "4 server.properties": four(KRAFT),
    "4 broker.properties": four(BROKER),
    "4 controller.properties": CONTROLLER | SHARE,
}


@pytest.fixture
def start(configure, tmp_path):
    """start(keys, …) → the BrokerConfig of a file with them."""

    def build(keys, **more):
        path = tmp_path / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return configure(path=str(path), **more)

    return build


@pytest.mark.parametrize("name", FILES)
def test_each_file_starts_a_broker_with_one_warning_for_each_key_that_means_nothing(start, name):
    config = start(FILES[name])
    (end_point,) = config.end_points.all
    assert (end_point.listener_name, end_point.port) == ("PLAINTEXT", 9092)
    assert config.data_dir == FILES[name]["log.dirs"]
    assert config.node_id == int(FILES[name].get("node.id", 0))
    without_meaning = [key for key in FILES[name] if not locate(key)]
    for key in without_meaning:
        assert [warning for warning in config.warnings if warning.split()[0] == key] == [
            f"{key} is ignored: {why_ignored(key)}"
        ]
    assert len({warning.split()[0] for warning in config.warnings}) == len(config.warnings)


def test_listeners_of_kraft_controllers_are_left_out(start):
    config = start(KRAFT)
    assert [each.connection_string for each in config.end_points.all] == ["PLAINTEXT://:9092"]
    assert [each.connection_string for each in config.end_points.advertised] == ["PLAINTEXT://localhost:9092"]
    assert (
        "controller.listener.names: CONTROLLER://:9093 is left out of the listeners; mpbroker needs no KRaft controller"
        in config.warnings
    )


def test_a_file_with_controllers_only_listens_where_a_broker_without_configuration_does(start):
    config = start(CONTROLLER)
    assert [each.connection_string for each in config.end_points.all] == ["PLAINTEXT://127.0.0.1:9092"]
    assert any("listens on PLAINTEXT://127.0.0.1:9092" in warning for warning in config.warnings)


def test_a_controller_listener_that_is_our_control_plane_stays(start):
    config = start(KRAFT | {"control.plane.listener.name": "CONTROLLER"})
    assert [each.listener_name for each in config.end_points.all] == ["PLAINTEXT", "CONTROLLER"]


def test_the_environment_of_kafkas_image_is_understood(configure):
    environ = {f"KAFKA_{key.upper().replace('.', '_')}": value for key, value in KRAFT.items()}
    config = configure(environ=environ)
    assert [each.listener_name for each in config.end_points.all] == ["PLAINTEXT"]
    assert "KAFKA_PROCESS_ROLES is ignored: every mpbroker is broker and controller" in config.warnings


@pytest.mark.parametrize("release", NAMES)
def test_every_name_that_kafka_has_is_a_setting_or_ignored_or_refused(release):
    unknown = [name for name in NAMES[release] if not locate(name) and not why_ignored(name) and name not in REFUSED]
    assert unknown == []


def test_the_table_names_nothing_that_is_a_setting_or_that_no_kafka_has():
    names = {name for release in NAMES.values() for name in release}
    added = {"super.users", "allow.everyone.if.no.acl.found", "log4j."}  # the authorizer's, and of another file
    for name in set(IGNORED) - added:
        found = [each for each in names if each == name or (name.endswith(".") and each.startswith(name))]
        assert found, name
        assert any(not locate(each) for each in found), name


def test_an_unknown_name_is_still_an_error(start):
    with pytest.raises(ConfigError, match=r"unknown setting zookeper\.connect"):
        start(ZOOKEEPER | {"zookeper.connect": "x"})


def test_an_authorizer_stops_the_start(start):
    with pytest.raises(
        ConfigError, match="access control is not supported yet, every client may do everything; remove"
    ):
        start(ZOOKEEPER | {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("listener.name.sasl_ssl.ssl.keystore.location", IGNORED["ssl."]),
        ("listener.name.a.b.sasl.jaas.config", IGNORED["sasl."]),
        ("listener.name.ssl.max.connections", IGNORED["ssl."]),
        ("listener.name.a.max.connections", ""),
        ("ssl.keystore.location", IGNORED["ssl."]),
        ("sslx", ""),
        ("metric.reporters", IGNORED["metric.reporters"]),
        ("metric.reporters.more", ""),
    ],
)
def test_what_goes_with_tls_and_sasl_is_ignored_for_one_listener_too(name, why):
    assert why_ignored(name) == why
