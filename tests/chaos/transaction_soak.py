"""Exactly-once chains under kills: `python -m tests.chaos.transaction_soak --kills 1000 --seconds 250 --record FILE`.

Chains of every client library that is built (confluent-kafka, Java 3.9 and 4, franz-go) copy a topic that grows,
records and offsets in one transaction, while processes of every kind are killed, all workers are reset by a fault, and
the whole broker dies and is started again. In the end each chain's committed offsets and its committed copies say the
same, no copy of an aborted attempt is read and each of a committed one is; meanwhile no last stable offset fell, and no
transaction lasted longer than its timeout and ten seconds.

One call plays rounds until its seconds are over or the record, a line of JSON for each round, has so many kills; the
next call goes on with the next seed. With `--in D` all rounds of all calls happen in the data directory D: the same
topics, groups and transactional ids go on, and each round checks everything that was ever written there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic, list_topics
from tests.chaos.chain_programs import ChainProgram, available, disagreements
from tests.chaos.transaction_watchers import FORSAKEN, FORSAKEN_TIMEOUT_MS, GRACE_S, Ages, StableOffsets, Vanishing
from tests.harness.broker import Broker, wait_until
from tests.harness.transaction_chain import PARTITIONS, copied

SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "num.io.threads": 2,
    "num.network.threads": 2,
}
SOURCE = "source"
#: A fault in a worker, which resets all of them; the death of everything, and a new start.
FAULT, RESTART = "fault", "restart"
WEIGHTS = {"coordinator": 8, "handler": 6, "processor": 5, "log-keeper": 2, "controller": 2, "acceptor": 1, "tracer": 1}
WEIGHTS |= {"admin": 1, FAULT: 1, RESTART: 1}
FAULTS_APART_S = 15.0  # a broker gives up after too many of them
ROUND_KILLS, FINISH_S, RECORDS_A_SECOND = 150, 60.0, 200
LULL_KILLS = 15  # after so many all are left alone until every chain has gone on: a busy machine has no time between


class Feeder(threading.Thread):
    """Lets the source grow, until `over`."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self.over = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.over.wait(0.1):
            for _ in range(RECORDS_A_SECOND // 10):
                with contextlib.suppress(BufferError):
                    self._producer.produce(SOURCE, b"%d" % number, partition=number % PARTITIONS)
                number += 1
            self._producer.poll(0)
        self._producer.flush(30)


class Past:
    """What earlier rounds in a directory knew at their end, in a file there: what came of which attempt, and how far
    last stable offsets were. Of a round that was cut short it knows that it began, for no other may have its seed, by
    which attempts are told apart: its attempts are not judged, its records are."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "past.json"
        known = json.loads(self._path.read_text()) if self._path.exists() else {"outcomes": {}, "stable": [], "seed": 0}
        self.outcomes: dict[str, dict[str, str]] = known["outcomes"]
        self.stable = {(topic, partition): offset for topic, partition, offset in known["stable"]}
        self._seed: int = known["seed"]

    def begin(self, least_seed: int) -> int:
        """The seed of a new round."""
        self._seed = max(least_seed, self._seed + 1)
        self._write()
        return self._seed

    def end(self, chains: list[ChainProgram], stable: dict[tuple[str, int], int]) -> None:
        """For the next round."""
        for chain in chains:
            self.outcomes.setdefault(chain.name, {}).update(chain.outcomes)
        self.stable = stable
        self._write()

    def _write(self) -> None:
        rows = [(*place, offset) for place, offset in self.stable.items()]
        known = {"outcomes": self.outcomes, "stable": rows, "seed": self._seed}
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(known))
        new.replace(self._path)


class Round:
    """One broker, all chains, some kills. `wrong` are sentences; `report` is for the record."""

    def __init__(
        self, directory: Path, seed: int, kills: int, until_s: float, pause_s: float, names: list[str]
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._past = Past(directory)
        self._directory, self._seed, self._kills, self._until_s = directory, self._past.begin(seed), kills, until_s
        self._pause_s, self._names = pause_s, names
        self._random = random.Random(self._seed)
        self._next_fault_s = 0.0
        self._slowest_s = 0.0
        self._copies: dict[str, int] = {}  # all there are, of earlier rounds too
        self.killed: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.report: dict[str, Any] = {"seed": self._seed}

    def play(self) -> None:
        """Everything, and the checks."""
        with Broker(self._directory, overrides=SETTINGS) as broker:
            broker.listeners = [f"PLAINTEXT://127.0.0.1:{broker.port()}"]  # where clients find the next one
            with connect(broker.bootstrap) as client:
                there = {topic.name for topic in list_topics(client)}
                for topic in (SOURCE, FORSAKEN, *(f"target-{name}" for name in self._names)):
                    if topic not in there:
                        create_topic(client, topic, PARTITIONS, {})
            feeder = Feeder(broker.bootstrap)
            feeder.start()
            seed, place = self._seed, (broker.bootstrap, SOURCE)
            chains = [ChainProgram(name, *place, seed, self._directory) for name in self._names]
            targets = [one.target for one in chains]
            ages = Ages(broker.port())
            stable = StableOffsets(broker.port(), targets, PARTITIONS, self._past.stable)
            watchers = [stable, ages, Vanishing(broker.port(), seed)]
            for watcher in watchers:
                watcher.start()
            try:
                wait_until(lambda: all(one.count("committed") for one in chains), "every chain works", 60)
                next_lull = LULL_KILLS
                while self.killed.total() < self._kills and time.monotonic() < self._until_s and not self.wrong:
                    time.sleep(self._random.uniform(0, 2 * self._pause_s))
                    self._disturb(broker)
                    if self.killed.total() >= next_lull:
                        next_lull += LULL_KILLS
                        self._await_progress(broker, chains)
                watchers[2].end()
                feeder.over.set()
                self._finish(broker, chains)
                feeder.join(60)
                time.sleep(0.5)
                patience_s = GRACE_S + FORSAKEN_TIMEOUT_MS / 1000 + 5
                wait_until(lambda: not ages.undecided(), "every transaction is ended", patience_s)
                for watcher in watchers[:2]:
                    watcher.end()
                self.wrong += [one for watcher in watchers for one in watcher.wrong]
                for chain in chains:
                    self._check(broker, chain)
                if copied(broker.bootstrap, FORSAKEN):
                    self.wrong.append("records of a producer that vanished are read")
            finally:
                for chain in chains:
                    chain.close(0)
            self._tell(chains, ages)
            self._past.end(chains, stable.seen)

    def _disturb(self, broker: Broker) -> None:
        role = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if role == FAULT:
            if time.monotonic() < self._next_fault_s:
                return
            self._next_fault_s = time.monotonic() + FAULTS_APART_S
        if role == RESTART:
            self.killed[role] += 1
            self._restart(broker)
            return
        number, victim = (signal.SIGSEGV, "handler") if role == FAULT else (signal.SIGKILL, role)
        running = [row for row in broker.status()["processes"] if (row["role"], row["state"]) == (victim, "running")]
        rows = [row for row in running if row["pid"]]
        if not rows:
            return  # it is on its way already
        row = self._random.choice(rows)
        self.killed[role] += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(row["pid"], number)
        if self._random.random() < 0.8:
            broker.wait_restarted(victim, row["index"], row["pid"], 20)

    def _restart(self, broker: Broker) -> None:
        """The supervisor dies, and everything with it; then a new one is started in the same place."""
        assert broker.process is not None
        os.kill(broker.pid, signal.SIGKILL)
        broker.process.wait()
        wait_until(lambda: not broker.processes(), "the end of all processes", 10)
        broker._close()
        broker.start()

    def _await_progress(self, broker: Broker, chains: list[ChainProgram]) -> None:
        """Nobody is killed until every chain has ended a transaction; how long that takes is the time it takes to be
        well again."""
        began_s = time.monotonic()
        while waiting := [one for one in chains if one.last_progress_s < began_s]:
            if time.monotonic() - began_s > FINISH_S:
                self.wrong += [f"{one.name} does nothing: {one.errors[-3:]}" for one in waiting]
                (self._directory / "status.json").write_text(json.dumps(broker.status(), default=str, indent=1))
                break
            time.sleep(0.05)
        self._slowest_s = max(self._slowest_s, time.monotonic() - began_s)

    def _finish(self, broker: Broker, chains: list[ChainProgram]) -> None:
        deadline = time.monotonic() + FINISH_S
        for chain in chains:
            chain.end()
        for chain in chains:
            if not chain.close(max(deadline - time.monotonic(), 1)):
                self.wrong.append(f"{chain.name} did not end in {FINISH_S} s: {chain.errors[-3:]}")

    def _check(self, broker: Broker, chain: ChainProgram) -> None:
        """Attempts of earlier rounds, too."""
        outcomes = self._past.outcomes.get(chain.name, {}) | chain.outcomes
        self._copies[chain.name], wrong = disagreements(broker.bootstrap, SOURCE, chain, outcomes)
        self.wrong += wrong

    def _tell(self, chains: list[ChainProgram], ages: Ages) -> None:
        for chain in chains:
            counts = Counter(chain.outcomes.values())
            self.report[chain.name] = {**counts, "errors": len(chain.errors), "copies": self._copies[chain.name]}
        self.report |= {"kills": dict(self.killed), "oldest_s_after_timeout": round(ages.oldest_s, 1)}
        self.report["slowest_s_to_go_on"] = round(self._slowest_s, 1)
        self.report["wrong"] = self.wrong


def main() -> int:
    """Rounds, as many as there is time for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000, help="in all rounds of the record")
    parser.add_argument("--seconds", type=float, default=250)
    parser.add_argument("--record", type=Path, help="where rounds are written down, and read by the next call")
    parser.add_argument("--pause-ms", type=float, default=300, help="mean time between a restart and the next kill")
    parser.add_argument("--chains", nargs="*", default=available())
    places = parser.add_mutually_exclusive_group()
    places.add_argument("--keep", metavar="D", help="keep data and logs of rounds in this directory, each in its own")
    places.add_argument("--in", metavar="D", dest="place", type=Path, help="all rounds go on in this one")
    arguments = parser.parse_args()
    until_s = time.monotonic() + arguments.seconds
    record = arguments.record
    rounds = [json.loads(line) for line in record.read_text().splitlines()] if record and record.exists() else []
    while (done := sum(sum(one["kills"].values()) for one in rounds)) < arguments.kills and time.monotonic() < until_s:
        with contextlib.ExitStack() as stack:
            base = arguments.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="mpbroker-chains-"))
            seed, kills = len(rounds) + 1, min(ROUND_KILLS, arguments.kills - done)
            directory = arguments.place or Path(base) / str(seed)
            one = Round(directory, seed, kills, until_s, arguments.pause_ms / 1000, arguments.chains)
            one.play()
        print(json.dumps(one.report), flush=True)
        if record:
            with open(record, "a") as file:
                print(json.dumps(one.report), file=file)
        if one.wrong:
            return 1
        rounds.append(one.report)
    print(f"{done} kills in {len(rounds)} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
