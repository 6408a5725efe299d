"""Consuming through a group, end to end by confluent-kafka: rate, and processor time of the broker for each MB.

    python -m perf.group_consume HOST:PORT=PID … [--mb 300] [--record-bytes 1000] [--rounds 3] [--backoff-ms 5]

Fetch sessions, heartbeats every 3 s, a commit every 5 s, as the client does by itself. Two floors stand beside it, both
a loop of pread and send, 1 MiB at a time: one to a socket whose reader drops what it gets as fast as it can, and
one to the same client, whose pace and whose use of the caches cost the sender time, too. Brokers and floors take turns;
medians, and the quotients of each round.

The client stops fetching once 100,000 records wait in it, and by default looks again after a second
(`fetch.queue.backoff.ms`). A broker that is faster than the application then waits most of the time: with 1000 the rate
is the client's, 110 to 1,000 MB a second by chance, and lower the faster the broker is.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from perf.group_requests import targets_of
from perf.load.plain_loop import LoopProcess
from perf.load.processes import scheduled_us

TOPIC: Final = "perf-group-consume"
PIECE_BYTES: Final = 1 << 20
BACKOFF: Final = "fetch.queue.backoff.ms"
FAST, SAME_CLIENT = "loop to a reader that drops all", "loop to the same client"


def fill(where: str, topic: str, total_bytes: int, record_bytes: int) -> int:
    """Write the records; how many."""
    producer = Producer({"bootstrap.servers": where, "linger.ms": 20, "batch.size": 262144, "acks": "all"})
    value, count = os.urandom(record_bytes), total_bytes // record_bytes
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0
    return count


def consume(where: str, pid: int, topic: str, group: str, count: int, backoff_ms: int = 5) -> tuple[float, float]:
    """From the assignment to the last record: seconds, and processor time of the broker in microseconds."""
    settings = {"bootstrap.servers": where, "group.id": group, "auto.offset.reset": "earliest", BACKOFF: backoff_ms}
    consumer = Consumer(settings)
    assigned: list[tuple[float, float]] = []
    consumer.subscribe([topic], on_assign=lambda *_: assigned.append((time.monotonic(), scheduled_us(pid))))
    _take_all(consumer, count)
    began_s, before_us = assigned[0]
    took_s, used_us = time.monotonic() - began_s, scheduled_us(pid) - before_us
    consumer.close()
    return took_s, used_us


def _take_all(consumer: Consumer, count: int) -> None:
    got = 0
    while got < count:
        got += sum(message.error() is None for message in consumer.consume(10_000, 0.2))


def same_client_us(loop: LoopProcess, topic: str, count: int, backoff_ms: int = 5) -> tuple[float, float]:
    """Seconds, and processor time of the loop, when the same client takes from it."""
    settings = {"bootstrap.servers": loop.where, "group.id": "none", "enable.auto.commit": False, BACKOFF: backoff_ms}
    consumer = Consumer(settings)
    began_s, before_us = time.monotonic(), loop.busy_us()
    consumer.assign([TopicPartition(topic, 0, 0)])
    _take_all(consumer, count)
    took_s, used_us = time.monotonic() - began_s, loop.busy_us() - before_us
    consumer.close()
    return took_s, used_us


def floor_us(total_bytes: int) -> float:
    """Processor time of a loop of pread and send, in microseconds for all bytes."""
    with tempfile.TemporaryFile() as file, socket.create_server(("127.0.0.1", 0)) as listening:
        piece = os.urandom(PIECE_BYTES)
        for _ in range(total_bytes // PIECE_BYTES):
            file.write(piece)
        file.flush()
        taker = threading.Thread(target=_take, args=(listening.getsockname(),), daemon=True)
        taker.start()
        connection, _ = listening.accept()
        before = resource.getrusage(resource.RUSAGE_THREAD)
        for position in range(0, total_bytes // PIECE_BYTES * PIECE_BYTES, PIECE_BYTES):
            connection.sendall(os.pread(file.fileno(), PIECE_BYTES, position))
        after = resource.getrusage(resource.RUSAGE_THREAD)
        connection.close()
        taker.join()
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e6


def _take(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as taking:
        while taking.recv(PIECE_BYTES):
            pass


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers", nargs="+")
    parser.add_argument("--mb", type=int, default=300)
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backoff-ms", type=int, default=5, help="the client's fetch.queue.backoff.ms")
    told = parser.parse_args()
    total, targets, run = told.mb * 1_000_000, targets_of(told.brokers), time.time_ns()
    topic = f"{TOPIC}-{run}"
    for where in targets:
        count = fill(where, topic, total, told.record_bytes)
    with LoopProcess(next(iter(targets.values()))[0][1], topic) as loop:
        rounds = [_round(targets, loop, topic, count, told, f"{run}-{number}") for number in range(told.rounds)]
    print(json.dumps(_medians(rounds), indent=1))


Targets = Mapping[str, tuple[tuple[str, int], int]]
Round = dict[str, tuple[float, float]]  # MB a second and microseconds a MB, of each that takes turns


def _round(
    targets: Mapping[str, tuple[str, int]],
    loop: LoopProcess,
    topic: str,
    count: int,
    told: argparse.Namespace,
    run: str,
) -> Round:
    mb = told.mb
    took_s, loop_us = same_client_us(loop, topic, count, told.backoff_ms)
    found = {FAST: (0.0, floor_us(mb * 1_000_000) / mb), SAME_CLIENT: (mb / took_s, loop_us / mb)}
    for where, (_, pid) in targets.items():
        took_s, used_us = consume(where, pid, topic, f"group-{run}", count, told.backoff_ms)
        found[where] = (mb / took_s, used_us / mb)
    return found


def _medians(rounds: list[Round]) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name in rounds[0]:
        shown[name] = {
            "mb_per_s": round(statistics.median(one[name][0] for one in rounds), 1),
            "cpu_us_per_mb": round(statistics.median(one[name][1] for one in rounds)),
        }
        for floor in (FAST, SAME_CLIENT):
            if name not in (FAST, SAME_CLIENT):
                quotients = [round(one[name][1] / one[floor][1], 2) for one in rounds]
                shown[f"{name} / {floor}"] = {"median": statistics.median(quotients), "rounds": quotients}
    return shown


if __name__ == "__main__":
    main()
