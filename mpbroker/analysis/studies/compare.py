"""Did something change between two sets of runs, and by how much? Candidate (--in) against baseline (--baseline).

Runs in a command's process, on rollups of both inputs; any size. The run is the unit: intervals come from how much
runs of a side differ (mathematics/run_intervals.py). With fewer than five runs a side there is no verdict: what two
single runs differ by is what any two runs of the same broker differ by.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.mathematics import run_intervals
from mpbroker.analysis.engine.mathematics.histogram import BUCKETS, middle_ns
from mpbroker.analysis.engine.mathematics.run_intervals import MIN_RUNS, Interval
from mpbroker.analysis.engine.measures import request_time, run_blocks
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.measures.run_blocks import Run
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

STAGES = ("true_total", "queue", "rx_wait", "local_time")
#: Whole requests without what clients asked for, and the parts of which one is named as where the time went.
WHOLE, PARTS = "active_total", ("rx_wait", "queue", "local", "io", "purgatory", "resp_queue", "send_wait", "send")
SHIFT = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999)
MAX_APIS = 4
HIGHER, LOWER, NOTHING_FOUND, DESCRIPTIVE = "higher", "lower", "no difference found", "descriptive only"


class Metric(NamedTuple):
    """A figure of one API. `of`: a run → its value."""

    api: str
    name: str
    unit: str
    least_requests: int
    of: Callable[[Run], float]


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables differences, quantile_shift, runs."""
    if parameters.baseline is None:
        return StudyResult(verdicts=["compare needs a second set of runs: name it with --baseline."])
    window_ms = min(parameters.window_ms, 500)
    stages = sorted({*STAGES, WHOLE, *PARTS})
    sides = [run_blocks.read(each, window_ms, stages, parameters.warmup_ms) for each in (engine, parameters.baseline)]
    ours, theirs = sides
    if not ours or not theirs:
        return StudyResult(
            verdicts=[
                f"There is nothing to compare: {'the input' if not ours else 'the baseline'} has no run of "
                f"at least {2 * window_ms} ms with requests."
            ]
        )
    apis = _common_apis(ours, theirs)
    rows = [
        _difference(metric, ours, theirs)
        for api in apis
        for metric in _metrics(api, ours + theirs)
        if _enough(metric, ours + theirs)
    ]
    shift = [row for api in apis[:2] for row in _shift(api, ours, theirs)]
    tables = {
        "differences": pa.Table.from_pylist(rows, _DIFFERENCES),
        "quantile_shift": pa.Table.from_pylist(shift, _SHIFT),
        "runs": pa.Table.from_pylist(_run_rows("candidate", ours) + _run_rows("baseline", theirs)),
    }
    caveats = [
        *wording.caveats(engine.input),
        *(f"Baseline: {words}" for words in wording.caveats(parameters.baseline.input)),
    ]
    figures = [_forest_figure(rows), *([_shift_figure(shift)] if shift else [])] if rows else []
    verdicts = [*_verdicts(rows, len(ours), len(theirs)), *_left_out(apis, rows), *caveats]
    return StudyResult(tables, verdicts, figures, findings=_findings(engine, apis, ours, theirs))


def _common_apis(ours: list[Run], theirs: list[Run]) -> list[str]:
    """APIs that every run has, the most frequent first."""
    common = set.intersection(*({api for api, _ in one.counts} for one in ours + theirs))
    return sorted(common, key=lambda api: (-sum(int(one.requests(api).sum()) for one in ours + theirs), api))[:MAX_APIS]


def _metrics(api: str, runs: list[Run]) -> list[Metric]:
    whole = "true_total" if all(_has_kernel_times(one, api) for one in runs) else "total"
    found = [Metric(api, "requests/s", "1/s", 1, lambda one: _rate(one, api))]
    for stage, q in ((whole, 0.5), (whole, 0.99), (whole, 0.999), ("queue", 0.99), ("local_time", 0.5)):
        name = wording.percentile_name(q) if stage == whole else f"{stage} {wording.percentile_name(q)}"
        found.append(
            Metric(
                api,
                name,
                "µs",
                round(wording.MIN_BEYOND / (1 - q)),
                partial(_percentile, api=api, stage=stage, q=q),
            )
        )
    return found


