"""Pieces of figures that studies share: plotly JSON for series, axes and marks. Pure; the report adds fonts and
colours.

Titles of duration axes end with their unit ("wait, ms"), series carry the name of a stage, percentile, plane or API
where they are one: the report gives each the colour that it has on the whole page. Times of day are ISO strings in UTC.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from mpbroker.analysis.engine.running.phases import ALL, BEFORE, Phase

Trace = dict[str, Any]
MARK_CHARS = 34
MAX_GAP_WINDOWS = 3
PERCENTILE_AXIS = {"tickvals": [2, 10, 100, 1000, 10_000], "ticktext": ["p50", "p90", "p99", "p99.9", "p99.99"]}


def styled(trace: Trace, phase: int, variant: int = 0) -> Trace:
    """A series of one phase and one variant: the page gives colours by phase and dashes (or symbols) by variant, the
    same ones in all its figures."""
    return {**trace, "meta": {"phase": phase, "variant": variant}}


def enough(values: Iterable[Any], counts: Iterable[int], least: int) -> list[Any]:
    """Values by window; nothing where a window has fewer requests than a figure of them needs."""
    return [value if count >= least else None for value, count in zip(values, counts, strict=True)]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a title."""
    return {"title": {"text": title}, **more}


def layout(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A plain layout."""
    return {"xaxis": x, "yaxis": y, **more}


def line(name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> Trace:
    """A line. A point between two gaps shows as a dot."""
    alone = any(
        value is not None and not any(near is not None for near in (*y[max(0, at - 1) : at], *y[at + 1 : at + 2]))
        for at, value in enumerate(y)
    )
    if alone and "mode" not in more:
        more = {"mode": "lines+markers", "marker": {"size": 4}, **more}
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), **more}


def points(name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> Trace:
    """Single points."""
    return {"type": "scatter", "mode": "markers", "name": name, "x": list(x), "y": list(y), **more}


def bars(name: str, values: Sequence[float], labels: Sequence[str], **more: Any) -> Trace:
    """Horizontal bars, the labels on the left."""
    return {"type": "bar", "orientation": "h", "name": name, "x": list(values), "y": list(labels), **more}


def clock(epoch_ns: int) -> str:
    """A moment as figures have it, to the millisecond."""
    return datetime.fromtimestamp(epoch_ns // 1_000_000 / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


def clocks(window_ms: Iterable[int]) -> list[str]:
    """Beginnings of windows."""
    return [clock(int(at) * 1_000_000) for at in window_ms]


def milliseconds(nanoseconds: Iterable[float]) -> list[float]:
    """With four digits after the point."""
    return [round(float(value) / 1e6, 4) for value in nanoseconds]


def phase_marks(phases: Sequence[Phase]) -> dict[str, Any]:
    """Shapes and annotations that show where phases begin; nothing when the whole trace is one."""
    if [phase.name for phase in phases] == [ALL]:
        return {}
    marked = [phase for phase in phases if phase.name != BEFORE and not phase.name.endswith(f", {BEFORE}")]
    shapes = [
        {
            "type": "line",
            "x0": clock(phase.from_ns),
            "x1": clock(phase.from_ns),
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"dash": "dot", "width": 1},
        }
        for phase in marked
    ]
    texts = [
        {
            "x": clock(phase.from_ns),
            "y": 1,
            "yref": "paper",
            "text": _short(phase.name),
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "top",
            "textangle": -90,
            "opacity": 0.7,
        }
        for phase in marked
    ]
    return {"shapes": shapes, "annotations": texts}


def _short(name: str) -> str:
    return name if len(name) <= MARK_CHARS else name[: MARK_CHARS - 1] + "…"


def broken_lines(moments: Sequence[str], parts: Sequence[Any], *columns: Sequence[Any]) -> list[list[Any]]:
    """Moments and columns of time series with an empty value wherever the part changes: no line bridges two runs."""
    places: list[tuple[int, bool]] = []
    for place in range(len(moments)):
        if place and parts[place] != parts[place - 1]:
            places.append((place, False))
        places.append((place, True))
    return [
        [moments[place] for place, _ in places],
        *([column[place] if there else None for place, there in places] for column in columns),
    ]


def part_numbers(window_ms: Sequence[int], width_ms: int) -> list[int]:
    """A number per window that goes up where more than MAX_GAP_WINDOWS windows are missing before it."""
    numbers = [0] * min(1, len(window_ms))
    for before, at in pairwise(window_ms):
        numbers.append(numbers[-1] + (at - before > MAX_GAP_WINDOWS * width_ms))
    return numbers


def chooser(names: Sequence[str], owners: Sequence[str], shown: str) -> dict[str, Any]:
    """A menu that shows the series of one owner at a time. `owners`: of each series, in order."""
    if len(names) < 2:
        return {}
    buttons = [
        {"method": "restyle", "label": name, "args": [{"visible": [owner == name for owner in owners]}]}
        for name in names
    ]
    return {
        "updatemenus": [
            {
                "buttons": buttons,
                "active": list(names).index(shown),
                "x": 1,
                "xanchor": "right",
                "y": 1.12,
                "yanchor": "bottom",
                "direction": "down",
            }
        ]
    }
