"""The bench's table for the terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.analysis.bench.measure import Row

_HEADS = ("", "requests/s", "records/s", "MB/s", "CPU µs", "user", "kernel", "p50 ms", "p99 ms", "max ms", "client µs")
#: What the columns mean, below the table.
LEGEND = (
    "CPU µs: processor time of the broker's whole process tree for one request (user + kernel).",
    "client µs: the same of the load generator, for comparison: what it uses the broker does not get on few cores.",
)


def table(rows: Sequence[tuple[str, Row]], first: str) -> str:
    """One line for each (label, row); CPU is that of the broker for one request, "client" that of the load."""
    cells = [(first, *_HEADS[1:])] + [_cells(label, row) for label, row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADS))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if not column else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    )


def _cells(label: str, row: Row) -> tuple[str, ...]:
    cpu = [_number(value) for value in (row.broker_cpu_us, row.broker_user_us, row.broker_system_us)]
    times = [f"{value / 1000:.2f}" for value in (row.p50_us, row.p99_us, row.max_us)]
    return (
        label,
        f"{row.requests_per_s:,.0f}",
        f"{row.records_per_s:,.0f}",
        f"{row.mb_per_s:.1f}",
        *cpu,
        *times,
        _number(row.client_cpu_us),
    )


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
