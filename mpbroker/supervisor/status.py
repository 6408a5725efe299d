"""The state of a broker as one document, read from outside: from its metrics page and its status file, never by asking
it.

Used by `mpbroker status`, `top` and tests; works while the broker hangs or is stopped, because it waits for nobody.
"""

import os
import time
from typing import Any

from mpbroker.errors import DataDirectoryInUse, MpbrokerError, NothingRuns
from mpbroker.log import data_dir
from mpbroker.protocol.api_keys import API_NAMES
from mpbroker.shm import segment
from mpbroker.shm.counters import COUNTERS
from mpbroker.shm.page_view import PageView
from mpbroker.shm.process_table import ProcessInfo, ProcessState
from mpbroker.supervisor import stacks
from mpbroker.supervisor.process_types import PROCESS_TYPES
from mpbroker.supervisor.status_file import read_status_file

SCHEMA = 1
_ROLES = {0: "supervisor"} | {row.number: row.role for row in PROCESS_TYPES}


class NotReadable(MpbrokerError):
    """A broker runs, but what it left for `status` cannot be read (it is just starting or ending)."""


def read_status(path: str) -> dict[str, Any]:
    """The status document of the broker on a data directory. NothingRuns if there is none (then leftovers of a killed
    one are swept)."""
    if data_dir.holder(path) is None:
        sweep_leftovers(path)
        raise NothingRuns(path)
    found = read_status_file(path)
    if found is None:
        raise NotReadable(f"the broker on {path} is just starting; try again")
    try:
        page = PageView(found.page)
    except MpbrokerError as error:
        raise NotReadable(f"the broker on {path} is just starting or ending: {error}") from None
    try:
        return _document(page, found.node_id, list(found.listeners))
    finally:
        page.close()


def read_stacks(status: dict[str, Any]) -> list[dict[str, Any]]:
    """The Python stack of every process in a status document, or the reason why one did not answer; this asks them, and
    waits at most stacks.TIMEOUT_S."""
    rows = [row for row in status["processes"] if row["pid"]]
    return [
        {
            "role": row["role"],
            "index": row["index"],
            "pid": row["pid"],
            "doing": "working" if row["wait"] == "none" else f"in its wait `{row['wait']}`",
            "frames": list(stack.frames),
            "no_answer": stack.reason or None,
        }
        for row, stack in zip(rows, stacks.ask(row["pid"] for row in rows), strict=True)
    ]


def sweep_leftovers(path: str) -> None:
    """Remove names in /dev/shm that a killed broker left behind; only while nobody can start there."""
    if not segment.names_of(path) or not os.path.isdir(path):
        return
    try:
        lock = data_dir.lock(path)
    except (DataDirectoryInUse, MpbrokerError):
        return
    try:
        segment.sweep(path)
    finally:
        lock.close()


def _document(page: PageView, node_id: int, listeners: list[dict[str, Any]]) -> dict[str, Any]:
    now_ns = time.monotonic_ns()
    names = [listener["name"] for listener in listeners]
    values = page.counters()
    return {
        "schema": SCHEMA,
        "node_id": node_id,
        "state": page.state.name.lower(),
        "listeners": listeners,
        "processes": [_process(row, names, now_ns) for row in page.processes()],
        "rings": [
            {"name": ring.name, "depth": ring.depth, "capacity": ring.capacity, "peak": ring.peak}
            for ring in page.rings()
        ],
        "counters": {info.name: values[counter] for counter, info in COUNTERS.items()},
    }


def _process(row: ProcessInfo, listeners: list[str], now_ns: int) -> dict[str, Any]:
    alive = row.state not in (ProcessState.DEAD, ProcessState.EMPTY)
    has_listener = row.listener is not None and row.listener < len(listeners)
    return {
        "slot": row.slot,
        "role": _ROLES.get(row.role, str(row.role)),
        "index": row.index,
        "listener": listeners[row.listener] if has_listener else None,
        "pid": row.pid if alive else 0,
        "incarnation": row.incarnation,
        "state": row.state.name.lower(),
        "wait": row.wait,
        "heartbeat_age_ms": max(0, now_ns - row.heartbeat_ns) // 1_000_000,
        "request": _request(row, now_ns) if alive else None,
        "restarts": row.restarts,
        "last_exit": _exit_text(row.last_exit),
    }


def _request(row: ProcessInfo, now_ns: int) -> dict[str, Any] | None:
    if row.api_key is None:
        return None
    return {
        "api": API_NAMES.get(row.api_key, str(row.api_key)),
        "version": row.api_version,
        "age_ms": max(0, now_ns - row.request_since_ns) // 1_000_000,
    }


def _exit_text(status: int | None) -> str | None:
    """How the slot's last process ended: `signal 9` or `exit 1`; None when none ever did."""
    if status is None:
        return None
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
