"""`mpbroker cluster roll` under load: restart three brokers one by one, print the longest time that a partition went
without an acknowledgement, for each client library, and how many records failed.

    .venv/bin/python -m perf.cluster_roll [--partitions 6] [--rounds 1]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import NewTopic

from tests.harness.acknowledged_load import Load
from tests.harness.running_cluster import RunningCluster


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, RunningCluster(Path(directory, "c")) as cluster:
        cluster.admin.create_topics([NewTopic("rolled", arguments.partitions, 3)])["rolled"].result(20)
        cluster.wait_for_isr("rolled", 3)
        for _ in range(arguments.rounds):
            with Load(cluster.bootstrap, "rolled", arguments.partitions) as load:
                time.sleep(1)
                began = time.monotonic()
                print(cluster.run_told("roll"), end="")
                took_s = time.monotonic() - began
                time.sleep(1)
            count = sum(map(len, load.acknowledged.values()))
            print(f"roll {took_s:.1f} s, {count} acknowledged, {len(load.failed)} failed", load.failed[:3])
            for kind, gap_s in sorted(load.gaps_s().items()):
                print(f"  longest gap {kind}: {gap_s * 1000:.0f} ms")


if __name__ == "__main__":
    main()
