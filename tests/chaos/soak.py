"""Random kills under load: `python -m tests.chaos.soak --kills 300 --seed 1` (`make soak KILLS=300`).

Idempotent librdkafka producers and raw sockets that never retry write with acks=all, readers follow, while workers of
every kind are killed. At the end every partition is read from its start and the history is checked: nothing
acknowledged lost, nothing twice, no order broken. Exit code 1 and the anomalies if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from mpbroker.trace import manifest, statistics
from tests.chaos.clients import Client, Idempotent, NeverRetries, Reader, drain
from tests.chaos.killer import Killer
from tests.harness.broker import Broker
from tests.harness.checker import Anomaly, check, longest_gap_ms, summary
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
    ) -> None:
        self.history = History()
        self.directory = directory
        self._kills, self._seed, self._pause_s = kills, seed, pause_s
        self._numbers = (raw, idempotent, readers)
        self.report: dict[str, Any] = {}

    def run(self) -> list[Anomaly]:
        """Start a broker, load it, kill, stop, check."""
        begun = time.monotonic()
        with Broker(self.directory, overrides=OVERRIDES) as broker:
            make_topic("127.0.0.1", broker.port())
            clients = make_clients(self.history, self._seed, "127.0.0.1", broker.port(), *self._numbers)
            killer = Killer(broker, self._seed, self._pause_s)
            with running(clients):
                time.sleep(WARM_UP_S)
                for number in range(self._kills):
                    killer.kill_one()
                    _progress(number + 1, self._kills)
                killer.settle()
            drain("127.0.0.1", broker.port(), TOPIC, PARTITIONS, self.history)
            depths = {row["name"]: row["depth"] for row in broker.status()["rings"]}
        traces = statistics.collect(manifest.segments(broker.data_dir / "traces"))
        anomalies = [*check(self.history), *_left_over(depths), *_unaccounted(traces)]
        self.report = self._report(killer, anomalies, traces, time.monotonic() - begun)
        return anomalies

    def _report(
        self, killer: Killer, anomalies: list[Anomaly], traces: statistics.TraceStatistics, seconds: float
    ) -> dict[str, Any]:
        results = Counter(write.result for write in self.history.writes)
        gaps = longest_gap_ms(self.history.writes)
        return {
            "seconds": round(seconds, 1),
            "kills": dict(killer.killed),
            "writes": dict(results),
            "reads": len(self.history.reads),
            "anomalies": dict(Counter(one.name for one in anomalies)),
            "restart_ms": {
                role: {"median": round(median(times), 1), "longest": round(max(times), 1)}
                for role, times in killer.restart_ms.items()
            },
            "longest_gap_ms": round(max(gaps.values(), default=0), 1),
            "trace": {
                "finished": traces.finished,
                "records": traces.records,
                "dropped": traces.dropped,
                "sampled_out": traces.sampled_out,
            },
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
def running(clients: list[Client]):
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
        if client.error is not None:
            raise client.error
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
    parser.add_argument("--keep", metavar="D", help="keep data, logs and history in this directory")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = Path(arguments.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="mpbroker-soak-")))
        soak = Soak(directory, arguments.kills, arguments.seed, arguments.pause_ms / 1000)
        anomalies = soak.run()
        if arguments.keep:
            with open(directory / "history.jsonl", "w") as file:
                soak.history.dump(file)
    print(json.dumps(soak.report, indent=1))
    print(summary(anomalies))
    return 1 if anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
