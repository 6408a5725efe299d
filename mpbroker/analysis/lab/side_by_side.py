"""Variants of a scenario beside each other: one row each, the phases that its question is about as columns. Pure.

The page shows it under the answer, and a terminal in the place of a sentence per variant where there are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mpbroker.analysis.engine.mathematics import run_intervals
from mpbroker.analysis.engine.running import wording
from mpbroker.analysis.lab import repeats
from mpbroker.analysis.lab.scenario import Scenario

Row = dict[str, Any]
PHASES_MOST = 6
#: From so many variants on a sentence for each is no answer that a reader takes in.
MANY = 3
NAME = "side_by_side"


def table(scenario: Scenario, latency: Sequence[Row], runs: Sequence[Row] = ()) -> pa.Table | None:
    """Net p99 of the measured group by variant and phase, in words; repeated, how it compares with the first variant.
    None where there is nothing to compare. Arguments as answers.answer has them."""
    phases = _phases(scenario)
    cells = {(row["variant"], row["phase"]): row for row in latency if row["group"] == scenario.measured}
    if len(scenario.variants) < 2 or len(phases) > PHASES_MOST or not cells:
        return None
    rows = [_row(scenario, variant.name, phases, cells, runs) for variant in scenario.variants]
    return pa.Table.from_pylist(rows)


def _phases(scenario: Scenario) -> list[str]:
    if scenario.answer.how == "growth":
        return [phase.name for phase in scenario.phases]
    return list(dict.fromkeys([scenario.answer.alone, *(scenario.answer.under if _has_under(scenario) else ())]))


def _has_under(scenario: Scenario) -> bool:
    return scenario.answer.how == "phases"


def _row(
    scenario: Scenario, variant: str, phases: Sequence[str], cells: dict[tuple[str, str], Row], runs: Sequence[Row]
) -> Row:
    row: Row = {"variant": variant}
    for phase in phases:
        cell = cells.get((variant, phase))
        row[f"net p99, {phase}"] = "" if cell is None else wording.duration(cell["net_p99_us"] * 1000)
    first = scenario.variants[0].name
    for phase in phases if runs else ():
        row[f"beside “{first}”, {phase}"] = beside(scenario, variant, phase, runs)
    return row


def beside(scenario: Scenario, variant: str, phase: str, runs: Sequence[Row]) -> str:
    """`1.4 times (1.1 to 1.9)`: with the 95 % interval, where there are runs enough; "" for the first variant."""
    names = [variant, scenario.variants[0].name]
    ours, theirs = (repeats.p99s(runs, name, phase, scenario.measured) for name in names)
    few = min(len(ours), len(theirs)) < run_intervals.MIN_RUNS
    if names[0] == names[1] or few or min(*ours, *theirs) <= 0:
        return ""
    found = run_intervals.ratio(ours, theirs)
    return f"{found.estimate:.2f} times ({found.low:.2f} to {found.high:.2f})"


def judged(scenario: Scenario, runs: Sequence[Row]) -> list[str]:
    """One sentence a phase in the place of one for each variant: which differ from the first one. The phases that the
    question is about come first."""
    found = []
    for phase in reversed(_phases(scenario)):
        words = _verdicts(scenario, phase, runs)
        if words:
            number = max(row["repeat"] for row in runs)
            found.append(
                f"p99 of {scenario.measured} in phase “{phase}”, beside “{scenario.variants[0].name}”, {number} runs "
                f"each: {'; '.join(words)}."
            )
    return found


def _verdicts(scenario: Scenario, phase: str, runs: Sequence[Row]) -> list[str]:
    by_verdict: dict[str, list[str]] = {"higher": [], "lower": [], "no difference found": []}
    for variant in scenario.variants[1:]:
        ours, theirs = (
            repeats.p99s(runs, name, phase, scenario.measured) for name in (variant.name, scenario.variants[0].name)
        )
        if min(len(ours), len(theirs)) < run_intervals.MIN_RUNS or min(*ours, *theirs) <= 0:
            return []
        by_verdict[repeats.verdict(run_intervals.ratio(ours, theirs))].append(f"“{variant.name}”")
    return [f"{verdict} with {wording.listed(names)}" for verdict, names in by_verdict.items() if names]


def lines(found: pa.Table) -> list[str]:
    """For a terminal: columns under each other."""
    rows = [found.column_names, *([str(value) for value in row.values()] for row in found.to_pylist())]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
