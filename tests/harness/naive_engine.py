"""The engines' tables computed as plainly as possible, one record after the other: what tests compare them with."""

from collections import defaultdict
from functools import lru_cache
from typing import Any

from mpbroker.analysis.engine.input.durations import BACKWARDS, MAX_TICKS, SPANS, SUMS
from mpbroker.trace import record
from mpbroker.trace.record import NOT_REACHED, SATURATED, STAGES, TraceRecord
from mpbroker.trace.statistics import bucket_of

Row = dict[str, Any]


@lru_cache(maxsize=4096)
def durations(one: TraceRecord) -> tuple[dict[str, int | None], int]:
    """Every duration in nanoseconds, and the flags they add."""
    flags = 0
    at: dict[str | None, int] = {None: 0, **dict(zip(STAGES, one.stage, strict=True))}
    ticks: dict[str, int | None] = {}
    for name, (starts, end) in SPANS.items():
        begin = next((at[start] for start in starts if at[start] != NOT_REACHED), NOT_REACHED)
        finish = at[end]
        if NOT_REACHED in (begin, finish) or begin == finish == SATURATED:
            ticks[name] = None
        elif finish == SATURATED:
            ticks[name] = SATURATED
        else:
            flags |= BACKWARDS if finish < begin else 0
            ticks[name] = max(0, finish - begin)
    ticks["rx_wait"] = None if one.rx_wait == NOT_REACHED else one.rx_wait
    if any(value is not None and value > MAX_TICKS for value in ticks.values()):
        flags |= record.HAS_SATURATED
    stored = {name: None if value is None else min(value, MAX_TICKS) for name, value in ticks.items()}
    stored["asked_wait"] = stored["purgatory"] if one.purg_kind in (2, 3) else None  # fetch, join
    for name, (parts, optional, less, less_optional) in SUMS.items():
        needed = [stored[part] for part in (*parts, *less)]
        stored[name] = (
            None
            if None in needed
            else max(
                0,
                sum(stored[part] for part in parts)
                + sum(stored[part] or 0 for part in optional)
                - sum(stored[part] for part in less)
                - sum(stored[part] or 0 for part in less_optional),
            )
        )
    return {name: None if value is None else value * 64 for name, value in stored.items()}, flags


def rollup(rows: list[tuple[Row, TraceRecord]], window_ms: int, by: tuple[str, ...]) -> list[Row]:
    """`rows`: the columns grouped by with `epoch_ns`, and the record."""
    cells: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row, one in rows:
        key = (_window(row, window_ms), *(row[name] for name in by))
        for stage, ns in durations(one)[0].items():
            if ns is not None:
                cell = cells[*key, stage, bucket_of(ns)]
                cell[0] += one.weight
                cell[1] += one.weight * ns
                cell[2] = max(cell[2], ns)
    names = ("window_ms", *by, "stage", "bucket")
    return [
        dict(zip(names, key, strict=True)) | dict(zip(("n", "sum_ns", "max_ns"), cells[key], strict=True))
        for key in sorted(cells, key=_nulls_last)
    ]


def activity(rows: list[tuple[Row, TraceRecord]], window_ms: int, by: tuple[str, ...]) -> list[Row]:
    """As Engine.activity."""
    cells: dict[tuple[Any, ...], Row] = {}
    for row, one in rows:
        key = (_window(row, window_ms), *(row[name] for name in by))
        spans, flags = durations(one)
        busy = (
            0 if spans["local"] is None else sum(spans[name] or 0 for name in ("dispatch", "io", "local", "resp_prep"))
        )
        flags |= one.flags
        mine = {
            "n": 1,
            "errors": one.error != 0,
            "req_bytes": one.req_bytes,
            "resp_bytes": one.resp_bytes,
            "throttled": one.throttle_ms > 0,
            "aux_sum": one.aux,
            "handler_ns": busy,
            "saturated": bool(flags & record.HAS_SATURATED),
            "backwards": bool(flags & BACKWARDS),
        }
        cell = cells.setdefault(
            key, dict.fromkeys(mine, 0) | {"first_epoch_ns": row["epoch_ns"], "last_epoch_ns": row["epoch_ns"]}
        )
        for name, value in mine.items():
            cell[name] += one.weight * value
        cell["first_epoch_ns"] = min(cell["first_epoch_ns"], row["epoch_ns"])
        cell["last_epoch_ns"] = max(cell["last_epoch_ns"], row["epoch_ns"])
    return [dict(zip(("window_ms", *by), key, strict=True)) | cells[key] for key in sorted(cells, key=_nulls_last)]


def _window(row: Row, window_ms: int) -> int:
    return row["epoch_ns"] // (window_ms * 1_000_000) * window_ms if window_ms else 0


def _nulls_last(key: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is None, "" if value is None else value) for value in key]
