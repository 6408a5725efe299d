"""The state of a broker as one document, read from outside: from its shared memory and its status file, never by asking
it.

Used by `mpbroker status`, `stop` and tests; works while the broker hangs or is stopped, because it waits for nobody
(`read_stacks` does ask, and waits at most 2 s).
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mpbroker.errors import DataDirectoryInUse, MpbrokerError, NothingRuns
from mpbroker.log import data_dir
from mpbroker.protocol.api_keys import API_NAMES
from mpbroker.shm import segment
from mpbroker.shm.core_view import CoreError, CoreView
from mpbroker.shm.counters import COUNTERS
from mpbroker.shm.owner import refusal
from mpbroker.shm.page_view import PageError, PageView
from mpbroker.shm.process_table import ProcessInfo, ProcessState
from mpbroker.supervisor import health, stacks
from mpbroker.supervisor.health import Facts, Finding
from mpbroker.supervisor.status_file import StatusFile, read_status_file

SCHEMA = 2
SECOND_LOOK_S = 0.4
"""After a machine or a container was frozen every heartbeat is old until its process has run: who still looks silent is
looked at again."""


class NotReadable(MpbrokerError):
    """A broker runs, but what it left for `status` cannot be read (it is just starting or ending)."""


def read_status(path: str) -> dict[str, Any]:
    """The status document of the broker on a data directory. NothingRuns if there is none (then leftovers of a killed
    one are swept); BelongsToAnother if it is another user's."""
    with _opened(path) as (said, page):
        return _document(path, said, page)


def read_health(path: str) -> dict[str, Any]:
    """Only how it is, and who it is: as `health`, `pid`, `processes`, `uptime_s` in the whole document. Looks at memory
    and at two small files, and at no other disk."""
    with _opened(path) as (said, page):
        findings = _judge_twice(said, page)
        return {
            "data_dir": os.path.realpath(path),
            "pid": said.pid,
            "uptime_s": _seconds_since(said.started_ns),
            "processes": sum(row.state is ProcessState.RUNNING for row in page.processes()),
            "health": _health(findings),
        }


