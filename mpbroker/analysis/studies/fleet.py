"""Which brokers, hours and APIs of a fleet differ from the others, and by what. Needs no single requests.

Runs in a command's process, on sums and percentiles by hour, broker and API: what it brings together grows with the
fleet, at most with MAX_WINDOWS hours of it, and not with the requests. A broker is compared with the brokers of the
same API, an hour with the hours of it: by the distance from their middle, in robust standard deviations (the median of
all distances, of logarithms for latency and load), and only if it also is large enough to matter.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Ask, Engine
from mpbroker.analysis.engine.engines.reusing_engine import merge_activity
from mpbroker.analysis.engine.input.durations import ASKED_WAIT, PIPELINE
from mpbroker.analysis.engine.mathematics import windows
from mpbroker.analysis.engine.measures import time_costs
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

HOUR_MS = 3_600_000
MAX_WINDOWS = 400
MIN_REQUESTS = 100
#: A broker is compared with at least so many others, an hour with so many.
MIN_PEERS = 2
FAR = 5.0  # robust standard deviations
SCALE = 1.4826  # of the median of distances, to the standard deviation of a normal distribution
MAX_SAID = 5
_WHOLE = "active_total"
_BY = ("broker", "api")


class Measure(NamedTuple):
    """`least`: of a difference, in the measure's own scale; nearer ones do not matter. `floor`: of the spread."""

    name: str
    scale: Callable[[float], float]
    least: float
    floor: float
    both_ways: bool


