"""Axes of durations: on a logarithmic axis of nanoseconds, microseconds, milliseconds or seconds the ticks say 10 µs, 1
ms, 1 s.

Runs in the process of a command; pure. An axis counts as one of durations when its title ends with its unit, as "wait
(µs)".
"""

import math
import re
from typing import Any

_UNIT_NS = {"ns": 1, "µs": 1_000, "us": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TITLE = re.compile(r"^(?P<what>.*?)[\s,]*[(\[]?\b(?P<unit>ns|µs|μs|us|ms|s)[)\]]?$")
_STEPS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_MAX_TICKS = 10
#: Greatest over least value drawn → what is labelled in each decade.
_FINER = ((8, (1, 1.5, 2, 3, 4, 5, 7)), (100, (1, 2, 5)), (math.inf, (1,)))


def humane_axes(data: list[dict[str, Any]], layout: dict[str, Any]) -> None:
    """Replace the ticks of every logarithmic axis of durations in `layout`."""
    for key, axis in layout.items():
        if (
            not re.fullmatch(r"[xy]axis\d*", key)
            or not isinstance(axis, dict)
            or axis.get("type") != "log"
            or "tickvals" in axis
        ):
            continue
        unit = _unit_of(axis)
        if unit:
            _set_ticks(axis, unit, _span(data, key, axis))


def duration_text(nanoseconds: float) -> str:
    """`1 ms`, `250 µs`, `1.5 s`."""
    for step_ns, name in _STEPS:
        if nanoseconds >= step_ns * 0.9995:
            return f"{nanoseconds / step_ns:.4g} {name}"
    return f"{nanoseconds:.3g} ns"


def _unit_of(axis: dict[str, Any]) -> int | None:
    title = axis.get("title", "")
    words = title.get("text", "") if isinstance(title, dict) else title
    found = _TITLE.match(str(words).strip())
    return _UNIT_NS[found["unit"]] if found else None


def _set_ticks(axis: dict[str, Any], unit_ns: int, span: tuple[float, float]) -> None:
    """A tick per decade, and more where the values span little."""
    first, last = math.floor(math.log10(span[0])), math.ceil(math.log10(span[1]))
    every = max(1, -(-(last - first + 1) // _MAX_TICKS))
    steps = next(steps for below, steps in _FINER if span[1] / span[0] < below)
    values = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    axis["tickmode"] = "array"
    axis["tickvals"] = values
    axis["ticktext"] = [duration_text(value * unit_ns) for value in values]
    words = axis["title"]["text"] if isinstance(axis["title"], dict) else axis["title"]
    what = _TITLE.match(str(words).strip())
    axis["title"] = {"text": (what["what"] if what else str(words)).strip()}


def _span(data: list[dict[str, Any]], key: str, axis: dict[str, Any]) -> tuple[float, float]:
    """Least and greatest positive value drawn on this axis, or its own range."""
    if isinstance(axis.get("range"), list) and len(axis["range"]) == 2 and None not in axis["range"]:
        return 10.0 ** float(min(axis["range"])), 10.0 ** float(max(axis["range"]))
    letter = key[0]
    reference = letter + key.removeprefix(f"{letter}axis")
    values = [
        value
        for trace in data
        if trace.get(f"{letter}axis", letter) == reference and isinstance(trace.get(letter), list)
        for value in trace[letter]
        if isinstance(value, int | float) and value > 0
    ]
    return (min(values), max(values)) if values else (1.0, 1000.0)
