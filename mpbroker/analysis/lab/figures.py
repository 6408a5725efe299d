"""Pictures of what clients saw: percentile curves, latency over time with the phases, where the wait was. Pure.

Figures are plotly's JSON; colours and fonts come from the report.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.running.study import Figure
from mpbroker.analysis.lab.latency_table import PARTS, percentile
from mpbroker.analysis.lab.scenario import Scenario

WINDOWS = 80  # points of the time series
_TICKS = (0.5, 0.9, 0.99, 0.999, 0.9999)
_PART_NAMES = {
    "held_back_us": "held back by requests before it",
    "rx_wait_us": "unread in the socket (rx_wait)",
    "queue_us": "queued",
    "rest_of_broker_us": "rest of the broker",
    "on_the_way_us": "on the way",
}


def all_figures(scenario: Scenario, clients: pa.Table, waits: pa.Table) -> list[Figure]:
    """Of the measured group."""
    measured = clients.filter(pc.equal(clients["group"], scenario.measured))
    return [_over_time(scenario, measured), _percentiles(scenario, measured), _parts(scenario, waits)]


def _over_time(scenario: Scenario, measured: pa.Table) -> Figure:
    data, shapes = [], []
    for variant in scenario.variants:
        rows = measured.filter(pc.equal(measured["variant"], variant.name))
        if not len(rows):
            continue
        intended, latency = rows["intended_ns"].to_numpy(), rows["net_ns"].to_numpy() / 1e6
        begin, end = int(intended.min()), int(intended.max()) + 1
        window = ((intended - begin) * WINDOWS // (end - begin)).astype(int)
        there = np.unique(window)
        seconds = (there + 0.5) * (end - begin) / WINDOWS / 1e9
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": variant.name,
                "x": [round(float(x), 3) for x in seconds],
                "y": [round(percentile(latency[window == one], 0.99), 4) for one in there],
            }
        )
        shapes = shapes or _phase_lines(rows, begin)
    layout = {
        "xaxis": {"title": {"text": "seconds since the load began"}},
        "yaxis": {"type": "log", "title": {"text": "p99 of each window, ms"}},
        "shapes": [line for line, _ in shapes],
        "annotations": [text for _, text in shapes],
    }
    return Figure(
        "over_time",
        f"Latency of {scenario.measured} over time",
        "Net latency from the intended send time; the dotted lines are the begins of the phases.",
        {"data": data, "layout": layout},
    )


def _phase_lines(rows: pa.Table, begin: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found = []
    firsts = rows.group_by("phase").aggregate([("intended_ns", "min")]).to_pylist()
    for row in sorted(firsts, key=lambda each: each["intended_ns_min"]):
        x = round((row["intended_ns_min"] - begin) / 1e9, 3)
        found.append(
            (
                {
                    "type": "line",
                    "x0": x,
                    "x1": x,
                    "y0": 0,
                    "y1": 1,
                    "yref": "paper",
                    "line": {"dash": "dot", "width": 1},
                },
                {
                    "x": x,
                    "y": 1,
                    "yref": "paper",
                    "xanchor": "left",
                    "yanchor": "bottom",
                    "showarrow": False,
                    "text": row["phase"],
                },
            )
        )
    return found


def _percentiles(scenario: Scenario, measured: pa.Table) -> Figure:
    shares = [1 - 10 ** -(step / 10) for step in range(1, 41)]
    data = []
    for variant in scenario.variants:
        for phase in scenario.phases:
            rows = measured.filter(
                pc.and_(pc.equal(measured["variant"], variant.name), pc.equal(measured["phase"], phase.name))
            )
            latency = rows["net_ns"].to_numpy() / 1e6
            seen = [share for share in shares if len(latency) * (1 - share) >= 1]
            name = phase.name if len(scenario.variants) == 1 else f"{variant.name}, {phase.name}"
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "x": [round(1 / (1 - share), 4) for share in seen],
                    "y": [round(percentile(latency, share), 4) for share in seen],
                }
            )
    ticks = {
        "tickvals": [round(1 / (1 - share)) for share in _TICKS],
        "ticktext": [f"p{share * 100:g}" for share in _TICKS],
    }
    return Figure(
        "percentiles",
        f"Percentiles of {scenario.measured}",
        "Net latency from the intended send time. Each curve ends where its last request is.",
        {
            "data": data,
            "layout": {
                "xaxis": {"type": "log", "title": {"text": "percentile"}, **ticks},
                "yaxis": {"type": "log", "title": {"text": "latency, ms"}},
            },
        },
    )


def _parts(scenario: Scenario, waits: pa.Table) -> Figure:
    rows = [row for row in waits.to_pylist() if row["group"] == scenario.measured and row["which"] != "all"]
    names = [row["phase"] if len(scenario.variants) == 1 else f"{row['variant']}, {row['phase']}" for row in rows]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": _PART_NAMES[part],
            "y": names,
            "x": [round(max(row[part], 0) / 1000, 4) for row in rows],
        }
        for part in PARTS
    ]
    return Figure(
        "where_it_waits",
        f"Where the slowest 1 % of {scenario.measured} waited",
        "Mean milliseconds of net latency; each client request is joined with the broker's own record of it.",
        {
            "data": data,
            "layout": {
                "barmode": "stack",
                "xaxis": {"title": {"text": "ms"}},
                "yaxis": {"autorange": "reversed", "automargin": True},
            },
        },
    )
