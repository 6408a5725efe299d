"""How long the hourly job takes to see what is new in the traces of a fleet, from headers alone.

    python -m perf.fleet_plan [--brokers 1000] [--segments 60] [--json FILE] [--check]

A broker serves a request, and its segment's header is replayed for every broker and minute of an hour, with other ids
and times; the files are as long as their headers say, and empty. Planning is timed for a table that counts nothing, and
again for one that counts half of the segments. Shares for Spark's tasks are made, too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from mpbroker.analysis.engine.rollups import job, layout, table
from mpbroker.analysis.engine.rollups.table_files import LocalFiles
from mpbroker.analysis.spark.segment_source import shares
from mpbroker.trace import segment
from perf.load import processes
from tests.harness.broker import Broker
from tests.harness.raw_records import create_by_metadata

TARGET_S = 60.0
RECORDS = 1_500_000
MINUTE_NS = 60_000_000_000


def header(folder: Path) -> segment.SegmentInfo:
    """Of a segment that a broker has closed."""
    with Broker(folder / "broker") as broker:
        create_by_metadata("127.0.0.1", broker.port(0), "load")
        broker.stop()
    return segment.read_info(next((folder / "broker").rglob(f"*{segment.SUFFIX}")))


def replay(info: segment.SegmentInfo, folder: Path, brokers: int, segments: int) -> None:
    """A folder per broker, a file per minute."""
    assert info.closed is not None, "the broker has closed it"
    for broker in range(brokers):
        (folder / str(broker)).mkdir(parents=True)
        for number in range(segments):
            begun_ns = info.opened.clock.realtime_ns // layout.HOUR_NS * layout.HOUR_NS + number * MINUTE_NS
            clock = info.opened.clock._replace(realtime_ns=begun_ns)
            opened = info.opened._replace(
                broker_id=broker, boot_id=1 << 40 | broker, first_seq=number * RECORDS, clock=clock
            )
            page = bytearray(segment.pack_opened(opened))
            closed = segment.pack_closed(info.closed._replace(record_count=RECORDS, next_seq=(number + 1) * RECORDS))
            page[segment.CLOSE_OFFSET : segment.CLOSE_OFFSET + len(closed)] = closed
            with open(folder / str(broker) / segment.file_name(*opened[:4]), "wb") as file:
                file.write(page)
                file.truncate(segment.HEADER_BYTES + RECORDS * 128)


def planned(folder: Path, found: table.RollupTable) -> tuple[job.Plan, float]:
    """A plan, shared out, and the seconds it took."""
    begun = time.monotonic()
    plan = job.plan([folder], found)
    shares((str(one.path), one.records) for one in plan.new)
    return plan, time.monotonic() - begun


def count_half(plan: job.Plan, found: table.RollupTable) -> None:
    """As if half of the segments were counted."""
    batch = found.begin()
    rows = [
        dict.fromkeys(layout.SEGMENT_ROW.names, 0)
        | {"file": one.path.name, "run": one.run, "broker": one.partition.node, "begun_ns": one.begun_ns}
        for one in plan.new[::2]
    ]
    batch.write(layout.SEGMENTS, pa.Table.from_pylist(rows, layout.SEGMENT_ROW))
    batch.commit(len(rows), 0)


def main() -> int:
    """Measure, print, and judge if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=60, help="of a broker")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--check", action="store_true", help="exit 1 when a plan takes more than a minute")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpbroker-fleet-") as name:
        folder = Path(name)
        replay(header(folder), folder / "fleet", arguments.brokers, arguments.segments)
        found = table.open_or_create(LocalFiles(folder / "table"))
        first, first_s = planned(folder / "fleet", found)
        count_half(first, found)
        second, second_s = planned(folder / "fleet", found)
    result: dict[str, Any] = {"machine": processes.machine(), "brokers": arguments.brokers}
    result |= {"segments": len(first.new), "first_s": first_s, "second_s": second_s, "known": second.known}
    print(f"{len(first.new):,} new segments of {arguments.brokers:,} brokers: planned in {first_s:.1f} s")
    print(f"{len(second.new):,} new, {second.known:,} counted before: planned in {second_s:.1f} s")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")
    return int(arguments.check and max(first_s, second_s) > TARGET_S)


if __name__ == "__main__":
    sys.exit(main())
