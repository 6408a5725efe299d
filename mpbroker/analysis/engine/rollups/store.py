"""A rollup table as the hourly job and studies use it, wherever its rows lie: in a folder (table.py), or in a catalog
of Spark (analysis/spark/catalog_table.py). Runs in a command's process."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa

from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.layout import Partition


class RollupBatch(ABC):
    """What is to become part of a table: all of it in one step, or nothing."""

    @abstractmethod
    def write(self, dataset: str, rows: pa.Table) -> None:
        """Rows of a dataset, to the places of their hours and brokers."""

    @abstractmethod
    def commit(self, segments: int, requests: int) -> None:
        """Make all that was written part of the table. RollupError: another job was quicker."""

    @abstractmethod
    def drop(self) -> None:
        """Nothing of it counts."""


class RollupStore(ABC):
    """`root`: what it is called. `window_ms`: of all datasets but those by client."""

    root: str

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self.datasets = layout.datasets(window_ms)

    @abstractmethod
    def lock(self) -> AbstractContextManager[None]:
        """Keep other jobs out, where that can be done; the commit refuses the second one everywhere."""

    @abstractmethod
    def recover(self) -> object:
        """Finish what a killed job left, and see what there is: `counted` and `begin` stand on that."""

    @abstractmethod
    def begin(self) -> RollupBatch:
        """A batch after what `recover`, or the last commit of this job, has seen: whoever commits in between makes its
        commit fail."""

    @abstractmethod
    def counted(self, partitions: Iterable[Partition]) -> set[tuple[str, str]]:
        """(run, file) of the segments counted that were begun in these hours by these brokers. `recover` comes
        first."""

    @abstractmethod
    def parts(self, dataset: str, rows: RowFilter, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows of the hours and brokers that may hold such rows (not yet filtered), part by part, in no order."""

    @abstractmethod
    def file_count(self, dataset: str, rows: RowFilter) -> int:
        """How many files those are."""

    def read(self, dataset: str, rows: RowFilter = RowFilter(), columns: Sequence[str] | None = None) -> pa.Table:
        """The same in one."""
        return pa.concat_tables([self._schema(dataset, columns).empty_table(), *self.parts(dataset, rows, columns)])

    def _schema(self, dataset: str, columns: Sequence[str] | None) -> pa.Schema:
        schema = layout.SEGMENT_ROW if dataset == layout.SEGMENTS else layout.schema_of(self.datasets[dataset])
        return schema if columns is None else pa.schema([schema.field(name) for name in columns])