def read_stacks(status: dict[str, Any]) -> list[dict[str, Any]]:
    """The Python stack of every process in a status document, or the reason why one did not answer; this asks them, and
    waits at most stacks.TIMEOUT_S."""
    rows = [row for row in status["processes"] if row["pid"]]
    try:
        found = stacks.ask(row["pid"] for row in rows)
    except PermissionError:
        raise refusal(f"the broker on {status['data_dir']}", f"/proc/{status['pid']}") from None
    return [
        {
            "role": row["role"],
            "index": row["index"],
            "pid": row["pid"],
            "doing": "working" if row["wait"] == "none" else f"in its wait `{row['wait']}`",
            "frames": list(stack.frames),
            "no_answer": stack.reason or None,
        }
        for row, stack in zip(rows, found, strict=True)
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


@contextmanager
def _opened(path: str) -> Iterator[tuple[StatusFile, PageView]]:
    if data_dir.holder(path) is None:
        sweep_leftovers(path)
        raise NothingRuns(path)
    try:
        said = read_status_file(path)
    except PermissionError:
        raise refusal(f"data directory {path}", path) from None
    if said is None:
        raise NotReadable(f"the broker on {path} is just starting; try again")
    try:
        page = PageView(said.page)
    except PageError as error:
        raise NotReadable(f"the broker on {path} is just starting or ending: {error}") from None
    try:
        yield said, page
    finally:
        page.close()


def _document(path: str, said: StatusFile, page: PageView) -> dict[str, Any]:
    now_ns = time.monotonic_ns()
    names = {listener["index"]: listener["name"] for listener in said.listeners}
    values = page.counters()
    findings = _judge_twice(said, page)
    levels = {one.slot: one.level for one in reversed(findings) if one.level in (health.HUNG, health.SILENT)}
    return {
        "schema": SCHEMA,
        "version": said.version,
        "data_dir": os.path.realpath(path),
        "pid": said.pid,
        "node_id": said.node_id,
        "cluster_id": said.cluster_id,
        "state": page.state.name.lower(),
        "health": _health(findings),
        "started_ms": said.started_ms,
        "uptime_s": _seconds_since(said.started_ns),
        "listeners": [{key: one[key] for key in one if key != "index"} for one in said.listeners],
        "admin": said.admin,
        "topics": _topics(said.pid),
        "disks": _disks(path, said.trace_dir),
        "processes": [_process(row, names, now_ns, levels.get(row.slot)) for row in page.processes()],
        "rings": [
            {"name": ring.name, "depth": ring.depth, "capacity": ring.capacity, "peak": ring.peak}
            for ring in page.rings()
        ],
        "counters": {info.name: values[counter] for counter, info in COUNTERS.items()},
    }


def _judge_twice(said: StatusFile, page: PageView) -> list[Finding]:
    found = _judge(said, page)
    if any(one.level in (health.HUNG, health.SILENT) for one in found):
        time.sleep(SECOND_LOOK_S)
        found = _judge(said, page)
    return found


def _judge(said: StatusFile, page: PageView) -> list[Finding]:
    facts = Facts(
        page.state,
        said.started_ns,
        page.processes(),
        page.rings(),
        page.reserved_handlers,
        lambda: _held_requests(said.pid),
    )
    return health.judge(facts, time.monotonic_ns())


def _held_requests(pid: int) -> Counter[int]:
    try:
        core = CoreView(pid)
    except (CoreError, PermissionError):
        return Counter()
    try:
        return core.held_requests()
    finally:
        core.close()


def _health(findings: Sequence[Finding]) -> dict[str, Any]:
    now_ns, now_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
    return {
        "state": health.state_of(findings),
        "findings": [
            {
                "level": one.level,
                "process": one.process,
                "pid": one.pid,
                "since_ms": now_ms - (now_ns - one.since_ns) // 1_000_000,
                "for_s": max(0, now_ns - one.since_ns) // 1_000_000_000,
                "sentence": one.sentence,
            }
            for one in findings
        ],
    }


def _topics(pid: int) -> list[dict[str, Any]] | None:
    """Every topic with its size; None when the broker's core segment cannot be read."""
    try:
        core = CoreView(pid)
    except (CoreError, PermissionError):
        return None
    try:
        return [
            {"name": one.name, "partitions": one.partitions, "bytes": one.log_bytes, "offline_partitions": one.offline}
            for one in core.topics()
        ]
    finally:
        core.close()


def _disks(path: str, trace_dir: str) -> list[dict[str, Any]]:
    """Free space where records and traces go; bytes that this broker may use, as `df` has them."""
    found = []
    for what, directory in (("records", os.path.realpath(path)), ("traces", trace_dir)):
        try:
            disk = os.statvfs(directory)
        except OSError:  # it does not trace, or the directory is gone
            continue
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        found.append({"for": what, "path": directory, "free_bytes": free, "total_bytes": total})
    return found


def _seconds_since(moment_ns: int) -> int:
    return max(0, time.monotonic_ns() - moment_ns) // 1_000_000_000


def _process(row: ProcessInfo, listeners: dict[int, str], now_ns: int, level: str | None) -> dict[str, Any]:
    alive = row.state not in (ProcessState.DEAD, ProcessState.EMPTY)
    listener = None if row.listener is None else listeners.get(row.listener)
    return {
        "slot": row.slot,
        "role": health.ROLES.get(row.role, str(row.role)),
        "index": row.index,
        "listener": listener,
        "pid": row.pid if alive else 0,
        "incarnation": row.incarnation,
        "state": level or row.state.name.lower(),
        "wait": row.wait,
        "heartbeat_age_ms": max(0, now_ns - row.heartbeat_ns) // 1_000_000,
        "request": _request(row, now_ns) if alive else None,
        "restarts": row.restarts,
        "last_exit": health.how_it_ended(row.last_exit),
    }


def _request(row: ProcessInfo, now_ns: int) -> dict[str, Any] | None:
    if row.api_key is None:
        return None
    return {
        "api": API_NAMES.get(row.api_key, str(row.api_key)),
        "version": row.api_version,
        "age_ms": max(0, now_ns - row.request_since_ns) // 1_000_000,
    }
