"""How much the broker did: rates and bytes, what was in flight, how busy its processes were, and when the load was
steady.

Runs in a command's process, on rollups and gauges; any size of trace. Markers begin phases; in each phase of each run
the warm-up is cut (engine/steady_state.py), and figures are those of what is left.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Ask, Engine
from mpbroker.analysis.engine.input.durations import ASKED_WAIT
from mpbroker.analysis.engine.mathematics import steady_state, utilisation, windows
from mpbroker.analysis.engine.mathematics.distribution import NOTHING, Distribution, distributions
from mpbroker.analysis.engine.mathematics.histogram import Int64s, merge
from mpbroker.analysis.engine.mathematics.steady_state import SteadyState
from mpbroker.analysis.engine.measures import errors_over_time, load_kind, time_costs
from mpbroker.analysis.engine.running import figure_specs, phases, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.phases import Phase
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

WINDOWS_PER_PHASE = 20
KNEE_FACTOR = 10
WIDTHS_MS = (20, 50, 100, 200, 500, 1000)
_LATENCY = ("active_total", ASKED_WAIT)
_SUMS = ("n", "errors", "req_bytes", "resp_bytes", "throttled", "handler_ns")


class Stretch(NamedTuple):
    """A phase of a run. `at`: its whole windows; `sums`: columns of activity by window; `asked_ns`: time that requests
    waited because their clients asked for it, which no latency counts; `steady`: places within `at`."""

    run: str
    label: str
    phase: Phase
    at: Int64s
    sums: dict[str, Int64s]
    latency: list[Distribution]
    asked_ns: Int64s
    steady: SteadyState

    @property
    def name(self) -> str:
        """As tables and sentences call it."""
        if not self.label:
            return self.phase.name
        return self.label if self.phase.name == phases.ALL else f"{self.label}, {self.phase.name}"


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables phases, throughput_ts, by_api, utilisation, handlers, saturation."""
    totals = engine.activity(0, ("run", "api"))
    extent = windows.extent(totals)
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("throughput")])
    marked = _marked(engine, totals)
    window_ms = _window_ms(engine, parameters.window_ms, extent, [phase for _, _, phase in marked])
    activity, rollup = engine.activity(window_ms, ("run",)), engine.rollup(window_ms, ("run", "api"))
    stretches = [
        _stretch(run_id, label, phase, activity, rollup, window_ms, parameters) for run_id, label, phase in marked
    ]
    gauges = engine.input.gauges()
    used = utilisation.of_processes(gauges)
    tables = {
        "phases": pa.Table.from_pylist([_phase_row(one, window_ms) for one in stretches]),
        "throughput_ts": pa.Table.from_pylist([row for one in stretches for row in _ts_rows(one, window_ms)]),
        "by_api": _by_api(totals),
        "utilisation": used,
        "saturation": utilisation.of_rings(gauges),
        "handlers": _handlers(engine, max(1000, window_ms)),
        "errors": errors_over_time.table(engine, window_ms),
    }
    kind = load_kind.judge(engine, extent)
    return StudyResult(
        tables,
        [
            *_verdicts(stretches, tables),
            *errors_over_time.sentences(tables["errors"], extent.n),
            *load_kind.sentences(kind),
            *wording.caveats(engine.input),
        ],
        _figures(tables, stretches, window_ms),
        findings=_findings(engine, extent, rollup, window_ms, tables),
    )


def asks(engine: Engine, totals: pa.Table, parameters: StudyParameters) -> list[Ask]:
    """What `run` asks for."""
    extent = windows.extent(totals)
    if extent is None:
        return []
    found = [phase for _, _, phase in _marked(engine, totals)]
    window_ms = _window_ms(engine, parameters.window_ms, extent, found)
    return [
        Ask("activity", window_ms, ("run",)),
        Ask("rollup", window_ms, ("run", "api")),
        Ask("activity", max(1000, window_ms), ("run", "broker", "handler")),
        Ask("activity", window_ms, ("api", "error")),
    ]


def _findings(
    engine: Engine, extent: windows.Extent, rollup: pa.Table, window_ms: int, tables: dict[str, pa.Table]
) -> list[Finding]:
    found = time_costs.findings(engine, extent, rollup, window_ms)
    of_s = found[0].of_s if found else 0.0
    rows = tables["phases"].to_pylist()
    throttled = sum(row["throttled_share"] * row["requests"] for row in rows) / max(1, extent.n)
    if throttled:
        sentence = f"A quota throttled {wording.share(throttled)} of the requests."
        found.append(Finding("throttled", sentence, of_s * throttled, of_s))
    return found + errors_over_time.findings(tables["errors"], extent.n, of_s)


