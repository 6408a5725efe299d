"""Bounded figures: no trace of a page has more points than a browser draws at once, and a caption says what was left
out.

Runs in the process of a command. Lines keep the least and greatest value of every stretch, so that a spike stays
visible; points keep every k-th; heat maps keep the greatest value of every block.
"""

from typing import Any

MAX_POINTS_PER_FIGURE = 20_000
MAX_TRACES_PER_FIGURE = 60
MAX_CELLS_PER_HEATMAP = 60_000
_MATRIX_TYPES = ("heatmap", "contour", "surface")
_PER_POINT = ("text", "customdata", "hovertext", "ids", "base", "width", "offset")


def bound(data: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The traces of a figure within bounds, and sentences that say what is not drawn."""
    notes: list[str] = []
    if len(data) > MAX_TRACES_PER_FIGURE:
        notes.append(f"Drawn are the first {MAX_TRACES_PER_FIGURE} of {len(data)} series; the table has all.")
        data = data[:MAX_TRACES_PER_FIGURE]
    total = sum(_points(trace) for trace in data if trace.get("type") not in _MATRIX_TYPES)
    keep_one_in = -(-total // MAX_POINTS_PER_FIGURE)
    if keep_one_in > 1:
        notes.append(
            f"Drawn from {total:,} points, thinned {keep_one_in} to 1 (lines keep their least and greatest values)."
        )
    bounded = []
    for trace in data:
        if trace.get("type") in _MATRIX_TYPES:
            bounded.append(_coarser(trace, notes))
        else:
            bounded.append(_thinned(trace, keep_one_in) if keep_one_in > 1 else trace)
    return bounded, notes


def _points(trace: dict[str, Any]) -> int:
    lengths = [len(trace[key]) for key in ("x", "y", "values") if isinstance(trace.get(key), list)]
    return max(lengths, default=0)


def _thinned(trace: dict[str, Any], keep_one_in: int) -> dict[str, Any]:
    count = _points(trace)
    lines = (
        trace.get("type", "scatter") == "scatter"
        and "lines" in trace.get("mode", "lines")
        and "stackgroup" not in trace
    )
    chosen = _envelope(trace.get("y"), keep_one_in) if lines and isinstance(trace.get("y"), list) else None
    if chosen is None:
        chosen = list(range(0, count, keep_one_in))
    return _taking(trace, chosen, count)


def _envelope(values: Any, keep_one_in: int) -> list[int] | None:
    """Places of the least and the greatest number in every stretch of 2 × keep_one_in values."""
    chosen: list[int] = []
    for start in range(0, len(values), 2 * keep_one_in):
        places = [
            place
            for place in range(start, min(start + 2 * keep_one_in, len(values)))
            if isinstance(values[place], int | float)
        ]
        if places:
            chosen += sorted({min(places, key=values.__getitem__), max(places, key=values.__getitem__)})
    return chosen or None


def _taking(trace: dict[str, Any], places: list[int], count: int) -> dict[str, Any]:
    """The trace with only these points; every list that has one value per point is cut alike."""
    taken = dict(trace)
    for key in ("x", "y", *_PER_POINT):
        if isinstance(trace.get(key), list) and len(trace[key]) == count:
            taken[key] = [trace[key][place] for place in places]
    for outer in ("marker", "error_x", "error_y"):
        if isinstance(trace.get(outer), dict):
            taken[outer] = {
                key: [value[place] for place in places] if isinstance(value, list) and len(value) == count else value
                for key, value in trace[outer].items()
            }
    return taken


def _coarser(trace: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    rows = trace.get("z") or [[]]
    columns = max(map(len, rows), default=0)
    step = 1
    while -(-len(rows) // step) * -(-columns // step) > MAX_CELLS_PER_HEATMAP:
        step += 1
    if step == 1:
        return trace
    notes.append(f"Every cell is the greatest of {step} × {step}.")
    coarse = {key: value for key, value in trace.items() if key not in ("text", "customdata", "hovertext")}
    coarse["z"] = [
        [_greatest(rows[i : i + step], j, step) for j in range(0, columns, step)] for i in range(0, len(rows), step)
    ]
    for key, length in (("x", columns), ("y", len(rows))):
        if isinstance(trace.get(key), list) and len(trace[key]) == length:
            coarse[key] = trace[key][::step]
    return coarse


def _greatest(rows: list[list[Any]], column: int, step: int) -> float | None:
    found = [value for row in rows for value in row[column : column + step] if isinstance(value, int | float)]
    return max(found, default=None)
