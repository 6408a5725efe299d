"""Metric families of processes, rings and counters: Kafka's names where Kafka has such a thing, ours for the rest.

Reads /proc for the memory and processor time of each process; used by the admin process.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mpbroker.admin.exposition import COUNTER, GAUGE, Family, Sample, labelled
from mpbroker.shm.counters import COUNTERS
from mpbroker.shm.page_view import PageView, RingInfo
from mpbroker.shm.process_table import BrokerState, ProcessInfo, ProcessState

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _RSS = 11, 12, 21  # fields of /proc/PID/stat behind the name
_KAFKA_STATES: Final = {
    BrokerState.STARTING: 1,
    BrokerState.RUNNING: 3,
    BrokerState.DRAINING: 6,
    BrokerState.HANDING_OVER: 6,
    BrokerState.RESETTING: 2,
}
"""Kafka's numbers: 1 starting, 2 recovery, 3 running, 6 pending controlled shutdown."""


def process_families(page: PageView, listeners: Sequence[str], roles: dict[int, str]) -> Iterator[Family]:
    """All families of this file. `listeners`: names by index; `roles`: names by number."""
    rows = [row for row in page.processes() if row.pid and row.state is not ProcessState.DEAD]
    yield Family(
        "kafka_server_kafkaserver_brokerstate", GAUGE, "3: the broker runs.", [labelled(_KAFKA_STATES[page.state])]
    )
    yield from _threads(rows, roles)
    yield _connections(rows, listeners, roles)
    yield from _rings(page.rings())
    yield from _processes(page.processes(), roles)
    yield from _counters(page.counters())


def _of_role(rows: Sequence[ProcessInfo], roles: dict[int, str], role: str) -> list[ProcessInfo]:
    return [row for row in rows if roles.get(row.role) == role]


def _threads(rows: list[ProcessInfo], roles: dict[int, str]) -> Iterator[Family]:
    """Kafka's threads are processes here. Idle shares are those since each process started."""
    processors, handlers = _of_role(rows, roles, "processor"), _of_role(rows, roles, "handler")
    samples = [labelled(_idle(row), networkprocessor=row.index) for row in processors]
    yield Family("kafka_network_processor_idle_percent", GAUGE, "Share of time a processor slept, 0 to 1.", samples)
    for name, chosen, sentence in (
        ("kafka_network_socketserver_networkprocessoravgidle_percent", processors, "Share of time processors slept."),
        ("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", handlers, "The same of handlers."),
    ):
        yield Family(name, GAUGE, sentence, [labelled(sum(map(_idle, chosen)) / len(chosen))] if chosen else [])


def _idle(row: ProcessInfo) -> float:
    known = row.busy_ns + row.idle_ns
    return row.idle_ns / known if known else 1.0


def _connections(rows: list[ProcessInfo], listeners: Sequence[str], roles: dict[int, str]) -> Family:
    samples = [
        labelled(row.connections, listener=listeners[row.listener], networkprocessor=row.index)
        for row in _of_role(rows, roles, "processor")
        if row.listener is not None and row.listener < len(listeners)
    ]
    return Family("kafka_server_socket_server_metrics_connection_count", GAUGE, "Connections now.", samples)


def _rings(rings: list[RingInfo]) -> Iterator[Family]:
    waiting = sum(ring.depth for ring in rings if ring.name.partition("-")[0] in ("data", "control"))
    answers = [ring for ring in rings if ring.name.startswith("response-")]
    name = "kafka_network_requestchannel_requestqueuesize"
    yield Family(name, GAUGE, "Requests that wait for a handler.", [labelled(waiting)])
    samples = [labelled(ring.depth, processor=ring.name.removeprefix("response-")) for ring in answers]
    samples.insert(0, labelled(sum(ring.depth for ring in answers)))
    name = "kafka_network_requestchannel_responsequeuesize"
    yield Family(name, GAUGE, "Answers that wait for their processor; without a label: all of them.", samples)
    for field, sentence in (
        ("depth", "Hints in a ring now."),
        ("capacity", "Hints a ring holds at most."),
        ("peak", "Largest depth since the broker started."),
    ):
        samples = [labelled(getattr(ring, field), ring=ring.name) for ring in rings]
        yield Family(f"mpbroker_ring_{field}", GAUGE, sentence, samples)


def _processes(rows: list[ProcessInfo], roles: dict[int, str]) -> Iterator[Family]:
    def family(name: str, kind: str, sentence: str, value: Callable[[ProcessInfo], float | None]) -> Family:
        samples: list[Sample] = []
        for row in rows:
            found = value(row)
            if found is not None:
                samples.append(labelled(found, role=roles.get(row.role, str(row.role)), index=row.index))
        return Family(f"mpbroker_process_{name}", kind, sentence, samples)

    stats = {row.slot: _stat(row.pid) for row in rows if row.pid}

    def used(row: ProcessInfo, which: int) -> float | None:
        found = stats.get(row.slot)
        return found[which] if found else None

    yield family("up", GAUGE, "1: it serves.", lambda row: int(row.state is ProcessState.RUNNING))
    yield family("restarts_total", COUNTER, "Processes that died in this slot.", lambda row: row.restarts)
    yield family("busy_seconds_total", COUNTER, "Time it worked.", lambda row: row.busy_ns / 1e9)
    yield family("idle_seconds_total", COUNTER, "Time it slept.", lambda row: row.idle_ns / 1e9)
    yield family("cpu_seconds_total", COUNTER, "Processor time it used.", lambda row: used(row, 0))
    sentence = "Memory it has mapped and touched, what it shares with others included."
    yield family("resident_memory_bytes", GAUGE, sentence, lambda row: used(row, 1))


def _stat(pid: int) -> tuple[float, int] | None:
    """Processor seconds and resident bytes; None when it has just ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS, int(fields[_RSS]) * _PAGE_BYTES


def _counters(values: list[int]) -> Iterator[Family]:
    for counter, info in COUNTERS.items():
        name = f"mpbroker_{info.name}" + ("" if info.gauge else "_total")
        yield Family(name, GAUGE if info.gauge else COUNTER, info.sentence, [labelled(values[counter])])
