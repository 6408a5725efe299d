"""How does throughput scale with cores, handlers or processors? The universal scalability law, fitted to runs.

Runs in a command's process, on rollups of any size; a run is one point. How many of what each run had is counted in its
gauges (handlers, unless `by=processors`), or said (`n=1,2,4,8,16`, in the order of the runs; cores can only be said).
What two cannot do at once (contention) bends the curve, what they have to tell each other (coherence) turns it down.
Fewer than five different numbers cannot tell one from the other: refused. The load must be all that the broker can do.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Ask, Engine
from mpbroker.analysis.engine.mathematics import bend, windows
from mpbroker.analysis.engine.mathematics.bend import Floats, Scaling
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, study_options, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

LEAST_POINTS = 5
MOST = 4096
#: How sure a peak is whose interval does not reach beyond this many times what was measured.
REACH = 2.0
#: A share of work whose interval is wider says nothing, nor do runs that lie farther from the law on average.
WIDEST, FARTHEST = 0.5, 0.25
_FITTED = ("contention", "coherence", "peak")
_ROLES = {"handlers": "handler", "processors": "processor"}
_POINTS = pa.schema([("run", pa.string()), ("n", pa.int64()), ("requests_s", pa.float64()), ("fitted_s", pa.float64())])
_TABLE = pa.schema(
    [
        ("by", pa.string()),
        ("points", pa.int64()),
        ("one_s", pa.float64()),
        *((f"{name}{end}", pa.float64()) for name in _FITTED for end in ("", "_low", "_high")),
        ("most_measured", pa.int64()),
    ]
)


def asks(engine: Engine, activity: pa.Table, parameters: StudyParameters) -> list[Ask]:
    """The tables `run` asks for."""
    extent = windows.extent(activity)
    if extent is None:
        return []
    return [Ask("activity", parameters.window_ms, ("run",)), Ask("rollup", 0, ("run",))]


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables usl (one row; empty where it refuses; peak null: none) and usl_points (a row per run)."""
    by = (study_options.words(parameters.options, "by", (*_ROLES, "cores")) or ["handlers"])[0]
    said = study_options.whole_numbers(parameters.options, "n", 1, MOST)
    if by == "cores" and not said:
        raise study_options.BadStudyOption("by=cores: a trace does not tell cores; say n=1,2,4,8,16, a run each")
    rates = _rates(engine, parameters)
    if not rates:
        return StudyResult(verdicts=[wording.nothing("usl")])
    if said and len(said) != len(rates):
        raise study_options.BadStudyOption(f"n: {len(said)} numbers for {wording.counted(len(rates), 'run')}")
    numbers = said or [_count(engine, one, _ROLES[by]) for one in rates]
    points = [{"run": one, "n": n, "requests_s": rate} for (one, rate), n in zip(rates.items(), numbers, strict=True)]
    known = [point for point in points if point["n"]]
    if len({point["n"] for point in known}) < LEAST_POINTS:
        return _refused(by, points, len({point["n"] for point in known}))
    n = np.array([point["n"] for point in known], np.float64)
    x = np.array([point["requests_s"] for point in known], np.float64)
    law, row = _fit(by, n, x)
    for point in points:
        point["fitted_s"] = float(law.at(np.array([point["n"]], np.float64))[0]) if point["n"] else None
    return StudyResult(
        {"usl": pa.Table.from_pylist([row], _TABLE), "usl_points": pa.Table.from_pylist(points, _POINTS)},
        [*_verdicts(by, law, row, n, x), *wording.caveats(engine.input)],
        _figures(by, law, points),
        findings=_findings(engine, by, law, row, points) if _tells(law, row, n, x) else [],
    )


def _findings(
    engine: Engine, by: str, law: Scaling, row: dict[str, Any], points: list[dict[str, Any]]
) -> list[Finding]:
    """Of a load that is all the broker can do, a request's time goes as one by the throughput: what the law takes from
    that is what requests took longer."""
    table = engine.rollup(0, ("run",)).to_pylist()
    spent = {point["run"]: 0 for point in points}
    for one in table:
        spent[one["run"]] += one["sum_ns"] if one["stage"] == "active_total" else 0
    time = RequestTime(sum(spent.values()) / 1e9)
    peak = row["peak"] if _has_peak(row) else np.inf
    top = float(law.at(np.array([max(1.0, min(peak, row["most_measured"]))]))[0])
    past = [point for point in points if point["n"] and point["n"] > peak]
    lost = sum(spent[point["run"]] * (1 - point["fitted_s"] / top) for point in past)
    shared = sum(
        spent[point["run"]] * (1 - point["fitted_s"] / (law.gain * point["n"]))
        for point in points
        if point["n"] and point["n"] <= peak
    )
    runs = wording.counted(len(past), "run")
    found = time.explained("past_peak", f"Throughput is highest with {peak:.0f} {by}; {runs} had more.", lost)
    sentence = (
        f"{wording.share(law.contention)} of the work cannot be done side by side: with {row['most_measured']} {by} a "
        f"broker carries {float(law.at(np.array([float(row['most_measured'])]))[0]) / law.gain:.1f} times what it "
        "carries with one."
    )
    return [*found, *time.explained("shared_work", sentence, shared)]


