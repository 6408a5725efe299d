"""Runs studies over a trace and leaves a folder behind: report.html, meta.json, results.json, tables/.

Runs in a command's process (`mpbroker trace study`, the laboratory, spark-submit). Everything that can be refused is
refused before anything is computed.
"""

import importlib.metadata
import json
import pkgutil
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from mpbroker import __version__
from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.engines.reusing_engine import ReusingEngine
from mpbroker.analysis.engine.input.durations import ASKED_WAIT, PIPELINE
from mpbroker.analysis.engine.input.trace_input import TraceInput
from mpbroker.analysis.engine.running import finding, output_folder
from mpbroker.analysis.engine.running.output_folder import META, RESULTS, TABLES
from mpbroker.analysis.engine.running.study import Study, StudyParameters, StudyResult
from mpbroker.errors import MpbrokerError

#: What studies' asks are told from.
TOTALS = ("run", "api")
_VERSIONS = ("numpy", "pyarrow", "plotly", "pyspark", "pandas")


class StudyError(MpbrokerError):
    """There is no such study, or it cannot be run on this."""

    exit_code = 2


class Outcome(NamedTuple):
    """What a run left: the report, and the results by study."""

    report: Path
    meta: dict[str, Any]
    results: list[StudyResult]


def study_names() -> list[str]:
    """The modules of mpbroker/analysis/studies, with hyphens as commands have them."""
    package = import_module("mpbroker.analysis.studies")
    return sorted(
        one.name.replace("_", "-") for one in pkgutil.iter_modules(package.__path__) if not one.name.startswith("_")
    )


def find_study(name: str) -> Study:
    """A study by name; StudyError lists those there are."""
    if name not in study_names():
        raise StudyError(f"there is no study {name!r}; there are: {', '.join(study_names())}")
    found: Study = import_module(f"mpbroker.analysis.studies.{name.replace('-', '_')}").STUDY
    return found


def run_studies(
    names: Sequence[str],
    engine: Engine,
    out: Path,
    parameters: StudyParameters = StudyParameters(),
    *,
    paths: Iterable[Path | str] = (),
    title: str | None = None,
    more: Mapping[str, Any] | None = None,
    own: Sequence[StudyResult] = (),
    maker: str = output_folder.STUDY,
) -> Outcome:
    """Run studies in their order, write everything under `out`. `more` goes into meta.json as it is (`scenario`, …);
    `own`: results that the caller found itself, put before those of the studies.

    SampledTrace, StudyError, OutInUse (`out` is not `maker`'s): before anything is computed or touched. OSError: `out`
    cannot be written.
    """
    studies = [find_study(name) for name in dict.fromkeys(names)]
    for study in studies:
        if study.needs != "rollup" and not engine.keeps_requests:
            raise StudyError(
                f"the study {study.name} follows single requests, which a rollup table does not have: run it on the "
                "traces, raw or compacted"
            )
        if study.needs == "order":
            engine.input.require_unsampled(study.name)
    output_folder.claim(out, maker)
    engine = _prepared(engine, studies, parameters)
    results, seconds = list(own), {result.study: 0.0 for result in own}
    for study in studies:
        begun = time.monotonic()
        result = study.run(engine, parameters)
        result.study, result.summary = study.name, study.summary
        seconds[study.name] = round(time.monotonic() - begun, 3)
        results.append(result)
    output_folder.clear_tables(out)
    for result in results:
        for name, table in result.tables.items():
            write_table(out, f"{result.study}.{name}", table)
    meta = {output_folder.MADE_BY: maker, **_meta(engine, parameters, results, seconds, [str(path) for path in paths])}
    meta |= dict(more or {})
    if title:
        meta["title"] = title
    _write_json(out / META, meta)
    _write_json(out / RESULTS, [_kept(result) for result in results])
    return Outcome(_report(out, results, engine.input, meta), meta, results)


def _prepared(engine: Engine, studies: Sequence[Study], parameters: StudyParameters) -> Engine:
    """With what the studies will ask for, read in two scans: sums of everything, then all that follows from them."""
    reusing = ReusingEngine(engine)
    asking = [study.asks for study in studies if study.asks is not None]
    if asking:
        totals = reusing.activity(0, TOTALS)
        reusing.prepare([ask for asks in asking for ask in asks(reusing, totals, parameters)])
    return reusing


def write_table(out: Path, name: str, table: pa.Table) -> None:
    """`out`/tables/`name`.parquet and .csv."""
    pq.write_table(table, out / TABLES / f"{name}.parquet", compression="zstd")
    pyarrow.csv.write_csv(table, out / TABLES / f"{name}.csv")


