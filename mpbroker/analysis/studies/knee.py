"""From which load on does latency grow with it? The knee of offered load against latency, with its interval.

Runs in a command's process, on rollups of any size. Every window of time is a point: how many requests began in it, and
the p99 of their latency. A curve that is flat up to a load and a power of it from there on is fitted to the points'
logarithms; the interval is that of fits to resampled windows. It needs a load that was varied on purpose, open loop
(`mpbroker lab run load-sweep`): clients that wait for answers offer less where the broker is slow.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Ask, Engine
from mpbroker.analysis.engine.mathematics import bend, windows
from mpbroker.analysis.engine.mathematics.distribution import distributions
from mpbroker.analysis.engine.measures import load_kind, request_time
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MEASURED = "active_total"
MIN_IN_WINDOW = wording.MIN_IN_WINDOW["p99"]
MIN_WINDOWS = 8
MIN_SPAN = 2.0  # the highest load by the lowest
#: Of the variance of log p99. A bend that explains less of it is none.
MIN_GAIN = 0.5
_POINTS = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("window_ms", pa.int64()),
        ("requests_s", pa.float64()),
        ("mean_ns", pa.float64()),
        ("p50_ns", pa.float64()),
        ("p99_ns", pa.float64()),
    ]
)
_TABLE = pa.schema(
    [
        ("broker", pa.int32()),
        ("windows", pa.int64()),
        ("lowest_s", pa.float64()),
        ("highest_s", pa.float64()),
        ("knee_s", pa.float64()),
        ("knee_low_s", pa.float64()),
        ("knee_high_s", pa.float64()),
        ("flat_p99_ns", pa.float64()),
        ("slope", pa.float64()),
        ("gain", pa.float64()),
        ("within_target_s", pa.float64()),
    ]
)


def asks(engine: Engine, activity: pa.Table, parameters: StudyParameters) -> list[Ask]:
    """The tables `run` asks for."""
    extent = windows.extent(activity)
    if extent is None:
        return []
    return [Ask("rollup", windows.width_ms(parameters.window_ms, extent), ("run", "broker"))]


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables knee (a row per broker; null without a knee) and knee_points (run, broker, window)."""
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("knee")])
    window_ms = windows.width_ms(parameters.window_ms, extent)
    points = _points(engine.rollup(window_ms, ("run", "broker")), window_ms)
    rows, verdicts = [], []
    several = len({point["broker"] for point in points}) > 1
    for broker in sorted({point["broker"] for point in points}):
        mine = [point for point in points if point["broker"] == broker]
        row, words = _knee(broker, mine, parameters.target_p99_ms, f" of broker {broker}" if several else "")
        rows.append(row)
        verdicts += words
    if not points:
        verdicts = [f"No window of {window_ms} ms has the {MIN_IN_WINDOW} requests that a p99 needs."]
    kind = load_kind.judge(engine, extent)
    return StudyResult(
        {"knee": pa.Table.from_pylist(rows, _TABLE), "knee_points": pa.Table.from_pylist(points, _POINTS)},
        [*verdicts, *load_kind.sentences(kind), *wording.caveats(engine.input)],
        _figures(rows, points, window_ms),
        findings=_findings(engine, rows, points, window_ms),
    )


def _findings(
    engine: Engine, rows: list[dict[str, Any]], points: list[dict[str, Any]], window_ms: int
) -> list[Finding]:
    """What requests beyond the knee took more than those below it, on average."""
    found, time = [], request_time.of(engine)
    for row in rows:
        knee = row.get("knee_s")
        if knee is None:
            continue
        mine = [point for point in points if point["broker"] == row["broker"]]
        flat = float(np.median([point["mean_ns"] for point in mine if point["requests_s"] <= knee]))
        beyond = [point for point in mine if point["requests_s"] > knee]
        ns = sum(point["requests_s"] * window_ms / 1000 * (point["mean_ns"] - flat) for point in beyond)
        several = f"Broker {row['broker']}: p" if len(rows) > 1 else "P"
        sentence = (
            f"{several}ast {wording.count(round(knee))} requests/s (95 % interval "
            f"{wording.count(round(row['knee_low_s']))} to {wording.count(round(row['knee_high_s']))}) latency grows "
            f"with the load; {wording.counted(len(beyond), 'window')} of {row['windows']} had more."
        )
        found += time.explained("past_knee", sentence, ns, str(row["broker"]))
    return found


