"""What a compaction reads of a segment: whole batches whatever its buffer holds, keys up to where it may, and what it
refuses to go by."""

import pytest

from mpbroker._native import KeyMap
from mpbroker.log import compaction
from mpbroker.log.compaction import CLEANED, HEADER_BYTES, SUFFIXES, Compaction, Limits, NotCompacted, Segment
from mpbroker.log.segment_swap import segment_path
from mpbroker.log.txn_index_file import AbortedTxn, write_aborted
from mpbroker.record.batch_builder import encode_batch

BASE = 100
SIZES = (1, 300, 5, 900, 40, 40, 700)
"""Bytes of a value, one record in each batch."""


def batches(codecs=(0,)) -> list[bytes]:
    """At offsets BASE, BASE + 1, ..., each with a key of its own; codecs take turns."""
    return [
        encode_batch(
            [(b"key %d" % number, bytes(size), 5)], base_offset=BASE + number, codec=codecs[number % len(codecs)]
        )
        for number, size in enumerate(SIZES)
    ]


class Reading:
    """A compaction of one segment; `paced`: what its pace was told."""

    def __init__(self, directory, content, log_bytes=None, buffer_bytes=1 << 16, first_dirty=0, until=1 << 40):
        self.directory, self.paced = str(directory), []
        with open(segment_path(self.directory, BASE, ".log"), "wb") as file:
            file.write(content)
        self.segment = Segment(BASE, BASE + len(SIZES), len(content) if log_bytes is None else log_bytes)
        self.limits = Limits(first_dirty, until, 5, 5, 1 << 16, 0.9, buffer_bytes, 1 << 20, 4096, 1 << 20)
        told = self.paced.append, lambda point: None, lambda bases: None
        self.made = Compaction(None, 0, b"T" * 16, self.directory, self.limits, *told)

    def pieces(self):
        return [(bytes(piece), at) for piece, at in self.made._pieces(self.segment)]


@pytest.mark.parametrize("buffer_bytes", [61, 70, 200, 400, 1000, 1100, 1 << 20])
def test_a_segment_is_read_in_whole_batches_whatever_the_buffer_holds(tmp_path, buffer_bytes):
    """As many as fit, or one that is larger than the buffer alone; what came behind the segment's end is not read."""
    whole = batches()
    reading = Reading(tmp_path, b"".join(whole) + whole[0], sum(map(len, whole)), buffer_bytes)
    expected, at = [], 0
    for batch in whole:
        if expected and len(expected[-1][0]) + len(batch) <= buffer_bytes:
            expected[-1] = (expected[-1][0] + batch, expected[-1][1])
        else:
            expected.append((batch, at))
        at += len(batch)
    assert reading.pieces() == expected
    assert reading.paced == [len(piece) for piece, _ in expected] and reading.made._read == at


def with_length(batch: bytes, length: int) -> bytes:
    """A batch whose header says it has so many bytes, all in all."""
    return batch[:8] + (length - 12).to_bytes(4, "big", signed=True) + batch[12:]


@pytest.mark.parametrize("buffer_bytes", [70, 1 << 16])
@pytest.mark.parametrize(("missing", "says"), [(0, None), (1, None), (0, 1 << 30)])
def test_a_batch_may_end_with_its_segment_but_not_behind_it(tmp_path, missing, says, buffer_bytes):
    """Whatever stands in the file behind the segment's end."""
    first, last = batches()[:2]
    if says:
        last = with_length(last, says)
    reading = Reading(tmp_path, first + last + bytes(50), len(first) + len(last) - missing, buffer_bytes)
    if not missing and not says:
        assert b"".join(piece for piece, _ in reading.pieces()) == first + last
        return
    with pytest.raises(NotCompacted, match=f"segment {BASE} is damaged at byte {len(first)}$"):
        reading.pieces()


@pytest.mark.parametrize("length", [0, 12, 60, -5])
@pytest.mark.parametrize("at", [0, 1])
def test_a_batch_that_is_shorter_than_its_header_is_damage(tmp_path, length, at):
    found = batches()[:3]
    found[at] = with_length(found[at], length)
    with pytest.raises(NotCompacted, match=f"damaged at byte {sum(map(len, found[:at]))}$"):
        Reading(tmp_path, b"".join(found)).pieces()


@pytest.mark.parametrize("codecs", [(0,), (1,), (0, 1), (1, 0), (0, 0, 3, 3)])
@pytest.mark.parametrize("buffer_bytes", [64, 1000, 1 << 16])
def test_the_keys_of_all_batches_are_taken_in_in_order(tmp_path, codecs, buffer_bytes):
    """Compressed ones are taken one by one, and those between them go on where the one before ended."""
    reading = Reading(tmp_path, b"".join(batches(codecs)), buffer_bytes=buffer_bytes)
    assert reading.made._learn_segment(reading.segment) is None
    assert reading.made._map.count == len(SIZES)


