"""`mpbroker cluster roll` under load: restart three brokers one by one, print the longest time that a partition went
without an acknowledgement, for each client library, how many records failed, and the longest time that a group's reader
got nothing. Of gaps above a second it says when and where they were, and for how long of that a process that only
sleeps did not get to run either; the brokers' logs and traces are kept with `--keep`.

    .venv/bin/python -m perf.cluster_roll [--partitions 6] [--rounds 1] [--keep DIRECTORY]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic

from perf.load.witness import Witness
from tests.harness.acknowledged_load import Load
from tests.harness.running_cluster import RunningCluster

TOPIC = "rolled"


class Reader(threading.Thread):
    """The only member of a group; when it got records of each partition."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**settings, "log_level": 0})
        self.times_s: dict[int, list[float]] = defaultdict(list)
        self._assigned, self.over = threading.Event(), threading.Event()

    def wait_reading(self) -> None:
        """The group is formed; its coordinator gives others time to come first."""
        assert self._assigned.wait(60)

    def run(self) -> None:
        self._consumer.subscribe([TOPIC], on_assign=lambda consumer, partitions: self._assigned.set())
        while not self.over.is_set():
            for one in self._consumer.consume(1000, 0.05):
                if one.error() is None:
                    self.times_s[one.partition()].append(time.monotonic())
        self._consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    with _place(arguments.keep) as directory, RunningCluster(directory / "c") as cluster:
        cluster.admin.create_topics([NewTopic(TOPIC, arguments.partitions, 3)])[TOPIC].result(20)
        cluster.wait_for_isr(TOPIC, 3)
        for _ in range(arguments.rounds):
            reader = Reader(cluster.bootstrap)
            reader.start()
            reader.wait_reading()
            with Witness() as witness, Load(cluster.bootstrap, TOPIC, arguments.partitions) as load:
                time.sleep(1)
                began = time.monotonic()
                print(cluster.run_told("roll"), end="")
                took_s = time.monotonic() - began
                time.sleep(1)
            reader.over.set()
            reader.join()
            count = sum(map(len, load.acknowledged.values()))
            print(f"roll {took_s:.1f} s, {count} acknowledged, {len(load.failed)} failed", load.failed[:3])
            for kind in sorted({kind for kind, _ in load.times_s}):
                _tell(
                    kind,
                    {partition: times for (name, partition), times in load.times_s.items() if name == kind},
                    witness,
                )
            _tell("group's reader", reader.times_s, witness)


@contextmanager
def _place(kept: Path | None) -> Iterator[Path]:
    if kept is None:
        with tempfile.TemporaryDirectory() as directory:
            yield Path(directory)
    else:
        kept.mkdir(parents=True)
        yield kept


def _tell(kind: str, times_s: dict[int, list[float]], witness: Witness) -> None:
    """The longest gap, and of the others above a second at most as many as there are partitions."""
    gaps = sorted(
        (
            (after - before, before, partition)
            for partition, times in times_s.items()
            for before, after in pairwise(times)
        ),
        reverse=True,
    )
    print(f"  longest gap {kind}: {gaps[0][0] * 1000:.0f} ms")
    wall_s = time.time() - time.monotonic()
    for gap_s, before, partition in gaps[: len(times_s)]:
        if gap_s > 1:
            began = time.strftime("%H:%M:%S", time.gmtime(wall_s + before)) + f"{(wall_s + before) % 1:.3f}"[1:]
            late_s = witness.lateness_s(before, before + gap_s)
            print(f"    partition {partition}: {gap_s * 1000:.0f} ms from {began} UTC; late {late_s * 1000:.0f} ms")


if __name__ == "__main__":
    main()
