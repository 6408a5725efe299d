"""Mutated record batches through every check and reader: nothing may crash, hang, raise or allocate beyond its limit.

    python -m tests.fuzz.fuzz_records --frames 1000000 --seed 7
    python -m tests.fuzz.fuzz_records --frames 20000 --broker 127.0.0.1:19092    # also compares every code with Kafka's

With --broker each batch also goes to a real broker in a Produce request, and the first difference in the answer ends
the run. Topics are created there with names that begin with `fuzz-`.
"""

import argparse
import random
import struct
import sys
import time
from typing import NamedTuple

from mpbroker import _native
from mpbroker.errors import ErrorCode
from mpbroker.record.batch_builder import assemble_batch, encode_record
from mpbroker.record.compression import Decompressor, compress
from mpbroker.record.record_batch import BatchUnreadableError, iterate_records
from mpbroker.record.validation import ProduceRules, check_append_records, check_request_records

NOW_MS = int(time.time() * 1000)
DAY_MS = 86_400_000
TOPICS = {
    "fuzz-plain": (ProduceRules(), []),
    "fuzz-compact": (ProduceRules(compacted=True), [("cleanup.policy", "compact")]),
    "fuzz-append-time": (ProduceRules(log_append_time=True), [("message.timestamp.type", "LogAppendTime")]),
    "fuzz-bounded": (
        ProduceRules(timestamp_before_max_ms=DAY_MS, timestamp_after_max_ms=DAY_MS),
        [("message.timestamp.before.max.ms", str(DAY_MS)), ("message.timestamp.after.max.ms", str(DAY_MS))],
    ),
    "fuzz-small": (ProduceRules(max_message_bytes=100), [("max.message.bytes", "100")]),
}


class Frame(NamedTuple):
    """One attempt: the topic's name, the Produce version and the bytes of its records field."""

    topic: str
    version: int
    records: bytes


def _bytes_or_none(rng: random.Random) -> bytes | None:
    return None if rng.random() < 0.2 else rng.randbytes(rng.randrange(6))


def _good_records(rng: random.Random, count: int) -> bytes:
    shift = rng.choice((0, 0, 0, 0, 1))
    return b"".join(
        encode_record(
            i + shift if rng.random() < 0.98 else 0,
            rng.choice((0, 1, 5, -3, 10 * DAY_MS)),
            _bytes_or_none(rng),
            _bytes_or_none(rng),
            [(rng.randbytes(2), _bytes_or_none(rng)) for _ in range(rng.choice((0, 0, 0, 1, 3)))],
        )
        for i in range(count)
    )


def _mutate(rng: random.Random, data: bytes, times: int) -> bytes:
    out = bytearray(data)
    for _ in range(times):
        at = rng.randrange(len(out) + 1)
        what = rng.randrange(4)
        if what == 0 and out:
            out[at % len(out)] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif what == 1 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif what == 2:
            out[at:at] = rng.randbytes(rng.randrange(1, 4))
        else:
            del out[at : at + rng.randrange(1, 4)]
    return bytes(out)


def _seal(batch: bytes, rng: random.Random) -> bytes:
    """Make length and checksum agree with mutated bytes, mostly, so that the checks behind them are reached."""
    if len(batch) < 61 or rng.random() < 0.1:
        return batch
    out = bytearray(batch)
    if rng.random() < 0.9:
        struct.pack_into(">i", out, 8, len(out) - 12)
    if rng.random() < 0.95:
        struct.pack_into(">I", out, 17, _native.crc32c(out[21:]))
    return bytes(out)