@pytest.mark.parametrize("codecs", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("until", range(len(SIZES) + 1))
def test_keys_are_taken_in_up_to_the_offset_that_is_told(tmp_path, codecs, until):
    reading = Reading(tmp_path, b"".join(batches(codecs)), until=BASE + until)
    assert reading.made._learn_segment(reading.segment) == (None if until == len(SIZES) else BASE + until)
    assert reading.made._map.count == until


@pytest.mark.parametrize("codecs", [(0,), (1,), (0, 1)])
def test_a_map_that_is_full_says_at_which_batch(tmp_path, codecs):
    reading = Reading(tmp_path, b"".join(batches(codecs)))
    reading.made._map = KeyMap(24 * 4, 0.9, bytes(16))  # three keys
    stopped = reading.made._learn_segment(reading.segment)
    assert 0 < reading.made._map.count < len(SIZES) and stopped == BASE + reading.made._map.count


@pytest.mark.parametrize("number", [0, 2, 6])
def test_damage_within_a_batch_is_said_with_its_place(tmp_path, number):
    """And whoever looks for it finds it there, in whichever piece it was read."""
    found = batches()
    damaged = bytearray(found[number])
    damaged[17] ^= 1
    content = b"".join([*found[:number], bytes(damaged), *found[number + 1 :]])
    told = f"segment {BASE} is damaged at byte {sum(map(len, found[:number]))}$"
    for buffer_bytes in (64, 1000, 1 << 16):
        reading = Reading(tmp_path, content, buffer_bytes=buffer_bytes)
        with pytest.raises(NotCompacted, match=told):
            reading.made._learn_segment(reading.segment)
        with pytest.raises(NotCompacted, match=told):
            list(reading.made._left_of(reading.segment, b""))


def test_records_that_cannot_be_decompressed_are_told_with_their_batch(tmp_path):
    found = batches((1,))
    spoilt = encode_batch([(b"k", b"v", 5)], base_offset=BASE + 1)
    found[1] = bytes(bytearray(spoilt[:22]) + bytes([1]) + spoilt[23:])
    reading = Reading(tmp_path, b"".join(found))
    told = f"the batch at offset {BASE + 1} of segment {BASE} cannot be decompressed"
    with pytest.raises(NotCompacted, match=told):
        reading.made._records(memoryview(found[1]), reading.segment)
    assert bytes(reading.made._records(memoryview(found[0]), reading.segment)) == batches()[0][HEADER_BYTES:]


@pytest.mark.parametrize("codecs", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("buffer_bytes", [64, 1 << 16])
def test_where_every_record_is_the_newest_nothing_changes(tmp_path, codecs, buffer_bytes):
    content = b"".join(batches(codecs))
    reading = Reading(tmp_path, content, buffer_bytes=buffer_bytes)
    assert reading.made._learn_segment(reading.segment) is None
    paced = len(reading.paced)
    target = segment_path(str(tmp_path), BASE, ".log") + CLEANED
    assert reading.made._write([reading.segment], target, b"") == (len(content), False)
    with open(target, "rb") as file:
        assert file.read() == content
    assert sum(reading.paced[paced:]) == 2 * len(content), "what is read, and what is written"


@pytest.mark.parametrize("codecs", [(0,), (1,)])
@pytest.mark.parametrize("older", range(len(SIZES)))
def test_what_is_written_differs_where_one_record_goes(tmp_path, codecs, older):
    """Be it in the first batch or in the last."""
    found = batches(codecs)
    reading = Reading(tmp_path, b"".join(found))
    reading.made._learn_segment(reading.segment)
    newer = encode_batch([(b"key %d" % older, b"", 5)], base_offset=BASE + 50)
    reading.made._map.learn(newer, 0, 1 << 40)
    target = segment_path(str(tmp_path), BASE, ".log") + CLEANED
    left = b"".join(found[:older] + found[older + 1 :])
    assert reading.made._write([reading.segment], target, b"") == (len(left), True)
    with open(target, "rb") as file:
        assert file.read() == left


@pytest.mark.parametrize("extra", [0, 1, 61])
def test_what_was_written_is_read_once_more_before_it_takes_a_place(tmp_path, extra):
    content = b"".join(batches())
    reading = Reading(tmp_path, content)
    paths = [segment_path(str(tmp_path), BASE, suffix) + CLEANED for suffix in SUFFIXES]
    with open(paths[0], "wb") as file:
        file.write(content + bytes(extra))
    if extra:
        with pytest.raises(NotCompacted, match=f"in place of segment {BASE} is not sound"):
            reading.made._index(BASE, paths)
    else:
        reading.made._index(BASE, paths)


def test_aborted_transactions_are_those_that_ended_below_the_end_in_order(tmp_path):
    """The marker of one that is being written now may be cut off, of a segment that nobody writes it may not."""
    reading, active = Reading(tmp_path, b""), BASE + 50
    path, current = (segment_path(str(tmp_path), base, ".txnindex") for base in (BASE, active))
    write_aborted(path, [AbortedTxn(9, BASE, BASE + 4, BASE), AbortedTxn(7, BASE + 1, BASE + 6, BASE)])
    write_aborted(current, [AbortedTxn(7, BASE + 50, BASE + 58, 0), AbortedTxn(7, BASE + 59, BASE + 60, 0)])
    with open(current, "ab") as file:
        file.write(bytes(5))
    words = reading.made._aborted([reading.segment], active, BASE + 60)
    rows = [(7, BASE + 1, BASE + 6), (7, BASE + 50, BASE + 58), (9, BASE, BASE + 4)]
    assert words == b"".join(compaction.struct.pack("=qqq", *row) for row in rows)
    assert len(reading.made._aborted([reading.segment], active, BASE + 61)) == 24 * 4
    with open(path, "ab") as file:
        file.write(bytes(5))
    with pytest.raises(NotCompacted, match=f"txnindex of segment {BASE} is damaged"):
        reading.made._aborted([reading.segment], active, BASE + 60)
