"""How long requests take and in which stage: percentiles by API, listener and client, over time, and as Kafka counts.

Runs in a command's process, on two rollups; any size of trace. Percentiles are at most 1.1 % off, maxima are exact.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Ask, Engine
from mpbroker.analysis.engine.input.durations import ASKED_WAIT, KAFKA_VIEW, PIPELINE, ROLLUP_STAGES
from mpbroker.analysis.engine.mathematics import windows
from mpbroker.analysis.engine.mathematics.distribution import NOTHING, Distribution, distributions
from mpbroker.analysis.engine.mathematics.histogram import middle_ns
from mpbroker.analysis.engine.measures import time_costs
from mpbroker.analysis.engine.running import figure_specs, phases, wording
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

CURVE = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999)
APIS_IN_FIGURES = 4
FEW_REQUESTS = 100
_LEAST = "A window shows " + ", ".join(
    f"{name} from {least:,} requests on" for name, least in wording.MIN_IN_WINDOW.items()
)
_LEAST += "; else there is a gap."
_HEAT_BUCKETS = 8  # of the rollup in one row of the heat map: four rows to an octave

Parts = dict[tuple[str, str], Distribution]


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables stage_percentiles, percentile_curve, by_client, by_listener, over_time, kafka_view, stage_share."""
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("latency")])
    window_ms = windows.width_ms(parameters.window_ms, extent)
    over_time = engine.rollup(window_ms, ("api",))
    by_client = engine.rollup(0, ("api", "listener", "client"))
    parts: Parts = {(key[0], key[1]): one for key, one in distributions(over_time, ("api", "stage")).items()}
    apis = sorted({api for api, _ in parts if whole(parts, api).n}, key=lambda api: (-whole(parts, api).n, api))
    unanswered = extent.n - sum(whole(parts, api).n for api in apis)
    if not apis:
        return StudyResult(
            {"stage_percentiles": _stage_percentiles(parts, sorted({api for api, _ in parts}))},
            [_unanswered_verdict(unanswered), *wording.caveats(engine.input)],
        )
    tables = {
        "stage_percentiles": _stage_percentiles(parts, apis),
        "percentile_curve": _curve(parts, apis),
        "by_client": _by(by_client, "client", apis),
        "by_listener": _by(by_client, "listener", apis),
        "over_time": _over_time(over_time),
        "kafka_view": _kafka_view(parts, apis),
        "stage_share": _stage_share(over_time),
    }
    marks = phases.phases(engine.input, extent.first_ns, extent.last_ns + 1)
    verdicts = _verdicts(parts, apis, tables) + ([_unanswered_verdict(unanswered)] if unanswered else [])
    return StudyResult(
        tables,
        [*verdicts, *wording.caveats(engine.input)],
        _figures(tables, over_time, apis, window_ms, marks),
        findings=time_costs.findings(engine, extent, over_time, window_ms),
    )


def asks(engine: Engine, totals: pa.Table, parameters: StudyParameters) -> list[Ask]:
    """What `run` asks for."""
    extent = windows.extent(totals)
    if extent is None:
        return []
    width_ms = windows.width_ms(parameters.window_ms, extent)
    return [Ask("rollup", width_ms, ("api",)), Ask("rollup", 0, ("api", "listener", "client"))]


def whole(parts: Parts, api: str) -> Distribution:
    """Of requests from their arrival in the kernel (from their first read where the kernel does not tell) to their
    answer, without waiting that their clients asked for."""
    return parts.get((api, "active_total"), NOTHING)


