"""Lines to batches: nothing is lost, nothing is held back."""

import os
import threading

from mpbroker.cli import produce


def _read(data, tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return list(produce.batches(descriptor))
    finally:
        os.close(descriptor)


def test_every_line_is_a_record_also_an_empty_one_and_the_last(tmp_path):
    assert _read(b"", tmp_path) == []
    assert _read(b"\n", tmp_path) == [[b""]]
    assert _read(b"one\n\n\xfftwo\nend", tmp_path) == [[b"one", b"", b"\xfftwo", b"end"]]


def test_batches_are_bounded_by_count_and_size(tmp_path):
    lines = [b"%d" % n for n in range(60_000)]
    batches = _read(b"\n".join(lines) + b"\n", tmp_path)
    assert [line for batch in batches for line in batch] == lines
    assert max(map(len, batches)) == produce.BATCH_RECORDS
    large = b"x" * 100_000
    assert [len(batch) for batch in _read(b"\n".join([large] * 5), tmp_path)] == [2, 2, 1]


def test_a_source_that_pauses_holds_nothing_back():
    reading, writing = os.pipe()
    batches = produce.batches(reading)
    os.write(writing, b"one\ntwo\nthr")
    assert next(batches) == [b"one", b"two"]
    threading.Timer(0.05, lambda: (os.write(writing, b"ee\n"), os.close(writing))).start()
    assert list(batches) == [[b"three"]]
    os.close(reading)
