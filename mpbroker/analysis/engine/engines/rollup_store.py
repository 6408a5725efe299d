"""Rollups in a file that grows: histograms of any number of traces added up, exactly. `mpbroker trace rollup`.

One Parquet file. Its metadata say window, groups and the segments counted so far, so that none counts twice. It is
replaced in one step. Runs in a command's process.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.engines.reusing_engine import merge_rollup
from mpbroker.errors import MpbrokerError

METADATA = b"mpbroker.rollup"
WINDOW_MS = 10_000
GROUPS = ("run", "broker", "api", "listener", "plane", "error")


class RollupError(MpbrokerError):
    """A rollup cannot be added to a file."""

    exit_code = 2


def add(engine: Engine, path: Path, window_ms: int = WINDOW_MS, by: Sequence[str] = GROUPS) -> pa.Table:
    """Add the engine's trace to the file (made if it is not there); returns all of it. RollupError: nothing has
    changed."""
    about: dict[str, Any] = {"window_ms": window_ms, "by": list(by), "sources": []}
    tables = []
    if path.exists():
        known, before = read(path)
        if (known["window_ms"], known["by"]) != (window_ms, list(by)):
            raise RollupError(
                f"{path} has windows of {known['window_ms']} ms by {', '.join(known['by'])}; a file has one kind"
            )
        twice = sorted(set(known["sources"]) & set(engine.input.sources))
        if twice:
            raise RollupError(f"{path} counts {twice[0]} already ({len(twice)} such segments); they would count twice")
        about, tables = known, [before]
    whole = merge([*tables, engine.rollup(window_ms, by)], by)
    about["sources"] = sorted({*about["sources"], *engine.input.sources})
    temporary = path.with_name(path.name + ".new")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(whole.replace_schema_metadata({METADATA: json.dumps(about).encode()}), temporary, compression="zstd")
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    return whole


def read(path: Path) -> tuple[dict[str, Any], pa.Table]:
    """What a file says about itself (window_ms, by, sources), and its rows."""
    try:
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[METADATA])
    except (pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
        raise RollupError(f"{path} is no rollup of traces: {error}") from error
    return about, table.replace_schema_metadata(None)


def merge(tables: Iterable[pa.Table], by: Sequence[str], window_ms: int | None = None) -> pa.Table:
    """Rollups added up; with `window_ms`, a multiple of theirs, into longer windows."""
    return merge_rollup(pa.concat_tables(tables), window_ms, by)
