"""Which windows of time differ from the others, and by what?

Runs in a command's process, on rollups of any size. Each window is compared with the median of all: the logarithm of
p99, the rate, the bytes of a request and the share of errors, in units of how far windows usually lie from the median
(the median of that, which a few odd windows do not move). A window that differs in latency is told with the stage that
grew most, and with what else was different: more requests, larger ones, errors, or none of these.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Ask, Engine
from mpbroker.analysis.engine.input.durations import PIPELINE
from mpbroker.analysis.engine.mathematics import windows
from mpbroker.analysis.engine.mathematics.distribution import Distribution, distributions
from mpbroker.analysis.engine.measures import request_time, time_costs
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MEASURED = "active_total"
MIN_WINDOWS = 10
MIN_IN_WINDOW = wording.MIN_IN_WINDOW["p99"]
#: Robust standard deviations. Beyond this a window differs; and by at least so much, where windows hardly vary.
ODD = 6.0
LEAST_SPREAD = {"p99": 0.1, "rate": 0.05, "bytes": 0.05, "errors": 0.005}
TO_SIGMA = 1.4826  # of the median deviation, were it normal
NAMED = 3
_SERIES = tuple(LEAST_SPREAD)
_TABLE = pa.schema(
    [
        ("window_ms", pa.int64()),
        ("n", pa.int64()),
        *((name, pa.float64()) for name in ("p99_ns", "requests_s", "request_bytes", "error_share")),
        *((f"z_{name}", pa.float64()) for name in _SERIES),
        ("odd", pa.bool_()),
        ("stage", pa.string()),
        ("stage_more_ns", pa.float64()),
    ]
)


def asks(engine: Engine, activity: pa.Table, parameters: StudyParameters) -> list[Ask]:
    """The tables `run` asks for."""
    extent = windows.extent(activity)
    if extent is None:
        return []
    window_ms = windows.width_ms(parameters.window_ms, extent)
    return [Ask("rollup", window_ms, ()), Ask("activity", window_ms, ())]


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Table anomaly: a row per window with enough requests. `z_…`: how far from the median; `stage`: of an odd window
    the one that grew most, by so much on average."""
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("anomaly")])
    window_ms = windows.width_ms(parameters.window_ms, extent)
    found = distributions(engine.rollup(window_ms, ()), ("window_ms", "stage"), (MEASURED, *PIPELINE))
    sums = {row["window_ms"]: row for row in engine.activity(window_ms, ()).to_pylist()}
    whole = {at: each for (at, stage), each in found.items() if stage == MEASURED and each.n >= MIN_IN_WINDOW}
    if len(whole) < MIN_WINDOWS:
        return StudyResult(
            verdicts=[
                f"{wording.counted(len(whole), 'window')} of {window_ms} ms have the {MIN_IN_WINDOW} requests that a "
                f"p99 needs; {MIN_WINDOWS} are needed to say which differ. Try another --window-ms."
            ]
        )
    rows = _scored(whole, sums, window_ms)
    means = {stage: {at: _mean(found, at, stage, each.n) for at, each in whole.items()} for stage in PIPELINE}
    for row in rows:
        row |= _grown(means, row["window_ms"]) if row["odd"] else {}
    return StudyResult(
        {"anomaly": pa.Table.from_pylist(rows, _TABLE)},
        [*_verdicts(rows, window_ms), *wording.caveats(engine.input)],
        _figures(rows, window_ms),
        findings=_findings(engine, rows, whole, window_ms),
    )


def _findings(
    engine: Engine, rows: list[dict[str, Any]], whole: dict[int, Distribution], window_ms: int
) -> list[Finding]:
    """What requests of slow windows took more than those of the window in the middle."""
    slow = sorted((row for row in rows if row["odd"] and row["z_p99"] > ODD), key=lambda row: -row["z_p99"])
    if not slow:
        return []
    usual = float(np.median([each.mean_ns for each in whole.values()]))
    ns = sum(whole[row["window_ms"]].n * (whole[row["window_ms"]].mean_ns - usual) for row in slow)
    sentence = (
        f"{wording.counted(len(slow), 'window')} of {len(rows)} ({window_ms} ms each) {_is(len(slow))} slower than the "
        f"others; first among them {_what(slow[0], rows)}."
    )
    return request_time.of(engine).explained("odd_windows", sentence, ns, refines=(time_costs.KINDS[slow[0]["stage"]],))


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _scored(whole: dict[int, Distribution], sums: dict[int, dict[str, Any]], window_ms: int) -> list[dict[str, Any]]:
    rows = []
    for at, each in sorted(whole.items()):
        total = sums[at]
        row: dict[str, Any] = {"window_ms": at, "n": total["n"], "p99_ns": each.percentile(0.99)}
        row |= {"requests_s": total["n"] * 1000 / window_ms, "error_share": total["errors"] / total["n"]}
        rows.append(row | {"request_bytes": (total["req_bytes"] + total["resp_bytes"]) / total["n"]})
    inner = slice(1, -1) if len(rows) > MIN_WINDOWS else slice(None)  # the first and the last are rarely whole
    series = {
        "p99": np.log(np.maximum(1.0, [row["p99_ns"] for row in rows])),
        "rate": np.log(np.maximum(1e-9, [row["requests_s"] for row in rows])),
        "bytes": np.log(np.maximum(1.0, [row["request_bytes"] for row in rows])),
        "errors": np.array([row["error_share"] for row in rows]),
    }
    for name, values in series.items():
        for row, score in zip(rows, scores(values, values[inner], LEAST_SPREAD[name]), strict=True):
            row[f"z_{name}"] = float(score)
    edges = {rows[0]["window_ms"], rows[-1]["window_ms"]} if len(rows) > MIN_WINDOWS else set()
    for row in rows:
        names = _SERIES if row["window_ms"] not in edges else ("p99", "errors")
        row["odd"] = any(abs(row[f"z_{name}"]) > ODD for name in names)
    return rows


