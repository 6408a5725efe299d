"""Who looks on while transactions go on and processes die: last stable offsets never fall, no transaction lasts longer
than its timeout and ten seconds, producers that vanish leave nothing behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaException, Producer

from mpbroker.client.bootstrap import connect
from mpbroker.client.transaction_admin import describe_transaction, list_transactions
from mpbroker.errors import MpbrokerError
from tests.harness.peer import Closed, Peer, fetch_request

GRACE_S = 11.0  # ten, and one for who looks on a busy machine
#: States in which a transaction is not ended yet.
UNDECIDED = ["Ongoing", "PrepareCommit", "PrepareAbort"]
FORSAKEN, FORSAKEN_TIMEOUT_MS = "forsaken", 1500


class Watcher(threading.Thread):
    """Looks again and again; what it finds wrong stands in `wrong`. No broker for a while: nothing is seen."""

    pause_s = 0.05

    def __init__(self, port: int) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self.port = port
        self.wrong: list[str] = []
        self.looks = 0
        self._over = threading.Event()

    def run(self) -> None:
        """Until `end`."""
        while not self._over.wait(self.pause_s):
            try:
                self.look()
                self.looks += 1
            except (OSError, Closed, MpbrokerError, KafkaException, AssertionError):
                self.forget()

    def look(self) -> None:
        """Once."""
        raise NotImplementedError

    def forget(self) -> None:
        """A look failed: whatever connection there was is of no use."""

    def end(self) -> None:
        """No more looks."""
        self._over.set()
        self.join(60)


class StableOffsets(Watcher):
    """The last stable offset of every partition of some topics never falls, and is never above the end."""

    def __init__(self, port: int, topics: Iterable[str], partitions: int, seen: dict[tuple[str, int], int]) -> None:
        super().__init__(port)
        self._topics, self._partitions = list(topics), partitions
        self.seen = dict(seen)
        self._peer: Peer | None = None

    def look(self) -> None:
        self._peer = self._peer or Peer(self.port, timeout_s=10)
        for topic in self._topics:
            known = {number: self.seen.get((topic, number), 0) for number in range(self._partitions)}
            answer = self._peer.ask(fetch_request(topic, known, 1, isolation_level=1), 11)
            for found in answer.responses[0].partitions:
                self._compare(topic, found)

    def _compare(self, topic: str, found: Any) -> None:
        place = (topic, found.partition_index)
        before = self.seen.get(place, 0)
        if found.error_code == 1:  # OFFSET_OUT_OF_RANGE
            self.wrong.append(f"{place}: {before} is not there any more")
        elif not found.error_code:
            if not before <= found.last_stable_offset <= found.high_watermark:
                self.wrong.append(f"{place}: {before}, then {found.last_stable_offset} of {found.high_watermark}")
            self.seen[place] = found.last_stable_offset

    def forget(self) -> None:
        if self._peer is not None:
            self._peer.socket.close()
        self._peer = None


class Ages(Watcher):
    """No transaction lasts longer than its timeout and ten seconds."""

    pause_s = 0.5

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.oldest_s = 0.0

    def look(self) -> None:
        with connect(f"127.0.0.1:{self.port}") as client:
            for one in list_transactions(client, UNDECIDED):
                found = describe_transaction(client, one.transactional_id)
                if found.state not in UNDECIDED:
                    continue
                over_s = (time.time() * 1000 - found.started_ms - found.timeout_ms) / 1000
                self.oldest_s = max(self.oldest_s, over_s)
                if over_s > GRACE_S:
                    self.wrong.append(f"{one.transactional_id} is {one.state} {over_s:.1f} s after its timeout")

    def undecided(self) -> list[str]:
        """Transactions that are not ended now."""
        with connect(f"127.0.0.1:{self.port}") as client:
            return [one.transactional_id for one in list_transactions(client, UNDECIDED)]


class Vanishing(Watcher):
    """Producers that begin a transaction and are never heard of again."""

    pause_s = 3.0

    def __init__(self, port: int, seed: int) -> None:
        super().__init__(port)
        self._seed = seed

    def look(self) -> None:
        settings = {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "transactional.id": f"{FORSAKEN}-{self._seed}-{self.looks}",
            "transaction.timeout.ms": FORSAKEN_TIMEOUT_MS,
            "log_level": 0,
        }
        producer = Producer(settings)
        producer.init_transactions(10)
        producer.begin_transaction()
        for number in range(4):
            producer.produce(FORSAKEN, b"%d" % number, partition=number % 2)
        producer.flush(1)
