"""The process table: every role, its slots, its main, when it is started and stopped. Read by the supervisor only.

A row says all that is special about a role; nothing else in the supervisor asks for a role by name.
"""

import signal
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from mpbroker.shm.process_context import BoundListener, ProcessContext
from mpbroker.supervisor.lean_imports import import_pathlib

Main = Callable[[ProcessContext], None]

SUPERVISOR_SLOT = 0


class ProcessType(NamedTuple):
    """One role.

    number, first_slot, slots  as native/shm/layout.h numbers them
    main          "module:function", imported in the supervisor so that every worker shares its memory
    start_stage   a stage starts when every process of the one before serves; the last one, when listeners have answered
                  (the acceptor is forked at once and accepts when the controller has recovered)
    stop_stage    a stage is told to stop when the one before has ended
    parent_death  what the kernel sends it when the supervisor dies; the tracer lives on to unlink names
    per_listener  it belongs to one listener (processors)
    wanted_by     attribute of the configuration that must be set for it to run at all; empty: it always runs
    """

    role: str
    number: int
    first_slot: int
    slots: int
    main: str
    start_stage: int
    stop_stage: int
    parent_death: signal.Signals = signal.SIGKILL
    per_listener: bool = False
    wanted_by: str = ""


CLUSTER = "cluster_store"
"""`wanted_by` of roles that only a broker of a cluster has; it alone imports what they run."""

PROCESS_TYPES: tuple[ProcessType, ...] = (
    ProcessType("acceptor", 1, 1, 1, "mpbroker.network.acceptor:main", 0, 0),
    ProcessType("processor", 2, 16, 32, "mpbroker.network.processor:main", 0, 0, per_listener=True),
    ProcessType("handler", 3, 48, 64, "mpbroker.server.request_handler:main", 0, 1),
    ProcessType("controller", 4, 112, 1, "mpbroker.controller.controller:main", 0, 2),
    ProcessType("log-keeper", 5, 113, 1, "mpbroker.log.log_keeper:main", 1, 2),
    ProcessType("coordinator", 7, 115, 1, "mpbroker.coordinator.process:main", 1, 1),
    ProcessType("tracer", 6, 114, 1, "mpbroker.trace.tracer:main", 1, 3, parent_death=signal.SIGTERM),
    ProcessType("fetcher", 10, 118, 8, "mpbroker.replication.fetcher:main", 1, 1, wanted_by=CLUSTER),
    ProcessType("admin", 8, 116, 1, "mpbroker.admin.admin:main", 1, 1, wanted_by="admin_address"),
    ProcessType("cluster-controller", 9, 117, 1, "mpbroker.controller.cluster_process:main", 1, 1, wanted_by=CLUSTER),
)
START_STAGES = 1
LATE_STAGE = START_STAGES
"""Of those that no client waits for: forked when every listener has answered, and that is said."""
STOP_STAGES = 4


class ProcessPlan(NamedTuple):
    """One process to run: its type, its index within the role, its slot, its listener (processor) or None."""

    type: ProcessType
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks a plan for
    listener: int | None = None

    @property
    def slot(self) -> int:
        """Row in the process table."""
        return self.type.first_slot + self.index

    @property
    def name(self) -> str:
        """For logs: the role and its index."""
        return f"{self.type.role} {self.index}"


def process_type(role: str) -> ProcessType:
    """The row of a role."""
    return next(row for row in PROCESS_TYPES if row.role == role)


def plan_processes(config: Any, listeners: tuple[BoundListener, ...]) -> tuple[ProcessPlan, ...]:
    """Every worker of this configuration, in the order of the table: a reset kills the acceptor first, so that nobody
    is accepted for those it kills next. The control plane's processor comes first and has index 0, as in Kafka."""
    processors = [
        listener.index
        for listener in sorted(listeners, key=lambda listener: not listener.control)
        for _ in range(config.processors(listener.name))
    ]
    plans = [ProcessPlan(process_type("processor"), n, listener) for n, listener in enumerate(processors)]
    handlers = config.num_io_threads + config.reserved_handlers
    plans += [ProcessPlan(process_type("handler"), n) for n in range(handlers)]
    if getattr(config, CLUSTER, None):
        plans += [ProcessPlan(process_type("fetcher"), n) for n in range(config.mpbroker_replica_fetchers)]
    single = [row for row in PROCESS_TYPES if row.slots == 1]
    plans += [ProcessPlan(row, 0) for row in single if not row.wanted_by or getattr(config, row.wanted_by)]
    return tuple(sorted(plans, key=lambda plan: PROCESS_TYPES.index(plan.type)))


def resolve_mains(late: bool, in_cluster: bool = False) -> dict[str, Main]:
    """The main functions of the roles of the late stage, or of all before it, imported: role → function. `in_cluster`:
    also those of roles that only a broker of a cluster has."""
    if late:
        import_pathlib()  # for the tracer
    rows = [row for row in PROCESS_TYPES if (row.start_stage == LATE_STAGE) == late]
    return {row.role: _imported(row.main) for row in rows if in_cluster or row.wanted_by != CLUSTER}


def _imported(path: str) -> Main:
    module, _, function = path.partition(":")
    main: Main = getattr(import_module(module), function)
    return main


def served_versions(for_brokers: bool) -> dict[int, tuple[int, int]]:
    """Which requests processors let through: api key → (oldest, newest) version, computed from the handlers' table.
    `for_brokers`: on a listener of a cluster's brokers."""
    table = import_module("mpbroker.server.api_table").API_TABLE
    versions: dict[int, tuple[int, int]] = table.versions(for_brokers)
    return versions


def prepare_for_workers() -> None:
    """Do once what each worker would do for itself, on copied pages: read how the first request of every client, and
    of the supervisor's own probes, is encoded; and find out that a dict is a mapping, for `Counter`."""
    messages = import_module("mpbroker.protocol.messages.api_versions")
    import_module("mpbroker.protocol.codec").prepare([messages.ApiVersionsRequest, messages.ApiVersionsResponse])
    isinstance({}, Mapping)
