"""Internal topics as the broker itself creates them, with Kafka's settings. Pure; request handlers."""

from __future__ import annotations

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.metadata.commands import NewTopic
from mpbroker.metadata.topic_names import OFFSETS_TOPIC

REPLICAS = 1  # there is one broker


def new_topic(name: str, config: BrokerConfig) -> NewTopic:
    """A topic that is created because somebody asked for it: `__consumer_offsets` as a coordinator needs it, any other
    with the broker's defaults."""
    if name != OFFSETS_TOPIC:
        return NewTopic(name=name)
    return NewTopic(
        name=name,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=REPLICAS,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )
