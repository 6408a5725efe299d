"""What the records of three brokers and the probes' log say of each election: tables, as plain rows. Pure but for
reading traces; times are CLOCK_MONOTONIC, one for all brokers of the machine.

    T_A, T_B     the new role is in force at A, at B (records *role changed* of one leader epoch)
    D            T_A - T_B while both led: the double-leadership window; 0 when A gave up first
    doomed       acks=all writes that A appended between T_B and T_A: they cannot be acknowledged any more
    lost         acks=1 writes that were acknowledged and are not in the log in the end
    gap          the longest time without an acknowledgement (acks=all) around an election
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpbroker.analysis.lab.incident.cluster_brokers import BROKERS
from mpbroker.analysis.lab.incident.incident_run import HOT, NOISE, A, B, IncidentResult
from mpbroker.analysis.lab.incident.probe import NEVER
from mpbroker.trace import record, role_change, segment

LEADER_AND_ISR, PRODUCE = 4, 0
ACKS_ALL = 3
"""As flags have it."""
_CODES = {"Q": "u8", "I": "u4", "i": "i4", "B": "u1", "h": "i2", "H": "u2", "13I": "(13,)u4"}
RECORDS = np.dtype(
    [(name, "<" + _CODES[code] if code != "13I" else (np.dtype("<u4"), (13,))) for name, code in record.FIELDS]
)
_STAGE = {name: number for number, name in enumerate(record.STAGES)}


class BrokerTrace(NamedTuple):
    """Records of one broker: requests worth a look, changes of roles, how many requests the flood made in a time."""

    hot: np.ndarray[Any, Any]
    control: np.ndarray[Any, Any]
    roles: list[role_change.RoleChange]
    flood_requests: int
    dropped: int


def read_broker(directory: Path, hot_hash: int, noise_hash: int, watched_ns: tuple[int, int]) -> BrokerTrace:
    """All segments of a broker's folder."""
    hot, control, roles, flood, dropped = [], [], [], 0, 0
    for path in sorted(directory.glob(f"*{segment.SUFFIX}")):
        info = segment.read_info(path)
        dropped += info.progress.share()[2]
        for chunk in segment.read_chunks(info, 65536):
            rows = np.frombuffer(chunk, RECORDS)
            requests = rows["kind"] == record.REQUEST
            produced = requests & (rows["api_key"] == PRODUCE)
            hot.append(rows[produced & (rows["topic_hash"] == hot_hash)])
            control.append(rows[requests & (rows["api_key"] == LEADER_AND_ISR)])
            noise = rows[produced & (rows["topic_hash"] == noise_hash)]
            flood += int(((noise["t0_ns"] >= watched_ns[0]) & (noise["t0_ns"] < watched_ns[1])).sum())
            for place in np.flatnonzero(rows["kind"] == record.ROLE_CHANGE).tolist():
                roles.append(role_change.unpack(chunk, place * record.RECORD_BYTES))
    return BrokerTrace(np.concatenate(hot), np.concatenate(control), roles, flood, dropped)


def at(rows: Any, stage: str) -> Any:
    """The moment of a stage, 0 where it was not reached."""
    ticks = rows["stage"][..., _STAGE[stage]].astype(np.int64)
    reached = ticks < record.SATURATED
    return np.where(reached, rows["t0_ns"].astype(np.int64) + ticks * record.TICK_NS, 0)


def between(rows: Any, first: str, last: str) -> Any:
    """Nanoseconds from one stage to another; 0 where one of them was not reached."""
    begin, end = at(rows, first), at(rows, last)
    return np.where((begin > 0) & (end > 0), end - begin, 0)


def election_rows(result: IncidentResult, traces: dict[int, BrokerTrace]) -> list[dict[str, Any]]:
    """One row for each election from A to B, and back."""
    hot = {broker: [one for one in traces[broker].roles if one.topic_hash == _hash(HOT)] for broker in (A, B)}
    acked = np.array(sorted(row[5] for row in result.probes if row[1] < 0 and row[6] == 0 and row[5] != NEVER))
    rows = []
    for number, election in enumerate(result.elections):
        old = B if election.leader == A else A
        led = _first(hot[election.leader], 0, election.asked_ns)
        if led is None:
            continue
        gave_up = next((one for one in hot[old] if one.leader_epoch == led.leader_epoch and one.new_role == 1), None)
        if gave_up is None:
            continue
        until_ns = result.elections[number + 1].asked_ns if number + 1 < len(result.elections) else result.flood_ns[1]
        window = (led.t0_ns, gave_up.t0_ns)
        rows.append(
            {
                "election": number,
                "to": "B" if election.leader == B else "A",
                "leader_epoch": led.leader_epoch,
                "asked_to_led_ms": _ms(led.t0_ns - election.asked_ns),
                "asked_to_given_up_ms": _ms(gave_up.t0_ns - election.asked_ns),
                "double_ms": _ms(max(0, gave_up.t0_ns - led.t0_ns)),
                "leaderless_ms": _ms(max(0, led.t0_ns - gave_up.t0_ns)),
                **_waits(traces[old].control, election.asked_ns, gave_up.t0_ns),
                **_doomed(traces[old].hot, window),
                "gap_ms": _ms(_gap(acked, election.asked_ns, until_ns)),
            }
        )
    return rows


def _hash(name: str) -> int:
    from mpbroker.client.prepared_request import client_hash

    return client_hash(name)


def _ms(nanoseconds: float) -> float:
    return round(float(nanoseconds) / 1e6, 3)


