"""A whole scenario: its variants one after the other, then client logs and traces together, studies and report.

Runs in the process of `mpbroker lab run`; needs the extra `studies`. What it leaves under R: report.html, meta.json,
tables/, client.parquet (client_table.py has its columns), traces/<variant>/, and with several variants
variants/<variant>/ with a report of each.
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
from mpbroker.analysis.lab.client_table import client_table
from mpbroker.analysis.lab.findings import findings
from mpbroker.analysis.lab.generator_table import generator_load
from mpbroker.analysis.lab.scenario import Scenario, check_seconds
from mpbroker.analysis.lab.variant_run import Turn, VariantResult, run_variant, slug

CLIENT_FILE = "client.parquet"
#: With several variants these study all runs together, so that variants are compared; the others each run for itself.
COMPARING_STUDIES = ("priority",)
WINDOW_MS = 500


def run_scenario(
    scenario: Scenario, out: Path, seconds: float | None, engine: str, say: Callable[[str], None]
) -> Outcome:
    """Run, study, write."""
    seconds = scenario.seconds if seconds is None else seconds
    check_seconds(scenario, seconds)
    output_folder.require_own(out, output_folder.LAB)
    for name in scenario.studies:
        runner.find_study(name)
    _make_room(out, scenario)
    begun = time.monotonic()
    results = []
    with tempfile.TemporaryDirectory(prefix="mpbroker-lab-logs-") as scratch:
        for number, variant in enumerate(scenario.variants, 1):
            say(f"variant {number} of {len(scenario.variants)}: {variant.name}")
            results.append(run_variant(scenario, Turn(variant, 1, 1, 1), seconds, out, Path(scratch), say))
        say("studying")
        clients = client_table(results)
    generators = generator_load(clients, results)
    pq.write_table(clients, out / CLIENT_FILE, compression="zstd")
    about = _about(scenario, seconds, results, time.monotonic() - begun)
    about["generator_gave_out"] = [row for row in generators.to_pylist() if row["gave_out"]]
    return _report(scenario, out, engine, results, findings(scenario, clients, generators), about)


def _make_room(out: Path, scenario: Scenario) -> None:
    """Also leaves word of whose directory this is, should the run not come to its end."""
    for name in ("traces", "variants", output_folder.TABLES):
        shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    mark = {output_folder.MADE_BY: output_folder.LAB, "scenario": scenario.name, "unfinished": True}
    (out / output_folder.META).write_text(json.dumps(mark) + "\n")


def _about(scenario: Scenario, seconds: float, results: list[VariantResult], run_s: float) -> dict[str, Any]:
    """What meta.json says beyond the studies' own."""
    return {
        "scenario": scenario.name,
        "question": scenario.question,
        "seconds": seconds,
        "measured": scenario.measured,
        "run_seconds": round(run_s, 1),
        "client_log": CLIENT_FILE,
        "groups": [group._asdict() for group in scenario.groups],
        "variants": [
            {
                "name": result.variant.name,
                "broker": {**scenario.broker, **result.variant.broker},
                "control_listener": result.variant.control_listener,
                "traces": f"traces/{slug(result.variant.name)}",
                "report": f"variants/{slug(result.variant.name)}/report.html" if len(results) > 1 else None,
                "run": open_input([result.trace_dir]).runs,
                "phases": result.phases,
                "clients": result.counted(),
            }
            for result in results
        ],
    }


def _report(
    scenario: Scenario,
    out: Path,
    engine: str,
    results: list[VariantResult],
    clients: StudyResult,
    about: dict[str, Any],
) -> Outcome:
    if len(results) == 1:
        return _study(scenario, scenario.studies, engine, out, [results[0].trace_dir], about, [clients])
    alone = [name for name in scenario.studies if name not in COMPARING_STUDIES]
    for result in results:
        place, name = out / "variants" / slug(result.variant.name), result.variant.name
        outcome = _study(scenario, alone, engine, place, [result.trace_dir], {"title": f"{scenario.name}: {name}"}, [])
        clients.findings += [
            replace(one, sentence=f"“{name}”: {one.sentence}") for one in finding.leading(outcome.results)
        ]
    together = [name for name in scenario.studies if name in COMPARING_STUDIES]
    return _study(scenario, together, engine, out, [result.trace_dir for result in results], about, [clients])


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
