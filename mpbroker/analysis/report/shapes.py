"""What tells series apart where nobody sees colours: dashes and markers of lines, hatches of bars and areas. Pure.

Runs in the process of a command. A stage has the same hatch in every figure. Lines have dashes by name; where a figure
has several variants, dashes are theirs and markers tell the phases (or shades) apart.
"""

from collections.abc import Sequence
from typing import Any

from mpbroker.analysis.report import palette

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "diamond", "square", "cross", "triangle-up", "x", "star", "triangle-down")
MARKER_PX = 7
_LINE_TYPES = ("scatter", "scattergl")
#: Of points with several kinds: the symbol is the variant's, how it is filled the kind's.
_FILLS = ("", "-open", "-dot", "-open-dot")
_FINE: tuple[dict[str, Any], ...] = tuple({"shape": shape} for shape in ("", "/", ".", "x", "-", "|", "+", "\\"))
_COARSE: tuple[dict[str, Any], ...] = tuple(
    {"shape": shape, "size": 16, "solidity": 0.55} for shape in ("/", ".", "x", "-", "|", "+", "\\")
)
HATCHES = _FINE + _COARSE
#: Stages that often lie beside each other have hatches that are easily told apart.
_OF_STAGE = dict(zip(palette.STAGES, (0, 1, 12, 10, 2, 3, 4, 5, 14, 11, 6, 7, 8), strict=True))


def tell_apart(data: list[dict[str, Any]], kinds: Sequence[tuple[Any, int] | None]) -> None:
    """Give dashes, markers and hatches to what has none. `kinds`: of each series its phase (or shade) and variant."""
    shown = [place for place, trace in enumerate(data) if trace["type"] in _LINE_TYPES and "stackgroup" not in trace]
    if any(kinds[place] is not None for place in shown):
        _by_variant([(data[place], kinds[place]) for place in shown])
    else:
        _by_name([data[place] for place in shown])
    for filled, key in (("bar", "marker"), ("area", "fillpattern")):
        _hatch([trace for trace in data if _is(trace, filled)], key)


def _is(trace: dict[str, Any], filled: str) -> bool:
    return trace["type"] == "bar" if filled == "bar" else "stackgroup" in trace


def _names(traces: Sequence[dict[str, Any]]) -> list[str]:
    """Of those that a legend names, in its order; one name is nothing to tell apart."""
    found = dict.fromkeys(str(one["name"]) for one in traces if one.get("name") and one.get("showlegend", True))
    return list(found) if len(found) > 1 else []


def _by_name(traces: list[dict[str, Any]]) -> None:
    """A dash for each name; markers beside them where dashes run out, and of points the symbol."""
    names = _names(traces)
    for trace in traces:
        if str(trace.get("name")) not in names:
            continue
        number = names.index(str(trace.get("name")))
        if "lines" not in trace.get("mode", "lines"):
            _mark(trace, SYMBOLS[number % len(SYMBOLS)])
            continue
        trace["line"] = {"dash": DASHES[number % len(DASHES)], **trace.get("line", {})}
        if number >= len(DASHES):
            _mark(trace, SYMBOLS[number // len(DASHES) % len(SYMBOLS)])


def _by_variant(traces: list[tuple[dict[str, Any], tuple[Any, int] | None]]) -> None:
    """One variant: a dash for each phase. Several: dashes are the variants', markers the phases'."""
    known = [(trace, kind) for trace, kind in traces if kind is not None]
    order = list(dict.fromkeys(one for _, (one, _) in known))
    several = any(variant for _, (_, variant) in known)
    for trace, (one, variant) in known:
        number = one if isinstance(one, int) else order.index(one)
        has_line = "lines" in trace.get("mode", "lines")
        if has_line and not several:
            trace["line"] = {"dash": DASHES[number % len(DASHES)], **trace.get("line", {})}
        elif len(order) > 1:
            symbol = SYMBOLS[number % len(SYMBOLS)] if has_line else SYMBOLS[variant % 4] + _FILLS[number % len(_FILLS)]
            _mark(trace, symbol)


def _mark(trace: dict[str, Any], symbol: str) -> None:
    """A marker with this symbol, on a line too."""
    if "markers" not in trace.get("mode", "lines"):
        trace["mode"] = "lines+markers"
    trace["marker"] = {"size": MARKER_PX, **trace.get("marker", {}), "symbol": symbol}
    if "color" not in trace["marker"] and "color" in trace.get("line", {}):
        trace["marker"]["color"] = trace["line"]["color"]


def _hatch(traces: list[dict[str, Any]], key: str) -> None:
    names = _names(traces)
    numbers = hatch_numbers(names)
    for trace in traces:
        if str(trace.get("name")) not in names:
            continue
        pattern = HATCHES[numbers[str(trace["name"])]]
        if key == "marker":
            trace["marker"] = {"pattern": pattern, **trace.get("marker", {})}
        else:
            trace.setdefault("fillpattern", {"solidity": 0.15, **pattern})


def hatch_numbers(names: Sequence[str]) -> dict[str, int]:
    """Places in HATCHES: a stage's own, and for other names those that are left."""
    found = {name: _OF_STAGE[stage] for name in names if (stage := palette.stage_of(name)) is not None}
    free = [number for number in range(len(HATCHES)) if number not in found.values()] or [0]
    others = [name for name in names if name not in found]
    return found | {name: free[place % len(free)] for place, name in enumerate(others)}
