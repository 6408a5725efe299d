"""Does the trace agree with itself? Sequence numbers, Little's law and the depths that were seen, by ring and window.

Runs in a command's process, on single requests in their order; refuses sampled traces. Three numbers for the time
average of a ring's depth: L, the overlap of all waits with the window, by the window's length; lambda W, arrivals in
the window times their mean wait; and the depth that arrivals found, which the ring itself counted. Two comparisons:

    L against lambda W              differ when the ring fills or empties within a window: the load is not stationary
    depth found against the depth   differ only when records are missing or clocks are wrong: a defect of the trace.
    that the records give           It is taken at the same moments, so it holds for any load

L and lambda W come from the same records and agree with a third of them gone. Of lost records speak the depths found,
the tracer's gauges of the rings, each with the smallest loss that it would have shown, and, exactly, the sequence
numbers (measures/lost_records.py).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Engine, Where
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.mathematics import intervals, moments, windows
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.mathematics.windows import Extent
from mpbroker.analysis.engine.measures import lost_records, request_time
from mpbroker.analysis.engine.measures.lost_records import Numbers
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MAX_REQUESTS = 5_000_000
MISMATCH = 0.10
MIN_ARRIVALS = 50  # in a window, to say anything
#: A ring this empty on average says nothing in percent: one request is in it or not. Nor do depths that differ by less:
#: a handler stamps a request a moment after it took it.
MIN_DEPTH = 0.5
_COLUMNS = ("processor", "plane", "epoch_ns", "req_q", "resp_q", *lost_records.COLUMNS, *moments.COLUMNS)
_GAUGED = ("gauge_samples", "gauge_depth", "gauge_from_records", "gauge_smallest_loss")
_UNCHECKED = "Sequence numbers were not checked: only a part of the trace was read."
OK, UNSTEADY, DEFECT, EMPTY, FEW = "ok", "not stationary", "trace defect", "nearly empty", "too few"


class Waits(NamedTuple):
    """Of one ring: when requests were put in and taken out (monotonic ns), and the depth each found."""

    run: str
    broker: int
    ring: str
    begins: Int64s
    ends: Int64s
    found: Int64s
    clock_offset_ns: int
    gauge_at: Int64s
    gauge_depth: Int64s

    @property
    def name(self) -> str:
        """As sentences call it."""
        return f"{self.ring} ring of broker {self.broker}"


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables little_check (ring and window) and little_summary (ring)."""
    engine.input.require_unsampled("little")
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("little")])
    window_ms = windows.width_ms(parameters.window_ms, extent)
    table, left_out = _read(engine, extent)
    rings = list(_rings(table, engine.input.gauges()))
    rows = [row for ring in rings for row in _check(ring, window_ms)]
    summary = [_summary(ring, [row for row in rows if _same(row, ring)]) for ring in rings]
    tables = {"little_check": pa.Table.from_pylist(rows, _CHECK), "little_summary": pa.Table.from_pylist(summary)}
    lost = engine.input.loss.dropped > 0 or bool(engine.input.loss.gaps)
    exact = _numbers(engine, table, bool(left_out))
    said = lost_records.number_sentence(exact) if exact else _UNCHECKED
    return StudyResult(
        tables,
        [said, *_verdicts(summary, rows, window_ms, lost), *left_out, *wording.caveats(engine.input)],
        _figures(rings, rows, window_ms),
        findings=_findings(request_time.of(engine, table.num_rows / extent.n), exact, rows),
    )


def _read(engine: Engine, extent: Extent) -> tuple[pa.Table, list[str]]:
    """Columns of every request, or of the first MAX_REQUESTS in time with a sentence that says so."""
    if extent.n <= MAX_REQUESTS:
        return engine.requests(_COLUMNS), []
    upto = extent.first_ns + int((extent.last_ns - extent.first_ns) * MAX_REQUESTS / extent.n)
    return engine.requests(_COLUMNS, Where(None, upto)), [
        f"Checked were the first {(upto - extent.first_ns) / 1e9:.0f} s, about {MAX_REQUESTS:,} of {extent.n:,} "
        "requests."
    ]


def _numbers(engine: Engine, table: pa.Table, left_out: bool) -> Numbers | None:
    if left_out or engine.input.rows != RowFilter(brokers=engine.input.rows.brokers):
        return None
    return lost_records.numbers(table)


