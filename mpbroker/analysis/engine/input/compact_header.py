"""`compact.json`, the head of a compacted trace: its files, losses, clocks. Beside it events.arrow and the
dictionaries.

Compaction writes it last and in one piece, and only files that stand in it are read: a compaction that was killed
leaves nothing that could be taken for a trace. Pure but for reading and replacing that file.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc

from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.input.events import EVENTS
from mpbroker.analysis.engine.input.losses import Gap, Loss
from mpbroker.errors import MpbrokerError
from mpbroker.trace.clock_sample import ClockSample

FILE = "compact.json"
EVENTS_FILE = "events.arrow"  # not Parquet: whoever reads **/*.parquet wants requests
FORMAT = 1


class CompactError(MpbrokerError):
    """A compacted trace cannot be read, or not be written there."""

    exit_code = 2


class CompactFile(NamedTuple):
    """One file of requests; `path` relative to the head. Times in nanoseconds since 1970, both ends inclusive."""

    path: str
    broker: int
    run: str
    rows: int
    epoch_min_ns: int
    epoch_max_ns: int
    apis: tuple[str, ...]


class CompactHeader(NamedTuple):
    """`boots`: (broker, boot id, clock samples); `sources`: names of the segments it was made from."""

    files: tuple[CompactFile, ...]
    boots: tuple[tuple[int, int, tuple[ClockSample, ...]], ...]
    loss: Loss
    is_sampled: bool
    sources: tuple[str, ...]


def find(places: Iterable[Path]) -> list[tuple[Path, list[Path]]]:
    """Compacted traces in folders (searched downwards), and those that named files belong to: (root, files to read)."""
    found: dict[Path, set[Path]] = {}
    for place in places:
        if place.is_dir():
            heads = (
                list(place.rglob(FILE)) or [up / FILE for up in place.resolve().parents if (up / FILE).is_file()][:1]
            )
            for head in heads:
                mine = {head.parent / one.path for one in read(head.parent).files}
                inside = {path for path in mine if path.resolve().is_relative_to(place.resolve())}
                found.setdefault(head.parent, set()).update(inside)
        elif place.suffix == ".parquet":
            root = next((up for up in place.resolve().parents if (up / FILE).is_file()), None)
            if root is None:
                raise CompactError(f"{place} belongs to no compacted trace: there is no {FILE} above it")
            found.setdefault(root, set()).add(place.resolve())
    return [(root, sorted(paths)) for root, paths in sorted(found.items())]


def read(root: Path) -> CompactHeader:
    """The head of a compacted trace; CompactError when it is damaged."""
    try:
        data = json.loads((root / FILE).read_text())
        if data["format"] != FORMAT:
            raise CompactError(f"{root / FILE}: format {data['format']}; this program reads {FORMAT}")
        loss = Loss(
            **{
                **data["loss"],
                "gaps": tuple(Gap(*gap) for gap in data["loss"]["gaps"]),
                "sentences": tuple(data["loss"]["sentences"]),
            }
        )
        files = tuple(CompactFile._make((*one[:6], tuple(one[6]))) for one in data["files"])
        boots = tuple(
            (broker, int(boot, 16), tuple(ClockSample(*one) for one in samples))
            for broker, boot, samples in data["boots"]
        )
        return CompactHeader(files, boots, loss, data["is_sampled"], tuple(data["sources"]))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CompactError(f"{root / FILE} is damaged: {error!r}") from error


def write(root: Path, header: CompactHeader) -> None:
    """Put the head in place, as the last step of a compaction."""
    data: dict[str, Any] = {
        "format": FORMAT,
        **header._asdict(),
        "loss": header.loss._asdict(),
        "boots": [(broker, f"{boot:016x}", samples) for broker, boot, samples in header.boots],
    }
    temporary = root / (FILE + ".new")
    with open(temporary, "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(root / FILE)


def may_hold(path: Path, root: Path, header: CompactHeader, rows: RowFilter) -> bool:
    """Whether a file can have rows that the filter lets through."""
    one = next((file for file in header.files if (root / file.path) == path), None)
    return one is not None and file_may_hold(one, rows)


def file_may_hold(one: CompactFile, rows: RowFilter) -> bool:
    """The same, of what the head says about a file."""
    return (
        (rows.to_ns is None or one.epoch_min_ns < rows.to_ns)
        and (rows.from_ns is None or one.epoch_max_ns >= rows.from_ns)
        and (rows.brokers is None or one.broker in rows.brokers)
        and (rows.apis is None or bool(set(rows.apis) & set(one.apis)))
    )


def read_events(roots: Sequence[Path]) -> pa.Table:
    """The records that are no requests, of several compacted traces."""
    tables = [EVENTS.empty_table()]
    for root in roots:
        with pa.OSFile(str(root / EVENTS_FILE)) as file, pyarrow.ipc.open_file(file) as reader:
            tables.append(reader.read_all())
    return pa.concat_tables(tables)


def write_events(root: Path, events: pa.Table) -> None:
    """Put them beside the head."""
    with pa.OSFile(str(root / EVENTS_FILE), "wb") as file, pyarrow.ipc.new_file(file, EVENTS) as writer:
        writer.write_table(events)
