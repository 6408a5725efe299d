"""The screen of `mpbroker top`, drawn with rich: the one module that imports it. Pure: a document in, a drawing out.

On a small screen every part says how many rows it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mpbroker.cli.status_text import byte_count, duration

_HEAD_LINES: Final = 4
_PART_LINES: Final = 2
"""Of a table without its rows: the empty line before it, and its heads."""
_STAGES: Final = ("queue", "local", "remote", "response_queue", "send")
_COLOURS: Final = {"ok": "green", "degraded": "yellow"}


def draw(found: dict[str, Any], height: int) -> RenderableType:
    """The whole screen, at most `height` lines."""
    makers = (_processes, _rings, _apis, _topics, _groups)
    parts = [make(found) for make in makers] + ([_transactions(found)] if found["transactions"]["topics"] else [])
    drawn: list[RenderableType] = list(islice(_head(found), height))
    for (table, rows), shown in zip(parts, share_out([len(rows) for _, rows in parts], height), strict=False):
        for row in rows[:shown]:
            table.add_row(*row)
        drawn += [Text(""), table]
        if shown < len(rows):
            drawn.append(Text(f"  and {len(rows) - shown} more", style="dim"))
    return Group(*drawn)


def share_out(wanted: list[int], height: int) -> list[int]:
    """How many rows each part shows, so that all fit under the head: the longest give first, and keep one; where that
    does not suffice the last parts are left out."""
    shown = list(wanted)
    while shown and _lines(wanted, shown) > height:
        longest = max(range(len(shown)), key=shown.__getitem__)
        if shown[longest] > 1:
            shown[longest] -= 1
        else:
            shown.pop()
    return shown


def _lines(wanted: list[int], shown: list[int]) -> int:
    cut = sum(rows < all_rows for rows, all_rows in zip(shown, wanted, strict=False))
    return _HEAD_LINES + len(shown) * _PART_LINES + sum(shown) + cut


def _head(found: dict[str, Any]) -> Iterator[Text]:
    """_HEAD_LINES lines."""
    broker = found["broker"]
    health = broker["health"]
    listeners = " ".join(f"{one['name']}://{one['host']}:{one['port']}" for one in broker["listeners"])
    yield Text.assemble(
        (f"mpbroker {broker['version']}", "bold"),
        f"  node {broker['node_id']}  pid {broker['pid']}  up {duration(broker['uptime_s'])}  {broker['state']}  ",
        (health, _COLOURS.get(health, "red")),
        no_wrap=True,
    )
    yield Text(f"{listeners}  {broker['data_dir']}", style="dim", no_wrap=True, overflow="ellipsis")
    yield Text(
        f"{count(broker['requests_per_s'])} requests/s  {count(broker['errors_per_s'])} errors/s  "
        f"{count(broker['records_in_per_s'])} records/s in  {rate(broker['bytes_in_per_s'])} in  "
        f"{rate(broker['bytes_out_per_s'])} out",
        no_wrap=True,
    )
    yield Text("; ".join(broker["findings"]), style="red", no_wrap=True, overflow="ellipsis")


def _table(*heads: str, words: int = 1) -> Table:
    """Columns of words on the left, the rest are numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place < words else "right", no_wrap=True, overflow="ellipsis")
    return table


Part = tuple[Table, Sequence[tuple[str, ...]]]


def _processes(found: dict[str, Any]) -> Part:
    table = _table("process", "state", "wait", "request", "CPU %", "memory", "restarts", "pid", words=4)
    rows = [
        (
            f"{row['role']} {row['index']}",
            row["state"],
            row["wait"],
            row["request"] or "-",
            f"{row['cpu_percent']:.1f}",
            byte_count(row["memory_bytes"]),
            str(row["restarts"]),
            str(row["pid"] or "-"),
        )
        for row in found["processes"]
    ]
    return table, rows


def _rings(found: dict[str, Any]) -> Part:
    """All in one row: there are few, and nearly all are empty."""
    rings = [ring for ring in found["rings"] if ring["depth"] or ring["peak"]] or found["rings"][:1]
    table = _table("ring", *(ring["name"] for ring in rings))
    return table, [
        ("waiting", *(str(ring["depth"]) for ring in rings)),
        ("peak", *(f"{ring['peak']} of {ring['capacity']}" for ring in rings)),
    ]


def _apis(found: dict[str, Any]) -> Part:
    """Quantiles of the whole, then the mean of each stage."""
    stages = [name.replace("_", " ") for name in _STAGES]
    table = _table("API", "requests/s", "errors/s", "p50 ms", "p99 ms", *stages)
    rows = [
        (
            row["api"],
            count(row["per_s"]),
            count(row["errors_per_s"]),
            milliseconds(row["p50_ms"]),
            milliseconds(row["p99_ms"]),
            *(milliseconds(row["stage_mean_ms"][name]) for name in _STAGES),
        )
        for row in found["apis"]
    ]
    return table, rows


def _topics(found: dict[str, Any]) -> Part:
    table = _table("topic", "partitions", "offline", "records/s in", "in", "out", "size")
    rows = [
        (
            row["name"],
            str(row["partitions"]),
            str(row["offline"]),
            count(row["records_in_per_s"]),
            rate(row["bytes_in_per_s"]),
            rate(row["bytes_out_per_s"]),
            byte_count(row["log_bytes"]),
        )
        for row in found["topics"]
    ]
    return table, rows


def _groups(found: dict[str, Any]) -> Part:
    table = _table("group", "members", "topics", "partitions", "lag")
    rows = [
        (row["name"], str(row["members"]), str(len(row["topics"])), str(row["partitions"]), str(row["lag"]))
        for row in found["groups"]
    ]
    return table, rows


def _transactions(found: dict[str, Any]) -> Part:
    """Topics with transactions that are open; the age is that of the oldest of all."""
    told = found["transactions"]
    age = "-" if told["oldest_s"] is None else duration(int(told["oldest_s"]))
    table = _table(f"open transactions, the oldest for {age}", "partitions", "ongoing", "records held back")
    rows = [(row["name"], str(row["partitions"]), str(row["ongoing"]), count(row["lso_lag"])) for row in told["topics"]]
    return table, rows


def count(number: float) -> str:
    """`0`, `7.5`, `12`, `12,345`."""
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def rate(bytes_per_s: float) -> str:
    """`3.4 MiB/s`."""
    return f"{byte_count(int(bytes_per_s))}/s"


def milliseconds(number: float) -> str:
    """Three digits that count, as far as they are known."""
    return f"{number:.3f}" if number < 1 else f"{number:.2f}" if number < 10 else f"{number:,.0f}"
