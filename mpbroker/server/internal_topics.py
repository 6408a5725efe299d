"""Internal topics as the broker itself creates them, with Kafka's settings. Pure; request handlers."""

from __future__ import annotations

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.metadata.commands import NewTopic
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

ALONE = 1  # replicas in a broker that is alone


def new_topic(name: str, config: BrokerConfig) -> NewTopic:
    """A topic that is created because somebody asked for it: `__consumer_offsets` and `__transaction_state` as a
    coordinator needs them, any other with the broker's defaults."""
    if name == TRANSACTIONS_TOPIC:
        return _transactions(config)
    if name != OFFSETS_TOPIC:
        return NewTopic(name=name)
    return NewTopic(
        name=name,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=ALONE if config.cluster_store is None else config.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


def _transactions(config: BrokerConfig) -> NewTopic:
    replicas = ALONE if config.cluster_store is None else config.transaction_state_log_replication_factor
    return NewTopic(
        name=TRANSACTIONS_TOPIC,
        num_partitions=config.transaction_state_log_num_partitions,
        replication_factor=replicas,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min(config.transaction_state_log_min_isr, replicas)),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
