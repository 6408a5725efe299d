"""Five clocks read together, and their record."""

from types import SimpleNamespace

from mpbroker.trace import clock_sample, record
from mpbroker.trace.clock_sample import ClockSample

SAMPLE = ClockSample(2**40 + 1, 2**60 + 2, 2**41 + 3, 2**42 + 4, 5)


def test_the_monotonic_clock_is_read_before_and_after_the_others(monkeypatch):
    """Halfway between is the moment of the others, as near as one can say."""
    readings = [("mono", 1_000), ("real", 50), ("boot", 60), ("raw", 70), ("mono", 1_041)]

    def read(clock):
        name, value = readings.pop(0)
        assert name == clock
        return value

    clocks = {"CLOCK_MONOTONIC": "mono", "CLOCK_REALTIME": "real", "CLOCK_BOOTTIME": "boot"}
    monkeypatch.setattr(
        clock_sample, "time", SimpleNamespace(clock_gettime_ns=read, CLOCK_MONOTONIC_RAW="raw", **clocks)
    )
    assert clock_sample.take() == ClockSample(1_020, 50, 60, 70, 41) and readings == []


def test_a_record_holds_a_sample_wherever_it_lies():
    data = SAMPLE.pack_record(7, 2)
    made = record.unpack(data)
    assert (made.kind, made.t0_ns, made.seq_lo, made.proc_id) == (record.CLOCK, SAMPLE.monotonic_ns, 7, 2)
    assert clock_sample.unpack_record(data) == SAMPLE
    assert clock_sample.unpack_record(memoryview(b"\xff" * 128 + data + b"\xff" * 128), 128) == SAMPLE


def test_a_stamp_becomes_time_since_1970():
    assert SAMPLE.offset_ns + SAMPLE.monotonic_ns == SAMPLE.realtime_ns
