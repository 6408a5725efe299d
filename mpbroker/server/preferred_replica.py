"""Which replica a consumer should read from (KIP-392): an in-sync follower in the rack it names, where the leader is in
another one and `replica.selector.class` says so. Runs in request handlers of a cluster's broker.
"""

from __future__ import annotations

from mpbroker.config.settings_cluster import RACK_SELECTOR
from mpbroker.server.server_context import ServerContext
from mpbroker.shm.layout import ReplicaRole

NOBODY = -1


def selects_by_rack(context: ServerContext, rack: str) -> bool:
    """Whether a consumer of this rack may be sent to another replica at all."""
    config = context.config
    return bool(rack) and context.cluster is not None and config.replica_selector_class == RACK_SELECTOR


def preferred_replica(context: ServerContext, ordinal: int, fetch_offset: int, rack: str) -> int:
    """NOBODY: this broker, if it leads. Of the in-sync followers there that hold the offset, the one that has most, and
    of those the one that had caught up last."""
    try:
        state = context.log_manager.log.replica_state(ordinal)
    except (TimeoutError, RuntimeError):  # its lock is not to be had, or it has just gone offline: the read will tell
        return NOBODY
    if (
        context.cluster is None
        or state is None
        or state.role != ReplicaRole.LEADER
        or context.config.broker_rack == rack
    ):
        return NOBODY
    if not state.log_start <= fetch_offset <= state.leo:
        return NOBODY
    context.cluster.refresh()
    near = {id for id, broker in context.cluster.brokers.items() if broker.rack == rack}
    able = [
        (log_end, caught_up_ms, -broker)
        for broker, log_end, caught_up_ms, _ in state.followers
        if broker in near and broker in state.isr and log_end >= fetch_offset
    ]
    return -max(able)[2] if able else NOBODY
