"""Who leads a partition, for answers with NOT_LEADER_OR_FOLLOWER (KIP-951): the client need not ask for metadata first.
Runs in request handlers.

What this broker's replica was told counts before what it knows of the cluster, which it is told later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mpbroker.channel.handler_port import Request
from mpbroker.server.server_context import ServerContext
from mpbroker.shm.cluster_table import NOBODY
from mpbroker.shm.layout import ReplicaRole


class Leader(NamedTuple):
    """A broker's id, and its epoch as leader; NOBODY: none is known."""

    node_id: int
    epoch: int


class Place(NamedTuple):
    """Where clients of the listener that was asked reach a leader."""

    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(context: ServerContext, ordinal: int) -> Leader:
    """Of the partition of a row."""
    if context.cluster is None:
        return Leader(context.node_id, context.log_manager.leader_epoch(ordinal))
    try:
        state = context.log_manager.log.replica_state(ordinal)
    except (TimeoutError, RuntimeError):  # its lock is not to be had, or it has just gone offline
        state = None
    if state is not None and state.role != ReplicaRole.NONE:
        leads = state.role == ReplicaRole.LEADER
        return Leader(context.node_id if leads else state.leader, state.leader_epoch)
    found = context.cluster.leader(ordinal)
    return Leader(NOBODY, NOBODY) if found is None else Leader(*found)


def places_of(context: ServerContext, request: Request, leaders: Iterable[Leader]) -> list[Place]:
    """Each leader once, those that live."""
    listener = context.listener(request.listener)
    if context.cluster is None:
        here = Place(context.node_id, listener.advertised_host, listener.advertised_port, context.config.broker_rack)
        return [here]
    context.cluster.refresh()
    found = []
    for node_id in sorted({leader.node_id for leader in leaders}):
        broker = context.cluster.brokers.get(node_id)
        end_point = None if broker is None else broker.on(listener.name)
        if broker is not None and end_point is not None:
            found.append(Place(node_id, end_point.host, end_point.port, broker.rack))
    return found