def _has_kernel_times(one: Run, api: str) -> bool:
    counts = one.counts.get((api, "true_total"))
    return counts is not None and counts.sum() * 10 >= one.requests(api).sum() * 9


def _enough(metric: Metric, runs: list[Run]) -> bool:
    return all(int(one.requests(metric.api).sum()) >= metric.least_requests for one in runs)


def _percentile(one: Run, api: str, stage: str, q: float) -> float:
    counts = one.counts.get((api, stage), np.zeros((one.blocks, 1), np.int64))
    return float(run_blocks.percentile(counts.sum(axis=0, keepdims=True), q)[0]) / 1000


def _rate(one: Run, api: str) -> float:
    return float(one.requests(api).sum()) / one.seconds if one.seconds else 0.0


_DIFFERENCES = pa.schema(
    [
        ("api", pa.string()),
        ("metric", pa.string()),
        ("unit", pa.string()),
        ("baseline", pa.float64()),
        ("candidate", pa.float64()),
        ("ratio", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("baseline_runs", pa.int64()),
        ("candidate_runs", pa.int64()),
        ("verdict", pa.string()),
    ]
)
_SHIFT = pa.schema(
    [
        ("api", pa.string()),
        ("percent", pa.float64()),
        ("baseline_us", pa.float64()),
        ("candidate_us", pa.float64()),
        ("ratio", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)


def _difference(metric: Metric, ours: list[Run], theirs: list[Run]) -> dict[str, Any]:
    candidate, baseline, interval = _interval(metric, ours, theirs)
    verdict = DESCRIPTIVE
    if interval is not None:
        verdict = HIGHER if interval.low > 1 else LOWER if interval.high < 1 else NOTHING_FOUND
    return {
        "api": metric.api,
        "metric": metric.name,
        "unit": metric.unit,
        "baseline": baseline,
        "candidate": candidate,
        "ratio": candidate / baseline if baseline else None,
        "low": interval and interval.low,
        "high": interval and interval.high,
        "baseline_runs": len(theirs),
        "candidate_runs": len(ours),
        "verdict": verdict,
    }


def _interval(metric: Metric, ours: list[Run], theirs: list[Run]) -> tuple[float, float, Interval | None]:
    """Geometric mean over runs of each side; the interval of their ratio where there are runs enough."""
    sides = [[metric.of(one) for one in side] for side in (ours, theirs)]
    candidate, baseline = map(run_intervals.mean, sides)
    if min(len(ours), len(theirs)) < MIN_RUNS or min(*sides[0], *sides[1]) <= 0:
        return candidate, baseline, None
    return candidate, baseline, run_intervals.ratio(*sides)


def _shift(api: str, ours: list[Run], theirs: list[Run]) -> list[dict[str, Any]]:
    """By how much each quantile of whole requests moved."""
    whole = "true_total" if all(_has_kernel_times(one, api) for one in ours + theirs) else "total"
    rows = []
    for q in SHIFT:
        metric = Metric(
            api, "", "µs", round(wording.MIN_BEYOND / (1 - q)), partial(_percentile, api=api, stage=whole, q=q)
        )
        if _enough(metric, ours + theirs):
            candidate, baseline, interval = _interval(metric, ours, theirs)
            rows.append(
                {
                    "api": api,
                    "percent": q * 100,
                    "baseline_us": baseline,
                    "candidate_us": candidate,
                    "ratio": candidate / baseline,
                    "low": interval and interval.low,
                    "high": interval and interval.high,
                }
            )
    return rows


def _run_rows(side: str, runs: list[Run]) -> list[dict[str, Any]]:
    return [
        {
            "side": side,
            "run": one.name,
            "label": one.label,
            "seconds": one.seconds,
            "warmup_cut_s": one.cut_seconds,
            "blocks": one.blocks,
            "requests": int(sum(counts.sum() for (_, stage), counts in one.counts.items() if stage == "total")),
        }
        for one in runs
    ]


# Findings


def _findings(engine: Engine, apis: list[str], ours: list[Run], theirs: list[Run]) -> list[Finding]:
    """APIs whose requests take longer on average than the baseline's beyond doubt, each at what that adds up to."""
    if min(len(ours), len(theirs)) < MIN_RUNS:
        return []
    kept = sum(int(one.requests(api).sum()) for one in ours for api, stage in one.counts if stage == "total")
    there = sum(engine.activity(0, ()).column("n").to_pylist())
    time, found = request_time.of(engine, kept / max(1, there)), []
    for api in apis:
        sides = [[_mean_ns(one, api, WHOLE) for one in side] for side in (ours, theirs)]
        if min(*sides[0], *sides[1]) > 0 and (interval := run_intervals.ratio(*sides)).low > 1:
            found += _slower(time, api, ours, theirs, interval)
    return found


def _slower(time: RequestTime, api: str, ours: list[Run], theirs: list[Run], interval: Interval) -> list[Finding]:
    (now, before), part, more = _means(api, WHOLE, ours, theirs), "", 0.0
    for stage in PARTS:
        one, other = _means(api, stage, ours, theirs)
        part, more = (stage, one - other) if one - other > more else (part, more)
    where = f", {wording.share(min(1.0, more / (now - before)))} of it {wording.DOING[part]}" if now > before else ""
    sentence = (
        f"{api} requests take {wording.duration(now)} on average, {wording.duration(before)} in the baseline "
        f"({(interval.low - 1) * 100:+.0f} % to {(interval.high - 1) * 100:+.0f} %){where}."
    )
    number = sum(int(one.requests(api).sum()) for one in ours)
    return time.explained("slower_than_baseline", sentence, (now - before) * number, api)


def _means(api: str, stage: str, ours: list[Run], theirs: list[Run]) -> tuple[float, float]:
    """Of all requests of each side."""
    weights = [np.array([one.requests(api).sum() for one in side], float) for side in (ours, theirs)]
    now, before = (
        float(np.average([_mean_ns(one, api, stage) for one in side], weights=weight))
        for side, weight in zip((ours, theirs), weights, strict=True)
    )
    return now, before


def _mean_ns(one: Run, api: str, stage: str) -> float:
    """Per request of the API, whether it reached the stage or not; by the middles of buckets, so within 1.1 %."""
    counts, number = one.counts.get((api, stage)), int(one.requests(api).sum())
    if counts is None or not number:
        return 0.0
    return float(counts.sum(axis=0) @ _middles() / number)


@cache
def _middles() -> npt.NDArray[np.float64]:
    return np.array([middle_ns(bucket) for bucket in range(BUCKETS)], np.float64)


# Verdicts


def _verdicts(rows: list[dict[str, Any]], ours: int, theirs: int) -> list[str]:
    if not rows:
        return ["The two sides have no API with requests enough in common."]
    number = f"{wording.counted(ours, 'run')} against {wording.counted(theirs, 'run')} of the baseline"
    if min(ours, theirs) < MIN_RUNS:
        told = [row for row in rows if row["metric"] in ("requests/s", "p50", "p99")]
        return [
            f"Descriptive only ({number}): a verdict needs at least {MIN_RUNS} runs a side, because the requests of "
            "one run depend on each other and two runs of the same broker differ, too.",
            *(_told(row) for row in told[:6]),
        ]
    changed = sorted(
        (row for row in rows if row["verdict"] in (HIGHER, LOWER)), key=lambda row: -abs(np.log(row["ratio"]))
    )
    found = [_told(row) for row in changed[:8]]
    quiet = [row for row in rows if row["verdict"] == NOTHING_FOUND]
    if quiet:
        widest = max(max(abs(row["low"] - 1), abs(row["high"] - 1)) for row in quiet)
        names = wording.listed([f"{row['api']} {row['metric']}" for row in quiet[:6]])
        found.append(
            f"No difference found in {names}"
            + (f" and {len(quiet) - 6} more" if len(quiet) > 6 else "")
            + f" ({number}); what exists is within {wording.share(widest)}, or these runs would have shown it."
        )
    return [
        *found,
        f"{wording.counted(len(rows), 'interval')} of 95 % were looked at: by chance alone one in twenty excludes "
        "“no change”.",
    ]


def _left_out(apis: list[str], rows: list[dict[str, Any]]) -> list[str]:
    """What a reader would look for and does not find."""
    there = {(row["api"], row["metric"]) for row in rows}
    missing = [f"{api} {name}" for api in apis[:2] for name in ("p99", "p99.9") if (api, name) not in there]
    return (
        [f"Not compared: {wording.listed(missing)}; some run has fewer than {wording.MIN_BEYOND} requests beyond."]
        if missing
        else []
    )


def _told(row: dict[str, Any]) -> str:
    """`Produce p99 is 12 % higher than the baseline's: 4.7 ms against 4.2 ms (95 % interval 5 % to 20 % higher)."""
    change = row["ratio"] - 1
    values = [
        f"{wording.count(row[side])}/s" if row["unit"] == "1/s" else wording.duration(row[side] * 1000)
        for side in ("candidate", "baseline")
    ]
    word = "higher" if change >= 0 else "lower"
    if abs(change) < 0.0005:
        words = f"{row['api']} {row['metric']} is the same: {values[0]}"
    else:
        words = f"{row['api']} {row['metric']} is {wording.share(abs(change))} {word}: {values[0]} against {values[1]}"
    if row["low"] is None:
        return f"{words}."
    return f"{words} (95 % interval {(row['low'] - 1) * 100:+.0f} % to {(row['high'] - 1) * 100:+.0f} %)."


# Figures


def _forest_figure(rows: list[dict[str, Any]]) -> Figure:
    labels = [f"{row['api']} {row['metric']}" for row in rows]
    change = [round((row["ratio"] - 1) * 100, 3) for row in rows]
    trace = figure_specs.points("candidate", change, labels, marker={"size": 9})
    if all(row["low"] is not None for row in rows):
        trace["error_x"] = {
            "type": "data",
            "symmetric": False,
            "array": [round((row["high"] - row["ratio"]) * 100, 3) for row in rows],
            "arrayminus": [round((row["ratio"] - row["low"]) * 100, 3) for row in rows],
        }
    zero = {"type": "line", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot", "width": 1}}
    layout = figure_specs.layout(
        figure_specs.axis("change against the baseline, %"),
        {"autorange": "reversed", "automargin": True, "type": "category"},
        shapes=[zero],
        height=140 + 26 * len(rows),
        showlegend=False,
    )
    return Figure(
        "forest",
        "What changed",
        "Geometric means over runs; the bars are 95 % intervals, where there are runs enough for them.",
        {"data": [trace], "layout": layout},
    )


def _shift_figure(rows: list[dict[str, Any]]) -> Figure:
    """How far each quantile moved, as a ratio, with its interval as a band."""
    data = []
    for api in dict.fromkeys(row["api"] for row in rows):
        mine = [row for row in rows if row["api"] == api]
        at = [round(100 / (100 - row["percent"]), 4) for row in mine]
        if mine[0]["low"] is not None:
            band = [round((row["high"] - 1) * 100, 3) for row in mine] + [
                round((row["low"] - 1) * 100, 3) for row in reversed(mine)
            ]
            data.append(
                figure_specs.line(
                    api,
                    [*at, *reversed(at)],
                    band,
                    fill="toself",
                    legendgroup=api,
                    showlegend=False,
                    line={"width": 0},
                    hoverinfo="skip",
                )
            )
        data.append(
            figure_specs.line(
                api, at, [round((row["ratio"] - 1) * 100, 3) for row in mine], mode="lines+markers", legendgroup=api
            )
        )
    layout = figure_specs.layout(
        figure_specs.axis("percentile", type="log", **figure_specs.PERCENTILE_AXIS),
        figure_specs.axis("change against the baseline, %", zeroline=True),
    )
    return Figure(
        "quantile_shift",
        "How far each percentile moved",
        "Whole requests; the band is the 95 % interval.",
        {"data": data, "layout": layout},
    )


STUDY = Study(
    "compare",
    "Did something change between two sets of runs, and by how much?\n"
    "Differences with intervals that come from how runs differ; no verdict below five runs a side.",
    "rollup",
    run,
)
