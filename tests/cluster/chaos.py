"""Three brokers under load while everything fails: `python -m tests.cluster.chaos --seconds 120 --seed 1`
(`make cluster-chaos SECONDS=120`).

Writers with acks=all of three kinds, readers of committed data, and faults drawn from a seed (faults.py). At the end
all is mended, every partition is read from its start, and the history is checked: nothing acknowledged lost, nothing
twice (but for what renumbered.py tells from it), no order broken, no end of a log that went back; every replica the
same, byte for byte. Exit code 1 and the anomalies if there are any; the directory is kept then.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.soak import running
from tests.cluster import cut_network, wall_clocks
from tests.cluster.cut_network import CutNetwork
from tests.cluster.failing_etcd import FailingEtcd
from tests.cluster.faults import WEIGHTS, Faults
from tests.cluster.nodes import Nodes
from tests.cluster.readers import Consuming, Ends, Follower, drain, wait_in_sync
from tests.cluster.renumbered import renumbered, stamps_of, wrong_refusals
from tests.cluster.writers import MAY_REPEAT, NO_OFFSET, Idempotent, KafkaPython, NeverRetries, Plain
from tests.harness.checker import Anomaly, check, longest_gap_ms, summary
from tests.harness.history import OK, History, final_log, load

TOPIC, PARTITIONS, BROKERS = "chaos", 3, (1, 2, 3)
SESSION_S = 2.0
OVERRIDES = (
    f"broker.session.timeout.ms={int(SESSION_S * 1000)}",
    "broker.heartbeat.interval.ms=300",
    "replica.lag.time.max.ms=2000",
    "replica.socket.timeout.ms=1500",
    "log.segment.bytes=1048576",
    "log.index.interval.bytes=1024",
    "min.insync.replicas=2",
)
REST_S = 60


class ChaosRun:
    """One run. `history` and `report` are there to look at afterwards."""

    def __init__(self, directory, seconds, seed, kinds=(), is_on_etcd=False, say=lambda line: None):
        self.directory, self.seconds, self.seed = directory, seconds, seed
        self.kinds, self.is_on_etcd, self.say = kinds, is_on_etcd, say
        self.history, self.report, self.trail = History(), {"seed": seed}, []

    def run(self):
        """Anomalies."""
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(FailingEtcd(self.directory / "etcd")) if self.is_on_etcd else None
            network = stack.enter_context(CutNetwork(BROKERS)) if _is_alone() else None
            if network is None:
                self.report["left_out"] = [cut_network.ALONE]
            clocks = wall_clocks.WallClocks(self.directory, BROKERS) if wall_clocks.is_possible() else None
            nodes = Nodes(self.directory / "c", network, None if store is None else store.place, OVERRIDES)
            for node in nodes:
                node.environment = {} if clocks is None else clocks.environment(node.number)
            stack.enter_context(nodes)
            make_topic(nodes.bootstrap)
            faults = Faults(nodes, network, self.seed, SESSION_S, store, clocks, self.kinds)
            found = self._under_load(nodes, network, faults)
            self.report["stopped"] = nodes.stop()
            found += replicas_that_differ(nodes)
            found += complaints(nodes)
        return [*self.anomalies(), *found]

    def anomalies(self):
        """What clients saw and what the stopped brokers' files say of it."""
        again = written_again(self.history, self.directory)
        self.report["renumbered"] = len(again)
        return [*anomalies_of(self.history, again), *refused(self.directory)]

    def _under_load(self, nodes, network, faults):
        clients = self._clients(nodes.bootstrap)
        with running(clients):
            time.sleep(1)
            faults.run(self.seconds, self.say)
            if network is not None:
                network.mend_all()
            self.report["faults"], self.trail = dict(faults.done), faults.trail
            wait_in_sync(nodes.bootstrap, TOPIC, PARTITIONS, 3, REST_S)
            time.sleep(1)
        drain(nodes.bootstrap, TOPIC, PARTITIONS, self.history)
        self.report["writes"] = dict(Counter(f"{w.client.split('-')[0]} {w.result}" for w in self.history.writes))
        self.report["reads"] = len(self.history.reads)
        self.report["gap_ms"] = round(max(longest_gap_ms(self.history.writes).values(), default=0))
        self.report["gaps"] = gaps_and_faults(self.history.writes, self.trail)
        self.report["fatal"] = [line for one in clients for line in getattr(one, "fatal", ())][:5]
        return [anomaly for one in clients for anomaly in getattr(one, "found", ())]

    def _clients(self, bootstrap):
        around = (self.history, self.seed, bootstrap, TOPIC)
        found = [Idempotent(f"idempotent-{n}", *around, PARTITIONS) for n in range(2)]
        found += [NeverRetries(f"raw-{n}", *around, n) for n in range(PARTITIONS)]
        found += [Plain(f"{MAY_REPEAT}-0", *around, 0), KafkaPython("python-0", *around, 1)]
        found += [Follower("reader", *around, PARTITIONS), Ends("ends", *around, PARTITIONS)]
        return [*found, Consuming("consumer", *around, PARTITIONS)]


