"""The BrokerConfig: attributes, sources, what follows from the settings, and comparing two of them."""

import os

import pytest

from mpbroker.config.broker_config import ConfigSource, compare
from mpbroker.config.load_config import parse_connection_overrides
from mpbroker.config.table import SETTINGS
from mpbroker.errors import ConfigError

CONTROL = (
    "listeners=CONTROLLER://h:1,INTERNAL://h:2,EXTERNAL://h:3",
    "control.plane.listener.name=controller",
    "listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
)


def test_every_setting_is_an_attribute(configure):
    config = configure()
    for name, row in SETTINGS.items():
        assert getattr(config, row.attribute) == config.value(name)
        assert config.source(name) is ConfigSource.DEFAULT_CONFIG


def test_no_configuration_listens_on_loopback_and_stores_under_the_working_directory(configure):
    config = configure()
    assert [end_point.connection_string for end_point in config.end_points.all] == ["PLAINTEXT://127.0.0.1:9092"]
    assert config.data_dir == os.path.join(os.getcwd(), "mpbroker-data")
    assert config.trace_dir == os.path.join(config.data_dir, "traces")
    assert (config.node_id, config.num_network_threads, config.num_io_threads) == (0, 1, 2)
    assert config.warnings == ()


def test_values_and_sources(configure):
    config = configure("log.segment.bytes= 1000 ", environ={"KAFKA_AUTO_CREATE_TOPICS_ENABLE": "FALSE"})
    assert config.log_segment_bytes == 1000
    assert config.auto_create_topics_enable is False
    assert config.source("log.segment.bytes") is ConfigSource.STATIC_BROKER_CONFIG
    assert config.given_text("log.segment.bytes") == " 1000 "
    assert config.given_text("num.partitions") is None
    assert config.default("log.segment.bytes") == 1073741824
    with pytest.raises(KeyError):
        config.value("no.such")


def test_it_cannot_be_changed(configure):
    with pytest.raises(AttributeError):
        configure().num_io_threads = 3


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_node_id_and_broker_id_are_one(configure, name):
    config = configure(f"{name}=7")
    assert (config.node_id, config.broker_id) == (7, 7)
    assert config.source("node.id") is config.source("broker.id") is ConfigSource.STATIC_BROKER_CONFIG


def test_two_different_node_ids(configure):
    assert configure("node.id=7", "broker.id=7").node_id == 7
    with pytest.raises(ConfigError, match="broker.id=8 and node.id=7 differ; they are one setting"):
        configure("node.id=7", "broker.id=8")


def test_log_dirs_wins_over_log_dir(configure):
    assert configure("log.dir=/a").data_dir == "/a"
    assert configure("log.dir=/a", "log.dirs=/b/").data_dir == "/b"
    assert configure("log.dirs=/b", "mpbroker.trace.dir=/t").trace_dir == "/t"


def test_the_first_of_several_log_directories_is_the_data_directory(configure):
    config = configure("log.dirs=/a, /b,/c/")
    assert config.data_dirs == ("/a", "/b", "/c") and config.data_dir == "/a" and config.trace_dir == "/a/traces"
    with pytest.raises(ConfigError, match="log.dirs=/a,/b,/a/: names a directory twice"):
        configure("log.dirs=/a,/b,/a/")
    assert len(configure("log.dirs=" + ",".join(f"/{n}" for n in range(32))).data_dirs) == 32
    for name in ("log.dirs", "log.dir"):
        with pytest.raises(ConfigError, match=f"^{name} names no directory$"):
            configure(f"{name}= , ")
    with pytest.raises(ConfigError, match="must be at most 32 directories"):
        configure("log.dirs=" + ",".join(f"/{n}" for n in range(33)))


def test_settings_of_one_listener(configure):
    config = configure(
        *CONTROL,
        "num.network.threads=2",
        "listener.name.external.num.network.threads=5",
        "listener.name.external.max.connections=9",
    )
    assert [config.processors(name) for name in ("INTERNAL", "EXTERNAL", "CONTROLLER")] == [2, 5, 1]
    assert config.for_listener("EXTERNAL", "max.connections") == 9
    assert config.for_listener("INTERNAL", "max.connections") == 2**31 - 1
    assert config.value("listener.name.internal.max.connections") == 2**31 - 1


def test_reserved_handlers_come_with_the_control_plane(configure):
    assert configure("mpbroker.control.reserved.handlers=2").reserved_handlers == 0
    assert configure(*CONTROL, "mpbroker.control.reserved.handlers=2").reserved_handlers == 2


def test_default_processors_stay_within_the_slots_on_a_large_machine(configure):
    config = configure(*CONTROL, "num.io.threads=4", "mpbroker.entries.per.processor=64", cores=60)
    assert config.num_network_threads == 15
    even = configure(
        *CONTROL[:2],
        "listeners=CONTROLLER://h:1,INTERNAL://h:2",
        CONTROL[2],
        "mpbroker.entries.per.processor=64",
        cores=64,
    )
    assert even.num_network_threads == 31, "one slot is the control plane's"
    assert config.default("num.network.threads") == 15


def test_large_machines_start_with_defaults(configure):
    for cores in (16, 64, 256):
        config = configure(cores=cores)
        assert config.num_network_threads <= 32 and config.num_io_threads <= 63


def test_a_setting_without_effect_is_named(configure):
    config = configure("num.replica.fetchers=2", environ={"KAFKA_HEAP_OPTS": "-Xmx1g"})
    assert config.warnings == (
        "KAFKA_HEAP_OPTS is ignored: it is not a setting of this broker",
        "num.replica.fetchers is accepted but has no effect yet",
    )


def test_connection_overrides():
    assert parse_connection_overrides(" 10.0.0.1:5 , box:0,[::1]:7,::2:8 ") == {
        "10.0.0.1": 5,
        "box": 0,
        "::1": 7,
        "::2": 8,
    }
    assert parse_connection_overrides("") == {} and parse_connection_overrides("h:" + 10 * "9") == {"h": 9_999_999_999}
    for wrong in ("box", "box:", "box:x", ":5", "box:-1", "h:" + 11 * "9"):
        with pytest.raises(ConfigError, match="HOST:COUNT"):
            parse_connection_overrides(wrong)


def test_what_follows_from_texts_is_part_of_the_configuration(configure):
    config = configure("max.connections.per.ip.overrides=h:1", "mpbroker.cluster.store=sqlite:/d/metadata.db")
    assert (config.connection_overrides, config.cluster_store.sqlite_path) == ({"h": 1}, "/d/metadata.db")
    plain = configure()
    assert (plain.connection_overrides, plain.cluster_store) == ({}, None)


def test_compare_tells_what_a_running_broker_takes_on(configure):
    old = configure("log.retention.hours=1", "message.max.bytes=5")
    new = configure(
        "log.retention.hours=2",
        "message.max.bytes=6",
        "num.io.threads=9",
        "listener.name.plaintext.max.connections=5",
        "log.segment.bytes=1073741824",
    )
    changes = compare(old, new)
    assert changes.taken == ("num.io.threads", "message.max.bytes", "listener.name.plaintext.max.connections")
    assert changes.restart == ("log.retention.hours",)
    assert compare(old, old) == ((), ())
