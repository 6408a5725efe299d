"""What a segment's writer adds by itself."""

import os
import time

import pytest

from mpbroker.trace import record, segment, segment_writer
from tests.harness.descriptors import open_descriptors
from tests.unit.trace.traces import CLOCK, full_request


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

    before = open_descriptors()
    with monkeypatch.context() as patched, pytest.raises(OSError, match="full"):
        patched.setattr(segment_writer, "_write_all", full)
        segment_writer.create(tmp_path, OPENED, PROGRESS)
    assert list(tmp_path.iterdir()) == [] and open_descriptors() <= before


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


@pytest.mark.parametrize(("segment_bytes", "room"), [(0, 0), (4096, 0), (4223, 0), (4224, 1), (4096 + 10 * 128, 10)])
def test_between_two_turns_records_come_behind_the_header_until_the_file_is_full(tmp_path, segment_bytes, room):
    writer = segment_writer.create(tmp_path, OPENED, PROGRESS)
    assert writer.tail("lane", segment_bytes) == ("lane", writer.tally, writer._file, 4096, room)
    writer.append(full_request(7).pack() + full_request(8, send_done=300).pack())
    assert writer.file_bytes == writer.path.stat().st_size == 4096 + 2 * 128
    closed = writer.close().closed
    assert (closed.record_count, closed.next_seq, closed.max_total_ns) == (2, 9, 300 << 6)


def test_counters_that_have_not_changed_are_not_written_again(tmp_path, monkeypatch):
    writer, written = segment_writer.create(tmp_path, OPENED, PROGRESS), []
    monkeypatch.setattr(segment_writer, "_write_all", lambda *how: written.append(how))
    writer.note(PROGRESS)
    assert written == []
    later = PROGRESS._replace(dropped=1)
    writer.note(later)
    assert written == [(writer._file, segment.pack_progress(later), segment.PROGRESS_OFFSET)]
    writer.abandon()


def test_records_are_on_the_disk_before_the_segment_is_closed_and_the_close_fields_after_it(tmp_path, monkeypatch):
    """A machine that stops in between has an open segment with all its records, or a closed one."""
    writer, done, write = segment_writer.create(tmp_path, OPENED, PROGRESS), [], segment_writer._write_all
    monkeypatch.setattr(segment_writer.os, "fsync", lambda file: done.append("synced"))
    monkeypatch.setattr(segment_writer, "_write_all", lambda file, *how: done.append(how[1]) or write(file, *how))
    descriptor = writer._file
    writer.close()
    assert done == ["synced", segment.CLOSE_OFFSET, "synced"] and writer._file == -1
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_a_segment_that_cannot_be_recovered_gives_its_descriptor_back(tmp_path, monkeypatch):
    writer = segment_writer.create(tmp_path, OPENED, PROGRESS)
    writer.abandon()
    before = open_descriptors()

    def full(*_how):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segment_writer, "_write_all", full)
    with pytest.raises(OSError, match="No space"):
        segment_writer.recover(segment.read_info(writer.path)._replace(progress=PROGRESS._replace(written=8)))
    assert open_descriptors() <= before


def test_every_descriptor_is_given_back_once(tmp_path, monkeypatch):
    """0 is one where the tracer's input was closed."""
    closed = []
    monkeypatch.setattr(segment_writer.os, "close", closed.append)
    writer = segment_writer.SegmentWriter(tmp_path / "x", 0, OPENED, PROGRESS)
    for _ in range(2):
        writer.abandon()
        assert closed == [0] and writer._file == -1
