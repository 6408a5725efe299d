"""Whether a broker is well: a pure judgement on its process table and rings, used by `status` from outside and by the
supervisor from inside (health_watch.py).

Every loop beats at least once a second, whether it works or sleeps in its named wait. A process that has not done so
for 5 s is *hung* when work waits for it, else it is *silent*, and the broker *degraded*. What counts as work:

    handler     a request in its hand or parked with it, or requests in a ring that it serves
    coordinator as a handler; its ring has what handlers hand over to it
    processor   connections (what waits in their sockets cannot be seen from here), or answers in its ring
    controller  commands in its ring
    supervisor  always: it watches the others
    everybody   being anywhere but in the wait in which the role has nothing to do

A process that starts or recovers reads logs, which may take long: it is not judged by its heartbeat.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mpbroker.shm import layout
from mpbroker.shm.page_view import RingInfo
from mpbroker.shm.process_table import BrokerState, ProcessInfo, ProcessState
from mpbroker.shm.troubles import SENTENCES
from mpbroker.shm.waits import WaitName, wait_name
from mpbroker.supervisor.process_types import PROCESS_TYPES

SILENT_NS = 5_000_000_000
HUNG, SILENT, DEGRADED = "hung", "silent", "degraded"
LEVELS = (HUNG, SILENT, DEGRADED)
"""Of findings, worst first; a broker whose findings are silent or degraded is degraded."""

ROLES = {0: "supervisor"} | {row.number: row.role for row in PROCESS_TYPES}
_IDLE_WAITS = frozenset(
    wait_name(wait)
    for wait in (
        WaitName.REQUEST,
        WaitName.CONTROL_REQUEST,
        WaitName.HANDED,
        WaitName.COMMAND,
        WaitName.SERVICE,
        WaitName.EPOLL,
        WaitName.ACCEPT,
        WaitName.SUPERVISE,
        WaitName.TRACE_FLUSH,
    )
)
_WORKING = wait_name(WaitName.NONE)
_STATES = {
    BrokerState.STARTING: ("starting", "it reads its logs and does not serve yet"),
    BrokerState.DRAINING: ("stopping", "it finishes the requests in hand, then it ends"),
    BrokerState.HANDING_OVER: ("stopping", "other brokers take over what it leads, then it ends"),
    BrokerState.RESETTING: ("resetting", "a worker died of a fault; all start again"),
}


class Facts(NamedTuple):
    """What is judged. `held(slot)`: requests a handler executes or has parked, asked for only when it is silent."""

    state: BrokerState
    started_ns: int
    processes: Sequence[ProcessInfo]
    rings: Sequence[RingInfo]
    reserved_handlers: int
    held: Callable[[], Mapping[int, int]]


class Finding(NamedTuple):
    """Something that is not well. `since_ns`: CLOCK_MONOTONIC; `slot` -1: it is about the whole broker."""

    level: str
    slot: int
    process: str
    pid: int
    since_ns: int
    sentence: str


def name_of(row: ProcessInfo) -> str:
    """`handler 1`."""
    return f"{ROLES.get(row.role, row.role)} {row.index}"


def judge(facts: Facts, now_ns: int) -> list[Finding]:
    """Everything that is not well, worst first, and of that the longest first; empty when all is well."""
    found = []
    for row in facts.processes:
        found += _judge_process(row, facts, now_ns)
    if facts.state in _STATES:
        level, sentence = _STATES[facts.state]
        found.append(Finding(level, -1, "broker", 0, facts.started_ns if level == "starting" else now_ns, sentence))
    return sorted(found, key=lambda one: (LEVELS.index(one.level) if one.level in LEVELS else 9, one.since_ns))


def state_of(findings: Sequence[Finding]) -> str:
    """One word for the broker: ok, hung, degraded, starting, stopping, resetting."""
    if not findings:
        return "ok"
    return DEGRADED if findings[0].level == SILENT else findings[0].level


def _judge_process(row: ProcessInfo, facts: Facts, now_ns: int) -> list[Finding]:
    def found(level: str, since_ns: int, sentence: str) -> Finding:
        return Finding(level, row.slot, name_of(row), row.pid, since_ns, sentence)

    findings = []
    if row.unsteady_since_ns:
        ended = how_it_ended(row.last_exit)
        findings.append(found(DEGRADED, row.unsteady_since_ns, f"dies again and again, {row.restarts} times: {ended}"))
    if row.state is ProcessState.DEAD or not row.pid:
        return findings
    if row.state is ProcessState.RUNNING and now_ns - row.heartbeat_ns >= SILENT_NS:
        work = work_waiting(row, facts)
        level = HUNG if work else SILENT
        findings.append(found(level, row.heartbeat_ns, f"has not moved: {work or 'nothing is known to wait for it'}"))
    findings += [
        found(DEGRADED, row.troubled_since_ns, sentence) for bit, sentence in SENTENCES.items() if row.troubles & bit
    ]
    return findings


def work_waiting(row: ProcessInfo, facts: Facts) -> str:
    """What waits for a process that does not move, in words; empty when nothing is known to."""
    role = ROLES.get(row.role, "")
    if row.api_key is not None:
        from mpbroker.protocol.api_keys import API_NAMES  # only here: the supervisor, and what it forks, needs it never

        return f"{API_NAMES.get(row.api_key, f'API {row.api_key}')} v{row.api_version} is in its hand"
    if row.wait not in _IDLE_WAITS:
        return "it is in the middle of its work" if row.wait == _WORKING else f"it is in its wait `{row.wait}`"
    waiting = sum(ring.depth for ring in facts.rings if serves(row, role, ring.number, facts.reserved_handlers))
    if waiting:
        return f"{counted(waiting, 'answer' if role == 'processor' else 'request')} waiting for it"
    if role in ("handler", "coordinator") and (held := facts.held().get(row.slot, 0)):
        return f"{counted(held, 'request')} parked with it"
    if role == "processor" and row.connections:
        return f"it has {counted(row.connections, 'connection')}"
    return "the others are not watched" if role == "supervisor" else ""


def serves(row: ProcessInfo, role: str, ring: int, reserved_handlers: int) -> bool:
    """Whether what lies in a ring waits for this process."""
    if role == "handler":
        first = layout.RING_CONTROL if row.index < reserved_handlers else layout.RING_DATA
        planes = (first,) if first == layout.RING_CONTROL else (first, layout.RING_CONTROL)
        return any(plane <= ring <= plane + layout.CLASS_REQUEUED for plane in planes)
    if role == "processor":
        return ring == layout.RING_RESPONSE + row.index
    if role == "coordinator":
        return ring in (layout.RING_COORDINATOR, layout.RING_COORDINATOR_REQUEUED)
    if role == "cluster-controller":
        return ring == layout.RING_CLUSTER_CONTROLLER
    return role == "controller" and ring == layout.RING_CONTROLLER


def counted(number: int, thing: str) -> str:
    """`1 request`, `2 requests`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def how_it_ended(status: int | None) -> str | None:
    """How a slot's last process ended: `signal 9` or `exit 1`; None when none ever did."""
    if status is None:
        return None
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