def _rings(table: pa.Table, gauges: pa.Table) -> Iterator[Waits]:
    """The request ring of every plane and the response ring of every processor."""
    when = moments.of(table)
    offset = table["epoch_ns"].to_numpy() - table["t0_ns"].to_numpy()
    for by, stage, begins, ends, depth in (
        ("plane", "queue_ns", when.enqueued, when.dequeued, "req_q"),
        ("processor", "resp_queue_ns", when.resp_enq, when.resp_deq, "resp_q"),
    ):
        there, found = moments.present(table, stage), np.asarray(table[depth].to_numpy(), np.int64)
        for (run_id, broker, key), rows in moments.groups(table, ("run", "broker", by)):
            rows = rows[there[rows]]
            if len(rows):
                name = f"{key} request" if by == "plane" else f"response-{key}"
                shift = int(offset[rows].min())  # not that of the first row: engines differ in their order
                at, depths = _gauges_of(gauges, run_id, broker, ("plane", key) if by == "plane" else ("name", name))
                yield Waits(run_id, broker, name, begins[rows], ends[rows], found[rows], shift, at - shift, depths)


def _gauges_of(gauges: pa.Table, run_id: str, broker: int, where: tuple[str, str]) -> tuple[Int64s, Int64s]:
    """Moments since 1970 and the depth then of one ring; that of a plane has several rows of shared memory."""
    mine = pc.and_(pc.equal(gauges["run"], run_id), pc.equal(gauges["broker"], broker))
    mine = pc.and_(mine, pc.fill_null(pc.equal(gauges[where[0]], where[1]), False))
    rings = gauges.filter(pc.and_(mine, pc.equal(gauges["type"], "ring")))
    at, place = np.unique(rings["epoch_ns"].to_numpy(), return_inverse=True)
    depths = np.bincount(place, weights=rings["depth"].to_numpy(), minlength=len(at))
    return at.astype(np.int64), depths.astype(np.int64)


_CHECK = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("ring", pa.string()),
        ("window_ms", pa.int64()),
        ("arrivals", pa.int64()),
        ("arrivals_per_s", pa.float64()),
        ("mean_wait_us", pa.float64()),
        ("depth", pa.float64()),
        ("lambda_w", pa.float64()),
        ("depth_found", pa.float64()),
        ("depth_replayed", pa.float64()),
        ("little_mismatch", pa.float64()),
        ("depth_mismatch", pa.float64()),
        ("verdict", pa.string()),
    ]
)


def _same(row: dict[str, Any], ring: Waits) -> bool:
    return (row["run"], row["broker"], row["ring"]) == (ring.run, ring.broker, ring.ring)