def _first(roles: Iterable[role_change.RoleChange], new_role: int, after_ns: int) -> role_change.RoleChange | None:
    """The first change into a role from another one after a moment."""
    found = [one for one in roles if one.t0_ns >= after_ns and one.new_role == new_role and one.old_role != new_role]
    return min(found, key=lambda one: one.t0_ns, default=None)


def _waits(control: Any, asked_ns: int, moment_ns: int) -> dict[str, float]:
    """Where the LeaderAndIsr that was being carried out at a moment had been: the parts of its wait."""
    begun, ended = control["t0_ns"].astype(np.int64), at(control, "send_done")
    (places,) = np.nonzero((begun <= moment_ns) & (ended >= moment_ns))
    if not len(places):
        return dict.fromkeys(("asked_to_read_ms", "read_ms", "queue_ms", "work_ms", "plane", "controller_epoch"), -1.0)
    one = control[places[0]]
    return {
        "asked_to_read_ms": _ms(int(one["t0_ns"]) - asked_ns),
        "read_ms": _ms(int(at(one, "enqueued")) - int(one["t0_ns"])),
        "queue_ms": _ms(between(one, "enqueued", "dequeued")),
        "work_ms": _ms(moment_ns - int(at(one, "dequeued"))),
        "plane": float(int(one["plane_prio"]) & 3),
        "controller_epoch": float(int(one["aux"])),
    }


def _doomed(hot: Any, window: tuple[int, int]) -> dict[str, Any]:
    """Writes with acks=all that were appended in the window, what they were answered, and when after its end."""
    appended = at(hot, "io_done")
    in_it = (appended > window[0]) & (appended < window[1]) & ((hot["flags"] & record.ACKS_MASK) == ACKS_ALL)
    rows = hot[in_it]
    answered = at(rows, "resp_enq") - window[1]
    return {
        "doomed": len(rows),
        "doomed_codes": " ".join(f"{code}:{count}" for code, count in sorted(_counts(rows["error"]).items())),
        "doomed_purgatory_ms": _ms(between(rows, "purg_enter", "purg_leave").max(initial=0)),
        "given_up_to_answered_ms": _ms(answered.max(initial=0)),
    }


def _counts(values: Any) -> dict[int, int]:
    found, counts = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _gap(acked: Any, from_ns: int, to_ns: int) -> int:
    """Between two acknowledgements one of which is in this time."""
    inside = np.flatnonzero((acked >= from_ns) & (acked < to_ns))
    if not len(inside):
        return to_ns - from_ns
    first = max(0, int(inside[0]) - 1)
    return int(np.diff(acked[first : int(inside[-1]) + 1]).max(initial=0))


def probe_row(result: IncidentResult) -> dict[str, Any]:
    """What became of the probes of a variant."""
    in_log, rows = set(result.log.values()), result.probes
    duplicates = len(result.log) - len(in_log)

    def count(acks: int, *codes: int) -> int:
        return sum(row[1] == acks and row[6] in codes for row in rows)

    return {
        "variant": result.variant.name,
        "acks_all_sent": sum(row[1] == -1 for row in rows),
        "acks_all_acknowledged": count(-1, 0),
        "acks_all_refused_6": count(-1, 6),
        "acks_all_timed_out_7": count(-1, 7),
        "acks_all_unanswered": count(-1, NEVER),
        "acks_all_lost": sum(row[1] == -1 and row[6] == 0 and row[0] not in in_log for row in rows),
        "acks_1_sent": sum(row[1] == 1 for row in rows),
        "acks_1_acknowledged": count(1, 0),
        "acks_1_lost": sum(row[1] == 1 and row[6] == 0 and row[0] not in in_log for row in rows),
        "duplicates": duplicates,
    }


def quantile(values: Sequence[float], share: float) -> float:
    """By rank: of thirty values the 0.99 quantile is the largest one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def variant_row(result: IncidentResult, traces: dict[int, BrokerTrace], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A variant in one line: elections from A, which the flood keeps busy, to B."""
    away = [row for row in rows if row["to"] == "B"]
    double = [row["double_ms"] for row in away]
    seconds = (result.flood_ns[1] - result.flood_ns[0]) / 1e9
    return {
        "variant": result.variant.name,
        "elections": len(away),
        "double_p50_ms": quantile(double, 0.5),
        "double_p99_ms": quantile(double, 0.99),
        "asked_to_led_p50_ms": quantile([row["asked_to_led_ms"] for row in away], 0.5),
        "asked_to_given_up_p50_ms": quantile([row["asked_to_given_up_ms"] for row in away], 0.5),
        "queue_p50_ms": quantile([row["queue_ms"] for row in away], 0.5),
        "queue_p99_ms": quantile([row["queue_ms"] for row in away], 0.99),
        "work_p50_ms": quantile([row["work_ms"] for row in away], 0.5),
        "doomed": sum(row["doomed"] for row in away),
        "answered_after_max_ms": max((row["given_up_to_answered_ms"] for row in away), default=0.0),
        "gap_p50_ms": quantile([row["gap_ms"] for row in away], 0.5),
        "gap_max_ms": max((row["gap_ms"] for row in away), default=0.0),
        "gap_back_p50_ms": quantile([row["gap_ms"] for row in rows if row["to"] == "A"], 0.5),
        "flood_per_s": round(traces[A].flood_requests / seconds, 1),
        "records_dropped": sum(one.dropped for one in traces.values()),
    }


def read_traces(result: IncidentResult) -> dict[int, BrokerTrace]:
    """Of all brokers."""
    return {
        broker: read_broker(result.traces / f"broker-{broker}", _hash(HOT), _hash(NOISE), result.flood_ns)
        for broker in BROKERS
    }