_STAGE_PERCENTILES = pa.schema(
    [("api", pa.string()), ("stage", pa.string()), ("n", pa.int64())]
    + [(name, pa.float64()) for name in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us")]
)


def _stage_percentiles(parts: Parts, apis: list[str]) -> pa.Table:
    rows = []
    for api in apis:
        for stage in ROLLUP_STAGES:
            one = parts.get((api, stage))
            if one is not None:
                rows.append({"api": api, "stage": stage, **_row(one)})
    return pa.Table.from_pylist(rows, _STAGE_PERCENTILES)


def _row(one: Distribution) -> dict[str, float]:
    return {
        "n": one.n,
        "p50_us": one.percentile_us(0.5),
        "p90_us": one.percentile_us(0.9),
        "p99_us": one.percentile_us(0.99),
        "p999_us": one.percentile_us(0.999),
        "max_us": one.max_ns / 1000,
    }


def _curve(parts: Parts, apis: list[str]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "api": api,
                "stage": stage,
                "percent": round(q * 100, 4),
                "us": one.percentile_us(q),
                "requests_beyond": one.beyond(q),
            }
            for api in apis
            for stage in ("active_total", "true_total", "total", "queue", "rx_wait", "local_time")
            if (one := parts.get((api, stage))) is not None
            for q in CURVE
            if one.beyond(q) >= 1
        ]
    )


def _by(rollup: pa.Table, column: str, apis: list[str]) -> pa.Table:
    """A row per API and client or listener: of whole requests, and of the wait in the ring."""
    found = distributions(rollup, ("api", column, "stage"), ("active_total", "queue"))
    rows: list[dict[str, Any]] = []
    for api, name in sorted(
        {key[:2] for key in found if key[0] in apis}, key=lambda key: (apis.index(key[0]), key[1] is None, key[1])
    ):
        queue = found.get((api, name, "queue"), NOTHING)
        rows.append(
            {
                "api": api,
                column: name,
                **_row(found.get((api, name, "active_total"), NOTHING)),
                "queue_p50_us": queue.percentile_us(0.5),
                "queue_p99_us": queue.percentile_us(0.99),
            }
        )
    return pa.Table.from_pylist(rows).sort_by([("n", "descending")])


def _over_time(rollup: pa.Table) -> pa.Table:
    found = distributions(rollup, ("window_ms", "api", "stage"), ("active_total", "queue"))
    rows = []
    for window, api in sorted({key[:2] for key in found}):
        one = found.get((window, api, "active_total"), NOTHING)
        queue = found.get((window, api, "queue"), NOTHING)
        rows.append(
            {
                "window_ms": window,
                "api": api,
                **_row(one),
                "p9999_us": one.percentile_us(0.9999),
                "queue_p99_us": queue.percentile_us(0.99),
            }
        )
    return pa.Table.from_pylist(rows)


def _kafka_view(parts: Parts, apis: list[str]) -> pa.Table:
    """What Kafka's RequestMetrics would show; RemoteTime counts only requests that waited."""
    return pa.Table.from_pylist(
        [
            {
                "api": api,
                "metric": f"{metric}Ms",
                "n": one.n,
                "mean_ms": round(one.mean_ns / 1e6, 6),
                **{
                    f"p{name}_ms": round(one.percentile(q) / 1e6, 6)
                    for name, q in (("50", 0.5), ("99", 0.99), ("999", 0.999))
                },
                "max_ms": one.max_ns / 1e6,
            }
            for api in apis
            for metric, stage in KAFKA_VIEW.items()
            if (one := parts.get((api, stage))) is not None
        ]
    )


def _stage_share(rollup: pa.Table) -> pa.Table:
    """Per window and API: mean time of a request in each stage, and its share of all stages; what clients asked for is
    left out."""
    summed = rollup.group_by(["window_ms", "api", "stage"]).aggregate([("sum_ns", "sum"), ("n", "sum")])
    times = {
        (row["window_ms"], row["api"], row["stage"]): (row["sum_ns_sum"], row["n_sum"]) for row in summed.to_pylist()
    }
    rows = []
    for window, api in sorted({key[:2] for key in times}):
        requests = max(1, times.get((window, api, "active_total"), (0, 0))[1])
        spent = {stage: times[window, api, stage][0] for stage in PIPELINE if (window, api, stage) in times}
        _take_off(spent, times.get((window, api, ASKED_WAIT), (0, 0))[0])
        everything = max(1, sum(spent.values()))
        rows += [
            {
                "window_ms": window,
                "api": api,
                "stage": stage,
                "mean_us": round(ns / requests / 1000, 3),
                "share": round(ns / everything, 6),
            }
            for stage, ns in spent.items()
        ]
    return pa.Table.from_pylist(rows)


