"""What `mpbroker cluster` means to start: ports, settings, and that a directory keeps its cluster."""

import pytest

from mpbroker.cli.cluster_plan import NoClusterHere, known_plan, plan_for, read_plan, write_plan
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path)


def _plan(directory, brokers=None, port=None, store=None, overrides=()):
    return plan_for(directory, brokers, port, store, list(overrides))


def test_three_brokers_in_steps_of_ten(directory):
    plan = _plan(directory)
    assert [node.node_id for node in plan.nodes] == [1, 2, 3]
    assert plan.bootstrap == "127.0.0.1:9092,127.0.0.1:9102,127.0.0.1:9112"
    assert plan.store == f"sqlite:{directory}/metadata.db"


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_settings_are_ones_that_a_broker_takes(directory, brokers, replicas, in_sync):
    plan = _plan(directory, brokers)
    pairs = [f"{name}={text}" for name, text in plan.settings(brokers).items()]
    config = load_broker_config(overrides=[*pairs, f"log.dirs={plan.data_dir(brokers)}"], environ={}, cores=2)
    assert (config.node_id, config.cluster_store.sqlite_path) == (brokers, f"{directory}/metadata.db")
    assert (config.default_replication_factor, config.min_insync_replicas) == (replicas, in_sync)
    assert config.offsets_topic_replication_factor == config.transaction_state_log_replication_factor == replicas
    assert config.transaction_state_log_min_isr == in_sync
    first = 9092 + 10 * (brokers - 1)
    assert config.end_points.control.port == first + 1
    assert [(one.listener_name, one.port) for one in config.end_points.data] == [
        ("PLAINTEXT", first),
        ("INTERNAL", first + 2),
    ]
    assert (config.end_points.inter_broker, config.admin_address.port) == ("INTERNAL", first + 3)


def test_a_directory_keeps_its_cluster_and_its_ports(directory):
    first = _plan(directory, port=0)
    ports = [(node.port, node.control_port, node.internal_port, node.admin_port) for node in first.nodes]
    assert len({port for four in ports for port in four} - {0}) == 12
    write_plan(first)
    assert known_plan(directory) == first == _plan(directory)
    more = _plan(directory, brokers=4)
    assert (more.cluster_id, len(more.nodes)) == (first.cluster_id, 4)
    assert _plan(directory, port=5000).nodes[2].port == 5020


def test_what_does_not_go_with_the_cluster_that_is_there_is_refused(directory):
    write_plan(_plan(directory))
    with pytest.raises(ConfigError, match="holds a cluster of 3 brokers; it cannot be started with 2"):
        _plan(directory, brokers=2)
    with pytest.raises(ConfigError, match="whose store is sqlite:"):
        _plan(directory, store="sqlite:/elsewhere/metadata.db")
    with pytest.raises(ConfigError, match="no broker 4: 1, 2, 3"):
        known_plan(directory).node(4)


def test_ports_end(directory):
    with pytest.raises(ConfigError, match="--port=65530: must be at most 65512 with 3 brokers"):
        _plan(directory, port=65530)


def test_a_directory_without_a_cluster(directory, tmp_path):
    assert read_plan(directory) is None
    with pytest.raises(NoClusterHere, match="holds no cluster"):
        known_plan(directory)
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(ConfigError, match=r"cluster\.json cannot be read"):
        read_plan(directory)
