"""What clients did and saw, for the checker: writes with their outcome, reads with what they returned.

Values are (client, counter), unique; a payload carries them with a checksum, so that a changed byte is noticed. Times
are CLOCK_MONOTONIC nanoseconds. As JSON lines a history can be kept and checked again.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
FINAL = "final"  # session of the reads that drain every partition at the end

Value = tuple[str, int]
CORRUPT: Value = ("corrupt", -1)


class Write(NamedTuple):
    """One record sent. `session`: within it a producer's order must hold (a connection, or an idempotent producer's
    life).

    result  ok: acknowledged at `offset`; failed: refused for certain; unknown: no answer, it may be there or not
    """

    client: str
    session: str
    partition: int
    counter: int
    start_ns: int
    end_ns: int
    result: str
    offset: int = -1

    @property
    def value(self) -> Value:
        """What a reader must find."""
        return self.client, self.counter


class Read(NamedTuple):
    """One answer to a fetch. `records`: (offset, value); `high_watermark` as told in the same answer."""

    session: str
    partition: int
    start_ns: int
    end_ns: int
    high_watermark: int
    records: tuple[tuple[int, Value], ...]
    leader_epoch: int = -1


class History:
    """Writes and reads of one run. Clients of several threads may add to it."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.reads: list[Read] = []
        self._lock = threading.Lock()

    def add(self, operation: Write | Read) -> None:
        """Append one finished operation."""
        with self._lock:
            (self.writes if isinstance(operation, Write) else self.reads).append(operation)

    def dump(self, file: IO[str]) -> None:
        """Write it as JSON lines."""
        for kind, operations in (("write", self.writes), ("read", self.reads)):
            for operation in operations:
                file.write(json.dumps({"op": kind, **operation._asdict()}) + "\n")


def load(lines: Iterable[str]) -> History:
    """A history from JSON lines."""
    history = History()
    for line in lines:
        fields = json.loads(line)
        if fields.pop("op") == "write":
            history.writes.append(Write(**fields))
        else:
            fields["records"] = tuple((offset, (client, counter)) for offset, (client, counter) in fields["records"])
            history.reads.append(Read(**fields))
    return history


def payload(value: Value, length: int = 0) -> bytes:
    """A record's bytes: the value, padding up to `length`, a checksum of both."""
    head = f"{value[0]}/{value[1]}/".encode()
    body = head + b"." * max(0, length - len(head) - 8)
    return body + b"%08x" % zlib.crc32(body)


def value_of(data: bytes | None) -> Value:
    """The value in a payload, CORRUPT if its checksum does not fit."""
    if data is None or len(data) < 8 or data[-8:] != b"%08x" % zlib.crc32(data[:-8]):
        return CORRUPT
    client, counter, _ = data.split(b"/", 2)
    return client.decode(), int(counter)


def final_log(reads: Iterable[Read]) -> dict[int, list[tuple[int, Value]]]:
    """Partition → (offset, value) of the final reads, in the order they came."""
    logs: dict[int, list[tuple[int, Value]]] = {}
    for read in reads:
        if read.session == FINAL:
            logs.setdefault(read.partition, []).extend(read.records)
    return logs


def by_session(reads: Iterable[Read]) -> Iterator[list[Read]]:
    """The reads of each session and partition, in the order they were made."""
    groups: dict[tuple[str, int], list[Read]] = {}
    for read in reads:
        groups.setdefault((read.session, read.partition), []).append(read)
    yield from groups.values()