def shares(parts: Parts, api: str) -> list[tuple[str, float]]:
    """Stages of an API with their share of all the time its requests took, the largest first; what clients asked for is
    left out."""
    spent = {stage: parts[api, stage].sum_ns for stage in PIPELINE if (api, stage) in parts}
    _take_off(spent, parts.get((api, ASKED_WAIT), NOTHING).sum_ns)
    everything = max(1, sum(spent.values()))
    return sorted(((stage, ns / everything) for stage, ns in spent.items()), key=lambda item: -item[1])


def _take_off(spent: dict[str, int], asked_ns: int) -> None:
    if asked_ns:
        spent["purgatory"] -= asked_ns
        if not spent["purgatory"]:
            del spent["purgatory"]


# Verdicts


def _verdicts(parts: Parts, apis: list[str], tables: dict[str, pa.Table]) -> list[str]:
    many = [api for api in apis if whole(parts, api).n >= FEW_REQUESTS] or apis[:1]
    few = [f"{api} ({wording.count(whole(parts, api).n)})" for api in apis if api not in many]
    found = [_api_verdict(parts, api) for api in many[:APIS_IN_FIGURES]]
    found += _asked_verdicts(parts, apis)
    found += _slowest_client(tables["by_client"], apis)
    if len(many) > APIS_IN_FIGURES:
        found.append(f"{wording.counted(len(many) - APIS_IN_FIGURES, 'more API')}: see the table stage percentiles.")
    if few:
        found.append(f"Too few requests for percentiles: {wording.listed(few)}.")
    return found


def _api_verdict(parts: Parts, api: str) -> str:
    one = whole(parts, api)
    (stage, share), *others = shares(parts, api)
    if one.n < FEW_REQUESTS:
        return (
            f"{api}: only {wording.counted(one.n, 'request')}, too few for percentiles; half took at most "
            f"{wording.duration(one.percentile(0.5))}, the slowest {wording.duration(one.max_ns)}, and "
            f"{wording.share(share)} of that time was {wording.DOING[stage]}."
        )
    words = (
        f"{api} p99 is {wording.duration(one.percentile(0.99))} (p50 {wording.duration(one.percentile(0.5))}, "
        f"{wording.counted(one.n, 'request')}); {wording.share(share)} of all its time is {wording.DOING[stage]}"
    )
    if others and others[0][1] >= 0.15:
        words += f", {wording.share(others[0][1])} {wording.DOING[others[0][0]]}"
    if one.beyond(0.99) < wording.MIN_BEYOND:
        return (
            f"{words}. With so few requests the p99 rests on "
            f"{wording.counted(max(1, round(one.beyond(0.99))), 'request')}: "
            "take it as an example, not as a figure."
        )
    if one.beyond(0.999) < wording.MIN_BEYOND:
        return f"{words}. There are too few requests for a p99.9 (the slowest took {wording.duration(one.max_ns)})."
    last = 0.9999 if one.beyond(0.9999) >= wording.MIN_BEYOND else 0.999
    return (
        f"{words}. {wording.percentile_name(last)} is {wording.duration(one.percentile(last))}, the slowest took "
        f"{wording.duration(one.max_ns)}."
    )


