"""Three real brokers by `mpbroker cluster start`, for tests: its foreground process, and the commands beside it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, TopicMetadata

START_S, PATIENCE_S = 60, 30
#: What a leader of a moment ago, or of a moment to come, answers; librdkafka hands it on to who asks for ends.
LEADERS_MOVE = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,  # it does not know yet what was committed (KIP-207)
    }
)


def ends_of(consumer: Consumer, topic: str, partitions: int) -> list[int]:
    """Where each partition ends, asked again while leaders move."""
    return [_end_of(consumer, TopicPartition(topic, number)) for number in range(partitions)]


def _end_of(consumer: Consumer, partition: TopicPartition) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(partition, timeout=10)[1])
        except KafkaException as error:
            if error.args[0].code() not in LEADERS_MOVE or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


class RunningCluster:
    """A context manager; leaving it stops every broker."""

    def __init__(self, directory: Path, *overrides: str, brokers: int = 3) -> None:
        self.directory = directory
        self._brokers = brokers
        self._overrides = overrides

    def __enter__(self) -> RunningCluster:
        chosen = [word for one in self._overrides for word in ("--override", one)]
        with (self.directory.parent / "cluster.err").open("wb") as errors:
            words = self._command("start", "-n", str(self._brokers), "--port", "0", *chosen)
            self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        assert line.startswith("mpbroker cluster ready"), (line, self.logs())
        self.bootstrap = line.split("bootstrap=")[1].strip()
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self

    def __exit__(self, *raised: object) -> None:
        self.run("stop")
        self._process.wait(PATIENCE_S)

    def _command(self, verb: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "mpbroker", "cluster", verb, *words, "--dir", str(self.directory)]

    def run(self, verb: str, *words: str) -> str:
        """A command that ends, with what it printed."""
        return self._done(verb, *words).stdout

    def run_told(self, verb: str, *words: str) -> str:
        """The same with what it told people."""
        return self._done(verb, *words).stderr

    def _done(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(self._command(verb, *words), capture_output=True, text=True, timeout=START_S)
        assert done.returncode == 0, (verb, words, done.stdout, done.stderr)
        return done

    def kill(self, broker: int) -> None:
        """SIGKILL of a broker's whole tree."""
        self.run("kill", str(broker))

    def start(self, broker: int) -> None:
        """The broker again; returns when it serves. It belongs to the cluster's foreground process, or to nobody."""
        subprocess.run(
            self._command("start", str(broker)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=START_S,
            check=True,
        )

    def status(self) -> dict[str, Any]:
        """`cluster status --json`."""
        found: dict[str, Any] = json.loads(self.run("status", "--json"))
        return found

    def partitions(self, topic: str) -> dict[int, tuple[int, list[int]]]:
        """Leader and in-sync replicas, as a client sees them; nothing where the broker asked does not know the topic
        yet. All topics are asked for: to name one that is not there would make it."""
        found = self.admin.list_topics(timeout=10).topics.get(topic, TopicMetadata())
        return {one.id: (one.leader, sorted(one.isrs)) for one in found.partitions.values()}

    def wait_for_isr(self, topic: str, size: int) -> None:
        """Every partition has so many replicas in sync."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := self.partitions(topic)) or any(len(isr) != size for _, isr in found.values()):
            assert time.monotonic() < deadline, (found, self.logs())
            time.sleep(0.05)

    def logs(self) -> str:
        """The last lines of every broker."""
        texts = [path.read_text().splitlines()[-15:] for path in sorted(self.directory.glob("broker-*.log"))]
        return "\n".join(line for lines in texts for line in lines)
