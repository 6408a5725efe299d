"""Waterfalls as floating bars, so that every step has the colour of its stage: plotly's own know only up, down and
total.

Runs in the process of a command; pure.
"""

from typing import Any

from mpbroker.analysis.report import palette

_TOTAL = palette.SURFACE["muted"].light
_STEP = palette.NAMED["other"].light


def as_bars(trace: dict[str, Any]) -> dict[str, Any]:
    """A bar series for a vertical waterfall with `x` names, `y` amounts and `measure`; anything else as it is."""
    names, amounts, measures = (trace.get(key) for key in ("x", "y", "measure"))
    if trace.get("type") != "waterfall" or not (
        isinstance(names, list) and isinstance(amounts, list) and isinstance(measures, list)
    ):
        return trace
    if not len(names) == len(amounts) == len(measures):
        return trace
    level, bases, heights, colors = 0.0, [], [], []
    for name, amount, measure in zip(names, amounts, measures, strict=True):
        if measure == "relative":
            bases.append(level)
            heights.append(amount or 0)
            level += amount or 0
        else:
            level = amount if measure == "absolute" else level  # "total" repeats what was reached
            bases.append(0)
            heights.append(level)
        shade = palette.named_shade(str(name))
        colors.append(shade.light if shade else _STEP if measure == "relative" else _TOTAL)
    kept = {
        key: value
        for key, value in trace.items()
        if key in ("name", "text", "textposition", "hovertext", "hovertemplate", "visible")
    }
    kept.setdefault("hovertemplate", "%{x}: %{customdata:.4~g}<extra></extra>")
    return {
        **kept,
        "type": "bar",
        "x": names,
        "y": heights,
        "base": bases,
        "customdata": heights,
        "showlegend": False,
        "marker": {"color": colors},
    }
