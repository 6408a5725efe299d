"""Settings of the elected controller, by Kafka's names. The process fills it from its BrokerConfig. Pure."""

from typing import Final

import msgspec

MAX_TRANSACTION_OPERATIONS: Final = 120
"""etcd takes 128 operations in a transaction unless told otherwise; some room is left for the guard."""
MAX_PARTITIONS_PER_REQUEST: Final = 1000
RETRY_MS: Final = 100
TOLD_LAST_MS: Final = 500
"""A broker that does not answer for so long is not waited for by those that shut down."""
FIRST_BALANCE_MS: Final = 5000
PRODUCER_ID_BLOCK: Final = 1000


class ClusterConfig(msgspec.Struct, frozen=True):
    """What the controller's decisions depend on. `listener_name`: whose address followers get of their leaders;
    `log_partitions`: whether each partition's change gets a line of the log."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    delete_topic_enable: bool = True
    inter_broker_listener_name: str = "PLAINTEXT"
    log_partitions: bool = False
