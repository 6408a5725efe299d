"""Transactions of ten records in five partitions with offsets, in version 2 (KIP-890): how long one takes, and how much
processor time of the broker.

    python -m perf.transactions HOST:PORT=PID … [--ids 50] [--transactions 2000] [--rounds 3] [--warm 0]

One connection, one transaction after the other, each with the next of so many transactional ids, so that none waits
for the markers of its last one. Several brokers take turns, so that a machine whose speed drifts is the same for all.
Prints one JSON object; of the rounds the medians. A JVM needs some 10,000 transactions before its figures settle:
`--warm`.
"""

import argparse
import json
import statistics
import time
from typing import Any

from mpbroker.analysis.bench.process_tree import usage
from mpbroker.protocol.messages.end_txn import EndTxnRequest
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.harness.peer import Peer, batch, create_topic, produce_request

TOPIC, GROUP, PARTITIONS = "perf-transactions", "perf-transactions", 5
LATER = 51  # CONCURRENT_TRANSACTIONS
TRANSACTION = 1  # a key type of FindCoordinator


class Producer:
    """One transactional id."""

    def __init__(self, peer: Peer, name: str) -> None:
        self._peer, self._name = peer, name
        begun = time.perf_counter()
        answer = peer.ask(InitProducerIdRequest(name, 60_000), 4)
        while answer.error_code:  # coordinators of a topic that is just being made
            time.sleep(0.01)
            answer = peer.ask(InitProducerIdRequest(name, 60_000), 4)
        self.init_ms = (time.perf_counter() - begun) * 1000
        self._producer = (answer.producer_id, answer.producer_epoch)
        self.repeated = 0

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self._producer

    def transaction(self) -> float:
        """Milliseconds from the first request to the last answer."""
        begun = time.perf_counter()
        settings = {"producer_id": self._producer[0], "producer_epoch": self._producer[1], "base_sequence": 0}
        records = batch(b"one", b"two", transactional=True, **settings)
        request = produce_request(TOPIC, dict.fromkeys(range(PARTITIONS), records), acks=-1)
        request.transactional_id = self._name
        self._until(request, 12, lambda answer: answer.responses[0].partition_responses[0].error_code)
        rows = [TxnOffsetCommitRequestPartition(number, 7) for number in range(PARTITIONS)]
        offsets = TxnOffsetCommitRequest(
            self._name, GROUP, *self._producer, topics=[TxnOffsetCommitRequestTopic(TOPIC, rows)]
        )
        self._until(offsets, 5, lambda answer: answer.topics[0].partitions[0].error_code)
        answer = self._until(EndTxnRequest(self._name, *self._producer, True), 5, lambda answer: answer.error_code)
        self._producer = (answer.producer_id, answer.producer_epoch)
        return (time.perf_counter() - begun) * 1000

    def _until(self, request: Any, version: int, code: Any) -> Any:
        while found := code(answer := self._peer.ask(request, version)):
            assert found == LATER, f"error {found} from {type(request).__name__}"
            self.repeated += 1
            time.sleep(0.001)
        return answer


class Load:
    """One broker."""

    def __init__(self, address: str, ids: int) -> None:
        where, _, pid = address.partition("=")
        self.name, self.pid = address, int(pid)
        self._peer = Peer(int(where.rsplit(":", 1)[1]), timeout_s=60)
        create_topic(self._peer, TOPIC, PARTITIONS)
        for kind, key in ((0, GROUP), (TRANSACTION, "x")):
            while self._peer.ask(FindCoordinatorRequest(key=key, key_type=kind), 2).error_code:
                time.sleep(0.2)  # its topic is being made
        self.producers = [Producer(self._peer, f"perf-{number}") for number in range(ids)]
        self._next = 0

    def play(self, transactions: int) -> dict[str, float]:
        """So many, and what they took."""
        before, times = usage(self.pid), []
        for _ in range(transactions):
            times.append(self.producers[self._next % len(self.producers)].transaction())
            self._next += 1
        cpu_us = usage(self.pid).since(before).total_us
        times.sort()
        return {
            "p50_ms": times[len(times) // 2],
            "p99_ms": times[len(times) * 99 // 100],
            "cpu_us": cpu_us / transactions,
        }


def main() -> None:
    """See the module's description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers", nargs="+", metavar="HOST:PORT=PID")
    parser.add_argument("--ids", type=int, default=50)
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=0)
    options = parser.parse_args()
    loads = [Load(one, options.ids) for one in options.brokers]
    for load in loads:
        load.play(max(options.warm, 1))
    rounds: dict[str, list[dict[str, float]]] = {load.name: [] for load in loads}
    for _ in range(options.rounds):
        for load in loads:
            rounds[load.name].append(load.play(options.transactions))
    found = {}
    for load in loads:
        kept = rounds[load.name]
        found[load.name] = {key: round(statistics.median(one[key] for one in kept), 3) for key in kept[0]}
        found[load.name]["init_p50_ms"] = round(statistics.median(one.init_ms for one in load.producers), 3)
        found[load.name]["repeated"] = sum(one.repeated for one in load.producers)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
