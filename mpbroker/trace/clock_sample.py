"""A sample of the host's clocks, taken together, and its form as a record of kind 5.

The tracer takes one when a segment opens, when it closes, and every 10 s. A reader turns monotonic stamps into epoch
time by the nearest sample; the raw stamps are never rewritten. A clock step shows as a jump of `offset_ns` between
samples.
"""

import struct
import time
from typing import NamedTuple

from mpbroker.trace import record

_CLOCKS = struct.Struct("<QQQQ")  # realtime, boottime, monotonic_raw, uncertainty: at the place of the stages
_CLOCKS_OFFSET = record.layout()["stage"][0]


class ClockSample(NamedTuple):
    """Nanoseconds of five clocks; `uncertainty_ns` is the time between the two readings of the monotonic one."""

    monotonic_ns: int
    realtime_ns: int
    boottime_ns: int
    monotonic_raw_ns: int
    uncertainty_ns: int

    @property
    def offset_ns(self) -> int:
        """What to add to a monotonic stamp to get nanoseconds since 1970."""
        return self.realtime_ns - self.monotonic_ns

    def pack_record(self, seq_lo: int, processor: int) -> bytes:
        """A record of kind 5."""
        data = bytearray(
            record.TraceRecord(t0_ns=self.monotonic_ns, seq_lo=seq_lo, proc_id=processor, kind=record.CLOCK).pack()
        )
        _CLOCKS.pack_into(data, _CLOCKS_OFFSET, *self[1:])
        return bytes(data)


def unpack_record(data: bytes | memoryview, offset: int = 0) -> ClockSample:
    """The sample inside a record of kind 5."""
    t0_ns = int.from_bytes(data[offset : offset + 8], "little")
    return ClockSample(t0_ns, *_CLOCKS.unpack_from(data, offset + _CLOCKS_OFFSET))


def take() -> ClockSample:
    """Read the clocks now; the monotonic time given is the middle of its two readings."""
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    realtime = time.clock_gettime_ns(time.CLOCK_REALTIME)
    boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return ClockSample((before + after) // 2, realtime, boottime, raw, after - before)
