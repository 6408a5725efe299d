"""What compaction costs: MB of log a second of processor time, and the memory it needs beside the log.

    python -m perf.compaction [--mb 1000] [--keys 1000000] [--record-bytes 200] [--codec 0]

Writes a log of its own with the native append, compacts it as the log cleaner does, and prints one JSON object. The
disk is the temporary directory's; what it costs is in wall time, not in processor time. Memory is the process' highest
while it compacts, and what it had just before: the kernel's mark of the highest is set back in between.
"""

import argparse
import json
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from mpbroker._native import NO_REQUEST, LogOptions
from mpbroker.log.compaction import Compaction, Limits
from mpbroker.record.batch_builder import encode_batch
from tests.unit.log.log_world import LogWorld

SEGMENT_BYTES = 100 << 20
RECORDS_A_BATCH = 100


def write_log(world: LogWorld, arguments: argparse.Namespace) -> int:
    """Batches of random keys up to the size asked for; its bytes."""
    partition = world.create(cleanup_policy="compact", segment_bytes=str(SEGMENT_BYTES))
    options, rng, written = LogOptions(segment_bytes=SEGMENT_BYTES), random.Random(1), 0
    value = bytes(rng.randrange(256) for _ in range(arguments.record_bytes - 20))
    batches = [
        encode_batch(
            [(b"key-%08d" % rng.randrange(arguments.keys), value, 1000) for _ in range(RECORDS_A_BATCH)],
            codec=arguments.codec,
        )
        for _ in range(min(20_000, 1 + arguments.mb * 1_000_000 // (arguments.record_bytes * RECORDS_A_BATCH)))
    ]
    while written < arguments.mb * 1_000_000:
        for batch in batches:
            walked = 1000 if arguments.codec else None
            result = world.log.append(partition.ordinal, NO_REQUEST, 0, batch, options, 1000, max_timestamp=walked)
            assert result.error == 0
            written += len(batch)
            if written >= arguments.mb * 1_000_000:
                break
    world.roll(partition)
    return written


def compact(world: LogWorld, written: int) -> dict[str, Any]:
    """One pass over all of it."""
    state = world.log.state(0)
    partition = world.partitions.all[0]
    limits = Limits(0, state.active_base, 2000, 86_400_000, 100 << 20, 0.9, 512 << 10, SEGMENT_BYTES, 4096, 1 << 20)
    directory = str(world.path / partition.dir)
    Path("/proc/self/clear_refs").write_text("5")
    before_mib, before = memory_mib("VmRSS"), resource.getrusage(resource.RUSAGE_SELF)
    began_s = time.monotonic()
    nothing = lambda _: None  # noqa: E731
    done = Compaction(world.log, 0, partition.topic_id, directory, limits, nothing, nothing, nothing).run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "log_mb": round(written / 1e6),
        "keys": done.keys,
        "left_mb": round((written - done.bytes_before + done.bytes_after) / 1e6),
        "cpu_s": round(cpu_s, 2),
        "wall_s": round(time.monotonic() - began_s, 2),
        "mb_per_cpu_s": round(written / 1e6 / cpu_s),
        "rss_before_mib": before_mib,
        "peak_rss_mib": memory_mib("VmHWM"),
    }


def memory_mib(name: str) -> float:
    """A figure of this process' status."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":"))
    return round(int(line.split()[1]) / 1024, 1)


def main() -> None:
    """Write, compact, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--record-bytes", type=int, default=200)
    parser.add_argument("--codec", type=int, default=0, help="0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        world = LogWorld(Path(directory))
        print(json.dumps(compact(world, write_log(world, arguments))))
        world.close()


if __name__ == "__main__":
    main()