def make_frame(rng: random.Random) -> Frame:
    """A batch with a few faults: in the records before compression, in the compressed bytes, in the header."""
    count, codec = rng.randrange(1, 5), rng.choice((0, 0, 1, 2, 3, 4))
    records = _mutate(rng, _good_records(rng, count), rng.choice((0, 0, 0, 1, 2)))
    packed = _mutate(rng, compress(codec, records), rng.choice((0, 0, 0, 1)) if codec else 0)
    attributes = codec | rng.choice((0,) * 12 + (8, 16, 32, 64, 128))
    producer = (
        (-1, -1, -1) if rng.random() < 0.8 else (rng.choice((-1, -2, rng.getrandbits(60))), 0, rng.choice((0, -1)))
    )
    base = rng.choice((NOW_MS, NOW_MS, NOW_MS, -1, 0, NOW_MS + 10 * DAY_MS))
    batch = assemble_batch(
        packed, attributes, count if rng.random() < 0.95 else rng.randrange(-1, 7), base, NOW_MS, producer
    )
    if rng.random() < 0.4:
        header = 61 if rng.random() < 0.8 else len(batch)
        batch = _seal(_mutate(rng, batch[:header], 1) + batch[header:], rng)
    if rng.random() < 0.1:
        batch = rng.choice(
            (
                batch[: rng.randrange(len(batch))],
                batch + rng.randbytes(rng.randrange(30)),
                batch + bytes(rng.randrange(30)),
                batch + batch,
            )
        )
    return Frame(rng.choice(list(TOPICS)), rng.choice((3, 6, 7, 7, 7)), batch)


def our_code(frame: Frame, decompressor: Decompressor) -> int:
    """The code we would answer to a Produce request with this one partition and no transactional id."""
    check = check_request_records(frame.records, frame.version)
    if check.whole_request != 1 and check.transactional:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if check.code:
        return check.code
    batch = memoryview(frame.records)[: check.batch_bytes]
    appended = check_append_records(batch, TOPICS[frame.topic][0], NOW_MS, decompressor)
    if not appended.code:
        _store(appended.batch, appended.max_timestamp)
    return appended.code


def _store(batch: bytes | memoryview, max_timestamp: int) -> None:
    header = _native.batch_patch_header(batch, 12345, 6, -1, max_timestamp)
    stored = header + bytes(batch[61:])
    result, info, _ = _native.batch_scan(stored, 0)
    assert result == _native.MPB_SCAN_BATCH and info.base_offset == 12345 and info.max_timestamp == max_timestamp
    assert sum(1 for _ in iterate_records(stored, -1 << 40, control=True)) == info.record_count


def _read(records: bytes) -> None:
    try:
        for _ in iterate_records(records, control=True):
            pass
    except BatchUnreadableError:
        pass


def _is_known_difference(frame: Frame, code: int) -> bool:
    """Kafka decompresses record by record and answers with what it meets first; we decompress before we look."""
    return code == ErrorCode.UNKNOWN_SERVER_ERROR and len(frame.records) > 61 and frame.records[22] & 7 != 0


def run(frames: int, seed: int, broker: str | None = None) -> dict[int, int]:
    """Return how often each code was answered; raises AssertionError at a difference from the real broker."""
    rng, decompressor, seen = random.Random(seed), Decompressor(), {}
    peer, differences = None, 0
    if broker:
        from tests.fuzz.produce_peer import ProducePeer

        peer = ProducePeer(broker, {name: configs for name, (_, configs) in TOPICS.items()})
    for number in range(frames):
        frame = make_frame(rng)
        code = our_code(frame, decompressor)
        seen[code] = seen.get(code, 0) + 1
        _read(frame.records)
        if peer is not None:
            theirs = peer.produce(frame.topic, frame.version, frame.records)
            known = code != theirs and _is_known_difference(frame, code)
            differences += known
            assert theirs == code or known, f"frame {number} of seed {seed}: ours {code}, theirs {theirs}: {frame}"
    if peer is not None:
        print(f"{differences} batches that we could not decompress were answered otherwise by Kafka")
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", metavar="HOST:PORT")
    options = parser.parse_args()
    seen = run(options.frames, options.seed, options.broker)
    print(f"{options.frames} frames, seed {options.seed}, codes {dict(sorted(seen.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
