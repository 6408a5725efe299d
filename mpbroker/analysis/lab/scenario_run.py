"""A whole scenario: its runs one after the other, then client logs and traces together, studies and report.

Runs in the process of `mpbroker lab run`; needs the extra `studies`. What it leaves under R: report.html, meta.json,
tables/, client.parquet (client_table.py has its columns), traces/<variant>/ (repeated: traces/<variant>/run-NN/), and
with several variants variants/<variant>/ with a report of each.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running import finding, output_folder, runner
from mpbroker.analysis.engine.running.runner import Outcome
from mpbroker.analysis.engine.running.study import StudyParameters, StudyResult
from mpbroker.analysis.lab import repeats
from mpbroker.analysis.lab.client_table import client_table
from mpbroker.analysis.lab.findings import findings
from mpbroker.analysis.lab.generator_table import generator_load
from mpbroker.analysis.lab.scenario import Scenario, check_seconds
from mpbroker.analysis.lab.variant_run import VariantResult, run_variant, slug

CLIENT_FILE = "client.parquet"
#: With several variants these study all runs together, so that variants are compared; the others each run for itself.
COMPARING_STUDIES = ("priority", "usl")
WINDOW_MS = 500


def run_scenario(
    scenario: Scenario,
    out: Path,
    seconds: float | None,
    engine: str,
    say: Callable[[str], None],
    repeat: int = 1,
    seed: int = 1,
) -> Outcome:
    """Run every variant `repeat` times, study, write."""
    seconds = scenario.seconds if seconds is None else seconds
    check_seconds(scenario, seconds)
    repeats.check(scenario, seconds, repeat)
    output_folder.require_own(out, output_folder.LAB)
    for name in scenario.studies:
        runner.find_study(name)
    _make_room(out, scenario)
    begun = time.monotonic()
    results = []
    with tempfile.TemporaryDirectory(prefix="mpbroker-lab-logs-") as scratch:
        order = repeats.turns(scenario.variants, repeat, seed)
        for number, turn in enumerate(order, 1):
            say(f"{'variant' if repeat == 1 else 'run'} {number} of {len(order)}: {turn.variant.name}")
            results.append(run_variant(scenario, turn, seconds, out, Path(scratch), say))
        say("studying")
        results.sort(key=lambda result: (scenario.variants.index(result.variant), result.repeat))
        clients = client_table(results)
    generators = generator_load(clients, results)
    pq.write_table(clients, out / CLIENT_FILE, compression="zstd")
    about = _about(scenario, out, seconds, results, time.monotonic() - begun)
    about |= {"repeat": repeat, "seed": seed, "order": [(turn.variant.name, turn.repeat) for turn in order]}
    about["generator_gave_out"] = [row for row in generators.to_pylist() if row["gave_out"]]
    return _report(scenario, out, engine, results, findings(scenario, clients, generators), about)


def _make_room(out: Path, scenario: Scenario) -> None:
    """Also leaves word of whose directory this is, should the run not come to its end."""
    for name in ("traces", "variants", output_folder.TABLES):
        shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    mark = {output_folder.MADE_BY: output_folder.LAB, "scenario": scenario.name, "unfinished": True}
    (out / output_folder.META).write_text(json.dumps(mark) + "\n")


def _about(scenario: Scenario, out: Path, seconds: float, results: list[VariantResult], run_s: float) -> dict[str, Any]:
    """What meta.json says beyond the studies' own."""
    return {
        "scenario": scenario.name,
        "question": scenario.question,
        "seconds": seconds,
        "measured": scenario.measured,
        "run_seconds": round(run_s, 1),
        "client_log": CLIENT_FILE,
        "groups": [group._asdict() for group in scenario.groups],
        "variants": [  # one row for every run
            {
                "name": result.variant.name,
                "repeat": result.repeat,
                "broker": {**scenario.broker, **result.variant.broker},
                "control_listener": result.variant.control_listener,
                "traces": result.trace_dir.relative_to(out).as_posix(),
                "report": _page_of(scenario, result),
                "run": open_input([result.trace_dir]).runs,
                "phases": result.phases,
                "clients": result.counted(),
            }
            for result in results
        ],
    }


def _page_of(scenario: Scenario, result: VariantResult) -> str | None:
    """The report of its variant, named once."""
    if len(scenario.variants) == 1 or result.repeat > 1:
        return None
    return f"variants/{slug(result.variant.name)}/report.html"


def _report(
    scenario: Scenario,
    out: Path,
    engine: str,
    results: list[VariantResult],
    clients: StudyResult,
    about: dict[str, Any],
) -> Outcome:
    traces = {
        variant.name: [result.trace_dir for result in results if result.variant == variant]
        for variant in scenario.variants
    }
    everything = [result.trace_dir for result in results]
    if len(traces) == 1:
        return _study(scenario, scenario.studies, engine, out, everything, about, [clients])
    alone = [name for name in scenario.studies if name not in COMPARING_STUDIES]
    for name, mine in traces.items():
        place = out / "variants" / slug(name)
        outcome = _study(scenario, alone, engine, place, mine, {"title": f"{scenario.name}: {name}"}, [])
        clients.findings += [
            replace(one, sentence=f"“{name}”: {one.sentence}") for one in finding.leading(outcome.results)
        ]
    together = [name for name in scenario.studies if name in COMPARING_STUDIES]
    compared = _compared(engine, traces) if about["repeat"] > 1 else []
    return _study(scenario, together, engine, out, everything, about, [clients, *compared])


def _compared(engine: str, traces: dict[str, list[Path]]) -> list[StudyResult]:
    """The study `compare` of every variant's runs against those of the first."""
    (base, theirs), *others = traces.items()
    found = []
    for name, ours in others:
        candidate = choose_engine(engine, open_input(ours))
        baseline = choose_engine(candidate.name, open_input(theirs))
        try:
            parameters = StudyParameters(window_ms=WINDOW_MS, baseline=baseline)
            result = runner.find_study("compare").run(candidate, parameters)
        finally:
            baseline.close()
            candidate.close()
        result.study, result.summary = f"compare-{slug(name)}", f"“{name}” against “{base}”, all phases together"
        found.append(result)
    return found


def _study(
    scenario: Scenario,
    names: Sequence[str],
    engine: str,
    out: Path,
    traces: list[Path],
    about: dict[str, Any],
    own: list[StudyResult],
) -> Outcome:
    chosen = choose_engine(engine, open_input(traces))
    parameters = StudyParameters(window_ms=WINDOW_MS, options=scenario.options)
    try:
        return runner.run_studies(
            names,
            chosen,
            out,
            parameters,
            paths=traces,
            more=about,
            own=own,
            title=about.get("title", scenario.name),
            maker=output_folder.LAB,
        )
    finally:
        chosen.close()
