"""Where the time of a fail-over went: moments of one topic's partition by what the brokers that live wrote down."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpbroker.analysis.lab.incident.incident_tables import RECORDS, at
from mpbroker.client.prepared_request import client_hash
from mpbroker.trace import record, role_change, segment

PRODUCE, UPDATE_METADATA = 0, 6
LEADER, FOLLOWER = 0, 1


class Stages(NamedTuple):
    """Moments of time.monotonic(); None: not written down. `refused`: Produces that the new leader answered with an
    error before its first good one."""

    lost_s: float | None
    started_s: float | None
    elected_s: float | None
    led_s: float | None
    followed_s: float | None
    known_s: float | None
    sent_s: float | None
    acked_s: float | None
    refused: int

    def after(self, killed_s: float) -> dict[str, int | None]:
        """Milliseconds since the kill."""
        found: dict[str, int | None] = {}
        for name, moment in self._asdict().items():
            if name.endswith("_s"):
                found[name[:-2]] = None if moment is None else round((moment - killed_s) * 1000)
        return {**found, "refused": self.refused}


def stages_of(directory: Path, brokers: Sequence[int], topic: str, killed_s: float) -> Stages:
    """`brokers`: those that live; `directory`: the cluster's."""
    lines = [line for broker in brokers for line in _changes(directory / f"broker-{broker}", killed_s)]
    traces = {broker: _records(directory / f"broker-{broker}" / "traces", killed_s) for broker in brokers}
    hashed, since_ns = client_hash(topic), int(killed_s * 1e9)
    roles = [
        (broker, one)
        for broker in brokers
        for one in _roles(traces[broker])
        if one.topic_hash == hashed and one.t0_ns > since_ns
    ]
    led = min(((one.t0_ns, broker) for broker, one in roles if one.new_role == LEADER), default=None)
    followed = min((one.t0_ns for _, one in roles if one.new_role == FOLLOWER), default=None)
    known = [_first_update(traces[broker], 0 if led is None else led[0]) for broker in brokers]
    sent, acked, refused = (None, None, 0) if led is None else _produced(traces[led[1]], hashed, since_ns)
    return Stages(
        lost_s=_first(lines, " broker_lost "),
        started_s=_first(lines, " controller_started "),
        elected_s=_first(lines, " partition_state_changed ", f" topic={topic} ", " leader="),
        led_s=None if led is None else led[0] / 1e9,
        followed_s=None if followed is None else followed / 1e9,
        known_s=None if None in known else max(one for one in known if one is not None) / 1e9,
        sent_s=sent,
        acked_s=acked,
        refused=refused,
    )


def _changes(broker: Path, killed_s: float) -> Iterator[tuple[float, str]]:
    """Lines of state-change.log since the kill, with their moments."""
    wall_s = time.time() - time.monotonic()
    path = broker / "state-change.log"
    for line in path.read_text().splitlines() if path.exists() else ():
        stamp = line.split(" ", 1)[0]
        seconds = calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) + int(stamp[20:23]) / 1000
        if seconds - wall_s > killed_s - 0.001:
            yield seconds - wall_s, line + " "


def _first(lines: list[tuple[float, str]], *words: str) -> float | None:
    return min((moment for moment, line in lines if all(word in line for word in words)), default=None)


def _records(traces: Path, killed_s: float) -> Any:
    """All records of segments that were written to since the kill."""
    wall_s = time.time() - time.monotonic()
    rows = [np.empty(0, RECORDS)]
    for path in sorted(traces.glob(f"*{segment.SUFFIX}")):
        if path.stat().st_mtime >= killed_s + wall_s:
            rows += [np.frombuffer(chunk, RECORDS) for chunk in segment.read_chunks(segment.read_info(path))]
    found = np.concatenate(rows)
    return found[found["t0_ns"] > (killed_s - 1) * 1e9]


def _roles(rows: Any) -> list[role_change.RoleChange]:
    return [role_change.unpack(row.tobytes()) for row in rows[rows["kind"] == record.ROLE_CHANGE]]


def _first_update(rows: Any, since_ns: int) -> int | None:
    """When the first UpdateMetadata with partitions after this moment was carried out."""
    mine = rows[(rows["kind"] == record.REQUEST) & (rows["api_key"] == UPDATE_METADATA) & (rows["nparts"] > 0)]
    ends = at(mine, "resp_enq")
    return int(ends[ends > since_ns].min(initial=2**62)) if (ends > since_ns).any() else None


def _produced(rows: Any, hashed: int, since_ns: int) -> tuple[float | None, float | None, int]:
    """The first Produce that succeeded: when it came, when it was answered; how many were refused before."""
    mine = rows[(rows["kind"] == record.REQUEST) & (rows["api_key"] == PRODUCE) & (rows["topic_hash"] == hashed)]
    mine = mine[mine["t0_ns"] > since_ns]
    good = mine[mine["error"] == 0]
    if not len(good):
        return None, None, len(mine)
    first = good[np.argsort(good["t0_ns"])[0]]
    refused = int((mine["t0_ns"] < first["t0_ns"]).sum())
    return int(first["t0_ns"]) / 1e9, float(at(first, "resp_enq")) / 1e9, refused
