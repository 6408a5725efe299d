"""Trace records of a broker under test, read from its segments."""

from __future__ import annotations

from mpbroker.trace import manifest, record, segment
from mpbroker.trace.record import TraceRecord
from tests.harness.broker import Broker


def requests_of(broker: Broker) -> list[TraceRecord]:
    """Every request the tracer has written so far; after `stop`, every one there was."""
    return records_of(broker, record.REQUEST)


def records_of(broker: Broker, kind: int) -> list[TraceRecord]:
    """The records of one kind."""
    found = []
    for info in manifest.segments(broker.data_dir / "traces"):
        for chunk in segment.read_chunks(info):
            found += [record.unpack(chunk, at) for at in range(0, len(chunk), record.RECORD_BYTES)]
    return [one for one in found if one.kind == kind]