def scores(values: npt.NDArray[Any], usual: npt.NDArray[Any], least: float) -> npt.NDArray[Any]:
    """How far each lies from the median of the usual ones, in robust standard deviations of at least `least`."""
    middle = float(np.median(usual))
    spread = max(least, TO_SIGMA * float(np.median(np.abs(usual - middle))))
    return (values - middle) / spread


def _mean(found: dict[tuple[Any, ...], Distribution], at: int, stage: str, n: int) -> float:
    each = found.get((at, stage))
    return 0.0 if each is None else each.sum_ns / n


def _grown(means: dict[str, dict[int, float]], at: int) -> dict[str, Any]:
    more = {stage: each[at] - float(np.median(list(each.values()))) for stage, each in means.items()}
    stage = max(more, key=lambda name: more[name])
    return {"stage": stage, "stage_more_ns": more[stage]}


# Verdicts


def _verdicts(rows: list[dict[str, Any]], window_ms: int) -> list[str]:
    odd = sorted((row for row in rows if row["odd"]), key=lambda row: (-abs(row["z_p99"]), row["window_ms"]))
    usual = wording.duration(float(np.median([row["p99_ns"] for row in rows])))
    if not odd:
        return [f"None of {len(rows)} windows of {window_ms} ms differs from the others (p99 usually {usual})."]
    said = [
        f"{wording.counted(len(odd), 'window')} of {len(rows)} ({window_ms} ms each) {_differ(len(odd))} from the "
        f"others (p99 usually {usual})."
    ]
    return said + [_told(row, rows, window_ms) for row in odd[:NAMED]]


def _differ(number: int) -> str:
    return "differs" if number == 1 else "differ"


def _told(row: dict[str, Any], rows: Sequence[dict[str, Any]], window_ms: int) -> str:
    at = figure_specs.clock(row["window_ms"] * 1_000_000)
    until = figure_specs.clock((row["window_ms"] + window_ms) * 1_000_000)
    return f"{_what(row, rows)}. Look there: trace study tail --from {at}Z --to {until}Z."


def _what(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """When, and what was different."""
    at = figure_specs.clock(row["window_ms"] * 1_000_000)
    parts = []
    if abs(row["z_p99"]) > ODD:
        grown = f", mostly {wording.DOING[row['stage']]} (+{wording.duration(row['stage_more_ns'])} on average)"
        parts.append(f"p99 {wording.duration(row['p99_ns'])}" + (grown if row["stage_more_ns"] > 0 else ""))
    for name, column, what in (("rate", "requests_s", "requests/s"), ("bytes", "request_bytes", "bytes a request")):
        if abs(row[f"z_{name}"]) > ODD:
            usual = float(np.median([one[column] for one in rows]))
            parts.append(f"{wording.count(round(row[column]))} {what} (usually {wording.count(round(usual))})")
    if abs(row["z_errors"]) > ODD:
        parts.append(f"{wording.share(row['error_share'])} errors")
    alone = abs(row["z_p99"]) > ODD and len(parts) == 1
    return f"{at[11:]}: {', '.join(parts)}{'; nothing else was different' if alone else ''}"


# Figures


def _figures(rows: list[dict[str, Any]], window_ms: int) -> list[Figure]:
    at = figure_specs.clocks(row["window_ms"] for row in rows)
    odd = [(when, row) for when, row in zip(at, rows, strict=True) if row["odd"]]
    data = [figure_specs.line("p99", at, figure_specs.milliseconds(row["p99_ns"] for row in rows))]
    if odd:
        marker = {"size": 10, "symbol": "diamond-open"}
        values = figure_specs.milliseconds(row["p99_ns"] for _, row in odd)
        data.append(figure_specs.points("differs", [when for when, _ in odd], values, marker=marker))
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"), figure_specs.axis("p99, ms", rangemode="tozero")
    )
    caption = f"Windows of {window_ms} ms; those that differ in latency, rate, size or errors are marked."
    return [Figure("anomaly", "Windows that differ", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "anomaly",
    "Which windows of time differ from the others, and by what?\n"
    "Latency, rate, size and errors of each against the median of all, with the stage that grew most.",
    "rollup",
    run,
    asks,
)
