"""10,000 partitions: how long their creation takes, and the start after a clean stop and after a kill, the latter with
logs to check: `python -m perf.many_partitions [--mb 1000]`. Times from the request, or from exec, to the answer.

Not to be run twice within minutes on ext4 without a journal: the kernel then looks at every inode that was deleted in
the last minutes for each file that is made, and 10,000 partitions take 20 to 50 s of its time instead of 2.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from perf.load.processes import machine, pss_kib, usage
from perf.load.produce_load import ProduceLoad
from tests.harness.broker import Broker

TOPICS, PARTITIONS_EACH = 10, 1000
RECORDS, RECORD_BYTES = 120, 8192
SETTINGS = {"mpbroker.max.partitions": TOPICS * PARTITIONS_EACH + 100}


def measure(directory: Path, dirty_mb: int) -> dict[str, Any]:
    """One broker's life: create, stop, start, fill, kill, start."""
    with Broker(directory, overrides=SETTINGS) as broker:
        began = time.monotonic()
        with connect(broker.bootstrap, "many") as client:
            client.timeout_ms = 60_000
            for number in range(TOPICS):
                create_topic(client, f"many-{number}", PARTITIONS_EACH, {})
        created_s = time.monotonic() - began
        used = usage(broker.pid)
        memory = pss_kib(broker.pid) / 1024
        began = time.monotonic()
        broker.stop(timeout_s=60)
        stopped_s = time.monotonic() - began
    clean_s = _start(directory)
    unclean_s = _start_after_kill(directory, dirty_mb)
    return {
        "partitions": TOPICS * PARTITIONS_EACH,
        "created_s": round(created_s, 2),
        "created_cpu_s": round(used.total_us / 1e6, 2),
        "pss_mib": round(memory, 1),
        "clean_stop_s": round(stopped_s, 2),
        "clean_start_s": round(clean_s, 2),
        "unclean_start_s": round(unclean_s, 2),
        "unclean_mb": dirty_mb,
    }


def _start(directory: Path) -> float:
    broker = Broker(directory, overrides=SETTINGS)
    began = time.monotonic()
    broker.start()
    taken_s = time.monotonic() - began
    broker.stop(timeout_s=60)
    return taken_s


def _start_after_kill(directory: Path, dirty_mb: int) -> float:
    with Broker(directory, overrides=SETTINGS) as broker:
        fill(broker, dirty_mb)
        os.killpg(broker.pid, signal.SIGKILL)
        broker.destroy()
        broker.process = None
    return _start(directory)


def fill(broker: Broker, megabytes: int) -> None:
    """Batches of a megabyte over the partitions of one topic."""
    load = ProduceLoad(
        "127.0.0.1", broker.port(), "many-0", connections=4, in_flight=2, partitions=PARTITIONS_EACH,
        values=[bytes([number]) * RECORD_BYTES for number in range(RECORDS)],
    )  # fmt: skip
    written = 0
    while written < megabytes * 1_000_000:
        written += load.run(0.5).requests * RECORDS * RECORD_BYTES
    load.close()


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=1000, help="to check after the kill")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpbroker-bench-") as directory:
        print(json.dumps({"machine": machine()} | measure(Path(directory), arguments.mb)))


if __name__ == "__main__":
    main()
