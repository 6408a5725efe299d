"""Pieces of figures that studies share: plotly JSON for series, axes and marks. Pure; the report adds fonts and colours.

Titles of duration axes end with their unit ("wait, ms"), series carry the name of a stage, percentile, plane or API where
they are one: the report gives each the colour that it has on the whole page. Times of day are ISO strings in UTC.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from mpbroker.engine.phases import ALL, Phase

Trace = dict[str, Any]
PERCENTILE_AXIS = {"tickvals": [2, 10, 100, 1000, 10_000], "ticktext": ["p50", "p90", "p99", "p99.9", "p99.99"]}


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a title."""
    return {"title": {"text": title}, **more}


def layout(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A plain layout."""
    return {"xaxis": x, "yaxis": y, **more}


def line(name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> Trace:
    """A line."""
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
    shapes = [{"type": "line", "x0": clock(phase.from_ns), "x1": clock(phase.from_ns), "y0": 0, "y1": 1, "yref": "paper",
               "line": {"dash": "dot", "width": 1}} for phase in phases]
    texts = [{"x": clock(phase.from_ns), "y": 1, "yref": "paper", "text": phase.name, "showarrow": False, "xanchor": "left",
              "yanchor": "bottom", "textangle": -20 if len(phases) > 3 else 0} for phase in phases]
    return {"shapes": shapes, "annotations": texts}


def chooser(names: Sequence[str], owners: Sequence[str], shown: str) -> dict[str, Any]:
    """A menu that shows the series of one owner at a time. `owners`: of each series, in order."""
    if len(names) < 2:
        return {}
    buttons = [{"method": "restyle", "label": name, "args": [{"visible": [owner == name for owner in owners]}]}
               for name in names]
    return {"updatemenus": [{"buttons": buttons, "active": list(names).index(shown), "x": 1, "xanchor": "right", "y": 1.12,
                             "yanchor": "bottom", "direction": "down"}]}
