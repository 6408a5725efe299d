"""The engine of a name, or the one that suits a trace. Runs in a command's process.

local_engine.py needs numpy and pyarrow; Spark's engine and its JVM are loaded only when chosen.
"""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mpbroker.analysis.engine.engines.cluster import UNNAMED, Cluster
from mpbroker.analysis.engine.engines.engine import Engine, EngineError
from mpbroker.analysis.engine.engines.engine_costs import spark_is_quicker
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.input.places import is_remote, local_path
from mpbroker.analysis.engine.input.trace_input import TraceInput, open_input

ENGINES = ("auto", "local", "spark")


def open_engine(
    name: str,
    paths: Sequence[str | Path],
    rows: Mapping[str, Any],
    cluster: Cluster = UNNAMED,
) -> Engine:
    """The engine of a name over what lies in these places: traces, or one rollup table. `rows`: as open_input takes
    it."""
    from mpbroker.analysis.engine.rollups import layout

    if any(map(is_remote, paths)):
        return _remote_engine(name, paths, rows, cluster)
    places = [local_path(path) for path in paths]
    if not any((place / layout.ABOUT).is_file() for place in places):
        return choose_engine(name, open_input(places, **rows), cluster)
    return _rollup_engine(name, places, rows, cluster)


def _filter_of(rows: Mapping[str, Any]) -> RowFilter:
    apis, brokers = rows.get("apis"), rows.get("brokers")
    return RowFilter(
        rows.get("from_ns"), rows.get("to_ns"), tuple(apis) if apis else None, tuple(brokers) if brokers else None
    )


def _rollup_engine(name: str, places: Sequence[Path], rows: Mapping[str, Any], cluster: Cluster) -> Engine:
    from mpbroker.analysis.engine.rollups.rollup_engine import RollupEngine
    from mpbroker.analysis.engine.rollups.rollup_input import RollupInput
    from mpbroker.analysis.engine.rollups.table import open_table
    from mpbroker.analysis.engine.rollups.table_files import LocalFiles

    if len(places) > 1:
        raise EngineError(f"{places[0]} … are several places: a rollup table is studied alone")
    source = RollupInput(open_table(LocalFiles(places[0])), _filter_of(rows))
    if name == "local" or (name == "auto" and not cluster.is_named):
        return RollupEngine(source)
    from mpbroker.analysis.spark.rollup_engine import SparkRollupEngine
    from mpbroker.analysis.spark.session import open_session

    return SparkRollupEngine(source, open_session(**cluster._asdict()))


def _remote_engine(name: str, places: Sequence[str | Path], rows: Mapping[str, Any], cluster: Cluster) -> Engine:
    """On a file system that only Spark reads."""
    if name == "local":
        raise EngineError(f"{places[0]} is read by Spark: leave out --engine local")
    from mpbroker.analysis.spark import remote_places

    return remote_places.open_engine([str(place) for place in places], _filter_of(rows), cluster)


def _spark_pays(records: int) -> bool:
    """Whether Spark is installed and quicker for a trace of so many requests on the cores of this process."""
    return spark_is_quicker(records, len(os.sched_getaffinity(0))) and find_spec("pyspark") is not None


def choose_engine(name: str, source: TraceInput, cluster: Cluster = UNNAMED) -> Engine:
    """The engine of a name. "auto": the quicker one on this machine (engine_costs.py), Spark if something of a
    cluster is named."""
    if name not in ENGINES:
        raise EngineError(f"there is no engine {name!r}; there are: {', '.join(ENGINES)}")
    if name == "auto":
        name = "spark" if cluster.is_named or _spark_pays(source.loss.records) else "local"
    if name == "local":
        from mpbroker.analysis.engine.engines.local_engine import LocalEngine

        return LocalEngine(source)
    from mpbroker.analysis.spark.engine import SparkEngine

    return SparkEngine(source, cluster)
