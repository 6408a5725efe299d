"""What the brokers of a `mpbroker cluster` are, as their store and their data directories' locks say, and as clients
see them. Reads only; in the commands' processes and in the foreground."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from mpbroker.cli.cluster_plan import CONTROL, DATA, INTERNAL, ClusterPlan
from mpbroker.cli.cluster_ports import HOST
from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import MpbrokerError
from mpbroker.log import data_dir
from mpbroker.metadata.cluster_records import BrokerRecord, ControllerEpochRecord, ControllerRecord, PartitionRecord
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import ClusterStore
from mpbroker.metadata.open_store import open_cluster_store
from mpbroker.metadata.topic_record import TopicRecord, decode_record
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse

NOBODY: Final = -1
ASK_MS: Final = 1000


class ClusterState(NamedTuple):
    """`registered`: ids of the brokers that live by the store; `behind`: of each partition whose in-sync replicas are
    fewer than its replicas, the brokers that are missing."""

    controller: int
    controller_epoch: int
    registered: frozenset[int]
    behind: tuple[frozenset[int], ...]


@contextmanager
def opened(plan: ClusterPlan) -> Iterator[ClusterStore]:
    """The cluster's store. StoreError."""
    store = open_cluster_store(plan.place)
    try:
        yield store
    finally:
        store.close()


def read_state(store: ClusterStore, plan: ClusterPlan) -> ClusterState:
    """What the store says. StoreError, BadRecord."""
    keys = Keys(plan.cluster_id)
    _, controller = store.get(keys.controller)
    _, epoch = store.get(keys.controller_epoch)
    brokers = [entry for page in store.scan(keys.brokers) for entry in page.entries]
    return ClusterState(
        decode_record(ControllerRecord, controller.value, controller.key).id if controller else NOBODY,
        decode_record(ControllerEpochRecord, epoch.value, epoch.key).epoch if epoch else 0,
        frozenset(decode_record(BrokerRecord, entry.value, entry.key).id for entry in brokers),
        tuple(_behind(store, keys)),
    )


def _behind(store: ClusterStore, keys: Keys) -> Iterator[frozenset[int]]:
    topics = [
        decode_record(TopicRecord, entry.value, entry.key) for page in store.scan(keys.topics) for entry in page.entries
    ]
    in_sync = {
        entry.key: decode_record(PartitionRecord, entry.value, entry.key).isr
        for page in store.scan(keys.partitions)
        for entry in page.entries
    }
    for topic in topics:
        for number, replicas in enumerate(topic.replicas):
            missing = set(replicas) - set(in_sync.get(keys.partition(bytes.fromhex(topic.id), number), ()))
            if missing:
                yield frozenset(missing)


def as_document(plan: ClusterPlan, state: ClusterState) -> dict[str, Any]:
    """What `cluster status --json` prints."""
    return {
        "controller": state.controller,
        "controller_epoch": state.controller_epoch,
        "brokers": [_broker(plan, state, node.node_id) for node in plan.nodes],
        "under_replicated": len(state.behind),
    }


def _broker(plan: ClusterPlan, state: ClusterState, node_id: int) -> dict[str, Any]:
    pid = data_dir.holder(plan.data_dir(node_id)) or 0
    node = plan.node(node_id)
    ports = {DATA: node.port, CONTROL: node.control_port, INTERNAL: node.internal_port}
    listeners = [{"name": name, "protocol": "PLAINTEXT", "host": HOST, "port": port} for name, port in ports.items()]
    said = ("running" if node_id in state.registered else "starting") if pid else "dead"
    return {"node_id": node_id, "state": said, "pid": pid, "listeners": listeners if pid else []}


def serves(plan: ClusterPlan, node_id: int, pid: int, others: frozenset[int]) -> int:
    """The controller, as the broker of this process tells clients, once it serves and knows itself and `others`;
    NOBODY before."""
    try:
        with open(plan.ready_file(node_id), "rb") as file:
            if json.loads(file.read())["pid"] != pid:
                return NOBODY
        client = NetworkClient(HOST, plan.node(node_id).port, "mpbroker-cluster", ASK_MS)
    except (FileNotFoundError, ValueError, KeyError, MpbrokerError):
        return NOBODY
    try:
        answer = client.call(MetadataRequest(topics=[]), MetadataResponse, 12)
    except MpbrokerError:
        return NOBODY
    finally:
        client.close()
    known = {broker.node_id for broker in answer.brokers}
    return answer.controller_id if known >= others | {node_id} and answer.controller_id in known else NOBODY


def wait_until_it_serves(plan: ClusterPlan, node_id: int, pid: int, timeout_s: float) -> bool:
    """Whether the broker of this process serves in time; False also when it has ended."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if serves(plan, node_id, pid, frozenset()) != NOBODY:
            return True
        if not os.path.exists(f"/proc/{pid}"):
            return False
        time.sleep(0.05)
    return False