def gaps_and_faults(writes, trail, number=3):
    """The longest times between two acknowledgements of a partition, with the faults from a while before to their end:
    (partition, milliseconds, [(milliseconds after the gap's begin, broker, fault)])."""
    found = []
    for partition in {write.partition for write in writes}:
        times = sorted(write.end_ns for write in writes if write.partition == partition and write.result == OK)
        found += [(after - before, before, partition) for before, after in pairwise(times)]
    return [
        (partition, gap_ns // 1_000_000, _faults_in(trail, begin_ns, begin_ns + gap_ns))
        for gap_ns, begin_ns, partition in sorted(found, reverse=True)[:number]
    ]


def _faults_in(trail, begin_ns, end_ns):
    while_ns = int(2 * SESSION_S * 1e9)
    return [
        ((at_ns - begin_ns) // 1_000_000, broker, what)
        for at_ns, broker, what in trail
        if begin_ns - while_ns <= at_ns <= end_ns
    ]


def make_topic(bootstrap, timeout_s=60):
    """Create it once three brokers are there, and wait until all replicas are in sync."""
    admin, deadline = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}), time.monotonic() + timeout_s
    while len(admin.list_topics(timeout=timeout_s).brokers) < 3:
        assert time.monotonic() < deadline, "three brokers do not come together"
        time.sleep(0.05)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(timeout_s)
    wait_in_sync(bootstrap, TOPIC, PARTITIONS, 3, timeout_s)


def written_again(history, directory):
    """What librdkafka wrote twice under two epochs (renumbered.py), by the logs of the first broker."""
    logs = {partition: directory / "c" / "broker-1" / f"{TOPIC}-{partition}" for partition in range(PARTITIONS)}
    return renumbered(history, {partition: stamps_of(log) for partition, log in logs.items()})


def refused(directory):
    """What brokers refused that they should not have, by their traces."""
    return [one for n in BROKERS for one in wrong_refusals(n, directory / "c" / f"broker-{n}" / "traces")]


def anomalies_of(history, again=frozenset()):
    """What must not be in a history; librdkafka's repetitions may, and `again`: (partition, value)."""
    found = list(find_places(history))
    repeated = (f"('{MAY_REPEAT}-", *(f"{value} at " for _, value in again))
    return found + [one for one in check(history) if one.name != "duplicated" or not one.detail.startswith(repeated)]


def find_places(history):
    """Gives writes that were acknowledged without an offset the one where they are; lost: they are nowhere."""
    logs = final_log(history.reads)
    places = {value: offset for records in logs.values() for offset, value in records}
    for number, write in enumerate(history.writes):
        if write.result == OK and write.offset == NO_OFFSET:
            offset = places.get(write.value, NO_OFFSET)
            history.writes[number] = write._replace(offset=offset)
            if offset == NO_OFFSET:
                yield Anomaly("lost", write.partition, f"{write.value} was acknowledged without an offset")


def replicas_that_differ(nodes):
    """Every replica's segments, one after the other, byte for byte."""
    for partition in range(PARTITIONS):
        logs = {}
        for node in nodes:
            files = sorted(Path(node.data_dir, f"{TOPIC}-{partition}").glob("*.log"))
            logs[node.number] = b"".join(file.read_bytes() for file in files)
        first = logs[1]
        for number, log in logs.items():
            if log != first:
                at = next((n for n, (a, b) in enumerate(zip(first, log, strict=False)) if a != b), -1)
                sizes = f"{len(first)} and {len(log)} bytes, first at {at}"
                yield Anomaly("replicas-differ", partition, f"broker 1 and {number}: {sizes}")


def complaints(nodes):
    """What brokers themselves call an error, once of each kind."""
    seen = {}
    for node in nodes:
        text = Path(f"{node.data_dir}.log").read_text(errors="replace")
        for line in text.splitlines():
            if re.search(r"level=(ERROR|FATAL)|Traceback", line):
                kind = re.sub(r"\d+", "#", line.split("event=")[-1].split(" ")[0])
                seen.setdefault(kind, (node.number, line))
    return [Anomaly("complaint", -1, f"broker {number}: {line[:400]}") for number, line in seen.values()]


def _is_alone():
    """Whether this process is in a network namespace that was made for it."""
    return bool(os.environ.get("ALONE"))


def main(words=None):
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="", help=f"some of {','.join(WEIGHTS)}")
    parser.add_argument("--etcd", action="store_true", help="three members of etcd as the store; no cuts")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--again", metavar="HISTORY", help="only check a history that was kept")
    chosen = parser.parse_args(words)
    if chosen.again:
        with open(chosen.again) as file:
            kept = ChaosRun(Path(chosen.again).parent, 0, 0)
            kept.history = load(file)
        anomalies = kept.anomalies()
        print(summary(anomalies))
        return 1 if anomalies else 0
    if not _is_alone() and not chosen.etcd and cut_network.is_possible():
        os.environ["ALONE"] = "1"
        os.execvp(
            "unshare", ["unshare", "--net", sys.executable, "-m", "tests.cluster.chaos", *(words or sys.argv[1:])]
        )
    directory = Path(tempfile.mkdtemp(prefix="cluster-chaos-"))
    kinds = tuple(filter(None, chosen.kinds.split(",")))
    say = (lambda line: print(line, file=sys.stderr, flush=True)) if chosen.verbose else (lambda line: None)
    run = ChaosRun(directory, chosen.seconds, chosen.seed, kinds, chosen.etcd, say=say)
    anomalies = []
    try:
        anomalies = run.run()
    except BaseException:
        anomalies = [Anomaly("broken-off", -1, "")]
        raise
    finally:
        print(json.dumps(run.report))
        if anomalies:
            with (directory / "history.jsonl").open("w") as file:
                run.history.dump(file)
            (directory / "faults.json").write_text(json.dumps(run.trail))
            print(f"kept: {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory)
    print(summary(anomalies))
    return 1 if anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
