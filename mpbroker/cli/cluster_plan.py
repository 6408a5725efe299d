"""What the brokers of `mpbroker cluster` are to be: numbers, ports, directories, settings; kept in D/cluster.json, so
that every later command finds the same cluster. Runs in the commands' processes; `cluster start` alone writes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from mpbroker.cli.cluster_ports import HOST, free_ports
from mpbroker.config.cluster_store import ClusterStorePlace, parse_cluster_store
from mpbroker.config.cores import available_cores
from mpbroker.errors import ConfigError, MpbrokerError
from mpbroker.log import data_dir
from mpbroker.metadata.keys import STORE_FILE

FILE: Final = "cluster.json"
FIRST_PORT: Final = 9092
PORT_STEP: Final = 10
MAX_BROKERS: Final = 15
MAX_FILE_BYTES: Final = 1 << 20
DATA, CONTROL, INTERNAL = "PLAINTEXT", "CONTROL", "INTERNAL"


class NoClusterHere(MpbrokerError):
    """The directory holds no cluster of `mpbroker cluster start`, or none runs there."""

    exit_code = 3


class NodePlan(msgspec.Struct, frozen=True):
    """One broker: its id, and the ports of its listeners and its admin process."""

    node_id: int
    port: int
    control_port: int
    internal_port: int
    admin_port: int


class ClusterPlan(msgspec.Struct, frozen=True):
    """The cluster of a directory."""

    directory: str
    cluster_id: str
    store: str
    nodes: tuple[NodePlan, ...]
    overrides: tuple[str, ...] = ()

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every broker, as clients take it."""
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    @property
    def place(self) -> ClusterStorePlace:
        """The store."""
        place = parse_cluster_store(self.store)
        assert place is not None
        return place

    def node(self, node_id: int) -> NodePlan:
        """ConfigError: there is none of this number."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        numbers = ", ".join(str(node.node_id) for node in self.nodes)
        raise ConfigError("N", node_id, problem=f"the cluster in {self.directory} has no broker {node_id}: {numbers}")

    def data_dir(self, node_id: int) -> str:
        """Where a broker keeps its records."""
        return os.path.join(self.directory, f"broker-{node_id}")

    def log_file(self, node_id: int) -> str:
        """Where its log lines go."""
        return f"{self.data_dir(node_id)}.log"

    def ready_file(self, node_id: int) -> str:
        """What it writes once it serves."""
        return f"{self.data_dir(node_id)}.ready.json"

    def settings(self, node_id: int) -> dict[str, str]:
        """A broker's settings, by Kafka's names; `overrides` win over them."""
        node, brokers, cores = self.node(node_id), len(self.nodes), available_cores()
        replicas = min(3, brokers)
        in_sync = max(1, replicas - 1)
        ports = {DATA: node.port, CONTROL: node.control_port, INTERNAL: node.internal_port}
        return {
            "node.id": str(node_id),
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
            "control.plane.listener.name": CONTROL,
            "inter.broker.listener.name": INTERNAL,
            "mpbroker.admin.listener": f"{HOST}:{node.admin_port}",
            "mpbroker.cluster.store": self.store,
            "num.network.threads": str(max(1, min(3, cores // brokers))),
            "num.io.threads": str(max(1, min(8, cores // brokers))),
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(in_sync),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync),
        }


def read_plan(directory: str) -> ClusterPlan | None:
    """What was written; None if nothing was. ConfigError for what cannot be read."""
    path = Path(directory, FILE)
    try:
        with path.open("rb") as file:
            plan = msgspec.json.decode(file.read(MAX_FILE_BYTES), type=ClusterPlan)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError("--dir", directory, problem=f"{path} cannot be read: {error}") from None
    return msgspec.structs.replace(plan, directory=directory)  # it may have been moved


def known_plan(directory: str) -> ClusterPlan:
    """NoClusterHere, ConfigError."""
    plan = read_plan(directory)
    if plan is None:
        raise NoClusterHere(f"{directory} holds no cluster: `mpbroker cluster start --dir {directory}` makes one")
    return plan


def plan_for(
    directory: str, brokers: int | None, port: int | None, store: str | None, overrides: list[str]
) -> ClusterPlan:
    """The cluster that `cluster start` was asked for: the one that is there, or a new one. ConfigError."""
    known = read_plan(directory)
    if known is None:
        nodes = _nodes(brokers or 3, FIRST_PORT if port is None else port)
        return ClusterPlan(directory, data_dir.new_id(), _store(directory, store or "sqlite"), nodes, tuple(overrides))
    if brokers is not None and brokers < len(known.nodes):
        problem = f"{directory} holds a cluster of {len(known.nodes)} brokers; it cannot be started with {brokers}"
        raise ConfigError("-n", brokers, problem=problem)
    if store is not None and _store(directory, store) != known.store:
        problem = f"{directory} holds a cluster whose store is {known.store}; it cannot be started with another one"
        raise ConfigError("--store", store, problem=problem)
    count = brokers or len(known.nodes)
    same = port is None and count == len(known.nodes)
    nodes = known.nodes if same else _nodes(count, known.nodes[0].port if port is None else port)
    return msgspec.structs.replace(known, nodes=nodes, overrides=tuple(overrides))


def write_plan(plan: ClusterPlan) -> None:
    """Keep it, whole or not at all."""
    path = Path(plan.directory, FILE)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
    os.replace(temporary, path)


def _store(directory: str, text: str) -> str:
    """The setting that a text of --store stands for; ConfigError."""
    place = parse_cluster_store(f"sqlite:{os.path.join(directory, STORE_FILE)}" if text == "sqlite" else text)
    if place is None:
        raise ConfigError("--store", text, "sqlite, or what mpbroker.cluster.store takes")
    return place.text


def _nodes(count: int, first_port: int) -> tuple[NodePlan, ...]:
    if first_port == 0:
        ports = free_ports(4 * count)
        return tuple(NodePlan(n + 1, *ports[4 * n : 4 * n + 4]) for n in range(count))
    last = first_port + PORT_STEP * (count - 1) + 3
    if last > 65535:
        raise ConfigError("--port", first_port, f"at most {65535 - PORT_STEP * (count - 1) - 3} with {count} brokers")
    bases = range(first_port, first_port + PORT_STEP * count, PORT_STEP)
    return tuple(NodePlan(n, base, base + 1, base + 2, base + 3) for n, base in enumerate(bases, 1))
