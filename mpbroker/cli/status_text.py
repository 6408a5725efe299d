"""How `mpbroker status` words what it found; a command's process."""

import time
from typing import Any

_COLUMNS = ("slot", "role", "index", "listener", "pid", "state", "wait", "moved", "request", "restarts", "last exit")
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def status(found: dict[str, Any]) -> str:
    """The status document for people."""
    rings = [(ring["name"], ring["depth"], ring["capacity"], ring["peak"]) for ring in found["rings"]]
    parts = [
        _table(("", ""), _head(found))[1:],
        _table(_COLUMNS, [_cells(row) for row in found["processes"]]),
        _table(("ring", "waiting", "capacity", "peak"), rings),
        _table(("counter", "value"), [(name, value) for name, value in found["counters"].items() if value]),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def health(found: dict[str, Any]) -> str:
    """One line: the word for its health, then the worst finding with its process and since when."""
    findings = found["health"]["findings"]
    if not findings:
        return (
            f"ok: the broker on {found['data_dir']} (pid {found['pid']}), up {duration(found['uptime_s'])}, "
            f"{found['processes']} processes"
        )
    others = [one["process"] for one in findings[1:]]
    more = f"; also: {', '.join(dict.fromkeys(others))}" if others else ""
    return f"{found['health']['state']}: {_finding(findings[0])}{more}"


def stacks(found: dict[str, Any]) -> str:
    """Every process with its stack, innermost frame first, or why there is none."""
    lines = []
    for one in found["stacks"]:
        lines.append(f"{one['role']} {one['index']}, pid {one['pid']}, {one['doing']}")
        lines += [f"    {frame}" for frame in one["frames"]] or [f"    no answer: {one['no_answer']}"]
        lines.append("")
    return "\n".join(lines[:-1])


def duration(seconds: int) -> str:
    """`45 s`, `12 min 3 s`, `5 h 2 min`, `3 d 4 h`."""
    for unit, size, lower, smaller in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // smaller} {lower}"
    return f"{seconds} s"


def byte_count(count: int) -> str:
    """`512 B`, `3.4 MiB`."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _head(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What stands above the tables, a line each."""
    listeners = " ".join(f"{each['name']}://{each['host']}:{each['port']}" for each in found["listeners"])
    lines = [
        ("broker", f"mpbroker {found['version']}, node {found['node_id']}, cluster {found['cluster_id']}"),
        ("state", f"{found['state']}, up {duration(found['uptime_s'])}"),
        ("health", found["health"]["state"]),
        *(("", _finding(one)) for one in found["health"]["findings"]),
        ("listeners", listeners),
        ("admin", found["admin"] or "off"),
        ("data", found["data_dir"]),
        ("topics", _topics(found["topics"])),
    ]
    for disk in found["disks"]:
        free = f"{byte_count(disk['free_bytes'])} free of {byte_count(disk['total_bytes'])}"
        lines.append((f"disk: {disk['for']}", f"{free} ({disk['path']})"))
    return lines


def _topics(topics: list[dict[str, Any]] | None) -> str:
    if topics is None:
        return "cannot be read"
    partitions, size = sum(one["partitions"] for one in topics), sum(one["bytes"] for one in topics)
    return f"{len(topics)} ({partitions} partitions), {byte_count(size)}"


def _finding(one: dict[str, Any]) -> str:
    since = time.strftime("%H:%M:%S", time.localtime(one["since_ms"] / 1000))
    if one["for_s"] >= 86400:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["since_ms"] / 1000))
    process = f"{one['process']} (pid {one['pid']})" if one["pid"] else one["process"]
    return f"{process}, since {since} ({duration(one['for_s'])}): {one['sentence']}"


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    request = row["request"]
    shown = f"{request['api']} v{request['version']} {_age(request['age_ms'])}" if request else "-"
    return (
        row["slot"],
        row["role"],
        row["index"],
        row["listener"] or "-",
        row["pid"] or "-",
        row["state"],
        row["wait"],
        f"{_age(row['heartbeat_age_ms'])} ago",
        shown,
        row["restarts"],
        row["last_exit"] or "-",
    )


def _age(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else duration(milliseconds // 1000)


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    cells = [heads, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return ["  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
