"""Random kills under load: `python -m tests.chaos.soak --kills 300 --seed 1` (`make soak KILLS=300`).

Idempotent librdkafka producers and raw sockets that never retry write with acks=all, readers follow, while workers of
every kind are killed. At the end every partition is read from its start and the history is checked: nothing
acknowledged lost, nothing twice, no order broken; and that disk space is given back (df = du), memory did not grow, the
stop is clean. `--with` makes it harder: memory-limit, slow-sync, full-trace-disk, many-partitions, or all. Exit code 1
and the anomalies if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from mpbroker.trace import manifest, statistics
from tests.chaos import invariants, surroundings
from tests.chaos.clients import Client, Idempotent, NeverRetries, Reader, drain
from tests.chaos.killer import Killer
from tests.chaos.surroundings import Surroundings
from tests.harness.checker import Anomaly, check, longest_gap_ms, summary
from tests.harness.footprint import pss_bytes
from tests.harness.history import History
from tests.harness.raw_records import RawFetcher, create_by_metadata

TOPIC, PARTITIONS = "soak", 4
OVERRIDES = {
    "num.network.threads": 2,
    "num.io.threads": 3,
    "num.partitions": PARTITIONS,
    "log.segment.bytes": 262_144,
    "log.index.interval.bytes": 1024,
}
WARM_UP_S = 1.0


class Soak:
    """One run. `history` and `report` are there to look at afterwards."""

    def __init__(
        self,
        directory: Path,
        kills: int,
        seed: int,
        pause_s: float = 0.05,
        raw: int = 3,
        idempotent: int = 2,
        readers: int = 1,
        hardships: tuple[str, ...] = (),
    ) -> None:
        self.history = History()
        self.directory = directory
        self._kills, self._seed, self._pause_s = kills, seed, pause_s
        self._numbers = (raw, idempotent, readers)
        self._hardships = hardships
        self._quiet = surroundings.PARTITIONS if surroundings.MANY_PARTITIONS in hardships else 0
        self.report: dict[str, Any] = {}

    def run(self) -> list[Anomaly]:
        """Start a broker, load it, kill, look, stop, check."""
        settings: dict[str, object] = {**OVERRIDES, **invariants.ALWAYS}
        with surroundings.broker_in(self._hardships, self.directory, settings) as around:
            for sentence in around.left_out:
                print(sentence, file=sys.stderr)
            self.report["left_out"] = around.left_out
            around.broker.start()
            try:
                found = self._under_load(around)
                found += invariants.stop(around.broker, self.report.__setitem__)
            except BaseException:
                around.broker.destroy()
                raise
            if around.trace_disk is None:
                found += self.traces()
        return [*check(self.history), *found]

    def _under_load(self, around: Surroundings) -> list[Anomaly]:
        begun, broker = time.monotonic(), around.broker
        make_topic("127.0.0.1", broker.port())
        invariants.make_topics(broker, self._quiet)
        clients = make_clients(self.history, self._seed, "127.0.0.1", broker.port(), *self._numbers)
        churn = invariants.Churn(broker.port())
        killer = Killer(broker, self._seed, self._pause_s)
        with running([*clients, churn]):
            time.sleep(WARM_UP_S)
            before_bytes = pss_bytes(broker)
            for number in range(self._kills):
                killer.kill_one()
                _progress(number + 1, self._kills)
            killer.settle()
        self.report["pss_mib"] = [before_bytes >> 20, pss_bytes(broker) >> 20]
        found = invariants.memory_grown(broker, before_bytes) + invariants.space_kept(broker)
        found += invariants.killed_for_memory(around) + invariants.quiet_lost(broker, self._quiet)
        drain("127.0.0.1", broker.port(), TOPIC, PARTITIONS, self.history)
        status = broker.status()
        found += _left_over({row["name"]: row["depth"] for row in status["rings"]})
        self.report["churned"] = [churn.written, status["counters"]["segments_deleted"]]
        self._report(killer, time.monotonic() - begun)
        return found

    def traces(self) -> list[Anomaly]:
        """What the traces lack; asked once the broker has stopped."""
        traces = statistics.collect(manifest.segments(self.directory / "data" / "traces"))
        self.report["trace"] = {
            "finished": traces.finished,
            "records": traces.records,
            "dropped": traces.dropped,
            "sampled_out": traces.sampled_out,
        }
        return _unaccounted(traces)

    def _report(self, killer: Killer, seconds: float) -> None:
        results = Counter(write.result for write in self.history.writes)
        gaps = longest_gap_ms(self.history.writes)
        self.report |= {
            "seconds": round(seconds, 1),
            "kills": dict(killer.killed),
            "writes": dict(results),
            "reads": len(self.history.reads),
            "restart_ms": {
                role: {"median": round(median(times), 1), "longest": round(max(times), 1)}
                for role, times in killer.restart_ms.items()
            },
            "longest_gap_ms": round(max(gaps.values(), default=0), 1),
        }


def _left_over(depths: dict[str, int]) -> list[Anomaly]:
    """stuck: a ring that still holds a request when no client waits for any."""
    return [Anomaly("stuck", -1, f"{name} still holds {depth} requests") for name, depth in depths.items() if depth]


def _unaccounted(traces: statistics.TraceStatistics) -> list[Anomaly]:
    """trace-account: every finished request has its record or was counted as dropped."""
    known = traces.records + traces.dropped + traces.sampled_out
    if traces.finished == known:
        return []
    return [Anomaly("trace-account", -1, f"{traces.finished} requests finished, {known} are accounted for")]


def make_topic(host: str, port: int) -> None:
    """Create the topic, and wait until every partition can be read."""
    create_by_metadata(host, port, TOPIC)
    fetcher, deadline = RawFetcher(host, port, TOPIC), time.monotonic() + 10
    while not all((answer := fetcher.fetch(partition, 0, 0)) and answer.error == 0 for partition in range(PARTITIONS)):
        assert time.monotonic() < deadline, f"topic {TOPIC} is not there after 10 s"
        time.sleep(0.02)
    fetcher.close()


def make_clients(
    history: History, seed: int, host: str, port: int, raw: int, idempotent: int, readers: int
) -> list[Client]:
    """The load: raw producers, idempotent producers, readers."""
    where = (host, port, TOPIC, PARTITIONS)
    found: list[Client] = [NeverRetries(f"raw{number}", history, seed, *where, 0.004) for number in range(raw)]
    found += [Idempotent(f"idempotent{number}", history, seed, *where, 0.004) for number in range(idempotent)]
    return found + [Reader(f"reader{number}", history, seed, *where) for number in range(readers)]


@contextlib.contextmanager
def running(clients: Sequence[Client | invariants.Churn]) -> Iterator[None]:
    """Start the clients; stop them in the end, and raise what one of them ran into."""
    for client in clients:
        client.start()
    try:
        yield
    finally:
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join(90)
    for client in clients:
        if (error := getattr(client, "error", None)) is not None:
            raise error
        assert not client.is_alive(), f"{client.name} is stuck"


def _progress(done: int, wanted: int) -> None:
    if done % 10 == 0 or done == wanted:
        print(f"{done} of {wanted} kills", file=sys.stderr, flush=True)


def main() -> int:
    """Run one soak from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause-ms", type=float, default=50, help="mean time between a restart and the next kill")
    parser.add_argument("--with", dest="hardships", action="append", default=[], choices=[*surroundings.ALL, "all"])
    parser.add_argument("--keep", metavar="D", help="keep data, logs and history in this directory")
    arguments = parser.parse_args()
    hardships = surroundings.ALL if "all" in arguments.hardships else tuple(arguments.hardships)
    with contextlib.ExitStack() as stack:
        directory = Path(arguments.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="mpbroker-soak-")))
        soak = Soak(directory, arguments.kills, arguments.seed, arguments.pause_ms / 1000, hardships=hardships)
        anomalies = soak.run()
        if arguments.keep:
            with open(directory / "history.jsonl", "w") as file:
                soak.history.dump(file)
    print(json.dumps(soak.report, indent=1))
    print(summary(anomalies))
    return 1 if anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
