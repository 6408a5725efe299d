"""`mpbroker cluster roll`: restarts the brokers one after the other, the controller last.

A broker is stopped only while every other replica of its partitions is in sync, and the next one is not touched before
its own are in sync again, and clients that tried to reach it have tried again: their pauses double
(reconnect.backoff.max.ms), and a leader that they do not reach yet is a gap. Killed in between it leaves a cluster with
one broker down, which `cluster start N` brings back.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from mpbroker.cli import cluster_actions, cluster_state
from mpbroker.cli.cluster_control import ask
from mpbroker.cli.cluster_plan import ClusterPlan, known_plan
from mpbroker.errors import MpbrokerError
from mpbroker.log import data_dir
from mpbroker.metadata.meta_store import ClusterStore

LOOK_S: Final = 0.1
CLIENTS_PAUSE: Final = 1.5
"""Of the time that a broker was away: by then a client whose pauses double, with some jitter, has tried once more."""
LONGEST_PAUSE_S: Final = 10.0
"""Clients' own bound, unless told otherwise."""


def roll(directory: str, timeout_s: float) -> int:
    """0 once all have been restarted; `timeout_s` bounds every step of every broker. MpbrokerError."""
    plan = known_plan(directory)
    with cluster_state.opened(plan) as store:
        state = cluster_state.read_state(store, plan)
        down = [node.node_id for node in plan.nodes if node.node_id not in state.registered]
        if down:
            raise MpbrokerError(f"broker {down[0]} does not run: start it before rolling the others")
        order = sorted((node.node_id for node in plan.nodes), key=lambda node_id: node_id == state.controller)
        for node_id in order:
            _wait_in_sync(store, plan, timeout_s)
            away_s = _restart(store, plan, node_id, timeout_s)
            if node_id != order[-1]:
                time.sleep(min(CLIENTS_PAUSE * away_s, LONGEST_PAUSE_S))
        _wait_in_sync(store, plan, timeout_s)
    return 0


def _restart(store: ClusterStore, plan: ClusterPlan, node_id: int, timeout_s: float) -> float:
    """Returns how long it was away, in seconds."""
    began = time.monotonic()
    pid = data_dir.holder(plan.data_dir(node_id)) or 0
    ask(plan.directory, do="stop", node=node_id)
    if pid and not cluster_actions.wait_gone(plan, node_id, pid, timeout_s):
        raise MpbrokerError(f"broker {node_id} (pid {pid}) does not stop in {timeout_s:g} seconds")
    gone = time.monotonic()
    cluster_actions.start(plan.directory, node_id, timeout_s)
    away_s = time.monotonic() - gone
    _wait_in_sync(store, plan, timeout_s, node_id)
    print(f"mpbroker: broker {node_id} restarted in {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return away_s


def _wait_in_sync(store: ClusterStore, plan: ClusterPlan, timeout_s: float, node_id: int | None = None) -> None:
    """Until no partition lacks a replica: any, or that of one broker."""
    deadline = time.monotonic() + timeout_s
    while True:
        state = cluster_state.read_state(store, plan)
        behind = [missing for missing in state.behind if node_id is None or node_id in missing]
        if not behind and (node_id is None or node_id in state.registered):
            return
        if time.monotonic() > deadline:
            waited = f"{len(behind)} partitions lack replicas after {timeout_s:g} seconds"
            raise MpbrokerError(f"{waited}: the roll ends here, nothing more is stopped")
        time.sleep(LOOK_S)
