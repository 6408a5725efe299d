"""Records that a broker must give back byte for byte, and how each client's records are compared with them."""

from __future__ import annotations

import random
from typing import NamedTuple


class Sample(NamedTuple):
    """One record: key and value may be None, headers are (name, value or None) pairs, time in milliseconds."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


def keyed_or_valued(records: list[Sample]) -> list[Sample]:
    """Without the record of nothing at all, which kafka-python and aiokafka refuse to send."""
    return [record for record in records if record.key is not None or record.value is not None]


def samples(seed: int = 1, largest_bytes: int = 100_000) -> list[Sample]:
    """Nulls, empty values, binary bytes, many headers, sizes around the borders of varints and buffers."""
    rng = random.Random(seed)
    start_ms = 1_700_000_000_000
    sizes = [0, 1, 63, 64, 127, 128, 8191, 8192, 16_383, 16_384, 65_535, 65_536, largest_bytes]
    values = [rng.randbytes(size) for size in sizes]
    records = [Sample(rng.randbytes(5), value, [], start_ms + n) for n, value in enumerate(values)]
    records += [
        Sample(None, b"null key", [], start_ms + 100),
        Sample(b"tombstone", None, [], start_ms + 101),
        Sample(None, None, [], start_ms + 102),
        Sample(b"", b"", [], start_ms + 103),
        Sample(
            b"k",
            b"headers",
            [("a", b"1"), ("a", b"2"), ("empty", b""), ("h\u00e4\u00df", rng.randbytes(300))],
            start_ms + 104,
        ),
        Sample("schl\u00fcssel".encode(), "\u6d88\u606f".encode(), [], start_ms + 105),
    ]
    return records
