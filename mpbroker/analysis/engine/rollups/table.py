"""A rollup table: batches that are in it whole or not at all. Runs in a command's process; one job at a time writes.

A batch's files are written under _staging, then its commit, which names them, is created in one step: from then on the
batch counts. Then the files go to their places. Whoever is killed meanwhile leaves either a staging folder without a
commit, which the next job deletes, or a commit whose files are not all in place, which it moves there. Readers of this
program find the files of the last commit wherever they are; others see them when they are in place.
"""

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.layout import Partition, RollupError
from mpbroker.analysis.engine.rollups.store import RollupBatch, RollupStore
from mpbroker.analysis.engine.rollups.table_files import TableFiles


class Commit(NamedTuple):
    """A batch. `files`: paths in the table, and before that in the staging folder."""

    batch: int
    staging: str
    files: tuple[str, ...]
    segments: int
    requests: int


class RollupTable(RollupStore):
    """In a folder."""

    def __init__(self, files: TableFiles, window_ms: int) -> None:
        super().__init__(window_ms)
        self.files = files
        self.root = files.root
        self._next = 0  # batch, after those that the job at work has seen

    def lock(self) -> AbstractContextManager[None]:
        return self.files.lock()

    def last(self) -> Commit | None:
        """The newest batch; None in an empty table. RollupError when its commit is damaged."""
        names = self._commits()
        if not names:
            return None
        try:
            return _read_commit(self.files.read(names[-1]))
        except (ValueError, KeyError, TypeError) as error:
            raise RollupError(f"{self.files.url(names[-1])} is damaged: {error!r}") from error

    def commits(self) -> int:
        """How many batches there are."""
        return len(self._commits())

    def recover(self) -> Commit | None:
        """Finish what a killed job left: put the last batch in place, delete what was never committed."""
        last = self.last()
        if last is not None:
            self._publish(last)
        self.files.remove(layout.STAGING)
        return last

    def begin(self) -> "Batch":
        return Batch(self, self._next)

    def paths(self, dataset: str, rows: RowFilter = RowFilter()) -> list[str]:
        """Files that may hold such rows, by their paths alone; those of the last batch where they are now."""
        found = {path: path for path in self.files.below(dataset)}
        last = self.last()
        if last is not None:
            for path in last.files:
                if path.startswith(f"{dataset}/"):
                    found.setdefault(path, f"{last.staging}/{path}")
        return [place for path, place in sorted(found.items()) if layout.may_hold(path, rows)]

    def file_count(self, dataset: str, rows: RowFilter) -> int:
        return len(self.paths(dataset, rows))

    def parts(self, dataset: str, rows: RowFilter, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        schema = self._schema(dataset, columns)
        for path in self.paths(dataset, rows):
            yield self._read_file(path, schema)

    def _read_file(self, path: str, schema: pa.Schema) -> pa.Table:
        try:
            data = self.files.read(path)
        except FileNotFoundError:
            data = self.files.read(_place_of(path))  # put in place a moment ago
        return pq.ParquetFile(BytesIO(data)).read(columns=schema.names).select(schema.names).cast(schema)

    def counted(self, partitions: Iterable[Partition]) -> set[tuple[str, str]]:
        wanted, found = set(partitions), set()
        schema = pa.schema([layout.SEGMENT_ROW.field(name) for name in ("run", "file")])
        hours = {f"{layout.SEGMENTS}/{one.folder().rpartition('/')[0]}" for one in wanted}
        for path in (path for hour in sorted(hours) for path in self.files.below(hour)):
            if layout.partition_of(path) in wanted:
                rows = self._read_file(path, schema)
                found |= set(zip(rows["run"].to_pylist(), rows["file"].to_pylist(), strict=True))
        return found

    def _publish(self, commit: Commit) -> None:
        """Every file of a commit to its place; those that are there already stay."""
        self._next = commit.batch + 1
        staged = set(self.files.below(commit.staging))
        for path in commit.files:
            if f"{commit.staging}/{path}" in staged:
                self.files.move(f"{commit.staging}/{path}", path)
        self.files.sync(commit.files)
        self.files.remove(commit.staging)

    def _commits(self) -> list[str]:
        return [path for path in self.files.below(layout.COMMITS) if path.endswith(".json")]


class Batch(RollupBatch):
    """Files in a staging folder."""

    def __init__(self, table: RollupTable, number: int) -> None:
        self._table = table
        self.number = number
        self.token = secrets.token_hex(8)
        self.staging = f"{layout.STAGING}/{number:012d}-{self.token}"

    def write(self, dataset: str, rows: pa.Table) -> None:
        at = "begun_ns" if dataset == layout.SEGMENTS else "window_ms"
        width = layout.HOUR_NS if dataset == layout.SEGMENTS else layout.HOUR_MS
        for partition, part in _split(rows, rows[at].to_numpy() // width):
            data = BytesIO()
            pq.write_table(part, data, compression="zstd")
            name = f"part-{self.number:012d}-{self.token}.parquet"
            self._table.files.write(f"{self.staging}/{dataset}/{partition.folder()}/{name}", data.getvalue())

    def url(self, dataset: str) -> str:
        """Where Spark is to write a dataset's rows."""
        return self._table.files.url(f"{self.staging}/{dataset}")

    def commit(self, segments: int, requests: int) -> None:
        files = self._table.files
        files.sync(files.below(self.staging))
        staged = [path.removeprefix(f"{self.staging}/") for path in files.below(self.staging)]
        staged = [path for path in staged if path.endswith(".parquet")]
        done = Commit(self.number, self.staging, tuple(staged), segments, requests)
        if not files.create(f"{layout.COMMITS}/{self.number:012d}.json", json.dumps(done._asdict()).encode()):
            files.remove(self.staging)
            raise RollupError(f"another trace rollup has added batch {self.number} to {files.root}: run it again")
        self._table._publish(done)

    def drop(self) -> None:
        self._table.files.remove(self.staging)


def open_table(files: TableFiles) -> RollupTable:
    """A table that is there; RollupError."""
    try:
        about: dict[str, Any] = json.loads(files.read(layout.ABOUT))
        if about["format"] != layout.FORMAT:
            raise RollupError(f"{files.root}: format {about['format']}; this program reads {layout.FORMAT}")
        return RollupTable(files, layout.check_window(about["window_ms"]))
    except FileNotFoundError as error:
        raise RollupError(f"{files.root} is no rollup table: it has no {layout.ABOUT}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise RollupError(f"{files.url(layout.ABOUT)} is damaged: {error!r}") from error


def open_or_create(files: TableFiles, window_ms: int | None = None) -> RollupTable:
    """A table, made if there is nothing yet. RollupError when it has other windows than those asked for, or the folder
    holds what is no table's: readers would take it for rows."""
    wanted = layout.check_window(layout.WINDOW_MS if window_ms is None else window_ms)
    about = json.dumps({"format": layout.FORMAT, "window_ms": wanted}).encode()
    try:
        files.read(layout.ABOUT)
    except FileNotFoundError:
        foreign = files.below("")
        if foreign:
            raise RollupError(f"{files.root} is no rollup table, and not empty: it holds {foreign[0]}") from None
        files.create(layout.ABOUT, about)
    found = open_table(files)
    if window_ms is not None and found.window_ms != window_ms:
        raise RollupError(f"{files.root} has windows of {found.window_ms} ms; a table has one kind")
    return found


def _read_commit(text: bytes) -> Commit:
    """ValueError, KeyError, TypeError. Its paths are moved and its staging folder is deleted: they must be such as
    `Batch` writes, whoever wrote them."""
    data = json.loads(text)
    commit = Commit(data["batch"], data["staging"], tuple(data["files"]), data["segments"], data["requests"])
    names = [part for path in (commit.staging, *commit.files) for part in path.split("/")]
    if not re.fullmatch(rf"{layout.STAGING}/\w[\w-]*", commit.staging) or {"", ".", ".."} & set(names):
        raise ValueError("its paths are none of a batch")
    return commit


def _place_of(staged: str) -> str:
    """Where a file of a staging folder goes."""
    return staged.split("/", 2)[2] if staged.startswith(f"{layout.STAGING}/") else staged


def _split(rows: pa.Table, hours: "np.ndarray[Any, Any]") -> Iterator[tuple[Partition, pa.Table]]:
    keys = np.stack([hours, rows["broker"].to_numpy().astype(np.int64)], axis=1)
    for key in np.unique(keys, axis=0):
        yield Partition(int(key[0]), int(key[1])), rows.filter(pa.array((keys == key).all(axis=1)))