def _asked_verdicts(parts: Parts, apis: list[str]) -> list[str]:
    """What is kept apart from latency: waiting that clients asked for."""
    found = []
    for api in apis:
        waited = parts.get((api, ASKED_WAIT), NOTHING)
        if waited.n:
            reason = "for new data (fetch.min.bytes, fetch.max.wait.ms)" if api == "Fetch" else "for their group"
            found.append(
                f"{wording.count(waited.n)} of {wording.count(whole(parts, api).n)} {api} requests also waited "
                f"{reason}, "
                f"{wording.duration(waited.mean_ns)} on average: their clients asked for that, and no latency here "
                f"counts it."
            )
    return found


def _unanswered_verdict(number: int) -> str:
    return (
        f"{wording.counted(number, 'request')} got no answer (the connection or a process ended first): no "
        "percentile of whole requests counts them."
    )


def _slowest_client(by_client: pa.Table, apis: list[str]) -> list[str]:
    """One sentence when a client with enough requests sees at least twice the p99 that the others see in the middle."""
    rows = [row for row in by_client.to_pylist() if row["api"] == apis[0] and row["n"] >= 100 and row["client"]]
    if len(rows) < 3:
        return []
    middle = float(np.median([row["p99_us"] for row in rows]))
    worst = max(rows, key=lambda row: row["p99_us"])
    if worst["p99_us"] < 2 * middle:
        return []
    return [
        f"Client {worst['client']} has the worst {apis[0]} p99: {wording.duration(worst['p99_us'] * 1000)}, the "
        f"middle of {len(rows)} clients is {wording.duration(middle * 1000)}."
    ]


# Figures


def _figures(
    tables: dict[str, pa.Table], rollup: pa.Table, apis: list[str], window_ms: int, marks: list[phases.Phase]
) -> list[Figure]:
    numbers = {
        row["api"]: row["n"] for row in tables["stage_percentiles"].to_pylist() if row["stage"] == "active_total"
    }
    shown = [api for api in apis if numbers[api] >= FEW_REQUESTS][:APIS_IN_FIGURES] or apis[:1]
    return [
        _curves_figure(tables["percentile_curve"], shown),
        _over_time_figure(tables["over_time"], shown, window_ms, marks),
        _share_figure(tables["stage_share"], shown, window_ms),
        _heat_figure(rollup, shown[0], window_ms),
    ]


def _curves_figure(curve: pa.Table, apis: list[str]) -> Figure:
    data = []
    for api in apis:
        rows = [row for row in curve.to_pylist() if row["api"] == api and row["stage"] == "active_total"]
        data.append(
            figure_specs.line(
                api,
                [round(100 / (100 - row["percent"]), 4) for row in rows],
                [row["us"] / 1000 for row in rows],
                mode="lines+markers",
            )
        )
    layout = figure_specs.layout(
        figure_specs.axis("percentile", type="log", **figure_specs.PERCENTILE_AXIS),
        figure_specs.axis("latency, ms", type="log"),
    )
    return Figure(
        "percentile_curve",
        "Percentiles of the whole request",
        "From arrival in the kernel to the last byte of the answer, without waiting that clients asked for; a curve "
        "ends "
        "where a request is beyond it.",
        {"data": data, "layout": layout},
    )


def _over_time_figure(table: pa.Table, apis: list[str], window_ms: int, marks: list[phases.Phase]) -> Figure:
    data, owners = [], []
    for api in apis:
        rows = [row for row in table.to_pylist() if row["api"] == api]
        windows_ms = [row["window_ms"] for row in rows]
        for name, column in (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"), ("max", "max_us")):
            at, values = figure_specs.broken_lines(
                figure_specs.clocks(windows_ms),
                figure_specs.part_numbers(windows_ms, window_ms),
                figure_specs.enough(
                    [row[column] / 1000 for row in rows],
                    [row["n"] for row in rows],
                    wording.MIN_IN_WINDOW.get(name, 1),
                ),
            )
            data.append(figure_specs.line(name, at, values, visible=api == apis[0]))
            owners.append(api)
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"),
        figure_specs.axis("latency, ms", type="log"),
        **figure_specs.phase_marks(marks),
        **figure_specs.chooser(apis, owners, apis[0]),
    )
    return Figure(
        "over_time",
        "Latency over time",
        f"Whole requests by arrival, without waiting that clients asked for, in windows of {window_ms} ms. {_LEAST}",
        {"data": data, "layout": layout},
    )


