"""What a leader sends to throttled replicas that are not in sync (KIP-73, `leader.replication.throttled.*`). Runs in
request handlers of a cluster's broker.

A replica in sync gets what it asks for, or it would leave; but what it gets counts. A partition that is held back is
answered without records, and does not end a long poll: the follower asks again.
"""

from __future__ import annotations

from mpbroker.config.replication_throttle import LEADER_RATE, is_throttled
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.server.server_context import ServerContext
from mpbroker.shm.replication_quota import is_exceeded


def lists(context: ServerContext, topic: Topic, partition: int) -> bool:
    """Whether this broker's replica, which leads, is one of those throttled."""
    return is_throttled(topic.settings.leader_replication_throttled_replicas, partition, context.node_id)


def holds_back(context: ServerContext, ordinal: int, follower: int) -> bool:
    """Whether a follower gets no records of a throttled partition now."""
    if context.leader_quota is None or not is_exceeded(
        context.leader_quota, context.config, LEADER_RATE, context.clock.monotonic_ms()
    ):
        return False
    try:
        state = context.log_manager.log.replica_state(ordinal)
    except (TimeoutError, RuntimeError):  # its lock is not to be had now: the next fetch is looked at again
        return True
    return state is not None and follower not in state.isr
