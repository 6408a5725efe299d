"""Compacted traces and rollup tables on any file system that Spark reads (s3a:, hdfs:, abfs: …), as engines.

Runs in a command's process as Spark's driver. The head of a compacted trace (compact.json, events, names) is copied
into a private folder; its files are read by Spark where they are, those alone that may hold what is asked for.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from mpbroker.analysis.engine.engines.cluster import Cluster
from mpbroker.analysis.engine.engines.engine import Engine, EngineError
from mpbroker.analysis.engine.input import compact_header
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.input.places import is_remote, is_table, local_path
from mpbroker.analysis.engine.input.trace_input import open_heads
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.rollup_input import RollupInput
from mpbroker.analysis.engine.rollups.store import RollupStore
from mpbroker.analysis.engine.rollups.table import open_or_create, open_table
from mpbroker.analysis.engine.rollups.table_files import LocalFiles
from mpbroker.analysis.spark import catalog_table
from mpbroker.analysis.spark.catalog import open_catalog
from mpbroker.analysis.spark.engine import SparkEngine
from mpbroker.analysis.spark.hadoop_files import HadoopFiles
from mpbroker.analysis.spark.rollup_engine import SparkRollupEngine
from mpbroker.analysis.spark.session import OpenSession, open_session
from mpbroker.trace import dictionary

Folder = tempfile.TemporaryDirectory[str]


class RemoteEngine(SparkEngine):
    """Over heads in `folder`, which goes with it."""

    def __init__(
        self, heads: Sequence[tuple[Path, str]], rows: RowFilter, session: OpenSession, folder: Folder
    ) -> None:
        super().__init__(open_heads(heads, rows), session=session)
        self._folder = folder

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def open_engine(places: Sequence[str], rows: RowFilter, cluster: Cluster) -> Engine:
    """Of one rollup table or of compacted traces. EngineError: there is none."""
    if any(map(is_table, places)):
        return _of_catalog(places, rows, cluster)
    session = open_session(**cluster._asdict())
    try:
        files = [HadoopFiles(session.spark, place) for place in places]
        if len(files) == 1 and _has(files[0], layout.ABOUT):
            return SparkRollupEngine(RollupInput(open_table(files[0]), rows), session)
        folder = tempfile.TemporaryDirectory(prefix="mpbroker-heads-")
        try:
            heads = [(_copied(one, Path(folder.name) / str(number)), one.root) for number, one in enumerate(files)]
            return RemoteEngine(heads, rows, session, folder)
        except BaseException:
            folder.cleanup()
            raise
    except BaseException:
        session.close()
        raise


def open_to_write(place: str, window_ms: int | None, cluster: Cluster) -> tuple[OpenSession, RollupStore]:
    """A session, and in it the rollup table of a place, made if it is not there."""
    session = open_catalog(place, cluster) if is_table(place) else open_session(**cluster._asdict())
    try:
        if is_table(place):
            return session, catalog_table.open_or_create(session.spark, place, window_ms)
        files = HadoopFiles(session.spark, place) if is_remote(place) else LocalFiles(local_path(place))
        return session, open_or_create(files, window_ms)
    except BaseException:
        session.close()
        raise


def _of_catalog(places: Sequence[str], rows: RowFilter, cluster: Cluster) -> Engine:
    if len(places) > 1:
        raise EngineError(f"{places[0]} … are several places: a rollup table is studied alone")
    session = open_catalog(places[0], cluster)
    try:
        return SparkRollupEngine(RollupInput(catalog_table.open_table(session.spark, places[0]), rows), session)
    except BaseException:
        session.close()
        raise


def _has(files: HadoopFiles, path: str) -> bool:
    try:
        files.read(path)
    except FileNotFoundError:
        return False
    return True


def _copied(files: HadoopFiles, to: Path) -> Path:
    """The head of a compacted trace."""
    to.mkdir()
    if not _has(files, compact_header.FILE):
        raise EngineError(
            f"{files.root} is neither a compacted trace (it has no {compact_header.FILE}) nor a rollup table (no "
            f"{layout.ABOUT}); segments are read from file systems that are mounted"
        )
    names = [name for name in files.names() if dictionary.boot_of(Path(name)) is not None]
    for name in (compact_header.FILE, compact_header.EVENTS_FILE, *names):
        (to / name).write_bytes(files.read(name))
    return to
