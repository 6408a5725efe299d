"""Trace records of a broker under test, read from its segments."""

from __future__ import annotations

from pathlib import Path

from mpbroker.trace import manifest, record, segment
from mpbroker.trace.record import TraceRecord
from tests.harness.broker import Broker


def requests_of(broker: Broker) -> list[TraceRecord]:
    """Every request the tracer has written so far; after `stop`, every one there was."""
    return records_of(broker, record.REQUEST)


def records_of(broker: Broker, kind: int) -> list[TraceRecord]:
    """The records of one kind."""
    return _in_directory(broker.data_dir / "traces", kind)


def requests_in_directory(directory: str | Path) -> list[TraceRecord]:
    """Every request of a directory with segments."""
    return _in_directory(Path(directory), record.REQUEST)


def _in_directory(directory: Path, kind: int) -> list[TraceRecord]:
    found = []
    for info in manifest.segments(directory):
        for chunk in segment.read_chunks(info):
            found += [record.unpack(chunk, at) for at in range(0, len(chunk), record.RECORD_BYTES)]
    return [one for one in found if one.kind == kind]
