"""Processor time of the broker for a Produce request of one small record: plain, idempotent, in a transaction.

    python -m perf.produce_kinds HOST:PORT=PID [--requests 30000] [--rounds 5]

One connection with twenty requests on their way; the kinds take turns. Prints one JSON object: the medians of the
rounds, and by round how many times a plain request's time one in a transaction takes. The kernel counts in steps of
10 ms.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from typing import Any

from mpbroker.analysis.bench.process_tree import usage
from mpbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from mpbroker.protocol.messages.end_txn import EndTxnRequest
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from perf.transactions import Producer
from tests.harness.peer import Peer, batch, create_topic, produce_request

TOPIC, RECORD, IN_FLIGHT, VERSION = "perf-produce-kinds", bytes(100), 20, 9
KINDS = ("plain", "idempotent", "transactional")


def requests(kind: str, count: int, producer: tuple[int, int], name: str) -> Iterator[Any]:
    """So many requests, one batch of one record each."""
    for number in range(count):
        own = {} if kind == "plain" else {"producer_id": producer[0], "producer_epoch": producer[1]}
        own |= {} if kind == "plain" else {"base_sequence": number}
        records = batch(RECORD, transactional=kind == "transactional", **own)
        request = produce_request(TOPIC, {0: records}, acks=-1)
        request.transactional_id = name if kind == "transactional" else None
        yield request


def sent(peer: Peer, those: list[Any]) -> None:
    """All of them, each answered without an error."""
    waiting = 0
    for request in those:
        peer.send(request, VERSION)
        waiting += 1
        if waiting == IN_FLIGHT:
            assert not peer.receive().responses[0].partition_responses[0].error_code
            waiting -= 1
    for _ in range(waiting):
        assert not peer.receive().responses[0].partition_responses[0].error_code


def round_of(peer: Peer, pid: int, kind: str, count: int, name: str) -> float:
    """Microseconds a request."""
    producer = (-1, -1)
    if kind == "idempotent":
        answer = peer.ask(InitProducerIdRequest(None, 60_000), 4)
        producer = (answer.producer_id, answer.producer_epoch)
    elif kind == "transactional":
        producer = Producer(peer, name).identity
        topics = [AddPartitionsToTxnTopic(TOPIC, [0])]
        added = peer.ask(AddPartitionsToTxnRequest([], name, *producer, topics), 3)
        assert not added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    those = list(requests(kind, count, producer, name))
    before = usage(pid)
    sent(peer, those)
    cpu_us = usage(pid).since(before).total_us / count
    if kind == "transactional":
        assert not peer.ask(EndTxnRequest(name, *producer, True), 3).error_code
    return cpu_us


def main() -> None:
    """See the module's description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", metavar="HOST:PORT=PID")
    parser.add_argument("--requests", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    where, _, pid = options.broker.partition("=")
    peer = Peer(int(where.rsplit(":", 1)[1]), timeout_s=60)
    create_topic(peer, TOPIC, 1)
    rounds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(options.rounds):
        for kind in KINDS:
            rounds[kind].append(round_of(peer, int(pid), kind, options.requests, f"perf-kinds-{number}"))
    found: dict[str, Any] = {kind: round(statistics.median(times), 2) for kind, times in rounds.items()}
    pairs = zip(rounds["plain"], rounds["transactional"], strict=True)
    print(json.dumps({"cpu_us": found, "transactional_by_plain": [round(own / plain, 2) for plain, own in pairs]}))


if __name__ == "__main__":
    main()
