"""Three brokers: what a replicated Produce costs, how long a killed leader is missed, memory when idle, how soon all
know 1,000 partitions after another controller was elected. Ours, and beside them a cluster that runs already.

    python -m perf.cluster_numbers [--beside NAME BOOTSTRAP PID,PID,PID] [--seconds 6] [--warm 8] [--json FILE]
    python -m perf.cluster_numbers --metadata [--json FILE]

The other cluster's leaders are killed, too: it is not usable afterwards. Figures are of one machine that also carries
the load; a ratio of two columns of one run means something, a column alone says little.
"""

from __future__ import annotations

import argparse
import calendar
import json
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mpbroker.analysis.lab.incident.incident_tables import RECORDS, at
from mpbroker.trace import record, segment
from perf.load.processes import kill_tree, machine, pss_kib, usage
from perf.load.produce_load import ProduceLoad
from tests.harness.running_cluster import RunningCluster

COST_TOPIC, FAIL_TOPIC, MANY_TOPIC = "cost", "failover", "many"
CONNECTIONS, IN_FLIGHT = 32, 1
IDLE_S, PATIENCE_S = 3.0, 120.0
STEADY_S, AFTER_S = 2.0, 1.0  # of acknowledgements before a kill, and after it
PARTITIONS, MANY = 6, 1000
UPDATE_METADATA = 6


class Cluster(NamedTuple):
    """Three brokers that run: `pids` by broker id, of the roots of their process trees."""

    name: str
    bootstrap: str
    pids: dict[int, int]
    kill: Callable[[int], object]


def leaders(cluster: Cluster, topic: str) -> dict[int, int]:
    """Partition → leader, once the broker that is asked knows of them: it may be another one than before."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = admin.list_topics(topic, timeout=20).topics[topic].partitions
        known = {number: one.leader for number, one in found.items()}
        if known and min(known.values()) >= 0:
            return known
        assert time.monotonic() < deadline, f"{topic}: no leaders {known}"
        time.sleep(0.1)


def addresses(cluster: Cluster) -> dict[int, tuple[str, int]]:
    """Broker → where clients reach it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    return {number: (one.host, one.port) for number, one in admin.list_topics(timeout=20).brokers.items()}


def create(cluster: Cluster, topic: str, partitions: int) -> None:
    """With three replicas, two of which must be in sync; returns when all are."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    new = NewTopic(topic, partitions, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([new], request_timeout=60)[topic].result(60)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = admin.list_topics(topic, timeout=20).topics[topic].partitions.values()
        if len(found) == partitions and all(len(one.isrs) == 3 for one in found):
            return
        in_sync = sum(len(one.isrs) == 3 for one in found)
        assert time.monotonic() < deadline, f"{topic}: {in_sync} of {len(found)} partitions have all replicas in sync"
        time.sleep(0.1)


def replicated_produce(cluster: Cluster, seconds: float, warm_s: float) -> dict[str, float]:
    """Requests of one record, acks=all, to the leader of one partition; the three trees' processor time."""
    create(cluster, COST_TOPIC, 1)
    host, port = addresses(cluster)[leaders(cluster, COST_TOPIC)[0]]
    load = ProduceLoad(host, port, COST_TOPIC, connections=CONNECTIONS, in_flight=IN_FLIGHT, partitions=1, acks=-1)
    try:
        load.run(warm_s)
        before = {pid: usage(pid) for pid in cluster.pids.values()}
        result = load.run(seconds)
        used_us = sum(usage(pid).since(before[pid]).total_us for pid in cluster.pids.values())
    finally:
        load.close()
    return {
        "produce_cpu_us": round(used_us / result.requests, 1),
        "produce_per_s": round(result.requests_per_s),
        "produce_p50_ms": round(result.p50_ms, 2),
        "produce_p99_ms": round(result.p99_ms, 2),
        "produce_errors": result.errors,
    }


class Writer:
    """Writes to every partition every few milliseconds, and notes when each was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "linger.ms": 0,
                "log_level": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "message.timeout.ms": 120000,
                "queue.buffering.max.messages": 1000000,
            }
        )
        self.acknowledged_s: defaultdict[int, list[float]] = defaultdict(list)
        self.failed = 0
        self._going = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._going:
            for partition in range(PARTITIONS):
                self._producer.produce(FAIL_TOPIC, b"x" * 100, partition=partition, on_delivery=self._delivered)
            self._producer.poll(0.0)
            time.sleep(0.005)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed += 1
        else:
            self.acknowledged_s[message.partition()].append(time.monotonic())  # type: ignore[attr-defined]

    def finish(self) -> None:
        """Every record's fate is known."""
        self._going = False
        self._thread.join()
        self._producer.flush(PATIENCE_S)


