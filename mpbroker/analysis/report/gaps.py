"""Times without data stay empty: without this a heat map stretches its cells over them and a stack of bands runs
across.

Runs in the process of a command; pure. A gap is two steps or more between neighbours, the step being the least
distance.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

Place = tuple[int, Any]  # before which value, and the x of what is put there


def keep_gaps(trace: dict[str, Any]) -> dict[str, Any]:
    """A heat map with empty columns, or a band with zeros, at both ends of every gap along x; other series as they
    are."""
    if trace.get("type") == "heatmap" and isinstance(trace.get("z"), list):
        places = _edges(trace.get("x"), len(max(trace["z"], key=len, default=[])))
        rows = {
            key: [_with(row, places, None) for row in trace[key]]
            for key in ("z", "customdata", "text")
            if isinstance(trace.get(key), list) and all(isinstance(row, list) for row in trace[key])
        }
        return {**trace, **rows, "x": _with(trace["x"], places, ...)} if places else trace
    if (
        "stackgroup" in trace
        and isinstance(trace.get("y"), list)
        and not any(isinstance(trace.get(key), list) for key in ("text", "customdata"))
    ):
        places = _edges(trace.get("x"), len(trace["y"]))
        return {**trace, "x": _with(trace["x"], places, ...), "y": _with(trace["y"], places, 0)} if places else trace
    return trace


def _edges(x: Any, count: int) -> list[Place]:
    """Where gaps begin and end; nothing when x is not a rising row of numbers or times of day."""
    if not isinstance(x, list) or len(x) != count or count < 3:
        return []
    read = _reader(x[0])
    try:
        values = [read(one)[0] for one in x] if read else []
    except (ValueError, TypeError):
        return []
    steps = [after - before for before, after in pairwise(values)]
    if not read or not steps or min(steps) <= 0:
        return []
    step, found = min(steps), []
    for place, distance in enumerate(steps):
        if distance > 1.9 * step:
            found.append((place + 1, read(x[place])[1](step)))
            if distance > 2.9 * step:
                found.append((place + 1, read(x[place + 1])[1](-step)))
    return found


def _reader(first: Any) -> Callable[[Any], tuple[float, Callable[[float], Any]]] | None:
    """x → its value, and a function that gives the x so much later, written the same way."""
    if isinstance(first, int | float):
        return lambda one: (float(one), lambda later: one + later)
    return _moment if isinstance(first, str) else None


def _moment(one: str) -> tuple[float, Callable[[float], str]]:
    moment = datetime.fromisoformat(one)
    at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return at, lambda later: (moment + timedelta(seconds=later)).isoformat(timespec="milliseconds")


def _with(values: Sequence[Any], places: list[Place], filler: Any) -> list[Any]:
    """The row with something at every place: the filler, or the place's own x for `...`."""
    found, at = [], 0
    for place, x in places:
        found += [*values[at:place], x if filler is ... else filler]
        at = place
    return [*found, *values[at:]]
