"""The settings that the logic of transactions reads, as one value. Fixed at start."""

from __future__ import annotations

import msgspec

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.coordinator.workbench import most_parked


class TransactionSettings(msgspec.Struct, frozen=True):
    """Kafka's settings for transactions, then the bounds of mpbroker; `max_parked` is for one processor's requests."""

    partitions: int = 50
    max_timeout_ms: int = 900_000
    expiration_ms: int = 604_800_000
    abort_check_ms: int = 10_000
    expiration_check_ms: int = 3_600_000
    max_ids: int = 65_536
    max_partitions: int = 32_768  # of all ongoing transactions together: each takes a row of a producer
    max_parked: int = 6144

    @classmethod
    def of(cls, config: BrokerConfig, entries: int) -> TransactionSettings:
        """Read off the broker's configuration; `entries`: requests in flight that a processor has room for."""
        return cls(
            partitions=config.transaction_state_log_num_partitions,
            max_timeout_ms=config.transaction_max_timeout_ms,
            expiration_ms=config.transactional_id_expiration_ms,
            abort_check_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiration_check_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            max_ids=config.mpbroker_max_transactional_ids,
            max_partitions=config.mpbroker_max_producers // 2,
            max_parked=most_parked(entries),
        )
