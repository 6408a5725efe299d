"""Consuming through a group, end to end by confluent-kafka: rate, and processor time of the broker for each MB.

    python -m perf.group_consume HOST:PORT=PID … [--mb 300] [--record-bytes 1000] [--rounds 3]

Fetch sessions, heartbeats every 3 s, a commit every 5 s, as the client does by itself. A floor stands beside it: a
process that reads the same bytes from a file and sends them to a socket, 1 MiB at a time. Brokers take turns; medians.
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
from typing import Final

from confluent_kafka import Consumer, Producer

from mpbroker.analysis.bench.process_tree import Usage, usage
from perf.group_requests import targets_of

TOPIC: Final = "perf-group-consume"
PIECE_BYTES: Final = 1 << 20


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


def consume(where: str, pid: int, topic: str, group: str, count: int) -> tuple[float, float]:
    """From the assignment to the last record: seconds, and processor time of the broker in microseconds."""
    consumer = Consumer({"bootstrap.servers": where, "group.id": group, "auto.offset.reset": "earliest"})
    assigned: list[tuple[float, Usage]] = []
    consumer.subscribe([topic], on_assign=lambda *_: assigned.append((time.monotonic(), usage(pid))))
    got = 0
    while got < count:
        got += sum(message.error() is None for message in consumer.consume(10_000, 0.2))
    began_s, before = assigned[0]
    took_s, used = time.monotonic() - began_s, usage(pid).since(before)
    consumer.close()
    return took_s, used.total_us


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
    told = parser.parse_args()
    total, targets, run = told.mb * 1_000_000, targets_of(told.brokers), time.time_ns()
    topic = f"{TOPIC}-{run}"
    for where in targets:
        count = fill(where, topic, total, told.record_bytes)
    found: dict[str, list[tuple[float, float]]] = {where: [] for where in targets}
    floors = []
    for number in range(told.rounds):
        floors.append(floor_us(total) / told.mb)
        for where, (_, pid) in targets.items():
            took_s, used_us = consume(where, pid, topic, f"{run}-{number}", count)
            found[where].append((told.mb / took_s, used_us / told.mb))
    medians = {
        where: {
            "mb_per_s": round(statistics.median(rate for rate, _ in rows), 1),
            "broker_cpu_us_per_mb": round(statistics.median(cpu for _, cpu in rows)),
        }
        for where, rows in found.items()
    }
    print(json.dumps({"floor_cpu_us_per_mb": round(statistics.median(floors)), **medians}, indent=1))


if __name__ == "__main__":
    main()