def _rates(engine: Engine, parameters: StudyParameters) -> dict[str, float]:
    """Requests a second of each run, by time: the mean of its whole windows, a tenth cut at either end."""
    table = engine.activity(parameters.window_ms, ("run",))
    found: dict[str, list[tuple[int, int]]] = {}
    for row in table.select(["run", "window_ms", "n"]).to_pylist():
        found.setdefault(row["run"], []).append((row["window_ms"], row["n"]))
    rates = {}
    for name, each in sorted(found.items(), key=lambda item: min(item[1])):
        each.sort()
        cut = max(1, len(each) // 10) if len(each) > 2 else 0
        kept = each[cut : len(each) - cut]
        seconds = ((kept[-1][0] - kept[0][0]) / parameters.window_ms + 1) * parameters.window_ms / 1000
        rates[name] = sum(n for _, n in kept) / seconds
    return rates


def _count(engine: Engine, run_name: str, role: str) -> int:
    rows = engine.input.gauges().to_pylist()
    return len({row["name"] for row in rows if (row["run"], row["type"], row["role"]) == (run_name, "process", role)})


def _refused(by: str, points: list[dict[str, Any]], numbers: int) -> StudyResult:
    return StudyResult(
        {"usl": pa.Table.from_pylist([], _TABLE), "usl_points": pa.Table.from_pylist(points, _POINTS)},
        [
            f"The law of scalability needs runs with at least {LEAST_POINTS} different numbers of {by}; there are "
            f"{numbers}. With fewer, any curve fits: run a sweep (`mpbroker lab run core-sweep`)."
        ],
        _figures(by, None, points),
    )


def _fit(by: str, n: Floats, x: Floats) -> tuple[Scaling, dict[str, Any]]:
    law = bend.scaling(n, x)
    figures = (lambda one: one.contention, lambda one: one.coherence, lambda one: one.peak)
    bounds = bend.scaling_intervals(n, x, figures)
    row: dict[str, Any] = {"by": by, "points": len(n), "one_s": law.gain, "most_measured": int(n.max())}
    for name, value, (low, high) in zip(_FITTED, (law.contention, law.coherence, law.peak), bounds, strict=True):
        row |= {name: _finite(value), f"{name}_low": _finite(low), f"{name}_high": _finite(high)}
    return law, row


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


# Verdicts


def _tells(law: Scaling, row: dict[str, Any], n: Floats, x: Floats) -> bool:
    """Whether the runs lie near enough to the law, and the law is certain enough."""
    off = float(np.sqrt((((law.at(n) / x) - 1) ** 2).mean()))
    return bool(row["contention_high"] - row["contention_low"] <= WIDEST and off <= FARTHEST)


def _has_peak(row: dict[str, Any]) -> bool:
    """Whether throughput turns down within what was measured, or not far beyond."""
    return row["peak"] is not None and row["peak_high"] is not None and row["peak_high"] <= REACH * row["most_measured"]


def _verdicts(by: str, law: Scaling, row: dict[str, Any], n: Floats, x: Floats) -> list[str]:
    most = row["most_measured"]
    if not _tells(law, row, n, x):
        return [
            f"The runs differ too much to tell how throughput scales with {by} (one carries about "
            f"{wording.count(round(law.gain))} requests/s): repeat them, longer, on a machine with nothing else to do, "
            "and see that the load generator did not give out."
        ]
    doubled = float(law.at(np.array([2.0 * most]))[0] / law.at(np.array([float(most)]))[0])
    law_words = (
        f"One of the {by} carries {wording.count(round(law.gain))} requests/s; {wording.share(law.contention)} of the "
        f"work cannot be done side by side (95 % interval {wording.share(row['contention_low'])} to "
        f"{wording.share(row['contention_high'])}; {row['points']} runs, up to {most})."
    )
    if not _has_peak(row):
        return [
            f"With twice as many as the {most} {by} that were measured, throughput would be {doubled:.2f} times as "
            "high, if the law holds beyond what was measured; where it is highest cannot be told from these runs.",
            law_words,
        ]
    return [
        f"Throughput is highest with {row['peak']:.0f} {by} (95 % interval {row['peak_low']:.0f} to "
        f"{row['peak_high']:.0f}); more of them give less: leave it at {max(1, round(row['peak']))} or fewer.",
        law_words,
    ]


# Figures


def _figures(by: str, law: Scaling | None, points: list[dict[str, Any]]) -> list[Figure]:
    """Without a law, the runs alone."""
    shown = sorted((point["n"], round(point["requests_s"], 1)) for point in points)
    data = [figure_specs.points("measured", [n for n, _ in shown], [rate for _, rate in shown])]
    if law is not None:
        most = shown[-1][0]
        at = np.linspace(1, most, 40)
        data += [
            figure_specs.line("law", [round(n, 2) for n in at.tolist()], [round(x, 1) for x in law.at(at).tolist()]),
            figure_specs.line("without limits", [1, most], [round(law.gain, 1), round(law.gain * most, 1)]),
        ]
    layout = figure_specs.layout(figure_specs.axis(by), figure_specs.axis("requests/s", rangemode="tozero"))
    caption = "Runs, the law fitted to them, and what it would be if nothing were shared."
    return [Figure("usl", f"Throughput by {by}", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "usl",
    "How does throughput scale with handlers, processors or cores?\n"
    "The universal scalability law over runs, with intervals; refuses fewer than 5 different numbers.",
    "rollup",
    run,
    asks,
)
