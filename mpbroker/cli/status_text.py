"""How `mpbroker status` words what it found; a command's process."""

from typing import Any

_COLUMNS = ("slot", "role", "index", "listener", "pid", "state", "wait", "beat ms", "request", "restarts", "last exit")


def status(found: dict[str, Any]) -> str:
    """The status document for people."""
    listeners = " ".join(f"{each['name']}://{each['host']}:{each['port']}" for each in found["listeners"])
    lines = [
        f"node {found['node_id']}  {found['state']}  {listeners}",
        "",
        *_table(_COLUMNS, [_cells(row) for row in found["processes"]]),
        "",
        *_table(
            ("ring", "waiting", "capacity", "peak"),
            [(ring["name"], ring["depth"], ring["capacity"], ring["peak"]) for ring in found["rings"]],
        ),
        "",
        *_table(("counter", "value"), [(name, value) for name, value in found["counters"].items() if value]),
    ]
    return "\n".join(lines)


def stacks(found: dict[str, Any]) -> str:
    """Every process with its stack, innermost frame first, or why there is none."""
    lines = []
    for one in found["stacks"]:
        lines.append(f"{one['role']} {one['index']}, pid {one['pid']}, {one['doing']}")
        lines += [f"    {frame}" for frame in one["frames"]] or [f"    no answer: {one['no_answer']}"]
        lines.append("")
    return "\n".join(lines[:-1])


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    request = row["request"]
    shown = f"{request['api']} v{request['version']} {request['age_ms']} ms" if request else "-"
    return (
        row["slot"],
        row["role"],
        row["index"],
        row["listener"] or "-",
        row["pid"] or "-",
        row["state"],
        row["wait"],
        row["heartbeat_age_ms"],
        shown,
        row["restarts"],
        row["last_exit"] or "-",
    )


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    cells = [heads, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return ["  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
