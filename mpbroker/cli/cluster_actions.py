"""`mpbroker cluster start N`, `kill N` and `stop`: what another process than the foreground does to a cluster."""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress
from typing import Final

from mpbroker.cli import cluster_state
from mpbroker.cli.cluster_control import ask
from mpbroker.cli.cluster_plan import ClusterPlan, NoClusterHere, known_plan
from mpbroker.errors import MpbrokerError
from mpbroker.log import data_dir

GONE_S: Final = 10.0


def start(directory: str, node_id: int, timeout_s: float) -> int:
    """Have a broker started again, and wait until it serves."""
    plan = known_plan(directory)
    plan.node(node_id)
    pid = int(ask(directory, do="start", node=node_id)["pid"])
    if cluster_state.wait_until_it_serves(plan, node_id, pid, timeout_s):
        return 0
    raise MpbrokerError(f"broker {node_id} (pid {pid}) does not serve; see {plan.log_file(node_id)}")


def kill(directory: str, node_id: int) -> int:
    """SIGKILL to every process of a broker; returns when its data directory is free."""
    plan = known_plan(directory)
    plan.node(node_id)
    pid = data_dir.holder(plan.data_dir(node_id))
    if not pid:
        raise NoClusterHere(f"broker {node_id} of the cluster on {directory} does not run")
    kill_tree(pid)
    return 0


def kill_tree(pid: int) -> None:
    """SIGKILL to a process and its children, by descriptors: a number may be somebody else's by then."""
    pidfds = []
    with suppress(ProcessLookupError):
        pidfds.append(os.pidfd_open(pid))
    for child in _children(pid):
        with suppress(ProcessLookupError):
            pidfd = os.pidfd_open(child)
            if child in _children(pid):
                pidfds.append(pidfd)
            else:
                os.close(pidfd)
    for pidfd in pidfds:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    for pidfd in pidfds:
        select.select([pidfd], [], [], GONE_S)
        os.close(pidfd)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def stop(directory: str, timeout_s: float) -> int:
    """SIGTERM to the foreground, which stops all brokers; 0 once it has ended."""
    known_plan(directory)
    pid = data_dir.holder(directory)
    if not pid:
        raise NoClusterHere(f"no cluster runs on {directory}")
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return 0
    try:
        if data_dir.holder(directory) != pid:
            return 0
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        if select.select([pidfd], [], [], timeout_s)[0]:
            return 0
    finally:
        os.close(pidfd)
    print(f"mpbroker: the cluster (pid {pid}) has not ended in {timeout_s:g} seconds", file=sys.stderr)
    return 1


def wait_gone(plan: ClusterPlan, node_id: int, pid: int, timeout_s: float) -> bool:
    """Whether a broker's process ends in time."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if data_dir.holder(plan.data_dir(node_id)) != pid:
            return True
        return bool(select.select([pidfd], [], [], timeout_s)[0])
    finally:
        os.close(pidfd)
