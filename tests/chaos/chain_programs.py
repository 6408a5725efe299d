"""Consume-process-produce chains in programs of their own, one for each client library that was built (`make clients`),
and what they say of their transactions."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.build import DIRECTORY, is_built
from tests.harness.transaction_chain import PARTITIONS, copied

MOVED: Final = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
}
MOVED_S: Final = 30
_JAVA: Final = ("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp")
#: Chain → the program it needs, what starts it, and words behind the seed. Java 3.9 speaks version 1 of transactions
#: and the classic protocol of groups, Java 4 version 2 and the next-generation protocol.
CHAINS: Final[dict[str, tuple[str | None, list[str], list[str]]]] = {
    "confluent": (None, [sys.executable, "-m", "tests.harness.transaction_chain"], []),
    **{
        f"chain-{name}": (name, [*_JAVA, f"{DIRECTORY / name}:{DIRECTORY / name}/jars/*", "Chain"], [protocol])
        for name, protocol in (("java-3.9", "classic"), ("java-4", "consumer"))
    },
    "franz": ("franz-chain", [str(DIRECTORY / "franz-chain" / "franz-chain")], []),
}


def available() -> list[str]:
    """The chains whose program is there."""
    return [name for name, (program, *_) in CHAINS.items() if program is None or is_built(program)]


class ChainProgram(threading.Thread):
    """One chain that runs until `end`. `outcomes`: attempt → committed, aborted or unknown."""

    def __init__(self, name: str, bootstrap: str, source: str, seed: int, directory: Path) -> None:
        super().__init__(name=name, daemon=True)
        self.target = f"target-{name}"
        self.group = f"{self.target}-group"
        self.outcomes: dict[str, str] = {}
        self.errors: list[str] = []
        self.has_ended = False
        self.last_progress_s = time.monotonic()
        self._about = bootstrap, source, seed, directory
        self.times_begun = 0
        self._process = self._begin()
        self.pid = self._process.pid
        self.start()

    def _begin(self) -> subprocess.Popen[str]:
        """The seed names its attempts: each time another one."""
        bootstrap, source, seed, directory = self._about
        _, command, more = CHAINS[self.name]
        words = [bootstrap, source, self.target, str(seed + 1000 * self.times_begun), *more]
        self.times_begun += 1
        with open(directory / f"{self.name}.err", "ab") as log:
            return subprocess.Popen(
                [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def begin_again(self) -> None:
        """As whoever looks after an application does with one that has come to a stop."""
        self._process.kill()
        self._process.wait()
        self.join()
        self._process = self._begin()
        self.pid = self._process.pid
        threading.Thread(target=self._read, daemon=True).start()

    def run(self) -> None:
        self._read()

    def _read(self) -> None:
        """What the program says."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, _, rest = line.strip().partition(" ")
            if what in ("committed", "aborted", "unknown"):
                self.outcomes[rest] = what
                self.last_progress_s = time.monotonic()
            elif what == "error":
                self.errors.append(rest)
            elif what == "done":
                self.has_ended = True

    def end(self) -> None:
        """Ask it to finish what it has begun."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self, patience_s: float) -> bool:
        """Whether it finished in time; it is not there any more in either case."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.join(5)
        return self.has_ended

    def count(self, outcome: str) -> int:
        """Of its attempts."""
        return list(self.outcomes.values()).count(outcome)  # copied at once: `run` adds to it


def disagreements(bootstrap: str, source: str, chain: ChainProgram, outcomes: dict[str, str]) -> tuple[int, list[str]]:
    """How many copies are read, and what is wrong: what the group committed is what was copied, once; attempts are
    there or not as the program was told."""
    progress = committed_offsets(bootstrap, chain.group, source)
    rows = [value.decode().split() for value in copied(bootstrap, chain.target)]
    copies = Counter((int(partition), int(offset)) for partition, offset, _ in rows)
    expected = {(number, offset) for number, end in progress.items() for offset in range(end)}
    wrong = []
    if twice := [place for place, count in copies.items() if count > 1]:
        wrong.append(f"{chain.name}: {len(twice)} records are there twice: {sorted(twice)[:5]}")
    if missing := expected - set(copies):
        wrong.append(f"{chain.name}: offsets without their output: {sorted(missing)[:5]} of {progress}")
    if early := set(copies) - expected:
        wrong.append(f"{chain.name}: output without its offsets: {sorted(early)[:5]} of {progress}")
    seen = {attempt for _, _, attempt in rows}
    for attempt, outcome in outcomes.items():
        if (outcome == "aborted" and attempt in seen) or (outcome == "committed" and attempt not in seen):
            wrong.append(f"{chain.name}: {attempt} is {outcome}, and read: {attempt in seen}")
    return len(rows), wrong


def committed_offsets(bootstrap: str, group: str, source: str) -> dict[int, int]:
    """How far a group is in the source; a transaction that is not decided yet is waited for. While a coordinator moves,
    librdkafka hands its answer on, and is asked again."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    asked = [TopicPartition(source, number) for number in range(PARTITIONS)]
    deadline = time.monotonic() + MOVED_S
    while True:
        try:
            found = {one.partition: max(one.offset, 0) for one in consumer.committed(asked, 20)}
        except KafkaException as error:
            if error.args[0].code() not in MOVED or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            consumer.close()
            return found
