"""The job that keeps a rollup table up to date: new and closed segments in, each exactly once. `mpbroker trace rollup`.

Runs in a command's process, every hour or as often as one likes. What is new is told by the table itself; work goes in
batches, each of which the table has whole or not at all. So a job that was killed is simply run again. A segment that
is being written, was cut or is damaged is left out with a reason, and looked at again by the next run.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from mpbroker.analysis.engine.engines.accumulate import AskSums
from mpbroker.analysis.engine.input.places import local_path
from mpbroker.analysis.engine.rollups import layout, segment_count
from mpbroker.analysis.engine.rollups.layout import Partition, RollupError
from mpbroker.analysis.engine.rollups.store import RollupBatch, RollupStore
from mpbroker.trace import segment

#: A batch has about so many records: what one process counts in half a minute.
BATCH_RECORDS = 32_000_000


class Found(NamedTuple):
    """A segment's header, as far as planning needs it."""

    path: Path
    run: str
    partition: Partition
    records: int
    begun_ns: int

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same segment in another folder."""
        return self.run, self.path.name


class Left(NamedTuple):
    """A segment that was not counted."""

    path: str
    reason: str


class Plan(NamedTuple):
    """`new`: to be counted, oldest first; `known`: how many the table counts already."""

    new: list[Found]
    known: int
    left: list[Left]


class Report(NamedTuple):
    """What a run did."""

    batches: int
    segments: int
    requests: int
    known: int
    left: list[Left]


#: Rows of layout.SEGMENT_ROW, and what was left out.
Counted = tuple[list[dict[str, Any]], list[Left]]


class Counter(ABC):
    """Counts a batch of segments and writes what comes out into it."""

    #: Records of a batch.
    batch_records = BATCH_RECORDS

    @abstractmethod
    def count(self, found: Sequence[Found], table: RollupStore, batch: RollupBatch) -> Counted:
        """FileNotFoundError: a segment went away meanwhile."""


class LocalCounter(Counter):
    """In this process."""

    def count(self, found: Sequence[Found], table: RollupStore, batch: RollupBatch) -> Counted:
        sums, names = AskSums(list(table.datasets.values())), segment_count.Names()
        rows: list[dict[str, Any]] = []
        left: list[Left] = []
        for one in found:
            result = segment_count.count(one.path, sums, names)
            if isinstance(result, str):
                left.append(Left(str(one.path), result))
            else:
                rows.append(result)
        for name, rollup in zip(table.datasets, sums.tables(), strict=True):
            batch.write(name, rollup)
        return rows, left


def run(places: Iterable[str | Path], table: RollupStore, counter: Counter) -> Report:
    """Count what is new. RollupError: another job is at work, or there is nothing to read at all."""
    with table.lock():
        table.recover()
        planned = plan(places, table)
        done = Report(0, 0, 0, planned.known, planned.left)
        for part in _batches(planned.new, counter.batch_records):
            batch = table.begin()
            try:
                rows, left = counter.count(part, table, batch)
            except FileNotFoundError as error:
                raise RollupError(f"{error.filename} went away while it was counted: run it again") from error
            done.left.extend(left)
            if not rows:
                batch.drop()
                continue
            batch.write(layout.SEGMENTS, pa.Table.from_pylist(rows, layout.SEGMENT_ROW))
            requests = sum(row["records"] for row in rows)
            batch.commit(len(rows), requests)
            done = done._replace(
                batches=done.batches + 1, segments=done.segments + len(rows), requests=done.requests + requests
            )
        return done


def plan(places: Iterable[str | Path], table: RollupStore) -> Plan:
    """By headers alone: what is closed and not yet counted. Reads the table's lists of those hours and brokers only."""
    paths = _files(places)
    found: dict[tuple[str, str], Found] = {}
    left: list[Left] = []
    for path in paths:
        try:
            info = segment.read_info(path)
        except FileNotFoundError:
            continue  # retention was quicker
        except (segment.SegmentError, OSError, ValueError) as error:
            left.append(Left(str(path), str(error)))
            continue
        if reason := segment_count.closed_reason(info):
            left.append(Left(str(path), reason))
            continue
        opened = info.opened
        partition = Partition(opened.clock.realtime_ns // layout.HOUR_NS, opened.broker_id)
        run_id = f"{opened.boot_id:016x}"
        one = Found(path, run_id, partition, info.record_count, opened.clock.realtime_ns)
        found.setdefault(one.key, one)  # a copy of it in a second folder counts once
    counted = table.counted({one.partition for one in found.values()})
    new = sorted((one for key, one in found.items() if key not in counted), key=lambda one: (one.begun_ns, one.key))
    left = [one for one in left if Path(one.path).name not in {name for _, name in counted | set(found)}]
    return Plan(new, len(found) - len(new), left)


def _files(places: Iterable[str | Path]) -> list[Path]:
    found: set[Path] = set()
    for place in map(local_path, places):
        if not place.exists():
            raise RollupError(f"{place} does not exist; name folders with trace segments, or such files")
        if place.is_dir():
            if next(place.rglob("compact.json"), None) is not None:
                raise RollupError(f"{place} holds a compacted trace: a rollup table is made from segments (*.mpt)")
            found |= set(place.rglob(f"*{segment.SUFFIX}"))
        elif place.suffix == segment.SUFFIX:
            found.add(place)
        else:
            raise RollupError(f"{place} is no trace segment (*{segment.SUFFIX})")
    return sorted(found)


def _batches(found: Sequence[Found], most: int) -> Iterator[list[Found]]:
    part: list[Found] = []
    records = 0
    for one in found:
        if part and records + one.records > most:
            yield part
            part, records = [], 0
        part.append(one)
        records += one.records
    if part:
        yield part
