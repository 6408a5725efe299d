"""Leaders killed one after another under acks=all: how long clients got no acknowledgement, and where that time went,
by the brokers' traces and the controllers' state-change.log. Leaders that are also the controller, and that are not, in
turn.

    python -m perf.cluster_failover [--kills 20] [--patient] [--topics 6] [--keep DIRECTORY] [--json FILE]

Each topic has one partition, since a trace record names a topic only. Of each kill the topic of the dead leader with
the longest gap is shown, in milliseconds after the kill: `lost` the controller has seen that the broker is gone, or
`started` another one is the controller, `elected`, `led` the new leader leads, `followed` another replica follows it,
`known` all that live can tell clients so, `sent` the first Produce came to the new leader, `acked` it was answered; and
`gap`, at the client, between two acknowledgements, and from when: long before 0, something else stood still.
`others_gap`: of topics that had another leader; `late`: for how much of the gap a process that only sleeps stood still.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import NewTopic
from confluent_kafka.error import KafkaException

from perf.load.failover_stages import stages_of
from perf.load.processes import kill_tree, machine
from perf.load.topic_writer import QUICK, TopicWriter
from perf.load.witness import Witness
from tests.harness.running_cluster import RunningCluster

BROKERS = (1, 2, 3)
SETTLE_S, AFTER_S, PATIENCE_S = 1.5, 1.0, 60.0
TRACED_S = 1.0
"""Until the tracer has written what was just answered."""


class Kills:
    """Kills, and what each came to."""

    def __init__(self, cluster: RunningCluster, topics: list[str], writer: TopicWriter) -> None:
        self._cluster, self._topics, self._writer = cluster, topics, writer
        self.rounds: list[dict[str, Any]] = []

    def one(self, of_controller: bool) -> None:
        """One round; the broker runs again when it returns."""
        self._wait_acknowledged(time.monotonic())
        status = self._cluster.status()
        controller = status["controller"]
        led = self._leaders()
        victim = next(broker for broker in led.values() if broker != -1 and (broker == controller) is of_controller)
        mine = [topic for topic, leader in led.items() if leader == victim]
        pid = next(one["pid"] for one in status["brokers"] if one["node_id"] == victim)
        time.sleep(SETTLE_S)
        with Witness() as witness:
            killed_s = time.monotonic()
            kill_tree(pid)
            self._wait_acknowledged(killed_s + AFTER_S)
            time.sleep(AFTER_S)
        time.sleep(TRACED_S)
        gaps = {topic: self._gap(topic, killed_s) for topic in self._topics}
        worst = max(mine, key=lambda topic: gaps[topic][0])
        gap_s, began_s = gaps[worst]
        found = stages_of(self._cluster.directory, [one for one in BROKERS if one != victim], worst, killed_s)
        row = {
            "controller": of_controller,
            "topic": worst,
            **found.after(killed_s),
            "gap_from": round((began_s - killed_s) * 1000),
            "gap_ms": round(gap_s * 1000),
            "least_gap_ms": round(min(gaps[topic][0] for topic in mine) * 1000),
            "others_gap_ms": round(max(gaps[topic][0] for topic in self._topics if topic not in mine) * 1000),
            "late_ms": round(witness.lateness_s(began_s, began_s + gap_s) * 1000),
            "load": round(os.getloadavg()[0], 1),
            "at": time.strftime("%H:%M:%S", time.gmtime(time.time() - time.monotonic() + killed_s)),
        }
        self.rounds.append(row)
        print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
        self._restore(victim)

    def _gap(self, topic: str, killed_s: float) -> tuple[float, float]:
        """The longest time without an acknowledgement since the kill, and when it began."""
        times = self._writer.acknowledged_s[topic]
        return max((after - before, before) for before, after in pairwise(times[-20_000:]) if after > killed_s)

    def _wait_acknowledged(self, since_s: float) -> None:
        """Each topic, after this moment."""
        deadline = time.monotonic() + PATIENCE_S
        while any(self._writer.last_s(topic) < since_s for topic in self._topics):
            assert time.monotonic() < deadline, self._cluster.logs()
            time.sleep(0.05)

    def _restore(self, victim: int) -> None:
        """All three in sync again, and each leads what it is to lead."""
        self._cluster.start(victim)
        for topic in self._topics:
            self._cluster.wait_for_isr(topic, len(BROKERS))
        wanted = [TopicPartition(topic, 0) for topic in self._topics]
        deadline = time.monotonic() + PATIENCE_S
        while len(set(self._leaders().values())) < len(BROKERS):
            assert time.monotonic() < deadline, self._cluster.logs()
            try:
                elect_preferred(self._cluster, wanted)
            except KafkaException:
                time.sleep(0.2)
        time.sleep(SETTLE_S)

    def _leaders(self) -> dict[str, int]:
        return {topic: self._cluster.partitions(topic).get(0, (-1, []))[0] for topic in self._topics}


def elect_preferred(cluster: RunningCluster, partitions: list[TopicPartition]) -> None:
    """KafkaException."""
    cluster.admin.elect_leaders(ElectionType.PREFERRED, partitions).result(20)


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """p50 and maximum of gaps, of each kind of kill."""
    found: dict[str, Any] = {}
    for name, wanted in (("also_controller", True), ("leader_only", False)):
        mine = sorted(one["gap_ms"] for one in rounds if one["controller"] is wanted)
        if mine:
            found[name] = {"kills": len(mine), "gap_p50_ms": mine[len(mine) // 2], "gap_max_ms": mine[-1]}
    return found


def main() -> int:
    """Kill, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="half of them of the controller (default: %(default)s)")
    parser.add_argument("--patient", action="store_true", help="a client with its own back-offs, not short ones")
    parser.add_argument("--topics", type=int, default=6)
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where logs and traces stay")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    with _place(arguments.keep) as directory, RunningCluster(directory / "c") as cluster:
        topics = [f"failover-{number}" for number in range(arguments.topics)]
        _create(cluster, topics)
        with TopicWriter(cluster.bootstrap, topics, {} if arguments.patient else QUICK) as writer:
            kills = Kills(cluster, topics, writer)
            for number in range(arguments.kills):
                kills.one(of_controller=number % 2 == 0)
        found = {"machine": machine(), **summary(kills.rounds), "failed_records": writer.failed, "kills": kills.rounds}
    print(json.dumps({key: value for key, value in found.items() if key != "kills"}))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _create(cluster: RunningCluster, topics: list[str]) -> None:
    """Each broker is the preferred leader of as many."""
    size = len(BROKERS)
    turned = [[BROKERS[(number + place) % size] for place in range(size)] for number in range(len(topics))]
    new = [NewTopic(topic, 1, replica_assignment=[one]) for topic, one in zip(topics, turned, strict=True)]
    for future in cluster.admin.create_topics(new, request_timeout=30).values():
        future.result(30)
    for topic in topics:
        cluster.wait_for_isr(topic, len(BROKERS))


@contextmanager
def _place(kept: Path | None) -> Iterator[Path]:
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="mpbroker-failover-") as directory:
            yield Path(directory)
    else:
        kept.mkdir(parents=True)
        yield kept


if __name__ == "__main__":
    raise SystemExit(main())
