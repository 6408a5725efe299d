"""What a segment's writer adds by itself."""

import os
import time

import pytest

from mpbroker.trace import record, segment, segment_writer
from tests.unit.trace.traces import CLOCK


@pytest.mark.parametrize("seq", [7, 0xFFFFFFFF, 0x1_0000_0005])
def test_a_clock_sample_stands_before_the_next_record(tmp_path, seq):
    """Its number is the low half of the next request's, and its times lie around the moment."""
    opened = segment.Opened(4, 1, 2, seq, "cluster", 0, CLOCK, {})
    writer = segment_writer.create(tmp_path, opened, segment.Progress(seq, seq, 0, 0, seq, seq, 0, 0))
    before = time.monotonic_ns()
    writer.sample_clock()
    writer.close()
    [raw] = segment.read_chunks(segment.read_info(writer.path))
    found = record.unpack(raw, 0)
    assert (found.kind, found.seq_lo, found.proc_id) == (record.CLOCK, seq & 0xFFFFFFFF, 2)
    assert before <= found.t0_ns <= time.monotonic_ns()


OPENED = segment.Opened(4, 1, 2, 7, "cluster", 0, CLOCK, {})
PROGRESS = segment.Progress(7, 7, 0, 0, 7, 7, 0, 0)


def test_a_new_segment_is_this_users_and_says_where_it_begins(tmp_path):
    writer = segment_writer.create(tmp_path, OPENED, PROGRESS)
    assert writer.path.stat().st_mode & 0o777 == 0o600 and writer.path.stat().st_size == segment.HEADER_BYTES
    assert writer.file_bytes == segment.HEADER_BYTES
    read = segment.read_info(writer.path)
    assert (read.opened, read.progress, read.closed) == (OPENED, PROGRESS, None)
    progress = PROGRESS._replace(finished=9)
    writer.note(progress)
    assert segment.read_info(writer.path).progress == writer.progress == progress
    writer.abandon()
    writer.abandon()


@pytest.mark.parametrize("gone", [False, True])
def test_a_header_that_finds_no_room_leaves_neither_file_nor_descriptor(tmp_path, monkeypatch, gone):
    """Whoever took the file away meanwhile does not hide what went wrong."""

    def full(*_):
        for path in tmp_path.iterdir():
            if gone:
                path.unlink()
        raise OSError("full")

    before = set(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched, pytest.raises(OSError, match="full"):
        patched.setattr(segment_writer, "_write_all", full)
        segment_writer.create(tmp_path, OPENED, PROGRESS)
    assert list(tmp_path.iterdir()) == [] and set(os.listdir("/proc/self/fd")) == before


def test_a_name_that_is_taken_is_passed_over_as_long_as_there_are_any(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_writer, "MAX_WITHOUT_REQUESTS", 3)
    names = []
    for _ in range(3):
        writer = segment_writer.create(tmp_path, OPENED, PROGRESS)
        names.append(writer.path.name)
        writer.abandon()
    assert names == [segment.file_name(*OPENED[:4], number) for number in range(3)]
    with pytest.raises(FileExistsError, match="and all before it exist"):
        segment_writer.create(tmp_path, OPENED, PROGRESS)


def test_a_write_that_stops_short_goes_on_behind_it(tmp_path, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(segment_writer.os, "pwrite", lambda file, data, at: real(file, data[:5], at))
    path = tmp_path / "file"
    with path.open("wb") as file:
        segment_writer._write_all(file.fileno(), b"0123456789ab", 2)
    assert path.read_bytes() == b"\0\0" + b"0123456789ab"
