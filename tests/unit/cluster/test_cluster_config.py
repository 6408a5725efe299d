"""The elected controller's settings are Kafka's unless they are said, and bounds are those that others count on."""

import pytest

from mpbroker.cluster import cluster_config
from mpbroker.cluster.cluster_config import ClusterConfig
from mpbroker.config.load_config import load_broker_config


def test_settings_that_are_not_said_are_those_of_a_broker():
    """Kafka's defaults, in one place: the table of settings."""
    config, table = ClusterConfig(), load_broker_config(environ={}, cores=2)
    same = (
        "num_partitions", "default_replication_factor", "unclean_leader_election_enable",
        "auto_leader_rebalance_enable", "leader_imbalance_per_broker_percentage",
        "leader_imbalance_check_interval_seconds", "delete_topic_enable",
    )  # fmt: skip
    assert {name: getattr(config, name) for name in same} == {name: getattr(table, name) for name in same}
    assert config.inter_broker_listener_name == "PLAINTEXT" and config.log_partitions is False


def test_a_term_keeps_the_settings_it_began_with():
    with pytest.raises(AttributeError):
        ClusterConfig().num_partitions = 2


def test_a_transaction_and_a_request_have_no_more_than_others_take():
    """etcd takes 128 operations, of which a transaction has the guard and its link besides; a block of producer ids is
    as long as Kafka's."""
    assert cluster_config.MAX_TRANSACTION_OPERATIONS + 2 <= 128
    assert cluster_config.MAX_TRANSACTION_OPERATIONS == 120
    assert cluster_config.MAX_PARTITIONS_PER_REQUEST == cluster_config.PRODUCER_ID_BLOCK == 1000
