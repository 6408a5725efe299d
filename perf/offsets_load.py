"""How long a coordinator reads a partition of `__consumer_offsets` when it takes over: seconds and memory.

    python -m perf.offsets_load [--mb 100] [--groups 100] [--partitions 100]

Writes a log of its own with the native append, as commits write it: a batch for each commit, again and again the same
keys. Then it loads it as the coordinator does, and prints one JSON object. Memory is the growth of the process' peak.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from mpbroker._native import NO_REQUEST, LogOptions
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.group_coordinator import GroupCoordinator
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.coordinator.offsets_loader import OffsetsLoader
from mpbroker.coordinator.offsets_records import OffsetValue, offset_key, offset_value
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.metrics.event_log import EventLog
from mpbroker.record.batch_builder import encode_batch
from tests.harness.group_world import MemoryTable
from tests.harness.in_process_broker import InProcessBroker

NOW_MS = 1000


def write_log(broker: InProcessBroker, ordinal: int, arguments: argparse.Namespace) -> tuple[int, int]:
    """Commits up to the size asked for; how many, and their bytes."""
    options = LogOptions(from_client=False, segment_bytes=1 << 30)
    batches = [
        encode_batch([(offset_key(f"group-{group}", "a-topic", partition), _value(partition), NOW_MS)])
        for group in range(arguments.groups)
        for partition in range(arguments.partitions)
    ]
    count = written = 0
    while written < arguments.mb << 20:
        batch = batches[count % len(batches)]
        assert broker.log.append(ordinal, NO_REQUEST, 0, batch, options, NOW_MS).error == 0
        count, written = count + 1, written + len(batch)
    return count, written


def _value(partition: int) -> bytes:
    return offset_value(OffsetValue(partition, 0, "", NOW_MS))


def load(broker: InProcessBroker, ordinal: int) -> dict[str, Any]:
    """One load, slice by slice, and the longest of them: a request waits for one."""
    settings = GroupSettings(partitions=1)
    groups = GroupCoordinator(settings, MemoryTable(1 << 20), lambda topic, partition: True, bytes(16))
    now, before = Now(0, NOW_MS), resource.getrusage(resource.RUSAGE_SELF)
    groups.open(0, 0, now)
    logs = broker.handler.context.log_manager
    loader = OffsetsLoader(logs, EventLog("bench"), groups.load, lambda partition: groups.loaded(partition, now))
    began_s, longest_s = time.monotonic(), 0.0
    loader.begin(0, ordinal)
    while not loader.is_idle:
        step_s = time.monotonic()
        loader.step()
        longest_s = max(longest_s, time.monotonic() - step_s)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "offsets": groups.counts.offsets,
        "seconds": round(time.monotonic() - began_s, 3),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3),
        "longest_step_ms": round(longest_s * 1e3, 1),
        "peak_grew_mb": round((after.ru_maxrss - before.ru_maxrss) / 1000, 1),
    }


def main() -> None:
    """Write, load, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = InProcessBroker(Path(directory))
        [ordinal] = broker.create_topic(OFFSETS_TOPIC, internal=True)
        records, written = write_log(broker, ordinal, arguments)
        print(json.dumps({"records": records, "mb": round(written / 1e6, 1)} | load(broker, ordinal)))


if __name__ == "__main__":
    main()
