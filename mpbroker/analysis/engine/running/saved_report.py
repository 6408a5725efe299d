"""Reads back what a run of studies left, and writes its page anew (`mpbroker trace report`). Runs in a command's
process."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq

from mpbroker.analysis.engine.input.clock_line import ClockQuality
from mpbroker.analysis.engine.input.losses import Gap, Loss
from mpbroker.analysis.engine.running import finding
from mpbroker.analysis.engine.running.output_folder import META, RESULTS, TABLES
from mpbroker.analysis.engine.running.study import Figure, StudyResult
from mpbroker.errors import MpbrokerError


class NoResults(MpbrokerError):
    """A folder that no run of studies left."""

    exit_code = 2


def write_again(out: Path) -> Path:
    """Make `out`/report.html from meta.json, results.json and tables/; returns its path."""
    from mpbroker.analysis.report import page

    try:
        meta = json.loads((out / META).read_text())
        results = [_result(out, one) for one in json.loads((out / RESULTS).read_text())]
        loss = Loss(
            meta["finished"],
            meta["input_records"],
            meta["dropped"],
            meta["sampled_out"],
            tuple(Gap(**gap) for gap in meta["gaps"]),
            meta["damaged_files"],
            tuple(meta["sentences"]),
        )
        clock = ClockQuality(**meta["clock"])
    except FileNotFoundError as error:
        raise NoResults(
            f"{error.filename} is missing: name a folder that `mpbroker trace study --out` has written"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise NoResults(f"the results in {out} are damaged: {error!r}") from error
    return page.write(out, results, SimpleNamespace(loss=loss, clock=clock), meta)


def _result(out: Path, data: dict[str, Any]) -> StudyResult:
    tables = {name: pq.read_table(out / TABLES / f"{data['study']}.{name}.parquet") for name in data["tables"]}
    return StudyResult(
        tables,
        data["verdicts"],
        [Figure(**figure) for figure in data["figures"]],
        data["study"],
        data["summary"],
        [finding.from_json(one) for one in data["findings"]],
        data["answer"],
    )
