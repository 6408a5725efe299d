"""Variants run several times: in which order, with which arrivals, and what the clients of all runs say. Pure.

Every repeat runs each variant once, in an order that the seed draws: what changes with time (a warm machine, other
work on it) falls on all variants alike. The variants of one repeat get the same intended times, other repeats others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.mathematics import run_intervals
from mpbroker.analysis.engine.running import wording
from mpbroker.analysis.lab.latency_table import client_latency
from mpbroker.analysis.lab.scenario import Scenario, Variant
from mpbroker.analysis.lab.toml_fields import ScenarioError
from mpbroker.analysis.lab.variant_run import Turn

REPEATS_MAX, ALL_SECONDS_MAX = 100, 3600.0
Row = dict[str, Any]


def check(scenario: Scenario, seconds: float, repeats: int) -> None:
    """ScenarioError: more load than an hour of it."""
    whole = seconds * len(scenario.variants) * repeats
    if whole > ALL_SECONDS_MAX:
        raise ScenarioError(
            f"{repeats} repeats of {wording.counted(len(scenario.variants), 'variant')} with {seconds:g} seconds each "
            f"are {whole:g} seconds of load: at most {ALL_SECONDS_MAX:g} are allowed"
        )


def turns(variants: Sequence[Variant], repeats: int, seed: int) -> list[Turn]:
    """Every variant `repeats` times, in the order in which they run."""
    chance, found = random.Random(f"lab/{seed}"), []
    for repeat in range(1, repeats + 1):
        arrivals, order = chance.randrange(1 << 31), list(variants)
        if repeats > 1:
            chance.shuffle(order)
        found += [Turn(variant, repeat, repeats, arrivals) for variant in order]
    return found


def runs_table(clients: pa.Table) -> pa.Table:
    """client_latency of every run for itself, with its `repeat`."""
    parts = []
    for repeat in sorted(pc.unique(clients["repeat"]).to_pylist()):
        rows = client_latency(clients.filter(pc.equal(clients["repeat"], repeat)))
        parts.append(rows.add_column(1, "repeat", pa.array([repeat] * len(rows), pa.int32())))
    return pa.concat_tables(parts)


def sentences(scenario: Scenario, runs: Sequence[Row]) -> list[str]:
    """How each variant's net p99 compares with the first one's, by phase; of a single variant, how runs differ, and how
    each phase that its question is about compares with the one alone. `runs`: rows of runs_table. Intervals from
    MIN_RUNS runs on."""
    found, names = [], [variant.name for variant in scenario.variants]
    if len(names) == 1 and scenario.answer.how == "phases":
        found += [words for phase in scenario.answer.under for words in _beside(scenario, names[0], phase, runs)]
    for phase in (phase.name for phase in scenario.phases):
        values = {name: p99s(runs, name, phase, scenario.measured) for name in names}
        if len(names) == 1 and len(values[names[0]]) > 1:
            found.append(_spread(scenario.measured, phase, values[names[0]]))
        for name in names[1:]:
            if min(len(values[name]), len(values[names[0]])) > 1:
                found.append(_compared(scenario.measured, phase, name, names[0], values[name], values[names[0]]))
    return found


def p99s(runs: Sequence[Row], variant: str, phase: str, group: str) -> list[float]:
    """Net p99 of each run, µs."""
    return _of_runs(runs, variant, phase, group, "net_p99_us")


def _of_runs(runs: Sequence[Row], variant: str, phase: str, group: str, column: str) -> list[float]:
    key = (variant, phase, group)
    return [row[column] for row in runs if (row["variant"], row["phase"], row["group"]) == key]


def _beside(scenario: Scenario, variant: str, phase: str, runs: Sequence[Row]) -> list[str]:
    """A phase and the one alone, run by run: the median, which others on the machine hardly move, and the p99."""
    parts = []
    for name in ("p50", "p99"):
        ours, theirs = (
            _of_runs(runs, variant, one, scenario.measured, f"net_{name}_us") for one in (phase, scenario.answer.alone)
        )
        if len(ours) != len(theirs) or len(ours) < 2 or min(*ours, *theirs) <= 0:
            return []
        ratio = run_intervals.paired_ratio(ours, theirs)
        judged = f"(95 % interval {ratio.low:.2f} to {ratio.high:.2f}): {verdict(ratio)}"
        parts.append(f"{name} {ratio.estimate:.2f} times {judged}")
        if len(ours) < run_intervals.MIN_RUNS:
            parts[-1] = f"{name} {ratio.estimate:.2f} times"
    few = "" if len(ours) >= run_intervals.MIN_RUNS else f"; {run_intervals.MIN_RUNS} runs are needed to judge that"
    return [
        f"Under “{phase}”, beside “{scenario.answer.alone}” ({len(ours)} runs), {scenario.measured} has a net "
        f"{', and a net '.join(parts)}{few}."
    ]


def _spread(group: str, phase: str, values: Sequence[float]) -> str:
    low, high = (wording.duration(value * 1000) for value in (min(values), max(values)))
    return f"Phase “{phase}”: net p99 of {group} is {low} to {high} in {len(values)} runs."


def verdict(ratio: run_intervals.Interval) -> str:
    """What an interval of a ratio says."""
    return "higher" if ratio.low > 1 else "lower" if ratio.high < 1 else "no difference found"


def _compared(group: str, phase: str, name: str, base: str, ours: Sequence[float], theirs: Sequence[float]) -> str:
    a, b = run_intervals.mean(ours), run_intervals.mean(theirs)
    words = (
        f"Phase “{phase}”: net p99 of {group} is {wording.duration(a * 1000)} with “{name}” and "
        f"{wording.duration(b * 1000)} with “{base}”"
    )
    few = min(len(ours), len(theirs))
    if few < run_intervals.MIN_RUNS or min(*ours, *theirs) <= 0:
        return f"{words} ({few} runs each: {run_intervals.MIN_RUNS} are needed to say whether that is chance)."
    found = run_intervals.ratio(ours, theirs)
    return (
        f"{words}, {found.estimate:.2f} times (95 % interval {found.low:.2f} to {found.high:.2f}, {len(ours)} runs "
        f"each): {verdict(found)}."
    )
