"""The coordinator is killed under a group of the next-generation protocol: a history of ownership shows that nothing
ever had two owners, members in time are not fenced, epochs do not fall, and in the end everything is shared out."""

import os
import threading
import time

import pytest

from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.harness.broker import Broker, wait_until
from tests.harness.group_client import LONGEST_ANSWER_S, GroupClient
from tests.harness.peer import Peer, create_topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
PARTITIONS, BEAT_S = 12, 0.03
SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "num.io.threads": 2,
    "mpbroker.trace.enabled": "false",
    "group.consumer.session.timeout.ms": 20000,
    "group.consumer.min.session.timeout.ms": 20000,
    "group.consumer.assignment.interval.ms": 50,
}
POINTS = ["coordinator.decided:12", "coordinator.appended:9", "coordinator.answered:25"]
if os.environ.get("LONG"):
    POINTS += [
        f"coordinator.{name}:{n}" for name in ("taken", "decided", "appended", "answered") for n in (1, 4, 17, 40)
    ]
    POINTS += ["coordinator.loaded:1"]


class History:
    """Who owns what, at every moment. A partition is somebody's from the answer that says so until he says that he gave
    it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[tuple[bytes, int], str] = {}
        self.wrong: list[str] = []

    def gets(self, name: str, partitions: set[tuple[bytes, int]]) -> None:
        with self._lock:
            for one in partitions:
                owner = self._owners.setdefault(one, name)
                if owner != name:
                    self.wrong.append(f"{one[1]} is given to {name}, and {owner} has it")

    def gives(self, name: str, partitions: set[tuple[bytes, int]]) -> None:
        with self._lock:
            for one in partitions:
                if self._owners.pop(one, None) != name:
                    self.wrong.append(f"{name} gives back {one[1]}, which is not its")


class Consumer(threading.Thread):
    """Joins, beats and gives back; with `comes_and_goes` it leaves now and then."""

    def __init__(self, port: int, name: str, history: History, comes_and_goes: bool) -> None:
        super().__init__(name=name, daemon=True)
        self._client = GroupClient(port)
        self._history = history
        self._comes_and_goes = comes_and_goes
        self._stop_it = threading.Event()
        self.epoch = 0
        self.has: set[tuple[bytes, int]] = set()
        self.wrong: list[str] = []
        self.epochs: list[int] = []

    def stop(self) -> None:
        self._stop_it.set()

    def run(self) -> None:
        try:
            self._client.find("g")
            beats = 0
            while not self._stop_it.is_set():
                beats += 1
                self._beat()
                if self._comes_and_goes and beats % 12 == 0:
                    self._leave()
                time.sleep(BEAT_S)
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}")

    def _leave(self) -> None:
        if not self.epoch:
            return  # it has left already
        self._give(self.has)
        answer = self._client.ask(ConsumerGroupHeartbeatRequest("g", self.name, -1), 1)
        if answer.error_code:
            self.wrong.append(f"left with {answer.error_code}")
        self.epoch = 0

    def _give(self, partitions: set[tuple[bytes, int]]) -> None:
        self._history.gives(self.name, partitions)
        self.has -= partitions

    def _beat(self) -> None:
        held: dict[bytes, list[int]] = {}
        for topic, number in self.has:
            held.setdefault(topic, []).append(number)
        answer = self._client.ask(
            ConsumerGroupHeartbeatRequest(
                "g",
                self.name,
                self.epoch,
                rebalance_timeout_ms=20_000 if not self.epoch else -1,
                subscribed_topic_names=["t"] if not self.epoch else None,
                topic_partitions=[ConsumerGroupHeartbeatRequestTopicPartitions(*row) for row in held.items()],
            ),
            1,
        )
        if answer.error_code in (14, 15, 16):
            return
        if answer.error_code or answer.member_epoch < self.epoch:
            self.wrong.append(f"in epoch {self.epoch}: {answer.error_code}, epoch {answer.member_epoch}")
            return
        self.epoch = answer.member_epoch
        self.epochs.append(self.epoch)
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            wanted = {(row.topic_id, number) for row in rows for number in row.partitions}
            self._history.gets(self.name, wanted - self.has)
            self.has |= wanted
            self._give(self.has - wanted)


def play(broker: Broker, seconds: float, disturb, begun=lambda: True) -> None:
    """Three members that stay and one that comes and goes; then everybody comes to rest. The time counts from when
    `begun()`, which on a busy machine takes a while."""
    with Peer(broker.port()) as peer:
        assert create_topic(peer, "t", PARTITIONS).error_code == 0
    history = History()
    cast = [Consumer(broker.port(), f"m{n}", history, n == 3) for n in range(4)]
    for one in cast:
        one.start()
    wait_until(lambda: begun() or any(one.wrong for one in cast), "what it is about", 15)
    until = time.monotonic() + seconds
    while time.monotonic() < until and not any(one.wrong for one in cast):
        disturb()
    cast[3].stop()
    cast[3].join(LONGEST_ANSWER_S)
    try:
        if not cast[3].wrong:
            cast[3]._leave()
        wait_until(
            lambda: [len(one.has) for one in cast[:3]] == [4, 4, 4] or any(one.wrong for one in cast), "a balance", 20
        )
    finally:
        for one in cast:
            one.stop()
        for one in cast:
            one.join(LONGEST_ANSWER_S)
    assert [wrong for one in cast for wrong in one.wrong] + history.wrong == [], broker.log()[-3000:]
    assert all(one.epochs == sorted(one.epochs) and one.epochs[-1] > 3 for one in cast[:3])


@pytest.mark.parametrize("point", POINTS)
def test_a_death_at_a_named_moment(tmp_path, point):
    with Broker(tmp_path, overrides=SETTINGS, env={"MPBROKER_CRASH": point}) as broker:

        def died():
            return any(row["role"] == "coordinator" and row["restarts"] for row in broker.status()["processes"])

        play(broker, 0.6, lambda: time.sleep(0.05), died)
        assert died(), f"nobody passed {point}"


def test_deaths_at_any_moment(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS) as broker:

        def kill() -> None:
            time.sleep(0.25)
            broker.wait_restarted("coordinator", 0, broker.kill("coordinator", 0))

        play(broker, 30 if os.environ.get("LONG") else 2, kill)