#: In this order they are said.
MEASURES = (
    Measure("p99", lambda ns: float(np.log2(max(1.0, ns))), 0.585, 0.1, False),  # half as much again
    Measure("errors", float, 0.01, 0.002, False),
    Measure("load", lambda n: float(np.log2(max(1.0, n))), 1.0, 0.1, True),  # twice, or half
)
_DIFFERENCES = pa.schema(
    [
        ("what", pa.string()),
        ("subject", pa.string()),
        ("api", pa.string()),
        ("measure", pa.string()),
        ("value", pa.float64()),
        ("middle", pa.float64()),
        ("distance", pa.float64()),
        ("n", pa.int64()),
        ("stage", pa.string()),
        ("stage_us", pa.float64()),
    ]
)
_CELLS = pa.schema(
    [
        ("window_ms", pa.int64()),
        ("broker", pa.int32()),
        ("api", pa.string()),
        ("n", pa.int64()),
        ("errors", pa.int64()),
        ("p50_us", pa.float64()),
        ("p99_us", pa.float64()),
        ("mean_us", pa.float64()),
    ]
)
Row = dict[str, Any]


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables differences, brokers, hours, cells."""
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("fleet")])
    width_ms = windows.width_ms(HOUR_MS, extent, MAX_WINDOWS)
    activity = engine.activity(width_ms, _BY)
    cells, brokers, hours = engine.percentiles([Ask("rollup", *each) for each in _levels(width_ms)])
    levels = {
        "broker": _peers(brokers, merge_activity(activity, 0, _BY), "broker"),
        "hour": _peers(hours, merge_activity(activity, None, ("api",)), "window_ms"),
    }
    differences = [row for what, found in levels.items() for row in _differences(what, found)]
    differences.sort(key=lambda row: (_rank(row["measure"]), -abs(row["distance"])))
    tables = {
        "differences": pa.Table.from_pylist(differences, _DIFFERENCES),
        "brokers": _listed(levels["broker"], "broker"),
        "hours": _listed(levels["hour"], "window_ms"),
        "cells": _cells(cells, activity),
    }
    verdicts = [*_verdicts(differences, levels, width_ms), *wording.caveats(engine.input)]
    whole = sum(one["sum_ns"] for one in brokers.to_pylist() if one["stage"] == _WHOLE)
    findings = _findings(RequestTime(whole / 1e9), differences, levels)
    return StudyResult(tables, verdicts, _figures(tables, levels["broker"]), findings=findings)


def asks(engine: Engine, totals: pa.Table, parameters: StudyParameters) -> list[Ask]:
    """What `run` asks for; percentiles apart, which an engine may find in its own way."""
    extent = windows.extent(totals)
    return [] if extent is None else [Ask("activity", windows.width_ms(HOUR_MS, extent, MAX_WINDOWS), _BY)]


def _levels(width_ms: int) -> list[tuple[int, tuple[str, ...]]]:
    return [(width_ms, _BY), (0, _BY), (width_ms, ("api",))]


def _rank(measure: str) -> int:
    return [one.name for one in MEASURES].index(measure)


# Peers: what is compared with each other


def _peers(percentiles: pa.Table, activity: pa.Table, key: str) -> dict[str, list[Row]]:
    """API → a row per broker or hour: n, errors (share), p50, p99 (ns), load, and nanoseconds a request by stage."""
    rows: dict[tuple[str, int], Row] = {}
    for one in activity.to_pylist():
        rows[one["api"], one[key]] = {
            "subject": one[key],
            "api": one["api"],
            "n": one["n"],
            "load": one["n"],
            "errors": one["errors"] / one["n"],
            "p50": 0.0,
            "p99": 0.0,
            "mean": 0.0,
            "stages": {},
        }
    for one in percentiles.to_pylist():
        row = rows[one["api"], one[key]]
        if one["stage"] == _WHOLE:
            row |= {"p50": one["p50_ns"], "p99": one["p99_ns"], "mean": one["sum_ns"] / one["n"]}
        elif one["stage"] in (*PIPELINE, ASKED_WAIT):
            row["stages"][one["stage"]] = one["sum_ns"] / row["n"]
    found: dict[str, list[Row]] = {}
    for row in rows.values():
        if ASKED_WAIT in row["stages"]:
            row["stages"]["purgatory"] -= row["stages"].pop(ASKED_WAIT)
        if row["n"] >= MIN_REQUESTS:
            found.setdefault(row["api"], []).append(row)
    return found


def _differences(what: str, found: Mapping[str, list[Row]]) -> list[Row]:
    rows = []
    for api, peers in sorted(found.items()):
        if len(peers) > MIN_PEERS:
            for measure in MEASURES if what == "broker" else MEASURES[:2]:  # the first and last hour are not whole
                rows += [_difference(what, api, measure, peers, row) for row in outliers(measure, peers)]
    return rows


def outliers(measure: Measure, peers: Sequence[Row]) -> list[Row]:
    """Those far from the middle of all, and by enough."""
    values = np.array([measure.scale(row[measure.name]) for row in peers])
    apart = values - np.median(values)
    spread = max(measure.floor, SCALE * float(np.median(np.abs(apart))))
    far = np.abs(apart) if measure.both_ways else apart
    return [
        {**row, "distance": float(apart[place] / spread)}
        for place, row in enumerate(peers)
        if far[place] >= FAR * spread and far[place] >= measure.least
    ]


def _difference(what: str, api: str, measure: Measure, peers: Sequence[Row], row: Row) -> Row:
    stage, excess = _by_what(row, peers) if measure.name == "p99" else (None, None)
    return {
        "what": what,
        "subject": str(row["subject"]),
        "api": api,
        "measure": measure.name,
        "value": float(row[measure.name]),
        "middle": float(np.median([one[measure.name] for one in peers])),
        "distance": round(row["distance"], 3),
        "n": row["n"],
        "stage": stage,
        "stage_us": excess,
    }


def _by_what(row: Row, peers: Sequence[Row]) -> tuple[str | None, float | None]:
    """The stage in which a request spends most more than in the middle of all, and how much, in microseconds."""
    more = {
        stage: row["stages"].get(stage, 0.0) - float(np.median([one["stages"].get(stage, 0.0) for one in peers]))
        for stage in PIPELINE
    }
    stage = max(more, key=lambda name: more[name])
    return (stage, round(more[stage] / 1000, 3)) if more[stage] > 0 else (None, None)


# Tables


def _listed(found: Mapping[str, list[Row]], key: str) -> pa.Table:
    rows = [
        {
            key: row["subject"],
            "api": api,
            "n": row["n"],
            "error_share": row["errors"],
            "p50_us": round(row["p50"] / 1000, 3),
            "p99_us": round(row["p99"] / 1000, 3),
            "mean_us": round(row["mean"] / 1000, 3),
        }
        for api, peers in sorted(found.items())
        for row in sorted(peers, key=lambda row: row["subject"])
    ]
    return pa.Table.from_pylist(rows)


def _cells(percentiles: pa.Table, activity: pa.Table) -> pa.Table:
    whole = percentiles.filter(pc.equal(percentiles["stage"], _WHOLE))
    known = {(row["window_ms"], row["broker"], row["api"]): row for row in whole.to_pylist()}
    rows = []
    for row in activity.to_pylist():
        one = known.get((row["window_ms"], row["broker"], row["api"]))
        times = {} if one is None else {"p50_us": one["p50_ns"], "p99_us": one["p99_ns"]}
        times |= {} if one is None else {"mean_us": one["sum_ns"] / one["n"]}
        rows.append({**row, **{name: round(ns / 1000, 3) for name, ns in times.items()}})
    return pa.Table.from_pylist([{name: row.get(name) for name in _CELLS.names} for row in rows], _CELLS)


# Findings and sentences

#: What differs in what → kind of finding, and what it says more closely.
_FOUND = {
    ("broker", "p99"): ("slow_broker", ()),
    ("hour", "p99"): ("slow_hours", ()),
    ("broker", "errors"): ("failing_broker", ("errors",)),
    ("hour", "errors"): ("errors", ("errors",)),
    ("broker", "load"): ("uneven_brokers", ()),
}


def _findings(
    time: RequestTime, differences: Sequence[Row], levels: Mapping[str, Mapping[str, list[Row]]]
) -> list[Finding]:
    """Of each broker and hour, all APIs together: what its requests took more than those of the middle, and for failed
    ones all that they took. The sentence is that of the largest difference."""
    spent: dict[tuple[str, str, str], float] = {}
    first: dict[tuple[str, str, str], Row] = {}
    for row in differences:
        key = row["what"], row["subject"], row["measure"]
        spent[key] = spent.get(key, 0.0) + _ns(row, levels[row["what"]][row["api"]])
        first.setdefault(key, row)
    found = []
    for (what, subject, measure), ns in spent.items():
        kind, refines = _FOUND[what, measure]
        row = first[what, subject, measure]
        closer = (time_costs.KINDS[row["stage"]],) if row["stage"] else refines
        found += time.explained(kind, _sentence(row), ns, subject, closer)
    return found


def _ns(row: Row, peers: Sequence[Row]) -> float:
    mean = next(float(one["mean"]) for one in peers if str(one["subject"]) == row["subject"])
    if row["measure"] == "errors":
        return float(row["n"] * row["value"] * mean)
    return float(row["n"] * max(0.0, mean - float(np.median([one["mean"] for one in peers]))))


def _verdicts(differences: Sequence[Row], levels: Mapping[str, Mapping[str, list[Row]]], width_ms: int) -> list[str]:
    brokers = {row["subject"] for peers in levels["broker"].values() for row in peers}
    hours = {row["subject"] for peers in levels["hour"].values() for row in peers}
    said = [_sentence(row) for row in differences[:MAX_SAID]]
    if len(differences) > MAX_SAID:
        said.append(f"{len(differences) - MAX_SAID} more differences stand in the table differences.")
    few = []
    if len(brokers) <= MIN_PEERS:
        few.append(f"{wording.counted(len(brokers), 'broker')}")
    if len(hours) <= MIN_PEERS:
        few.append(f"{wording.counted(len(hours), 'window')} of {width_ms // HOUR_MS} h")
    if few:
        said.append(f"Only {wording.listed(few)} with {MIN_REQUESTS} requests of an API: too few to say which differs.")
    if not differences and len(brokers) > MIN_PEERS:
        said.append(f"No broker of {len(brokers)} differs from the others, in latency, errors or load: nothing to do.")
    return said + ([_what_to_do(differences)] if differences else [])


def _sentence(row: Row) -> str:
    who = f"Broker {row['subject']}" if row["what"] == "broker" else f"The time from {_hour(int(row['subject']))}"
    others = "brokers" if row["what"] == "broker" else "times"
    if row["measure"] == "p99":
        words = (
            f"{who} has a {row['api']} p99 of {wording.duration(row['value'])}, the middle of the {others} is "
            f"{wording.duration(row['middle'])}"
        )
        by = f"; most of the difference is {wording.DOING[row['stage']]}" if row["stage"] else ""
        return f"{words}{by} ({wording.counted(row['n'], 'request')})."
    if row["measure"] == "errors":
        return (
            f"{who} answers {wording.share(row['value'])} of {row['api']} with an error, the middle of the {others} is "
            f"{wording.share(row['middle'])}."
        )
    return (
        f"{who} has {wording.count(row['value'])} {row['api']} requests, the middle of the {others} is "
        f"{wording.count(row['middle'])}."
    )


def _hour(window_ms: int) -> str:
    return str(np.datetime64(window_ms, "ms").astype("datetime64[m]")).replace("T", " ") + " UTC"


def _what_to_do(differences: Sequence[Row]) -> str:
    first = differences[0]
    where = f"--broker {first['subject']}" if first["what"] == "broker" else f"--from {_from(int(first['subject']))}"
    if first["measure"] == "load":
        return "What to do: spread leaders and connections evenly; a broker with more of them is slow first."
    return f"What to do: run `mpbroker trace study latency tail --api {first['api']} {where}` on the traces themselves."


def _from(window_ms: int) -> str:
    return str(np.datetime64(window_ms, "ms").astype("datetime64[s]"))


# Figures


def _figures(tables: Mapping[str, pa.Table], brokers: Mapping[str, list[Row]]) -> list[Figure]:
    if not brokers:
        return []
    api = max(brokers, key=lambda name: sum(row["n"] for row in brokers[name]))
    rows = [row for row in tables["brokers"].to_pylist() if row["api"] == api]
    data = [
        figure_specs.points(name, [row["broker"] for row in rows], [row[column] / 1000 for row in rows])
        for name, column in (("p50", "p50_us"), ("p99", "p99_us"))
    ]
    layout = figure_specs.layout(figure_specs.axis("broker"), figure_specs.axis("latency, ms", type="log"))
    return [
        Figure(
            "by_broker",
            f"{api}: latency by broker",
            "A point per broker, of the whole time; who lies apart from the others is named above.",
            {"data": data, "layout": layout},
        )
    ]


STUDY = Study(
    "fleet",
    "Which brokers, hours and APIs of a fleet differ from the others, and by what?\n"
    "Latency, errors and load of each against the middle of its peers; reads rollup tables as well as traces.",
    "rollup",
    run,
    asks,
)
