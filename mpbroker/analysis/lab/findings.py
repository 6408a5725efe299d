"""What a scenario found, as a study's result: sentences with numbers, tables, figures. Pure: tables in, result out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mpbroker.analysis.engine.running import wording
from mpbroker.analysis.engine.running.study import StudyResult
from mpbroker.analysis.lab import figures, generator_table, repeats, side_by_side
from mpbroker.analysis.lab.answers import answer
from mpbroker.analysis.lab.latency_table import PART_NAMES, PARTS, client_latency, where_it_waits
from mpbroker.analysis.lab.scenario import Scenario

NAME = "clients"


def findings(scenario: Scenario, clients: pa.Table, generators: pa.Table) -> StudyResult:
    """Tables client_latency, where_it_waits and generator_load; the sentences compare phases, then variants, of the
    measured group."""
    runs = repeats.runs_table(clients)
    repeated = max(runs["repeat"].to_pylist(), default=1) > 1
    latency, waits, load = client_latency(clients), where_it_waits(clients), generators.to_pylist()
    rows = [row for row in latency.to_pylist() if row["group"] == scenario.measured]
    verdicts = [
        *generator_table.sentences(load, scenario.measured),
        *(repeats.sentences(scenario, runs.to_pylist()) if repeated else []),
        *_variants_compared(scenario, rows),
        *(_phases_compared(scenario, rows) if scenario.answer.how != "phases" else []),
        *_where(scenario, waits),
        *_trust(scenario, latency.to_pylist()),
    ]
    return StudyResult(
        tables={"client_latency": latency, "where_it_waits": waits, "generator_load": generators}
        | ({"client_runs": runs} if repeated else {})
        | _beside(scenario, latency.to_pylist(), runs.to_pylist() if repeated else []),
        verdicts=verdicts,
        figures=figures.all_figures(scenario, clients, waits),
        study=NAME,
        summary=scenario.question,
        answer=answer(scenario, latency.to_pylist(), waits.to_pylist(), load, runs.to_pylist() if repeated else ()),
    )


def _beside(scenario: Scenario, latency: list[dict[str, Any]], runs: list[dict[str, Any]]) -> dict[str, pa.Table]:
    found = side_by_side.table(scenario, latency, runs)
    return {} if found is None else {side_by_side.NAME: found}


def duration(us: float) -> str:
    """A time a reader takes in at once; a record's last stage may be stamped after the client had the answer."""
    return wording.duration(max(us, 0.0) * 1000)


def _p99(row: dict[str, Any]) -> str:
    return f"{duration(row['p99_us'])} ({duration(row['net_p99_us'])} net)"


def _by(rows: list[dict[str, Any]], *keys: str) -> dict[tuple[str, ...], dict[str, Any]]:
    return {tuple(row[key] for key in keys): row for row in rows}


def _phases_compared(scenario: Scenario, rows: list[dict[str, Any]]) -> list[str]:
    """The first phase is the yardstick of the others."""
    found, cells = [], _by(rows, "variant", "phase")
    first, *others = [phase.name for phase in scenario.phases]
    for variant in scenario.variants:
        begin = cells.get((variant.name, first))
        worst = max(
            (cells[variant.name, name] for name in others if (variant.name, name) in cells),
            key=lambda row: row["p99_us"],
            default=None,
        )
        if begin and worst:
            found.append(
                f"{_prefix(scenario, variant.name)}{scenario.measured}: p99 {_p99(begin)} in phase “{first}”, "
                f"{_p99(worst)} in phase “{worst['phase']}” (p50 {duration(begin['p50_us'])} and "
                f"{duration(worst['p50_us'])})."
            )
    return found


def _prefix(scenario: Scenario, variant: str) -> str:
    return f"{variant}: " if len(scenario.variants) > 1 else ""


def _variants_compared(scenario: Scenario, rows: list[dict[str, Any]]) -> list[str]:
    """Per phase that the question is about, the last one first: the best variant against the worst."""
    found = []
    for phase in (*reversed(scenario.answer.under), scenario.answer.alone):
        there = sorted((row for row in rows if row["phase"] == phase), key=lambda row: row["net_p99_us"])
        if len(there) > 1:
            best, worst = there[0], there[-1]
            found.append(
                f"Phase “{phase}”: the p99 of {scenario.measured} is {_p99(best)} with “{best['variant']}” and "
                f"{_p99(worst)} with “{worst['variant']}”; net, a ratio of "
                f"{best['net_p99_us'] / worst['net_p99_us']:.2f}."
            )
    return found


def _where(scenario: Scenario, waits: pa.Table) -> list[str]:
    """Where the slowest requests of the measured group waited, in the phase after the first that was worst for it."""
    found, first = [], scenario.phases[0].name
    for variant in scenario.variants:
        rows = [
            row
            for row in waits.to_pylist()
            if row["variant"] == variant.name
            and row["which"] != "all"
            and row["group"] == scenario.measured
            and (row["phase"] != first or len(scenario.phases) == 1)
        ]
        if rows:
            row = max(rows, key=lambda each: each["net_us"])
            told = sorted((part for part in PARTS if row[part] >= row["net_us"] / 100), key=lambda part: -row[part])
            parts = [f"{duration(row[part])} {PART_NAMES[part]}" for part in told]
            found.append(
                f"{_prefix(scenario, variant.name)}{'the' if len(scenario.variants) > 1 else 'The'} slowest 1 % in "
                f"phase “{row['phase']}” took "
                f"{duration(row['net_us'])} "
                f"net on average: {wording.listed(parts)}."
            )
    return found


def _trust(scenario: Scenario, rows: list[dict[str, Any]]) -> list[str]:
    """What weakens the numbers: closed loops, requests without an answer, errors; and what was done about omission."""
    closed = sorted({row["group"] for row in rows if row["loop"] == "closed"})
    found = [
        "Latency counts from the moment a request was meant to be sent, so a stall is charged to every request that it "
        "kept back (no coordinated omission). Net latency is without the client's own wait for a core: it shares this "
        "machine with the broker."
    ]
    if closed:
        found.append(
            f"Closed loop: {', '.join(closed)}. These clients wait for an answer before they send more, so their "
            "latencies hide the requests that a stall kept them from sending."
        )
    missing = sum(row["unsent"] + row["unanswered"] for row in rows)
    if missing:
        found.append(
            f"{wording.counted(missing, 'intended request')} were not sent or not answered by the end. They count with "
            "the time until the end, which is less than the truth."
        )
    errors = sum(row["errors"] for row in rows)
    if errors:
        found.append(f"{wording.counted(errors, 'request')} ended with an error.")
    return found
