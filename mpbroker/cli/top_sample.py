"""What `mpbroker top` reads each time: the status document, and the counters and histograms of shared memory; nobody is
asked but, in a thread of its own, the coordinator for its groups. Runs in the command's process, writes nothing.
"""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from typing import Any, Final, NamedTuple

from mpbroker.admin.group_families import GroupLook
from mpbroker.admin.group_lag import GroupLag
from mpbroker.shm.core_view import CoreError
from mpbroker.shm.metrics_view import MetricsView
from mpbroker.shm.partition_metrics import PartitionMetrics
from mpbroker.shm.process_context import BoundListener
from mpbroker.shm.request_metrics import ApiMetrics
from mpbroker.supervisor.status import read_status

GROUPS_EVERY_S: Final = 2.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_UTIME, _STIME, _RSS = 11, 12, 21  # fields of /proc/PID/stat behind the name


class Sample(NamedTuple):
    """One look. `processors_s` and `memory_bytes` by pid; `partitions` by topic's name; `oldest_transaction_s`: age of
    the oldest transaction that is open in a partition, None: there is none."""

    taken_s: float
    status: dict[str, Any]
    processors_s: dict[int, float]
    memory_bytes: dict[int, int]
    apis: list[ApiMetrics]
    partitions: dict[str, list[PartitionMetrics]]
    groups: GroupLook
    oldest_transaction_s: float | None = None


class Reader:
    """Takes samples of the broker on a data directory; errors as of `read_status`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._core: MetricsView | None = None
        self._core_of = 0
        self._groups: GroupWatch | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._forget()

    def sample(self) -> Sample:
        """Look now."""
        status = read_status(self._path)
        if status["pid"] != self._core_of:
            self._forget()
            self._core = _open(status["pid"])
            self._core_of = status["pid"]
            self._groups = GroupWatch(status["listeners"])
        apis, partitions = self._read_core()
        used = {row["pid"]: _usage(row["pid"]) for row in status["processes"] if row["pid"]}
        return Sample(
            time.monotonic(),
            status,
            {pid: one[0] for pid, one in used.items()},
            {pid: one[1] for pid, one in used.items()},
            apis,
            partitions,
            self._groups.latest if self._groups is not None else GroupLook(),
            self._oldest_transaction_s(partitions),
        )

    def wait_for_groups(self, timeout_s: float) -> None:
        """Until the coordinator said something: for a single look."""
        if self._groups is not None:
            self._groups.answered.wait(timeout_s)

    def _read_core(self) -> tuple[list[ApiMetrics], dict[str, list[PartitionMetrics]]]:
        if self._core is None:
            return [], {}
        self._core.refresh()
        names = self._core.topic_names()
        found: dict[str, list[PartitionMetrics]] = {name: [] for name in names.values()}
        for one in self._core.partitions():
            if one.topic_row in names:
                found[names[one.topic_row]].append(one)
        return self._core.apis(), found

    def _oldest_transaction_s(self, partitions: dict[str, list[PartitionMetrics]]) -> float | None:
        """Looked for among the producers only if a partition has one."""
        if self._core is None or not any(one.open_transactions for rows in partitions.values() for one in rows):
            return None
        started_ms = self._core.oldest_transaction_ms()
        return None if started_ms is None else max(0.0, time.time() - started_ms / 1000)

    def _forget(self) -> None:
        if self._groups is not None:
            self._groups.end()
        if self._core is not None:
            self._core.close()
        self._core, self._groups, self._core_of = None, None, 0


class GroupWatch:
    """Asks the coordinator again and again, so that the screen waits for nobody. Ends when told so, or with the
    command."""

    def __init__(self, listeners: list[dict[str, Any]]) -> None:
        bound = [_listener(index, one) for index, one in enumerate(listeners)]
        self._lag = GroupLag(lambda: bound)
        self._ending = threading.Event()
        self.answered = threading.Event()
        self.latest = GroupLook()
        threading.Thread(target=self._run, daemon=True).start()

    def end(self) -> None:
        """No further look."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.is_set():
            self.latest = self._lag.look()
            self.answered.set()
            self._ending.wait(GROUPS_EVERY_S)


def _listener(index: int, told: dict[str, Any]) -> BoundListener:
    """A listener of a status document, which names the control plane's last."""
    host, port = told["host"], told["port"]
    return BoundListener(index, told["name"], told["protocol"], host, port, host, port, control=False)


def _open(pid: int) -> MetricsView | None:
    """The broker's core segment; None for one of another user: processes and rings are shown all the same."""
    try:
        return MetricsView(pid)
    except (CoreError, PermissionError):
        return None


def _usage(pid: int) -> tuple[float, int]:
    """Seconds of processor time and bytes of memory; zeros for a process that has just ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS, int(fields[_RSS]) * _PAGE_BYTES