def _check(ring: Waits, window_ms: int) -> list[dict[str, Any]]:
    """A row per window that lies wholly between the first arrival and the last departure."""
    width = window_ms * 1_000_000
    first = -(-(int(ring.begins.min()) + ring.clock_offset_ns) // width) * width - ring.clock_offset_ns
    edges = np.arange(first, int(ring.ends.max()) + 1, width, dtype=np.int64)
    if len(edges) < 2:
        edges = np.array([int(ring.begins.min()), max(int(ring.ends.max()), int(ring.begins.min()) + 1)], np.int64)
    place = np.searchsorted(edges, ring.begins, side="right") - 1
    inside = (place >= 0) & (place < len(edges) - 1)
    sums = {
        "waiting": intervals.waiting_in_windows(edges, ring.begins, ring.ends),
        "n": np.ones(len(place), np.int64),
        "waits": ring.ends - ring.begins,
        "found": ring.found,
        "replayed": intervals.found_by_arrivals(ring.begins, ring.ends),
    }
    for name in ("n", "waits", "found", "replayed"):
        sums[name] = np.bincount(place[inside], weights=sums[name][inside], minlength=len(edges) - 1)
    return [
        _window(ring, edges, window, {name: float(values[window]) for name, values in sums.items()})
        for window in range(len(edges) - 1)
    ]


def _window(ring: Waits, edges: Int64s, window: int, sums: dict[str, float]) -> dict[str, Any]:
    length, n = int(edges[window + 1] - edges[window]), int(sums["n"])
    depth, lambda_w = sums["waiting"] / length, sums["waits"] / length
    wait, found, given = (sums[name] / max(1, n) for name in ("waits", "found", "replayed"))
    row = {
        "run": ring.run,
        "broker": ring.broker,
        "ring": ring.ring,
        "window_ms": (int(edges[window]) + ring.clock_offset_ns) // 1_000_000,
        "arrivals": n,
        "arrivals_per_s": n * 1e9 / length,
        "mean_wait_us": wait / 1000,
        "depth": depth,
        "lambda_w": lambda_w,
        "depth_found": found,
        "depth_replayed": given,
        "little_mismatch": _mismatch(depth, lambda_w),
        "depth_mismatch": _mismatch(found, given),
    }
    return {**row, "verdict": _judge(row)}


def _mismatch(one: float, other: float) -> float:
    """Difference by the larger of both; 0 for two empty rings."""
    return abs(one - other) / max(one, other) if max(one, other) > 0 else 0.0


def _judge(row: dict[str, Any]) -> str:
    if row["arrivals"] < MIN_ARRIVALS:
        return FEW
    if row["depth_mismatch"] > MISMATCH and abs(row["depth_found"] - row["depth_replayed"]) >= MIN_DEPTH:
        return DEFECT
    if max(row["depth"], row["lambda_w"]) < MIN_DEPTH:
        return EMPTY
    return UNSTEADY if row["little_mismatch"] > MISMATCH else OK


def _summary(ring: Waits, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of all windows of a ring: `depth` and `lambda_w` averaged over time, `depth_found` and `depth_replayed` over
    arrivals, gauges over their moments; and how many windows got which verdict."""
    n = np.array([row["arrivals"] for row in rows], float)
    weights = n / n.sum() if n.sum() else None
    values = {name: float(np.mean([row[name] for row in rows])) for name in ("depth", "lambda_w")}
    for name in ("depth_found", "depth_replayed"):
        values[name] = float(np.average([row[name] for row in rows], weights=weights))
    sampled = lost_records.samples(ring.gauge_at, ring.gauge_depth, ring.begins, ring.ends)
    seen = dict(zip(_GAUGED, sampled or (0, 0.0, 0.0, 1.0), strict=True))
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in (OK, UNSTEADY, DEFECT, EMPTY, FEW)}
    return {
        "run": ring.run,
        "broker": ring.broker,
        "ring": ring.ring,
        "arrivals": int(n.sum()),
        "windows": len(rows),
        **values,
        "little_mismatch": _mismatch(values["depth"], values["lambda_w"]),
        "depth_mismatch": _mismatch(values["depth_found"], values["depth_replayed"]),
        "depth_smallest_loss": min((_smallest_loss(row) for row in rows if row["verdict"] != FEW), default=1.0),
        **seen,
        "gauges_show_loss": sampled is not None and sampled.shows_loss,
        **{verdict.replace(" ", "_"): number for verdict, number in counts.items()},
    }


def _smallest_loss(row: dict[str, Any]) -> float:
    """The smallest share of lost records that would make a window a defect; 1: none would."""
    return min(1.0, max(MISMATCH, MIN_DEPTH / row["depth_found"])) if row["depth_found"] else 1.0


# Findings


def _findings(time: RequestTime, exact: Numbers | None, rows: list[dict[str, Any]]) -> list[Finding]:
    """What is missing in the trace, and the waiting of the windows in which a ring filled or emptied."""
    found = _missing_finding(time, exact, rows)
    for ring in dict.fromkeys((row["run"], row["broker"], row["ring"]) for row in rows):
        found += _burst_finding(time, [row for row in rows if (row["run"], row["broker"], row["ring"]) == ring])
    return found


def _missing_finding(time: RequestTime, exact: Numbers | None, rows: list[dict[str, Any]]) -> list[Finding]:
    """By sequence numbers, which are exact, at what the other requests took; else what waited in rings, by the depths
    that arrivals found (a depth times a time is request time), beyond what the records explain."""
    if exact is not None and exact.missing:
        ns = exact.missing * time.whole_s * time.looked_at / max(1, exact.records - exact.doubled) * 1e9
        return time.explained("trace_loss", lost_records.missing_sentence(exact), ns)
    defects = [row for row in rows if row["verdict"] == DEFECT and row["depth_found"] > row["depth_replayed"]]
    seconds = sum(
        (row["depth_found"] - row["depth_replayed"]) * row["arrivals"] / row["arrivals_per_s"] for row in defects
    )
    sentence = (
        f"In {wording.counted(len(defects), 'window')} arrivals found more requests in the rings than the records "
        f"explain: {wording.duration(seconds * 1e9)} of waiting are not in this trace, or at the wrong time."
    )
    return time.explained("trace_loss", sentence, seconds * 1e9)


def _burst_finding(time: RequestTime, rows: list[dict[str, Any]]) -> list[Finding]:
    """Of one ring: what its requests waited longer in unsteady windows than in the others, where there are such."""
    burst, calm = ([row for row in rows if row["verdict"] in which] for which in ((UNSTEADY,), (OK, EMPTY)))
    if not burst or not calm:
        return []
    (n, waited), (calm_n, calm_waited) = (
        (sum(row["arrivals"] for row in side), sum(row["arrivals"] * row["mean_wait_us"] for row in side))
        for side in (burst, calm)
    )
    mean, usual = waited / n, calm_waited / calm_n
    sentence = (
        f"In {wording.counted(len(burst), 'window')} of {len(burst) + len(calm)} the {rows[0]['ring']} ring of broker "
        f"{rows[0]['broker']} filled or emptied: requests waited {wording.duration(mean * 1000)} there on average, "
        f"{wording.duration(usual * 1000)} in the others."
    )
    subject = f"{rows[0]['run']} {rows[0]['broker']} {rows[0]['ring']}"
    return time.explained("bursts", sentence, (mean - usual) * n * 1000, subject)


# Verdicts


def _verdicts(summary: list[dict[str, Any]], rows: list[dict[str, Any]], window_ms: int, lost: bool) -> list[str]:
    total = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in (OK, UNSTEADY, DEFECT, EMPTY, FEW)}
    gauged = _gauge_verdict(summary)
    telling = total[OK] + total[UNSTEADY] + total[DEFECT]
    if not telling:
        return [
            f"No window of {window_ms} ms tells anything: the rings were nearly empty (mean depth below "
            f"{MIN_DEPTH:g}), or a window had fewer than {MIN_ARRIVALS} arrivals.",
            *gauged,
        ]
    found = [
        f"Little's law holds within 10 % in {total[OK]} of {wording.counted(telling, 'window')} that had something to "
        f"check ({wording.counted(len(summary), 'ring')}, windows of {window_ms} ms): the load was steady there. That "
        "says nothing of lost records."
    ]
    defects = _defect_verdict(summary, total[DEFECT], lost)
    return [*found, *defects, *gauged, *_unsteady_verdict(summary, total[UNSTEADY])]


def _gauge_verdict(summary: list[dict[str, Any]]) -> list[str]:
    lossy = [
        f"TRACE DEFECT: gauges saw {row['gauge_depth']:.3g} requests in the {row['ring']} ring on average, the records "
        f"give {row['gauge_from_records']:.3g} at the same moments."
        for row in summary
        if row["gauges_show_loss"]
    ]
    return lossy or lost_records.gauge_sentence(summary)


def _defect_verdict(summary: list[dict[str, Any]], number: int, lost: bool) -> list[str]:
    if not number:
        smallest = min((row["depth_smallest_loss"] for row in summary), default=1.0)
        return [
            "The depths that arrivals found agree with those that the records give: no sign of wrong clocks, and "
            f"of lost records, {lost_records.power(smallest)}."
        ]
    worst = max((row for row in summary if row["trace_defect"]), key=lambda row: row["depth_mismatch"])
    cause = (
        "the trace has lost records"
        if lost
        else "no loss was counted, so look at the clocks and the stamps of the stages"
    )
    return [
        f"TRACE DEFECT in {wording.counted(number, 'window')}: in the {worst['ring']} ring arrivals found "
        f"{worst['depth_found']:.3g} requests, the records explain {worst['depth_replayed']:.3g} ({cause})."
    ]


def _unsteady_verdict(summary: list[dict[str, Any]], number: int) -> list[str]:
    if not number:
        return []
    worst = max((row for row in summary if row["not_stationary"]), key=lambda row: row["not_stationary"])
    return [
        f"Not stationary in {wording.counted(number, 'window')}: there a ring filled or emptied (most often the "
        f"{worst['ring']} ring, mean depth {worst['depth']:.3g}); means over these windows describe no steady state."
    ]


# Figures


def _figures(rings: list[Waits], rows: list[dict[str, Any]], window_ms: int) -> list[Figure]:
    """The three lines of the ring that held most."""
    busiest = max(rings, key=lambda ring: float((ring.ends - ring.begins).sum()), default=None)
    if busiest is None:
        return []
    mine = [row for row in rows if _same(row, busiest)]
    at = figure_specs.clocks(row["window_ms"] for row in mine)
    names = {
        "depth": "L, from the waits",
        "lambda_w": "λW",
        "depth_found": "depth that arrivals found",
        "depth_replayed": "depth at arrivals, from the records",
    }
    data = [
        figure_specs.line(
            name,
            at,
            [round(row[column], 4) for row in mine],
            **({"line": {"dash": "dot"}} if column == "depth_replayed" else {}),
        )
        for column, name in names.items()
    ]
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"), figure_specs.axis("requests", rangemode="tozero")
    )
    return [
        Figure(
            "little",
            f"Depth of the {busiest.name}",
            f"Windows of {window_ms} ms. L and λW part where the ring fills or "
            "empties; the last two part where the trace is wrong.",
            {"data": data, "layout": layout},
        )
    ]


STUDY = Study(
    "little",
    "Does the trace agree with itself, and where was the load not stationary?\n"
    "Sequence numbers, Little's law and the depths that were seen: the trace's own consistency check.",
    "order",
    run,
)