def _share_figure(table: pa.Table, apis: list[str], window_ms: int) -> Figure:
    """Bars, because a window without a request is empty."""
    data, owners = [], []
    for api in apis:
        rows = [row for row in table.to_pylist() if row["api"] == api]
        for stage in PIPELINE:
            mine = [row for row in rows if row["stage"] == stage]
            if any(row["share"] for row in mine):
                data.append(
                    {
                        "type": "bar",
                        "name": stage,
                        "x": figure_specs.clocks(row["window_ms"] + window_ms // 2 for row in mine),
                        "y": [row["share"] * 100 for row in mine],
                        "width": window_ms,
                        "visible": api == apis[0],
                    }
                )
                owners.append(api)
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"),
        figure_specs.axis("share of the time, %", range=[0, 100]),
        barmode="stack",
        bargap=0,
        **figure_specs.chooser(apis, owners, apis[0]),
    )
    return Figure(
        "stage_share",
        f"Where {apis[0]} spends its time" if len(apis) == 1 else "Where requests spend their time",
        f"Share of each stage in all the time of an API's requests, without waiting that clients asked for, in "
        f"windows of "
        f"{window_ms} ms.",
        {"data": data, "layout": layout},
    )


def _all_windows(seen: list[int], window_ms: int) -> list[int]:
    """From the first to the last, those without a request too: a pause is a gap in the picture."""
    return list(range(min(seen), max(seen) + 1, window_ms))


def _heat_figure(rollup: pa.Table, api: str, window_ms: int) -> Figure:
    """Number of requests by window and latency; colour by the logarithm, or the common case would hide the rest."""
    found = distributions(rollup.filter(pc.equal(rollup["api"], api)), ("window_ms", "stage"), ("active_total",))
    chosen = {window: one for (window, _), one in found.items()}
    at, lows = _all_windows(list(chosen), window_ms), [int(one.buckets.min()) for one in chosen.values() if one.n]
    low, high = (
        min(lows) // _HEAT_BUCKETS,
        max(int(one.buckets.max()) for one in chosen.values() if one.n) // _HEAT_BUCKETS,
    )
    counts = np.zeros((high - low + 1, len(at)), np.int64)
    for window, one in chosen.items():
        np.add.at(counts[:, at.index(window)], one.buckets // _HEAT_BUCKETS - low, one.counts)
    edges = [round(middle_ns((row + low + 0.5) * _HEAT_BUCKETS) / 1e6, 6) for row in range(len(counts))]
    shade = [[round(float(np.log10(value)), 3) if value else None for value in row] for row in counts.tolist()]
    data = [
        {
            "type": "heatmap",
            "x": figure_specs.clocks(at),
            "y": edges,
            "z": shade,
            "customdata": counts.tolist(),
            "hovertemplate": "%{x}<br>%{y} ms<br>%{customdata} requests<extra></extra>",
            "colorbar": {
                "title": {"text": "requests"},
                "tickvals": [0, 1, 2, 3, 4, 5, 6],
                "ticktext": ["1", "10", "100", "1k", "10k", "100k", "1M"],
            },
        }
    ]
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"), figure_specs.axis("latency, ms", type="log")
    )
    return Figure(
        "heat_map",
        f"{api}: how many requests took how long",
        f"Windows of {window_ms} ms, four rows to a doubling.",
        {"data": data, "layout": layout},
    )


STUDY = Study(
    "latency",
    "How long do requests take, and in which stage do they spend it?\n"
    "Percentiles to p99.99 by API, stage, listener and client, over time, and as Kafka's own metrics count.",
    "rollup",
    run,
    asks,
)