def fail_over(cluster: Cluster) -> dict[str, float]:
    """The leader of partition 0 is killed with its whole tree: the longest time without an acknowledgement from then
    on, of each partition that it led and of all others."""
    create(cluster, FAIL_TOPIC, PARTITIONS)
    led = leaders(cluster, FAIL_TOPIC)
    victim = led[0]
    writer = Writer(cluster)
    _wait_for(lambda: all(writer.acknowledged_s[number] for number in led), "no first acknowledgement")
    time.sleep(STEADY_S)
    killed_s = time.monotonic()
    cluster.kill(victim)
    gone_s = time.monotonic()
    _wait_for(
        lambda: all(writer.acknowledged_s[number][-1] > gone_s + AFTER_S for number in led),
        "no acknowledgement after the fail-over",
    )
    writer.finish()
    gaps = {number: _longest_gap_s(writer.acknowledged_s[number], killed_s) for number in led}
    mine = [gaps[number] for number, leader in led.items() if leader == victim]
    return {
        "failover_most_s": round(max(mine), 3),
        "failover_least_s": round(min(mine), 3),
        "failover_partitions": len(mine),
        "failover_others_most_s": round(max((gaps[number] for number in led if led[number] != victim), default=0.0), 3),
        "failover_kill_took_s": round(gone_s - killed_s, 3),
        "failover_failed_records": writer.failed,
    }


def _wait_for(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def _longest_gap_s(acknowledged_s: Sequence[float], since_s: float) -> float:
    """Between one acknowledgement and the next, of those pairs whose second came after `since_s`."""
    return max(after - before for before, after in pairwise(acknowledged_s) if after > since_s)


def idle_pss_mib(cluster: Cluster) -> float:
    """All three trees, shared pages counted once over all who share them."""
    time.sleep(IDLE_S)
    return round(sum(pss_kib(pid) for pid in cluster.pids.values()) / 1024, 1)


def metadata_after_a_change(running: RunningCluster, cluster: Cluster) -> dict[str, float]:
    """The elected controller's broker is killed; from the next one's first word to the moment when the last broker has
    carried out an UpdateMetadata of its epoch with all partitions, by state-change.log and traces."""
    create(cluster, MANY_TOPIC, MANY)
    old = running.status()["controller"]
    running.kill(old)
    deadline = time.monotonic() + PATIENCE_S
    while (status := running.status())["controller"] in (old, -1):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(2.0)
    epoch, new = status["controller_epoch"], status["controller"]
    done_ms = []
    for broker in (1, 2, 3):
        if broker == old:
            continue
        for path in sorted((running.directory / f"broker-{broker}" / "traces").glob("*.mpt")):
            info = segment.read_info(path)
            for chunk in segment.read_chunks(info):
                rows = np.frombuffer(chunk, RECORDS)
                mine = rows[
                    (rows["kind"] == record.REQUEST) & (rows["api_key"] == UPDATE_METADATA) & (rows["aux"] == epoch)
                ]
                large = mine[mine["nparts"] >= MANY]
                if len(large):
                    done_ms.append((int(at(large, "resp_enq")[0]) + info.epoch_offset_ns) / 1e6)
    lines = (running.directory / f"broker-{new}" / "state-change.log").read_text().splitlines()
    line = next(line for line in lines if " controller_started " in line and f"controller_epoch={epoch} " in line + " ")
    stamp = line.split()[0]
    started_ms = calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) * 1000 + int(stamp[20:23])
    return {
        "metadata_partitions": MANY,
        "metadata_brokers": len(done_ms),
        "metadata_known_after_ms": round(max(done_ms) - started_ms, 1) if done_ms else -1,
    }


def ours(seconds: float, warm_s: float) -> dict[str, object]:
    """A fresh cluster of this checkout, as `mpbroker cluster start` makes it."""
    with _started() as running:
        cluster = _of(running)
        found: dict[str, object] = {"idle_pss_mib": idle_pss_mib(cluster)}
        found |= replicated_produce(cluster, seconds, warm_s)
        found |= fail_over(cluster)
    return found


@contextmanager
def _started() -> Iterator[RunningCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="mpbroker-cluster-") as directory,
        RunningCluster(Path(directory) / "c") as running,
    ):
        yield running


def _of(running: RunningCluster) -> Cluster:
    pids = {one["node_id"]: one["pid"] for one in running.status()["brokers"]}
    return Cluster("mpbroker", running.bootstrap, pids, lambda broker: kill_tree(pids[broker]))


def beside(name: str, bootstrap: str, pids: Sequence[int], seconds: float, warm_s: float) -> dict[str, object]:
    """A cluster that runs already; broker ids are taken to be in the order of the processes."""
    cluster = Cluster(name, bootstrap, {}, lambda broker: None)
    ids = sorted(addresses(cluster))
    known = dict(zip(ids, pids, strict=True))
    cluster = Cluster(name, bootstrap, known, lambda broker: kill_tree(known[broker]))
    found: dict[str, object] = {"idle_pss_mib": idle_pss_mib(cluster)}
    return found | replicated_produce(cluster, seconds, warm_s) | fail_over(cluster)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", nargs=3, metavar=("NAME", "BOOTSTRAP", "PIDS"))
    parser.add_argument("--seconds", type=float, default=6.0, help="of measured load (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=8.0, help="seconds of load before (default: %(default)s)")
    parser.add_argument(
        "--metadata", action="store_true", help="nothing but 1,000 partitions after a change of controller"
    )
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    found: dict[str, object] = {"machine": machine()}
    if arguments.metadata:
        with _started() as running:
            found["mpbroker"] = metadata_after_a_change(running, _of(running))
    else:
        found["mpbroker"] = ours(arguments.seconds, arguments.warm)
    if arguments.beside:
        name, bootstrap, pids = arguments.beside
        found[name] = beside(name, bootstrap, [int(pid) for pid in pids.split(",")], arguments.seconds, arguments.warm)
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.json:
        Path(arguments.json).write_text(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
