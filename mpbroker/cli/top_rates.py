"""What `mpbroker top` shows, as one document: rates, shares and latencies between two samples. Pure."""

from __future__ import annotations

from typing import Any, Final

from mpbroker.admin.group_families import GroupLook
from mpbroker.cli.top_sample import Sample
from mpbroker.errors import error_name
from mpbroker.protocol.api_keys import API_NAMES
from mpbroker.shm.latency_window import STAGE_NAMES
from mpbroker.shm.partition_metrics import PartitionMetrics
from mpbroker.shm.request_metrics import STAGES, ApiMetrics

SCHEMA: Final = 1


def document(before: Sample, now: Sample) -> dict[str, Any]:
    """The document for `--json` and for the screen. What began between the samples is counted from nothing."""
    seconds = max(now.taken_s - before.taken_s, 1e-3)
    same = before.status["pid"] == now.status["pid"] and before.status["started_ms"] == now.status["started_ms"]
    earlier = before if same else None
    apis = _apis(earlier, now, seconds)
    topics = _topics(earlier, now, seconds)
    return {
        "schema": SCHEMA,
        "interval_s": round(seconds, 3),
        "broker": _broker(now.status, apis, topics),
        "processes": _processes(before, now, seconds),
        "rings": now.status["rings"],
        "apis": apis,
        "topics": topics,
        "groups": _groups(now.groups, now.partitions),
        "groups_complete": now.groups.is_complete,
        "transactions": _transactions(now),
    }


def _transactions(now: Sample) -> dict[str, Any]:
    """Those that are open, one in several partitions several times, and their topics: records up to the high watermark
    that readers of committed ones do not get yet."""
    rows = []
    for name, partitions in now.partitions.items():
        those = [one for one in partitions if one.open_transactions or one.last_stable < one.high_watermark]
        held = sum(max(0, one.high_watermark - one.last_stable) for one in those)
        if held or any(one.open_transactions for one in those):
            open_ones = _sum(those, "open_transactions")
            rows.append({"name": name, "partitions": len(those), "ongoing": open_ones, "lso_lag": held})
    age_s = now.oldest_transaction_s
    return {
        "ongoing": sum(row["ongoing"] for row in rows),
        "lso_lag": sum(row["lso_lag"] for row in rows),
        "oldest_s": None if age_s is None else round(age_s, 1),
        "topics": sorted(rows, key=lambda row: (-row["lso_lag"], row["name"])),
    }


def _broker(status: dict[str, Any], apis: list[dict[str, Any]], topics: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("version", "node_id", "pid", "data_dir", "state", "uptime_s", "listeners", "admin")
    rates = ("records_in_per_s", "bytes_in_per_s", "bytes_out_per_s")
    return {name: status[name] for name in names} | {
        "health": status["health"]["state"],
        "findings": [f"{one['process']}: {one['sentence']}" for one in status["health"]["findings"]],
        "requests_per_s": round(sum(one["per_s"] for one in apis), 1),
        "errors_per_s": round(sum(one["errors_per_s"] for one in apis), 1),
        **{rate: round(sum(one[rate] for one in topics), 1) for rate in rates},
    }


def _processes(before: Sample, now: Sample, seconds: float) -> list[dict[str, Any]]:
    """A process that was restarted meanwhile has another pid, and counts from nothing."""
    return [
        {
            "role": row["role"],
            "index": row["index"],
            "pid": row["pid"],
            "state": row["state"],
            "wait": row["wait"],
            "request": row["request"]["api"] if row["request"] else None,
            "cpu_percent": _percent(before, now, row["pid"], seconds),
            "memory_bytes": now.memory_bytes.get(row["pid"], 0),
            "restarts": row["restarts"],
        }
        for row in now.status["processes"]
    ]


def _percent(before: Sample, now: Sample, pid: int, seconds: float) -> float:
    used = now.processors_s.get(pid, 0.0) - before.processors_s.get(pid, 0.0)
    return round(max(0.0, used) / seconds * 100, 1)


def _apis(before: Sample | None, now: Sample, seconds: float) -> list[dict[str, Any]]:
    """Requests answered meanwhile, the most frequent API first."""
    earlier = {one.api_key: one for one in before.apis} if before is not None else {}
    rows = [_api(earlier.get(one.api_key), one, seconds) for one in now.apis]
    return sorted((row for row in rows if row["requests"]), key=lambda row: (-row["requests"], row["api"]))


def _api(before: ApiMetrics | None, now: ApiMetrics, seconds: float) -> dict[str, Any]:
    requests = now.requests - (before.requests if before else 0)
    errors = {
        error_name(code): count - (before.errors.get(code, 0) if before else 0) for code, count in now.errors.items()
    }
    other = now.other_errors - (before.other_errors if before else 0)
    stages = {STAGE_NAMES[name]: now.stages[name].since(before.stages[name] if before else None) for name in STAGES}
    total = stages["total"]
    return {
        "api": API_NAMES.get(now.api_key, str(now.api_key)),
        "requests": requests,
        "per_s": round(requests / seconds, 1),
        "errors_per_s": round((sum(errors.values()) + other) / seconds, 1),
        "errors": {name: count for name, count in errors.items() if count},
        "p50_ms": _ms(total.quantile_s(0.5)),
        "p99_ms": _ms(total.quantile_s(0.99)),
        "stage_mean_ms": {name: _ms(one.sum_s / one.total if one.total else 0.0) for name, one in stages.items()},
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def _topics(before: Sample | None, now: Sample, seconds: float) -> list[dict[str, Any]]:
    """By bytes moved meanwhile, then by size."""
    rows = []
    for name, partitions in now.partitions.items():
        earlier = before.partitions.get(name, []) if before is not None else []
        moved = {field: _sum(partitions, field) - _sum(earlier, field) for field in _MOVED}
        rows.append(
            {
                "name": name,
                "partitions": len(partitions),
                "offline": sum(not one.online for one in partitions),
                "log_bytes": _sum(partitions, "log_bytes"),
                **{rate: round(max(0, moved[field]) / seconds, 1) for field, rate in _MOVED.items()},
            }
        )
    return sorted(rows, key=lambda row: (-row["bytes_in_per_s"] - row["bytes_out_per_s"], -row["log_bytes"]))


_MOVED: Final = {"records_in": "records_in_per_s", "bytes_in": "bytes_in_per_s", "bytes_read": "bytes_out_per_s"}


def _sum(partitions: list[PartitionMetrics], field: str) -> int:
    return sum(getattr(one, field) for one in partitions)


def _groups(look: GroupLook, partitions: dict[str, list[PartitionMetrics]]) -> list[dict[str, Any]]:
    """Groups by their lag: records of partitions in which they have committed that they have not read yet."""
    ends = {(name, one.partition): one.high_watermark for name, rows in partitions.items() for one in rows}
    found: dict[str, dict[str, Any]] = {
        name: {"name": name, "members": members, "topics": set(), "partitions": 0, "lag": 0}
        for name, members in look.members.items()
    }
    for (group, topic, partition), offset in look.offsets.items():
        if group in found and (topic, partition) in ends:
            row = found[group]
            row["topics"].add(topic)
            row["partitions"] += 1
            row["lag"] += max(0, ends[topic, partition] - offset)
    rows = [row | {"topics": sorted(row["topics"])} for row in found.values()]
    return sorted(rows, key=lambda row: (-row["lag"], row["name"]))
