"""A scan of a segment file: where it begins unless told, and what a file without batches says."""

import struct

import pytest

from mpbroker._native import scan_segment
from mpbroker.record.batch_builder import encode_batch
from tests.harness.kept_blocks import ROUNDS, kept

BATCHES = [
    encode_batch([(None, b"x" * 40, timestamp, ())], base_offset=50 + at) for at, timestamp in enumerate((9, 7, 8))
]


def scanned(tmp_path, content: bytes, *more):
    path = tmp_path / "log"
    path.write_bytes(content)
    with path.open("rb") as file:
        return scan_segment(file.fileno(), -1, -1, 50, 4096, True, None, *more)


def test_an_empty_file_says_that_there_is_no_time(tmp_path):
    found = scanned(tmp_path, b"")
    assert (found.file_bytes, found.valid_bytes, found.batches, found.next_offset) == (0, 0, 0, 50)
    assert (found.max_timestamp, found.max_timestamp_offset) == (-1, 50)


def test_a_scan_goes_on_where_it_is_told_with_what_is_known_of_before(tmp_path):
    content = b"".join(BATCHES)
    whole = scanned(tmp_path, content)
    assert (whole.batches, whole.next_offset, whole.max_timestamp, whole.max_timestamp_offset) == (3, 53, 9, 50)
    behind = len(BATCHES[0])
    rest = scanned(tmp_path, content, behind, 51)
    assert (rest.batches, rest.next_offset, rest.max_timestamp, rest.max_timestamp_offset) == (2, 53, 8, 52)
    told = scanned(tmp_path, content, behind, 51, 9, 50)
    assert (told.batches, told.next_offset, told.max_timestamp, told.max_timestamp_offset) == (2, 53, 9, 50)
    assert told.file_bytes == told.valid_bytes == whole.valid_bytes == len(content)
    nothing = scanned(tmp_path, content, len(content), 53)
    assert (nothing.batches, nothing.next_offset, nothing.max_timestamp, nothing.max_timestamp_offset) == (
        0,
        53,
        -1,
        -1,
    )
    assert scanned(tmp_path, content, len(content)).next_offset == -1, "a place without an offset"
    from_front = scanned(tmp_path, content, 0, 99)
    assert from_front.next_offset == 53, "an offset without a place is none"


def test_what_is_no_file_is_an_error_of_the_system():
    with pytest.raises(OSError, match="Bad file descriptor"):
        scan_segment(-1, -1, -1, 50, 4096, True, None)


def test_what_a_visitor_returns_is_let_go(tmp_path):
    """It is called for batches of a producer alone, the first one's id included."""
    path = tmp_path / "log"
    fields = {"producer_epoch": 0, "base_sequence": 0}
    batches = [
        encode_batch([(None, b"x", 5, ())], producer_id=number, base_offset=at, **fields)
        for at, number in ((1, 0), (2, 9))
    ]
    path.write_bytes(b"".join([encode_batch([(None, b"x", 5, ())]), *batches]))
    seen = []

    def work():
        with path.open("rb") as file:
            scan_segment(file.fileno(), -1, -1, 0, 4096, True, lambda *words: bytearray(seen.append(words[3]) or 9))

    work()
    assert seen == [0, 9]
    assert kept(lambda: work() or seen.clear()) < ROUNDS // 2


def test_a_batch_that_only_looks_like_a_marker_is_none(tmp_path):
    """Whatever its first record's key says: the batch is no control batch."""
    marker = [(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 77), 5, ())]
    fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    for control, told in ((False, (-1, -1)), (True, (1, 77))):
        path, seen = tmp_path / "log", []
        path.write_bytes(encode_batch(marker, transactional=True, control=control, **fields))
        with path.open("rb") as file:
            scan_segment(file.fileno(), -1, -1, 0, 4096, True, lambda *words, seen=seen: seen.append(words[8:]))
        assert seen == [told]