def _marked(engine: Engine, totals: pa.Table) -> list[tuple[str, str, Phase]]:
    """(run, label or "", phase) of everything; a label only where there are several runs."""
    runs = sorted(set(totals["run"].to_pylist()))
    labels = phases.run_labels(engine.input)
    found = []
    for run_id in runs:
        own = windows.extent(totals.filter(pc.equal(totals["run"], run_id)))
        assert own is not None, "a run of the table has rows"
        label = labels.get(run_id, run_id[-8:]) if len(runs) > 1 else ""
        found += [
            (run_id, label, phase) for phase in phases.phases(engine.input, own.first_ns, own.last_ns + 1, run_id)
        ]
    return sorted(found, key=lambda item: item[2].from_ns)


def _window_ms(engine: Engine, asked_ms: int, extent: windows.Extent, found: list[Phase]) -> int:
    """As asked, or finer where a phase would have fewer than WINDOWS_PER_PHASE windows and the engine can."""
    shortest_ms = min(phase.seconds for phase in found if phase.name != phases.BEFORE or len(found) == 1) * 1000
    wanted = max([width for width in WIDTHS_MS if width <= max(shortest_ms / WINDOWS_PER_PHASE, WIDTHS_MS[0])])
    return windows.width_ms(max(engine.least_window_ms, min(asked_ms, wanted)), extent, most=4000)


