"""How all figures look: a plotly template for light and dark ground, and the colour that each name has everywhere.

Runs in the process of a command. Studies give data and axes; `dress` adds the rest. A series whose name is a stage, a
percentile, a plane or a well-known API gets the colour that stands for it on the whole page (palette.py). One with
`meta` {"phase": number, "variant": number} has the colour of that phase and the dash (points: the symbol) of that
variant, in every figure; {"shade": name, "variant": number} the colour of a name. Stages go by plain names. What tells
series apart without colours stands in shapes.py.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

from mpbroker.analysis.engine.running.wording import STAGE_NAMES
from mpbroker.analysis.report import bounds, markup, palette, shapes
from mpbroker.analysis.report.duration_axis import humane_axes
from mpbroker.analysis.report.gaps import keep_gaps
from mpbroker.analysis.report.waterfall import as_bars

FONT = "Inter, 'Segoe UI', system-ui, -apple-system, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
BAR_PX, MIN_HEIGHT_PX, HEIGHT_PX = 30, 220, 400
_LINE_TYPES = ("scatter", "scattergl")
_DASHES, _SYMBOLS = ("solid", "dash", "dot", "dashdot"), ("circle", "diamond", "square", "cross")
_METHODS = ("restyle", "relayout", "update")
#: WebGL compiles code at run time, which the page's security policy forbids.
_SVG_TYPE = {"scattergl": "scatter", "heatmapgl": "heatmap"}


def dress(spec: dict[str, Any], time_range: Sequence[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """A study's spec as the page draws it, in the light colours; and sentences for the caption about what was left out.

    `time_range`: from and to of all time axes (times of day) of the page; empty: each as its data.

    The result is plain JSON {data, layout, choices} without a template: the page has one per ground for all figures.
    `choices` are plotly's updatemenus, taken out of the layout.
    """
    clean = markup.plain(spec)
    data, notes = bounds.bound([as_bars({**trace, "type": _svg_type(trace)}) for trace in clean.get("data", [])])
    layout = {
        key: value
        for key, value in clean.get("layout", {}).items()
        if key not in ("template", "title", "width", "images", "paper_bgcolor", "plot_bgcolor", "font", "autosize")
    }
    data = [keep_gaps(trace) for trace in data]
    kinds = _style(data)
    _color(data)
    shapes.tell_apart(data, kinds)
    _name_stages(data)
    _share_time(layout, time_range)
    humane_axes(data, layout)
    if _names_on_y(data):
        layout["xaxis"] = {"showgrid": True, "showline": False, "ticks": "", **layout.get("xaxis", {})}
        layout["yaxis"] = {"showgrid": False, **layout.get("yaxis", {})}
    for key, axis in layout.items():
        if key.startswith("yaxis") and isinstance(axis, dict) and "overlaying" in axis:
            axis.update(
                {"tickmode": axis.get("tickmode", "auto"), "showgrid": False}
            )  # round numbers, not the other axis' places
    layout.setdefault("height", _height(data, layout))
    layout.setdefault("showlegend", sum(1 for trace in data if _in_legend(trace)) > 1)
    if _follows_time(data, layout):
        layout.setdefault("hovermode", "x unified")
    return {"data": data, "layout": layout, "choices": _choices(layout.pop("updatemenus", []))}, notes


def _choices(menus: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Plotly's menus as the page's own: those of plotly can be reached neither by keyboard nor by a screen reader."""
    return [
        {
            "active": menu.get("active", 0),
            "buttons": [
                {"label": button.get("label", ""), "method": button["method"], "args": button["args"]}
                for button in menu.get("buttons", [])
                if button.get("method") in _METHODS
            ],
        }
        for menu in menus
    ]


def _svg_type(trace: dict[str, Any]) -> str:
    kind = str(trace.get("type", "scatter"))
    return _SVG_TYPE.get(kind, kind)


def is_empty(spec: dict[str, Any]) -> bool:
    """Whether there is nothing to see: no series with a single value."""

    def filled(values: Any) -> bool:
        return isinstance(values, list | tuple) and any(value is not None and value != [] for value in values)

    return not any(filled(trace.get(key)) for trace in spec.get("data", []) for key in ("x", "y", "z", "values", "r"))


def is_over_time(spec: dict[str, Any]) -> bool:
    """Whether the figure's x axis is the time of day, which all such figures of a page share."""
    return bool(spec.get("layout", {}).get("xaxis", {}).get("type") == "date")


def _share_time(layout: dict[str, Any], time_range: Sequence[str]) -> None:
    if time_range and is_over_time({"layout": layout}):
        layout["xaxis"] = {"range": list(time_range), **layout["xaxis"]}


def _style(data: list[dict[str, Any]]) -> list[tuple[Any, int] | None]:
    """Colours and dashes of series that belong to a phase, a variant or a shade; which each belongs to."""
    kinds: list[tuple[Any, int] | None] = []
    for trace in data:
        meta = trace.pop("meta", None)
        if not isinstance(meta, dict):
            kinds.append(None)
            continue
        kinds.append((meta.get("phase", meta.get("shade", 0)), int(meta.get("variant", 0))))
        if "phase" in meta:
            color: str | None = palette.CATEGORIES[meta["phase"] % len(palette.CATEGORIES)].light
        else:
            shade = palette.named_shade(str(meta.get("shade", "")))
            color = shade.light if shade else None
        style = int(meta.get("variant", 0))
        style += meta.get("phase", 0) // len(palette.CATEGORIES)  # more phases than colours
        if color is not None:
            _paint(trace, color, style)
            trace["painted"] = True
    return kinds


