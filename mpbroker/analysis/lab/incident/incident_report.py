"""The whole incident: its variants one after the other, tables, the answer, a report. Runs in the process of `mpbroker
lab run`; needs the extra `studies`."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running import figure_specs, output_folder, runner
from mpbroker.analysis.engine.running.runner import Outcome
from mpbroker.analysis.engine.running.study import Figure, StudyParameters, StudyResult
from mpbroker.analysis.lab.incident.incident_plan import Incident
from mpbroker.analysis.lab.incident.incident_run import IncidentResult, run_incident_variant
from mpbroker.analysis.lab.incident.incident_tables import election_rows, probe_row, read_traces, variant_row

NAME = "incident"
WINDOW_SHARE_MOST, WINDOW_MS_MOST, FLOOD_SHARE_MOST = 0.2, 10.0, 0.1
"""What the control plane is held to: its window's p99 beside that of one listener, and by itself; how far floods
differ."""


def run_incident(incident: Incident, out: Path, engine: str, say: Callable[[str], None]) -> Outcome:
    """Run every variant, look at their traces, write."""
    output_folder.require_own(out, output_folder.LAB)
    for name in ("traces", "variants", output_folder.TABLES):
        shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    mark = {output_folder.MADE_BY: output_folder.LAB, "scenario": incident.name, "unfinished": True}
    (out / output_folder.META).write_text(json.dumps(mark) + "\n")
    begun, results = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="mpbroker-lab-logs-") as scratch:
        for number, variant in enumerate(incident.variants, 1):
            say(f"variant {number} of {len(incident.variants)}: {variant.name}")
            results.append(run_incident_variant(incident, variant, out, Path(scratch), say))
    say("studying")
    found = study(incident, results)
    about = {
        "scenario": incident.name,
        "question": incident.question,
        "elections": incident.elections,
        "run_seconds": round(time.monotonic() - begun, 1),
        "variants": [_about(result, out) for result in results],
    }
    chosen = choose_engine(engine, open_input([result.traces for result in results]))
    try:
        paths = [result.traces for result in results]
        return runner.run_studies(
            (),
            chosen,
            out,
            StudyParameters(),
            paths=paths,
            more=about,
            own=[found],
            title=incident.name,
            maker=output_folder.LAB,
        )
    finally:
        chosen.close()


def _about(result: IncidentResult, out: Path) -> dict[str, Any]:
    return {
        "name": result.variant.name,
        "control_listener": result.variant.control_listener,
        "broker": result.variant.broker,
        "traces": result.traces.relative_to(out).as_posix(),
        "flood_ns": result.flood_ns,
    }


def study(incident: Incident, results: Sequence[IncidentResult]) -> StudyResult:
    """Tables `elections`, `variants` and `probes`, the answer and a figure."""
    elections, variants, probes = [], [], []
    for result in results:
        traces = read_traces(result)
        rows = election_rows(result, traces)
        elections += [{"variant": result.variant.name, **row} for row in rows]
        variants.append(variant_row(result, traces, rows))
        probes.append(probe_row(result))
    return StudyResult(
        tables={
            "variants": pa.Table.from_pylist(variants),
            "elections": pa.Table.from_pylist(elections),
            "probes": pa.Table.from_pylist(probes),
        },
        verdicts=_verdicts(variants, probes),
        figures=[_figure(elections)],
        study=NAME,
        summary=incident.question,
        answer=_answer(results, variants),
    )


def _answer(results: Sequence[IncidentResult], variants: list[dict[str, Any]]) -> list[str]:
    """The control plane beside one listener, if both were run."""
    plain = next(
        (
            row
            for one, row in zip(results, variants, strict=True)
            if not one.variant.control_listener and not one.variant.broker
        ),
        None,
    )
    control = next((row for one, row in zip(results, variants, strict=True) if one.variant.control_listener), None)
    if plain is None or control is None:
        return []
    ours, theirs = control["double_p99_ms"], plain["double_p99_ms"]
    if not theirs:
        return ["Nobody led twice with one listener.", _flood(variants)]
    held = ours <= WINDOW_SHARE_MOST * theirs and ours <= WINDOW_MS_MOST
    return [
        f"Two brokers led for {theirs:.1f} ms (p99 of {plain['elections']} elections) with one listener, and for "
        f"{ours:.1f} ms with a control-plane listener: {ours / theirs:.2f} of it.",
        f"That {'is' if held else 'is NOT'} at most {WINDOW_SHARE_MOST} of it and {WINDOW_MS_MOST:g} ms.",
        _flood(variants),
    ]


def _flood(variants: list[dict[str, Any]]) -> str:
    rates = [row["flood_per_s"] for row in variants]
    apart = (max(rates) - min(rates)) / max(rates) if max(rates) else 0.0
    told = "within" if apart <= FLOOD_SHARE_MOST else "NOT within"
    return f"The flood made {min(rates):,.0f} to {max(rates):,.0f} requests a second, {told} {FLOOD_SHARE_MOST:.0%}."


def _verdicts(variants: list[dict[str, Any]], probes: list[dict[str, Any]]) -> list[str]:
    return [
        f"“{row['variant']}”: the window's p50 is {row['double_p50_ms']:.1f} ms; {row['doomed']} writes with acks=all "
        f"were doomed, the last one answered {row['answered_after_max_ms']:.0f} ms after A gave up; "
        f"{probe['acks_1_lost']} of {probe['acks_1_acknowledged']} acks=1 writes that were acknowledged are lost, "
        f"{probe['acks_all_lost']} of {probe['acks_all_acknowledged']} with acks=all; the longest time without an "
        f"acknowledgement is {row['gap_max_ms']:.0f} ms."
        for row, probe in zip(variants, probes, strict=True)
    ]


def _figure(elections: list[dict[str, Any]]) -> Figure:
    names = list(dict.fromkeys(row["variant"] for row in elections))
    data = []
    for name in names:
        values = sorted(row["double_ms"] for row in elections if row["variant"] == name and row["to"] == "B")
        shares = [(number + 1) / len(values) for number in range(len(values))]
        data.append(figure_specs.line(name, values, shares, mode="lines+markers"))
    layout = figure_specs.layout(
        figure_specs.axis("two leaders, ms", type="log"), figure_specs.axis("share of elections", range=[0, 1.02])
    )
    caption = "For how long A still led when B did already, election by election; where A gave up first is not shown."
    return Figure("window", "The double-leadership window", caption, {"data": data, "layout": layout})
