"""`mpbroker produce TOPIC`: one record per line of standard input."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator

from mpbroker.cli.topic import DEFAULT_BOOTSTRAP
from mpbroker.client.network_client import connect
from mpbroker.client.producer import Producer
from mpbroker.client.topic_admin import ensure_partitions
from mpbroker.errors import ConfigError

DESCRIPTION = "Write the lines of standard input to a topic, one record each."
EXAMPLES = (
    ("seq 1000 | mpbroker produce numbers", "a thousand records, batches in turn to all partitions"),
    ("mpbroker produce events --partition 2 --acks 1 < events.txt", "one partition, acknowledged by the leader alone"),
)
BATCH_RECORDS, BATCH_BYTES = 500, 256 * 1024
READ_BYTES = 64 * 1024
PROGRESS_EVERY_RECORDS = 100_000
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


def define(parser) -> None:
    """The arguments of this command."""
    parser.add_argument("topic", help="created with the broker's defaults if it does not exist")
    parser.add_argument("--partition", type=int, help="default: all in turn, a batch each")
    parser.add_argument("--acks", choices=sorted(ACKS), default="all", help="default: %(default)s")
    parser.add_argument("--bootstrap", default=DEFAULT_BOOTSTRAP, metavar="H:P", help="default: %(default)s")


def run(args) -> int:
    """Runs the command; returns the exit code."""
    with connect(args.bootstrap) as client:
        partitions = ensure_partitions(client, args.topic, create=True)
        if args.partition is not None and not 0 <= args.partition < partitions:
            raise ConfigError("--partition", args.partition, f"0 to {partitions - 1}")
        producer, sent = Producer(client, args.topic, ACKS[args.acks]), 0
        for number, batch in enumerate(batches(sys.stdin.fileno())):
            target = number % partitions if args.partition is None else args.partition
            producer.send(target, [(None, line) for line in batch])
            sent += len(batch)
            if sent // PROGRESS_EVERY_RECORDS != (sent - len(batch)) // PROGRESS_EVERY_RECORDS:
                sys.stderr.write(f"{sent} records\n")
    sys.stderr.write(f"{sent} records written to {args.topic}\n")
    return 0


def batches(descriptor: int) -> Iterator[list[bytes]]:
    """The lines read from a descriptor, without their newline, grouped by count and size. A source that has nothing
    more to give at the moment (a prompt, `tail -f`) holds nothing back."""
    batch: list[bytes] = []
    size = 0
    for line in _lines(descriptor):
        if batch and (line is None or len(batch) >= BATCH_RECORDS or size + len(line) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if line is not None:
            batch.append(line)
            size += len(line)
    if batch:
        yield batch


def _lines(descriptor: int) -> Iterator[bytes | None]:
    """Every line; None where the source pauses."""
    source = select.poll()
    source.register(descriptor, select.POLLIN)
    pieces: list[bytes] = []  # of a line that has no end yet
    while data := os.read(descriptor, READ_BYTES):
        first, *rest = data.split(b"\n")
        pieces.append(first)
        if rest:
            yield b"".join(pieces)
            yield from rest[:-1]
            pieces = [rest[-1]]
        if not source.poll(0):
            yield None
    if pieces != [b""] and pieces:
        yield b"".join(pieces)
