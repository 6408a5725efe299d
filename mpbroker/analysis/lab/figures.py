"""Pictures of what clients saw: percentile curves, latency over time with the phases, where the wait was. Pure.

Figures are plotly's JSON. Colour and marker are the phase, dash is the variant, everywhere; bars go phase by phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.running import figure_specs
from mpbroker.analysis.engine.running.study import Figure
from mpbroker.analysis.engine.running.wording import MIN_IN_WINDOW
from mpbroker.analysis.lab.latency_table import PART_NAMES, PARTS, percentile
from mpbroker.analysis.lab.scenario import Scenario

MAX_WINDOWS = 40  # of a phase in the time series
_PER_WINDOW = 1.5 * MIN_IN_WINDOW["p99"]  # requests on average, so that hardly a window has too few
_TICKS = (0.5, 0.9, 0.99, 0.999, 0.9999)
Floats = npt.NDArray[np.float64]


def all_figures(scenario: Scenario, clients: pa.Table, waits: pa.Table) -> list[Figure]:
    """Of the measured group; those with something to see."""
    measured = clients.filter(pc.equal(clients["group"], scenario.measured))
    found = [_over_time(scenario, measured), _percentiles(scenario, measured), _parts(scenario, waits)]
    return [figure for figure in found if figure.spec["data"]]


def _cells(scenario: Scenario, measured: pa.Table) -> Iterator[tuple[int, int, str, pa.Table]]:
    """(place of the phase, place of the variant, name of both, rows), phase by phase."""
    for number, phase in enumerate(scenario.phases):
        for place, variant in enumerate(scenario.variants):
            there = pc.and_(pc.equal(measured["variant"], variant.name), pc.equal(measured["phase"], phase.name))
            rows = measured.filter(there)
            if len(rows):
                yield number, place, _name(scenario, variant.name, phase.name), rows


def _name(scenario: Scenario, variant: str, phase: str) -> str:
    return phase if len(scenario.variants) == 1 else f"{phase} · {variant}"


def _how_told(scenario: Scenario) -> str:
    if len(scenario.variants) == 1:
        return "Colour and dash are the phase."
    return "Colour and marker are the phase, dash is the variant."


def _over_time(scenario: Scenario, measured: pa.Table) -> Figure:
    """Time of day where there is one variant, as in all figures of the page; else the runs on top of each other."""
    measured = measured.filter(pc.equal(measured["repeat"], pc.min(measured["repeat"])))  # one run of each variant
    data, alone, begins = [], len(scenario.variants) == 1, _begins(measured)
    for number, place, name, rows in _cells(scenario, measured):
        at, p99 = _p99s(rows)
        begin = begins[rows["variant"][0].as_py()]
        x: list[Any] = [round(float(one - begin) / 1e9, 3) for one in at]
        if alone:
            x = figure_specs.clocks((at + _epoch_offset_ns(measured)) // 1_000_000)
        if any(value is not None for value in p99):
            data.append(
                figure_specs.styled(
                    figure_specs.line(name, x, p99, mode="lines+markers", marker={"size": 5}), number, place
                )
            )
    axis = {"type": "date"} if alone else {}
    return Figure(
        "over_time",
        f"Latency of {scenario.measured} over time",
        f"Net p99 from the intended send time, in windows of at least {MIN_IN_WINDOW['p99']} requests (else there is a "
        f"gap). {_how_told(scenario)}",
        {
            "data": data,
            "layout": figure_specs.layout(
                figure_specs.axis("time (UTC)" if alone else "seconds since the load began", **axis),
                figure_specs.axis("net p99 of each window, ms", type="log"),
            ),
        },
    )


def _begins(measured: pa.Table) -> dict[str, int]:
    """When each variant's load began, monotonic ns."""
    firsts = measured.group_by("variant").aggregate([("intended_ns", "min")]).to_pylist()
    return {row["variant"]: row["intended_ns_min"] for row in firsts}


def _epoch_offset_ns(measured: pa.Table) -> int:
    """From the clients' monotonic clock to time of day, as exact as the quickest way to the broker is short."""
    known = measured.filter(pc.and_(pc.is_valid(measured["epoch_ns"]), pc.is_valid(measured["sent_ns"])))
    if not len(known):
        return 0
    arrived = pc.subtract(known["epoch_ns"], pc.fill_null(known["rx_wait_ns"], 0))
    return int(pc.min(pc.subtract(arrived, known["sent_ns"])).as_py())


def _p99s(rows: pa.Table) -> tuple[npt.NDArray[np.int64], list[float | None]]:
    """Middles of equally long windows of a phase, and the p99 of each that has requests enough, ms."""
    intended, latency = rows["intended_ns"].to_numpy(), rows["net_ns"].to_numpy() / 1e6
    begin, end = int(intended.min()), int(intended.max()) + 1
    count = max(1, min(MAX_WINDOWS, int(len(intended) / _PER_WINDOW)))
    window = (intended - begin) * count // (end - begin)
    middles = begin + (2 * np.arange(count, dtype=np.int64) + 1) * (end - begin) // (2 * count)
    values = [latency[window == one] for one in range(count)]
    p99s = [round(percentile(each, 0.99), 4) if len(each) else None for each in values]
    return middles, figure_specs.enough(p99s, map(len, values), MIN_IN_WINDOW["p99"])


def _percentiles(scenario: Scenario, measured: pa.Table) -> Figure:
    shares, data = [1 - 10 ** -(step / 10) for step in range(1, 41)], []
    for number, place, name, rows in _cells(scenario, measured):
        latency: Floats = rows["net_ns"].to_numpy() / 1e6
        seen = [share for share in shares if len(latency) * (1 - share) >= 1]
        x = [round(1 / (1 - share), 4) for share in seen]
        y = [round(percentile(latency, share), 4) for share in seen]
        if seen:
            data.append(figure_specs.styled(figure_specs.line(name, x, y), number, place))
    ticks = {
        "tickvals": [round(1 / (1 - share)) for share in _TICKS],
        "ticktext": [f"p{share * 100:g}" for share in _TICKS],
    }
    layout = figure_specs.layout(
        figure_specs.axis("percentile", type="log", **ticks), figure_specs.axis("latency, ms", type="log")
    )
    return Figure(
        "percentiles",
        f"Percentiles of {scenario.measured}",
        f"Net latency from the intended send time. Each curve ends where its last request is. {_how_told(scenario)}",
        {"data": data, "layout": layout},
    )


def _parts(scenario: Scenario, waits: pa.Table) -> Figure:
    cells = {
        (row["phase"], row["variant"]): row
        for row in waits.to_pylist()
        if row["group"] == scenario.measured and row["which"] != "all"
    }
    order = [(phase.name, variant.name) for phase in scenario.phases for variant in scenario.variants]
    rows = [cells[key] for key in order if key in cells]
    names = [_name(scenario, row["variant"], row["phase"]) for row in rows]
    data = [
        figure_specs.bars(PART_NAMES[part], [round(max(row[part], 0) / 1000, 4) for row in rows], names)
        for part in PARTS
        if rows
    ]
    layout = figure_specs.layout(
        figure_specs.axis("ms"), {"autorange": "reversed", "automargin": True}, barmode="stack"
    )
    return Figure(
        "where_it_waits",
        f"Where the slowest 1 % of {scenario.measured} waited",
        "Mean milliseconds of net latency, phase by phase; each client request is joined with the broker's own record "
        "of it.",
        {"data": data, "layout": layout},
    )