def _stretch(
    run_id: str,
    label: str,
    phase: Phase,
    activity: pa.Table,
    rollup: pa.Table,
    window_ms: int,
    parameters: StudyParameters,
) -> Stretch:
    first = -(-phase.from_ns // 1_000_000 // window_ms) * window_ms
    at = np.arange(first, phase.to_ns // 1_000_000 - window_ms + 1, window_ms, dtype=np.int64)
    activity = activity.filter(pc.equal(activity["run"], run_id))
    sums = {name: windows.series(activity, name, at)[: len(at)] for name in _SUMS}
    found = distributions(rollup.filter(pc.equal(rollup["run"], run_id)), ("window_ms", "stage"), _LATENCY)
    asked = np.array([found.get((window, ASKED_WAIT), NOTHING).sum_ns for window in at.tolist()], np.int64)
    latency = [found.get((window, "active_total"), NOTHING) for window in at.tolist()]
    steady = steady_state.find(sums["n"], np.array([one.sum_ns for one in latency]))
    if parameters.warmup_ms is not None:
        steady = SteadyState(min(len(at), -(-parameters.warmup_ms // window_ms)), len(at), 0.0, "")
    return Stretch(run_id, label, phase, at, sums, latency, asked, steady)


def _steady_part(one: Stretch) -> tuple[dict[str, int], Distribution, float]:
    """Sums, latencies and length in windows of the steady part; of all whole windows when there is none."""
    part = _steady_slice(one)
    chosen = [each for each in one.latency[part] if each.n]
    buckets, counts = merge(*((each.buckets, each.counts) for each in chosen))
    latency = Distribution(
        buckets, counts, sum(each.sum_ns for each in chosen), max((each.max_ns for each in chosen), default=0)
    )
    return {name: int(values[part].sum()) for name, values in one.sums.items()}, latency, len(one.at[part])


def _steady_slice(one: Stretch) -> slice:
    return slice(one.steady.first, one.steady.end) if one.steady.found else slice(0, len(one.at))


def _phase_row(one: Stretch, window_ms: int) -> dict[str, Any]:
    sums, latency, length = _steady_part(one)
    seconds = length * window_ms / 1000
    first = int(one.at[one.steady.first]) if len(one.at) > one.steady.first else one.phase.from_ns // 1_000_000
    per_s = {name: value / seconds if seconds else 0.0 for name, value in sums.items()}
    return {
        "run": one.run,
        "phase": one.name,
        "from_ms": one.phase.from_ns // 1_000_000,
        "to_ms": one.phase.to_ns // 1_000_000,
        "steady": one.steady.found,
        "steady_from_ms": first,
        "warm_up_s": (first - int(one.at[0])) / 1000 if one.steady.found and len(one.at) else 0.0,
        "reason": one.steady.reason,
        "seconds": seconds,
        "requests": sums["n"],
        "requests_per_s": per_s["n"],
        "mb_in_per_s": per_s["req_bytes"] / 1e6,
        "mb_out_per_s": per_s["resp_bytes"] / 1e6,
        "in_flight": latency.sum_ns / 1e9 / seconds if seconds else 0.0,
        "waiting_on_purpose": float(one.asked_ns[_steady_slice(one)].sum()) / 1e9 / seconds if seconds else 0.0,
        "handlers_busy": per_s["handler_ns"] / 1e9,
        "p50_us": latency.percentile_us(0.5),
        "p99_us": latency.percentile_us(0.99),
        "error_share": sums["errors"] / max(1, sums["n"]),
        "throttled_share": sums["throttled"] / max(1, sums["n"]),
    }


def _ts_rows(one: Stretch, window_ms: int) -> list[dict[str, Any]]:
    seconds = window_ms / 1000
    return [
        {
            "window_ms": int(at),
            "run": one.run,
            "phase": one.name,
            "steady": one.steady.found and one.steady.first <= place < one.steady.end,
            "requests_per_s": int(one.sums["n"][place]) / seconds,
            "mb_in_per_s": int(one.sums["req_bytes"][place]) / 1e6 / seconds,
            "mb_out_per_s": int(one.sums["resp_bytes"][place]) / 1e6 / seconds,
            "errors_per_s": int(one.sums["errors"][place]) / seconds,
            "throttled_per_s": int(one.sums["throttled"][place]) / seconds,
            "in_flight": one.latency[place].sum_ns / 1e9 / seconds,
            "p50_us": one.latency[place].percentile_us(0.5),
            "p99_us": one.latency[place].percentile_us(0.99),
        }
        for place, at in enumerate(one.at.tolist())
    ]


def _by_api(totals: pa.Table) -> pa.Table:
    summed = totals.group_by("api").aggregate([(name, "sum") for name in (*_SUMS, "aux_sum")])
    names = {f"{name}_sum": name for name in (*_SUMS, "aux_sum")}
    renamed = summed.rename_columns([names.get(name, name) for name in summed.column_names])
    return renamed.select(["api", *names.values()]).sort_by([("n", "descending")])


def _handlers(engine: Engine, window_ms: int) -> pa.Table:
    """Per handler and window: share of the time it held a request (on a core or not), by the windows of the
    arrivals."""
    table = engine.activity(window_ms, ("run", "broker", "handler"))
    table = table.filter(pc.is_valid(table["handler"]))
    busy = pc.divide(pc.cast(table["handler_ns"], pa.float64()), window_ms * 1e6)
    return table.select(["window_ms", "run", "broker", "handler", "n"]).append_column("busy_share", busy)


# Verdicts


def _verdicts(stretches: list[Stretch], tables: dict[str, pa.Table]) -> list[str]:
    rows = tables["phases"].to_pylist()
    best = max(rows, key=lambda row: (row["steady"], row["requests_per_s"]))
    found = [_phase_verdict(best), *_growth([row for row in rows if row["run"] == best["run"]])]
    unsteady = [
        f"“{row['phase']}”"
        for row in rows
        if not row["steady"] and row is not best and not row["phase"].endswith(phases.BEFORE)
    ]
    if unsteady:
        found.append(
            f"No steady state in {wording.listed(unsteady[:6])}: {'its' if len(unsteady) == 1 else 'their'} figures "
            "are means over everything."
        )
    chosen = stretches[rows.index(best)]
    return [*found, *_busiest(tables["utilisation"], chosen), *_full_rings(tables["saturation"]), *_throttled(rows)]


def _phase_verdict(row: dict[str, Any]) -> str:
    where = "" if row["phase"] == phases.ALL else f" of phase “{row['phase']}”"
    rates = (
        f"{wording.count(row['requests_per_s'])} requests/s ({wording.megabytes(row['mb_in_per_s'] * 1e6)} in, "
        f"{wording.megabytes(row['mb_out_per_s'] * 1e6)} out, {wording.count(round(row['in_flight'], 1))} in flight, "
        f"p99 {wording.duration(row['p99_us'] * 1000)})"
    )
    if row["waiting_on_purpose"] >= 0.05:
        rates += (
            f", not counting {wording.count(round(row['waiting_on_purpose'], 1))} that waited as their clients asked,"
        )
    if not row["seconds"]:
        return f"The load{where} is too short for a rate: it has no whole window of time."
    if row["steady"]:
        cut = row["warm_up_s"]  # whole windows: the part of one at the beginning is no warm-up
        return f"In the steady state{where} the broker served {rates} over {row['seconds']:.1f} s" + (
            f", after a warm-up of {cut:.1f} s was cut." if cut > 0 else "."
        )
    return f"No steady state{where} ({row['reason']}); on the whole {rates} over {row['seconds']:.1f} s."


def _growth(rows: list[dict[str, Any]]) -> list[str]:
    """What happens to the p99 from the phase with the lowest rate to the one with the highest."""
    marked = sorted(
        (row for row in rows if row["requests"] >= 100 and row["p99_us"] and not row["phase"].endswith(phases.BEFORE)),
        key=lambda row: row["requests_per_s"],
    )
    if len(marked) < 2 or marked[-1]["requests_per_s"] < 1.3 * marked[0]["requests_per_s"]:
        return []
    low, high = marked[0], marked[-1]
    words = (
        f"From “{low['phase']}” to “{high['phase']}” the rate goes from {wording.count(low['requests_per_s'])} to "
        f"{wording.count(high['requests_per_s'])} requests/s, the p99 from {wording.duration(low['p99_us'] * 1000)} to "
        f"{wording.duration(high['p99_us'] * 1000)}"
    )
    knee = next((row for row in marked if row["p99_us"] > KNEE_FACTOR * low["p99_us"]), None)
    if knee is None or len(marked) < 3:
        return [words + "."]
    return [
        f"{words}; it passes {KNEE_FACTOR} times that of “{low['phase']}” at {wording.count(knee['requests_per_s'])} "
        f"requests/s (“{knee['phase']}”)."
    ]


def _busiest(used: pa.Table, one: Stretch) -> list[str]:
    """The process nearest to a whole core, and the one that waited longest for a core."""
    means = utilisation.means(used, one.phase.from_ns, one.phase.to_ns, one.run)
    if not means:
        return ["The trace has no gauges of processes for this time: nothing is known of their use of cores."]
    process, (cpu, waited) = max(means.items(), key=lambda item: item[1][0])
    total = sum(each for each, _ in means.values())
    found = [
        f"All processes used {total:.2f} cores; the busiest, {process}, used {wording.share(cpu)} of one"
        + (f" and waited for one for another {wording.share(waited)} of the time." if waited else ".")
    ]
    name, wait = max(((name, wait or 0.0) for name, (_, wait) in means.items()), key=lambda item: item[1])
    if wait > 0.1 and name != process:
        found.append(
            f"{name[:1].upper()}{name[1:]} was ready to run but had no core for {wording.share(wait)} of the time: the "
            "machine has too few cores for all that runs on it."
        )
    return found


def _full_rings(saturation: pa.Table) -> list[str]:
    return [
        f"The {row['ring']} ring was more than 80 % full in {wording.share(row['full_share'])} of {row['samples']} "
        f"samples (capacity {row['capacity']}): the handlers, not the network, set the rate."
        for row in saturation.to_pylist()
        if row["full_share"] > 0.05
    ]


def _throttled(rows: list[dict[str, Any]]) -> list[str]:
    requests = sum(row["requests"] for row in rows)
    throttled = sum(row["throttled_share"] * row["requests"] for row in rows)
    return [f"{wording.share(throttled / requests)} of the requests were throttled by a quota."] if throttled else []


# Figures


def _figures(tables: dict[str, pa.Table], stretches: list[Stretch], window_ms: int) -> list[Figure]:
    rows = tables["throughput_ts"].to_pylist()
    marks = [
        one.phase._replace(name=f"{one.phase.name} · {one.label}" if one.label else one.phase.name)
        for one in _marked_stretches(stretches)
    ]
    load = _load_figure(rows, stretches, window_ms)
    found = [_rate_figure(rows, marks, window_ms), _bytes_figure(rows, marks), *([load] if load.spec["data"] else [])]
    if tables["utilisation"].num_rows:
        found.append(_utilisation_figure(tables["utilisation"].to_pylist(), marks))
    errors = errors_over_time.figure(tables["errors"], window_ms, marks)
    return [*found, *([errors] if errors else [])]


def _rate_figure(rows: list[dict[str, Any]], marks: list[Phase], window_ms: int) -> Figure:
    at, rate, steady, in_flight, errors = _over_time(
        rows,
        [row["requests_per_s"] for row in rows],
        [row["requests_per_s"] if row["steady"] else None for row in rows],
        [round(row["in_flight"], 3) for row in rows],
        [row["errors_per_s"] for row in rows],
    )
    data = [
        figure_specs.line("requests/s", at, rate),
        figure_specs.line("steady", at, steady, line={"width": 9}, opacity=0.25, connectgaps=False),
        figure_specs.line("in flight", at, in_flight, yaxis="y2"),
    ]
    if any(errors):
        data.append(figure_specs.line("errors", at, errors))
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"),
        figure_specs.axis("requests/s", rangemode="tozero"),
        yaxis2=figure_specs.axis("in flight", overlaying="y", side="right", rangemode="tozero", showgrid=False),
        **figure_specs.phase_marks(marks),
    )
    return Figure(
        "rate",
        "Requests a second",
        f"By arrival, in windows of {window_ms} ms; the broad line is the steady state ({steady_state.METHOD}).",
        {"data": data, "layout": layout},
    )


def _over_time(rows: list[dict[str, Any]], *columns: list[Any]) -> list[list[Any]]:
    return figure_specs.broken_lines(
        figure_specs.clocks(row["window_ms"] for row in rows), [row["run"] for row in rows], *columns
    )


def _bytes_figure(rows: list[dict[str, Any]], marks: list[Phase]) -> Figure:
    at, *columns = _over_time(rows, *([row[column] for row in rows] for column in ("mb_in_per_s", "mb_out_per_s")))
    data = [figure_specs.line(name, at, column) for name, column in zip(("in", "out"), columns, strict=True)]
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"),
        figure_specs.axis("MB/s", rangemode="tozero"),
        **figure_specs.phase_marks(marks),
    )
    return Figure("bytes", "Bytes a second", "Whole frames of requests and answers.", {"data": data, "layout": layout})


def _load_figure(rows: list[dict[str, Any]], stretches: list[Stretch], window_ms: int) -> Figure:
    """Latency against throughput: one point per window; colour is the phase, symbol the run."""
    names, labels = ([getattr(one, key) for one in _marked_stretches(stretches)] for key in ("phase", "label"))
    phase_names, runs = list(dict.fromkeys(one.name for one in names)), list(dict.fromkeys(labels))
    least, data = wording.MIN_IN_WINDOW["p99"], []
    for one in _marked_stretches(stretches):
        mine = [row for row in rows if row["phase"] == one.name and row["run"] == one.run]
        mine = [row for row in mine if row["requests_per_s"] * window_ms >= least * 1000]
        series = figure_specs.points(
            one.name, [row["requests_per_s"] for row in mine], [row["p99_us"] / 1000 for row in mine], opacity=0.6
        )
        if mine:
            data.append(figure_specs.styled(series, phase_names.index(one.phase.name), runs.index(one.label)))
    layout = figure_specs.layout(
        figure_specs.axis("requests/s", rangemode="tozero"), figure_specs.axis("p99 of a window, ms", type="log")
    )
    return Figure(
        "latency_against_throughput",
        "Latency against throughput",
        f"A point is a window of {window_ms} ms with at least {least} requests. Where points rise steeply without "
        f"moving "
        "right, something is saturated.",
        {"data": data, "layout": layout},
    )


def _marked_stretches(stretches: list[Stretch]) -> list[Stretch]:
    return [one for one in stretches if one.phase.name != phases.BEFORE]


def _utilisation_figure(rows: list[dict[str, Any]], marks: list[Phase]) -> Figure:
    data = []
    busiest: dict[str, float] = {}
    for row in rows:
        busiest[row["process"]] = max(busiest.get(row["process"], 0.0), row["cpu_share"])
    for process in sorted(busiest, key=lambda name: -busiest[name])[:12]:
        mine = [row for row in rows if row["process"] == process]
        at, share = figure_specs.broken_lines(
            [figure_specs.clock(row["epoch_ns"]) for row in mine],
            [row["run"] for row in mine],
            [round(row["cpu_share"] * 100, 2) for row in mine],
        )
        data.append(figure_specs.line(process, at, share))
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"),
        figure_specs.axis("% of a core", rangemode="tozero"),
        **figure_specs.phase_marks(marks),
    )
    return Figure(
        "utilisation",
        "How busy processes were",
        "The twelve busiest, between samples of the tracer.",
        {"data": data, "layout": layout},
    )


STUDY = Study(
    "throughput",
    "How much does the broker do in a steady state, and what limits it?\n"
    "Rates, bytes, requests in flight, busy processes, full rings, errors over time; the warm-up is cut, phases kept "
    "apart.",
    "rollup",
    run,
    asks,
)