def _name_stages(data: list[dict[str, Any]]) -> None:
    """Legends and axes of names say "waiting in the socket", not rx_wait."""
    for trace in data:
        if trace.get("name") in STAGE_NAMES:
            trace["name"] = STAGE_NAMES[trace["name"]]
        for key in ("x", "y"):
            if isinstance(trace.get(key), list) and trace["type"] == "bar":
                trace[key] = [STAGE_NAMES.get(one, one) if isinstance(one, str) else one for one in trace[key]]


def _color(data: list[dict[str, Any]]) -> None:
    """Colours by name; what has no colour of its own takes the next of the categories, the same name always the
    same."""
    given: dict[str, str] = {}
    free = _free_colors([trace for trace in data if "name" in trace])
    for trace in data:
        if trace["type"] in ("heatmap", "contour") or trace.pop("painted", False):
            continue
        key = str(trace.get("legendgroup") or trace.get("name") or "")
        shade = palette.named_shade(str(trace.get("name") or "")) or palette.named_shade(key)
        if shade is None and _color_by_category(trace):
            continue
        if key not in given:
            given[key] = shade.light if shade else next(free)
        _paint(trace, given[key])


def _free_colors(data: list[dict[str, Any]]) -> Iterator[str]:
    """Colours of the categories that no named series of this figure has, again and again: shapes tell more apart."""
    taken = {shade.light for trace in data if (shade := palette.named_shade(str(trace["name"])))}
    colors = [shade.light for shade in palette.CATEGORIES if shade.light not in taken] or [palette.CATEGORIES[0].light]
    return cycle(colors)


def _color_by_category(trace: dict[str, Any]) -> bool:
    """Bars or boxes along an axis of stage names: each in its stage's colour."""
    names = trace.get("y") if trace.get("orientation") == "h" else trace.get("x")
    if trace["type"] not in ("bar", "waterfall") or not isinstance(names, list) or not names:
        return False
    shades = [palette.named_shade(name) if isinstance(name, str) else None for name in names]
    if not all(shades) or "color" in trace.get("marker", {}):
        return False
    trace["marker"] = {**trace.get("marker", {}), "color": [shade.light for shade in shades if shade]}
    return True


def _paint(trace: dict[str, Any], color: str, style: int = 0) -> None:
    """The colour where this kind of series has it, unless the study gave one; a dash or symbol where colours ran
    out."""
    if trace["type"] in _LINE_TYPES:
        if "lines" in trace.get("mode", "lines"):
            trace["line"] = {
                "color": color,
                **({"dash": _DASHES[style % len(_DASHES)]} if style else {}),
                **trace.get("line", {}),
            }
        if "stackgroup" in trace:
            trace["line"] = {"width": 0.5, **trace["line"]}
            trace.setdefault("fillcolor", color)
        if "fill" in trace and "stackgroup" not in trace:
            trace.setdefault("fillcolor", color + "33")
    if trace["type"] not in _LINE_TYPES or "markers" in trace.get("mode", ""):
        symbol = {"symbol": _SYMBOLS[style % len(_SYMBOLS)]} if style and trace["type"] in _LINE_TYPES else {}
        trace["marker"] = {"color": color, **symbol, **trace.get("marker", {})}


def _in_legend(trace: dict[str, Any]) -> bool:
    return bool(trace.get("name")) and trace.get("showlegend", True) and trace["type"] not in ("heatmap", "contour")


def _names_on_y(data: list[dict[str, Any]]) -> bool:
    """A row per name, as in bars that lie down or a forest plot: reading goes along x."""
    return bool(data) and all(
        trace["type"] in ("bar", "scatter", "box")
        and isinstance(trace.get("y"), list)
        and trace["y"]
        and all(isinstance(value, str) for value in trace["y"])
        for trace in data
    )


def _height(data: list[dict[str, Any]], layout: dict[str, Any]) -> int:
    """Horizontal bars need a line each; several panels more than one."""
    if _names_on_y(data):
        rows = len({str(value) for trace in data for value in trace["y"]})
        return max(MIN_HEIGHT_PX, 110 + BAR_PX * min(rows, 60))
    panels = sum(1 for key in layout if re.fullmatch(r"yaxis\d*", key) and not layout[key].get("overlaying"))
    return HEIGHT_PX + 160 * max(0, panels - 1)


def _follows_time(data: list[dict[str, Any]], layout: dict[str, Any]) -> bool:
    """Lines over a shared time axis: one hover label for all of them."""
    lines = all(trace["type"] in _LINE_TYPES and "lines" in trace.get("mode", "lines") for trace in data)
    axis = layout.get("xaxis", {})
    looks_like_time = (
        axis.get("type") == "date"
        or "time" in _title(axis).lower()
        or any(
            isinstance(trace.get("x"), list) and trace["x"] and re.match(r"\d{4}-\d\d-\d\d", str(trace["x"][0]))
            for trace in data
        )
    )
    return bool(data) and lines and looks_like_time


def _title(axis: dict[str, Any]) -> str:
    title = axis.get("title", "")
    return str(title.get("text", "") if isinstance(title, dict) else title)
