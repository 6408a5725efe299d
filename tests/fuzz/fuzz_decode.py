"""Feeds mutated frames to the decoder: it may refuse them with ProtocolError and nothing else.

    python tests/fuzz/fuzz_decode.py --frames 10000000 --seed 1

Every frame is a valid one, then cut, flipped, spliced or given extreme numbers. A sample of the frames also goes
through the plain Python codec, which must accept exactly the same ones and read the same values, and what was accepted
is encoded again and must come back equal. Exit code 1 and the frame in hex on the first disagreement.

Under AddressSanitizer: build the extension with
    CFLAGS="-fsanitize=address -fno-omit-frame-pointer" LDFLAGS="-fsanitize=address" pip install --no-deps -e .
and run with
    LD_PRELOAD="$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc python tests/fuzz/…
(PYTHONMALLOC=malloc puts every Python object under the sanitizer's eyes; leaks are left to the unit tests, because the
interpreter itself frees little at exit.)
"""

import argparse
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mpbroker.errors import ProtocolError
from mpbroker.protocol.codec import decode_prefix, encode
from mpbroker.protocol.headers import decode_request_header, encode_request_frame
from mpbroker.protocol.messages_by_key import REQUESTS, RESPONSES
from mpbroker.protocol.schema import schema_of
from tests.fuzz import plain_codec
from tests.fuzz.random_messages import random_message

EXTREMES = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff",
    b"\x7f\xff",
    b"\x00\x00",
    b"\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x08",
    b"\x80\x80\x80\x80\x80\x01",
    b"\x01",
)
COMPARED_EVERY = 50

Case = tuple[type | None, int, bytes]


def corpus(random: Random, per_version: int = 4) -> list[Case]:
    """Valid inputs: request frames (class None: the header tells) and response bodies (class and version given)."""
    cases: list[Case] = []
    for classes in (REQUESTS, RESPONSES):
        for cls in classes.values():
            low, high = schema_of(cls).versions
            for version in (v for v in range(low, high + 1) for _ in range(per_version)):
                message = random_message(random, cls, version)
                if classes is REQUESTS:
                    cases.append((None, 0, encode_request_frame(message, version, random.getrandbits(31), "fuzz")[4:]))
                else:
                    cases.append((cls, version, encode(message, version)))
    return cases


def mutate(random: Random, data: bytes, other: bytes) -> bytes:
    """One to three damages to a valid input."""
    for _ in range(1 + int(random.random() * 3)):
        size = len(data)
        at = int(random.random() * (size + 1))
        kind = random.random()
        if kind < 0.2:
            data = data[:at]
        elif kind < 0.55:
            extreme = EXTREMES[int(random.random() * len(EXTREMES))]
            data = data[:at] + extreme + data[at + len(extreme) :]
        elif kind < 0.8 and at < size:
            data = data[:at] + bytes((data[at] ^ (1 << int(random.random() * 8)),)) + data[at + 1 :]
        elif kind < 0.9:
            data = data[:at] + data[at + 1 + int(random.random() * 4) :]
        else:
            data = data[:at] + other[int(random.random() * (len(other) + 1)) :]
    return data


def target(cls: type | None, version: int, data: bytes) -> Case | None:
    """What to decode, from which offset: (class, version, offset). None when the header leads nowhere."""
    if cls is not None:
        return cls, version, 0
    header = decode_request_header(data)
    cls = REQUESTS.get(header.api_key)
    if cls is None:
        return None
    low, high = schema_of(cls).versions
    return (cls, header.api_version, header.body_offset) if low <= header.api_version <= high else None


def compare(cls: type, version: int, data: bytes, offset: int, outcome) -> None:
    """`outcome` is (message, end) or None for refused; AssertionError when the plain codec sees it otherwise."""
    try:
        plain = plain_codec.decode(cls, version, data, offset)
    except plain_codec.Malformed:
        plain = None
    assert outcome == plain, f"C: {outcome}\nPython: {plain}"
    if outcome is not None:
        again = encode(outcome[0], version)
        assert decode_prefix(cls, version, again) == (outcome[0], len(again)), "encoding it again changes it"
        assert again == plain_codec.encode(plain[0], version), "the two encoders differ"


def run_one(case: Case, data: bytes, deep: bool) -> bool:
    """Decode one input; True when it was accepted."""
    try:
        goal = target(case[0], case[1], data)
    except ProtocolError:
        return False
    if goal is None:
        return False
    cls, version, offset = goal
    try:
        outcome = decode_prefix(cls, version, data, offset)
    except ProtocolError:
        outcome = None
    if deep:
        compare(cls, version, data, offset, outcome)
    return outcome is not None


def fuzz(frames: int, seed: int, progress=lambda done, accepted: None) -> int:
    """Run `frames` inputs; returns how many were accepted. Raises on anything but acceptance or ProtocolError."""
    random = Random(seed)
    cases = corpus(random)
    accepted = 0
    for number in range(frames):
        case = cases[int(random.random() * len(cases))]
        other = cases[int(random.random() * len(cases))][2]
        data = mutate(random, case[2], other)
        try:
            accepted += run_one(case, data, deep=number % COMPARED_EVERY == 0)
        except BaseException:
            print(f"frame {number} of seed {seed}, {case[0]} version {case[1]}: {data.hex()}", file=sys.stderr)
            raise
        if number % 1_000_000 == 999_999:
            progress(number + 1, accepted)
    return accepted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    start = time.monotonic()
    accepted = fuzz(
        arguments.frames, arguments.seed, lambda done, ok: print(f"{done} frames, {ok} accepted", flush=True)
    )
    seconds = time.monotonic() - start
    print(f"{arguments.frames} frames, {accepted} accepted, the rest refused cleanly, {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
