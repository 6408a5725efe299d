"""`mpbsegments`: closed segments as parts of tables, a row per segment with them. The Spark side of the hourly job.

The job has planned which segments there are to count; a task takes whole ones, checks and counts them where it runs, by
the code of the local job. Rows are those of partial_sums.PARTIAL; with `ask` NOTE they are a segment's row of the
table, or the reason why it was left out, as JSON in `stage`. A segment that went away fails the task: nothing of its
batch counts.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mpbroker.analysis.engine.engines.accumulate import AskSums
from mpbroker.analysis.engine.rollups import segment_count
from mpbroker.analysis.spark.arrow_types import struct_of
from mpbroker.analysis.spark.partial_sums import PARTIAL, from_text, parts_of
from mpbroker.analysis.spark.source_plan import PARTITION_RECORDS

FORMAT = "mpbsegments"
NOTE = -1


class MpbSegmentSource(DataSource):
    """Options: `asks`; `segments`, a list of [path, records] as JSON."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """Of parts."""
        return struct_of(PARTIAL)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a batch."""
        return SegmentReader(self.options["asks"], json.loads(self.options["segments"]))


class Share(InputPartition):
    """The segments of one task."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(None)
        self.paths = paths


class SegmentReader(DataSourceReader):
    """Sent to Spark's workers, each of which gets its own share only."""

    def __init__(self, asks: str, segments: Sequence[tuple[str, int]]) -> None:
        self._asks = asks
        self._shares = shares(segments)

    def partitions(self) -> list[InputPartition]:
        """At least 64 MiB each, as long as there are so many; however many brokers that is, or a part of one."""
        return [Share(paths) for paths in self._shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Parts and notes of a share."""
        sums, names = AskSums(from_text(self._asks)), segment_count.Names()
        notes = []
        for path in getattr(partition, "paths", ()):
            result = segment_count.count(Path(path), sums, names)
            notes.append({"path": path, "reason": result} if isinstance(result, str) else {"row": result})
        yield from pa.concat_tables([parts_of(sums), _noted(notes)]).combine_chunks().to_batches()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shares": []}


def shares(segments: Iterable[tuple[str, int]]) -> list[list[str]]:
    """Segments put together until a task has enough to do."""
    found: list[list[str]] = []
    records = PARTITION_RECORDS
    for path, number in segments:
        if records >= PARTITION_RECORDS:
            found.append([])
            records = 0
        found[-1].append(path)
        records += number
    return found


def _noted(notes: list[dict[str, Any]]) -> pa.Table:
    rows = [{"ask": NOTE, "window_ms": 0, "stage": json.dumps(note)} for note in notes]
    return pa.Table.from_pylist([{name: row.get(name) for name in PARTIAL.names} for row in rows], PARTIAL)