def _points(rollup: pa.Table, window_ms: int) -> list[dict[str, Any]]:
    """The first and last window of each run are rarely whole."""
    found = distributions(rollup, ("run", "broker", "window_ms"), (MEASURED,))
    ends: dict[tuple[str, int], list[int]] = {}
    for run_name, broker, at in found:
        ends.setdefault((run_name, broker), []).append(at)
    rows = []
    for (run_name, broker, at), each in found.items():
        if each.n < MIN_IN_WINDOW or at in (min(ends[run_name, broker]), max(ends[run_name, broker])):
            continue
        row = {"run": run_name, "broker": broker, "window_ms": at, "requests_s": each.n * 1000 / window_ms}
        rows.append(row | {"mean_ns": each.mean_ns, "p50_ns": each.percentile(0.5), "p99_ns": each.percentile(0.99)})
    return rows


def _knee(
    broker: int, points: list[dict[str, Any]], target_ms: float | None, of: str
) -> tuple[dict[str, Any], list[str]]:
    loads = np.array([point["requests_s"] for point in points])
    levels = np.array([max(1.0, point["p99_ns"]) for point in points])
    row: dict[str, Any] = {"broker": broker, "windows": len(points)}
    row |= {"lowest_s": float(loads.min()), "highest_s": float(loads.max())}
    if len(points) < MIN_WINDOWS or loads.max() < MIN_SPAN * loads.min():
        return row, [
            f"The load{of} varied from {wording.count(round(loads.min()))} to {wording.count(round(loads.max()))} "
            f"requests/s in {wording.counted(len(points), 'window')}: too little to look for a knee. Sweep it, open "
            "loop: `mpbroker lab run load-sweep`."
        ]
    within = loads[levels <= (target_ms or 0) * 1e6]
    row["within_target_s"] = float(within.max()) if len(within) else None
    found = bend.bend(loads, levels)
    row |= {"flat_p99_ns": found.flat, "slope": found.slope, "gain": found.gain}
    if found.gain < MIN_GAIN:
        return row, [
            f"No knee{of} up to {wording.count(round(loads.max()))} requests/s: p99 is "
            f"{wording.duration(float(np.median(levels)))} at any load. It can bear more; try a higher one.",
            *_target(row, target_ms),
        ]
    low, high = bend.bend_interval(loads, levels)
    row |= {"knee_s": found.at, "knee_low_s": low, "knee_high_s": high}
    return row, [_said(row, levels[loads >= loads.max() * 0.95], of), *_target(row, target_ms)]


def _said(row: dict[str, Any], highest: Any, of: str) -> str:
    return (
        f"The knee{of} is at {wording.count(round(row['knee_s']))} requests/s (95 % interval "
        f"{wording.count(round(row['knee_low_s']))} to {wording.count(round(row['knee_high_s']))}, "
        f"{row['windows']} windows): p99 is {wording.duration(row['flat_p99_ns'])} below it and "
        f"{wording.duration(float(np.median(highest)))} at {wording.count(round(row['highest_s']))} requests/s. Plan "
        f"for at most {wording.count(round(row['knee_low_s']))} requests/s on a broker like this one."
    )


def _target(row: dict[str, Any], target_ms: float | None) -> list[str]:
    if target_ms is None:
        return []
    if row["within_target_s"] is None:
        return [f"No window held a p99 of {target_ms:g} ms."]
    return [f"A p99 of {target_ms:g} ms was held up to {wording.count(round(row['within_target_s']))} requests/s."]


# Figures


def _figures(rows: list[dict[str, Any]], points: list[dict[str, Any]], window_ms: int) -> list[Figure]:
    """Every window as a point, and the fit as a line."""
    data = []
    for row in rows:
        mine = sorted((one for one in points if one["broker"] == row["broker"]), key=lambda one: one["requests_s"])
        x = [round(one["requests_s"], 1) for one in mine]
        of = f", broker {row['broker']}" if len(rows) > 1 else ""
        data.append(figure_specs.points(f"p99{of}", x, figure_specs.milliseconds(one["p99_ns"] for one in mine)))
        if row.get("knee_s"):
            at = [row["lowest_s"], row["knee_s"], row["highest_s"]]
            fit = [row["flat_p99_ns"] * max(1.0, load / row["knee_s"]) ** row["slope"] for load in at]
            data.append(figure_specs.line(f"fit{of}", [round(load, 1) for load in at], figure_specs.milliseconds(fit)))
    if not data:
        return []
    x_axis = figure_specs.axis("requests/s", type="log")
    layout = figure_specs.layout(x_axis, figure_specs.axis("p99, ms", type="log"))
    caption = f"Each point is a window of {window_ms} ms. The line is flat up to the knee."
    return [Figure("knee", "Load and latency", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "knee",
    "From which load on does latency grow with it?\n"
    "Requests a second against p99, the knee with its interval; from a load that was swept, open loop.",
    "rollup",
    run,
    asks,
)