def _report(out: Path, results: Sequence[StudyResult], source: Any, meta: dict[str, Any]) -> Path:
    from mpbroker.analysis.report import page

    return page.write(out, results, source, meta)


def _meta(
    engine: Engine,
    parameters: StudyParameters,
    results: Sequence[StudyResult],
    seconds: Mapping[str, float],
    paths: Sequence[str],
) -> dict[str, Any]:
    totals, loss = _totals(engine), engine.input.loss
    sentences = [*loss.sentences, *_defects(totals)]
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "engine": engine.name,
        "input_records": loss.records,
        "dropped": loss.dropped,
        "sampled_out": loss.sampled_out,
        "finished": loss.finished,
        "gaps": [gap._asdict() for gap in loss.gaps],
        "missing": loss.missing,
        "damaged_files": loss.damaged_files,
        "sentences": sentences,
        "clock": engine.input.clock._asdict(),
        "input": {
            "paths": list(paths),
            "kind": engine.input.kind,
            "runs": engine.input.runs,
            "files": engine.input.files,
            "requests": totals.get("n", 0),
            "is_sampled": engine.input.is_sampled,
        },
        "first_epoch_ns": totals.get("first_epoch_ns"),
        "last_epoch_ns": totals.get("last_epoch_ns"),
        "parameters": _parameters(engine.input, parameters),
        "mean_request_us": _mean_us(engine),
        "stage_shares": _stage_shares(engine),
        "findings": [one.to_json() for one in finding.leading(results)],
        "versions": versions(),
        "studies": {
            result.study: {
                "seconds": seconds[result.study],
                "verdicts": result.verdicts,
                "tables": {name: table.num_rows for name, table in result.tables.items()},
            }
            for result in results
        },
    }


def _totals(engine: Engine) -> dict[str, int]:
    rows: list[dict[str, int]] = engine.activity(0).to_pylist()
    return rows[0] if rows else {}


def _mean_us(engine: Engine) -> float | None:
    """Of whole requests, without waiting that their clients asked for; None when none was answered."""
    rows = [row for row in engine.rollup(0).to_pylist() if row["stage"] == "active_total"]
    requests = sum(row["n"] for row in rows)
    return round(sum(row["sum_ns"] for row in rows) / requests / 1000, 3) if requests else None


def _stage_shares(engine: Engine) -> dict[str, float]:
    """Of the time that whole requests took: what each stage has, in the order of the way. Waiting that clients asked
    for is in neither."""
    spent: dict[str, int] = {}
    for row in engine.rollup(0).to_pylist():
        spent[row["stage"]] = spent.get(row["stage"], 0) + row["sum_ns"]
    whole = spent.get("active_total", 0)
    spent["purgatory"] = spent.get("purgatory", 0) - spent.get(ASKED_WAIT, 0)
    return {stage: round(spent.get(stage, 0) / whole, 4) for stage in PIPELINE} if whole else {}


def _defects(totals: Mapping[str, int]) -> list[str]:
    """What single records say about the trace's own quality."""
    said = []
    if totals.get("saturated"):
        said.append(f"{totals['saturated']} requests have a stage of 137 seconds or more; it counts as 137 seconds")
    if totals.get("backwards"):
        said.append(
            f"{totals['backwards']} requests have a stage before its predecessor, which should not be; it counts as 0"
        )
    return said


def _parameters(source: TraceInput, parameters: StudyParameters) -> dict[str, Any]:
    base = parameters.baseline
    return {
        "window_ms": parameters.window_ms,
        "warmup_ms": parameters.warmup_ms,
        "target_p99_ms": parameters.target_p99_ms,
        "exemplars": parameters.exemplars,
        "options": dict(parameters.options),
        "from_ns": source.rows.from_ns,
        "to_ns": source.rows.to_ns,
        "apis": source.rows.apis,
        "brokers": source.rows.brokers,
        "baseline_runs": None if base is None else base.input.runs,
    }


def versions() -> dict[str, str]:
    """Of what took part."""
    found = {"mpbroker": __version__, "python": platform.python_version(), "platform": sys.platform}
    for name in _VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _kept(result: StudyResult) -> dict[str, Any]:
    """What the page is made of, tables apart."""
    return {
        "study": result.study,
        "summary": result.summary,
        "answer": result.answer,
        "findings": [one.to_json() for one in result.findings],
        "verdicts": result.verdicts,
        "tables": list(result.tables),
        "figures": [figure._asdict() for figure in result.figures],
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    """Numbers of numpy and Arrow."""
    return value.as_py() if isinstance(value, pa.Scalar) else value.item()
