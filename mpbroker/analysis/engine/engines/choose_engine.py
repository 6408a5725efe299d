"""The engine of a name, or the one that suits a trace. Runs in a command's process.

local_engine.py needs numpy and pyarrow; Spark's engine and its JVM are loaded only when chosen.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mpbroker.analysis.engine.engines.engine import Engine, EngineError
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.input.trace_input import TraceInput, open_input
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.rollup_engine import RollupEngine
from mpbroker.analysis.engine.rollups.rollup_input import RollupInput
from mpbroker.analysis.engine.rollups.table import open_table
from mpbroker.analysis.engine.rollups.table_files import LocalFiles

ENGINES = ("auto", "local", "spark")
LOCAL_RECORDS = 20_000_000


def open_engine(
    name: str,
    paths: Sequence[str | Path],
    rows: Mapping[str, Any],
    *,
    master: str | None = None,
    remote: str | None = None,
) -> Engine:
    """The engine of a name over what lies in these places: traces, or one rollup table. `rows`: as open_input takes
    it."""
    if not any((Path(path) / layout.ABOUT).is_file() for path in paths):
        return choose_engine(name, open_input(paths, **rows), master=master, remote=remote)
    if len(paths) > 1:
        raise EngineError(f"{paths[0]} … are several places: a rollup table is studied alone")
    apis, brokers = rows.get("apis"), rows.get("brokers")
    limits = RowFilter(
        rows.get("from_ns"), rows.get("to_ns"), tuple(apis) if apis else None, tuple(brokers) if brokers else None
    )
    source = RollupInput(open_table(LocalFiles(Path(paths[0]))), limits)
    return RollupEngine(source)


def choose_engine(name: str, source: TraceInput, *, master: str | None = None, remote: str | None = None) -> Engine:
    """The engine of a name. "auto": local below 20 million records, unless a master or remote is named."""
    if name not in ENGINES:
        raise EngineError(f"there is no engine {name!r}; there are: {', '.join(ENGINES)}")
    if name == "auto":
        name = "spark" if master or remote or source.loss.records >= LOCAL_RECORDS else "local"
    if name == "local":
        from mpbroker.analysis.engine.engines.local_engine import LocalEngine

        return LocalEngine(source)
    from mpbroker.analysis.spark.engine import SparkEngine

    return SparkEngine(source, master=master, remote=remote)
