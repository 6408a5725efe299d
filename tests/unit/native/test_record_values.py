"""Functions of record batches at the bounds of their buffers, and every part of what they return in its place."""

import ctypes
import mmap
import struct

import pytest

from mpbroker import _native
from mpbroker.record.batch_builder import encode_batch
from tests.unit.record import raw_batch

MAP_NORESERVE = 0x4000  # mmap knows its name from a later Python on
NOW_MS, LARGE = 1_700_000_000_000, 1 << 40
HEADERS = ((b"first", b"1"), (b"second", None), (b"", b""))
RECORDS = [(b"key", b"value", NOW_MS, HEADERS), (None, None, NOW_MS + 7, ()), (b"", b"", NOW_MS + 3, ())]
PRODUCER = {"producer_id": LARGE, "producer_epoch": 500, "base_sequence": 700}
BATCH = encode_batch(RECORDS, base_offset=900, **PRODUCER)
HEADER, ROWS = BATCH[:61], BATCH[61:]
CORRUPT, INVALID, TOO_LARGE = 2, 87, 10
CHECKED = (1 << 20, False, False, NOW_MS, LARGE, LARGE, True)


def test_the_fields_of_a_header():
    result, info, end = _native.batch_scan(BATCH, 0)
    assert (result, end) == (_native.MPB_SCAN_BATCH, len(BATCH))
    assert tuple(info) == (900, len(BATCH), -1, info.crc, 0, 0, 2, NOW_MS, NOW_MS + 7, LARGE, 500, 700, 3)
    assert info.crc == _native.crc32c(BATCH[21:])
    whole = b"x" * 5 + BATCH * 2
    assert _native.batch_scan(whole, 5)[2] == 5 + len(BATCH)
    assert _native.batch_scan(whole, 5 + len(BATCH))[2] == len(whole)
    assert _native.batch_scan(whole, len(whole)) == (_native.MPB_SCAN_END, None, len(whole))
    for cut in (1, len(ROWS)):
        assert _native.batch_scan(BATCH[:-cut], 0) == (_native.MPB_SCAN_PARTIAL, None, len(BATCH))
    broken = BATCH[:-1] + bytes([BATCH[-1] ^ 1])
    assert _native.batch_scan(broken, 0) == (_native.MPB_SCAN_CORRUPT, None, 0)
    assert _native.batch_scan(broken, 0, False)[0] == _native.batch_scan(BATCH, 0, True)[0] == _native.MPB_SCAN_BATCH
    for wrong in (-1, len(BATCH) + 1):
        for call in (lambda pos: _native.batch_scan(BATCH, pos), lambda pos: _native.records_newest(BATCH, pos, {})):
            with pytest.raises(ValueError, match=f"position {wrong} lies outside the buffer"):
                call(wrong)


def test_records_one_by_one():
    found = _native.records_decode(ROWS, HEADER)
    assert [tuple(record) for record in found] == [
        (900, NOW_MS, b"key", b"value", HEADERS),
        (901, NOW_MS + 7, None, None, ()),
        (902, NOW_MS + 3, b"", b"", ()),
    ]
    assert _native.records_decode(ROWS + b"more", HEADER) == found
    for cut in range(1, len(ROWS)):
        with pytest.raises(ValueError, match=r"record [0-2] of 3 cannot be read"):
            _native.records_decode(ROWS[:-cut], HEADER)
    emptied = bytearray(HEADER)
    struct.pack_into(">i", emptied, 57, 0)
    assert _native.records_decode(ROWS, emptied) == []


@pytest.mark.parametrize("length", [0, 1, 60])
def test_a_header_that_is_cut_off(length):
    short = BATCH[:length]
    for call in (
        lambda: _native.records_decode(ROWS, short),
        lambda: _native.records_check(ROWS, short, False, False, NOW_MS, LARGE, LARGE),
        lambda: _native.batch_patch_header(short, 1, 2),
        lambda: _native.seal_batch(bytearray(short)),
        lambda: _native.records_find_timestamp(ROWS, short, 0),
    ):
        with pytest.raises(ValueError, match="61 bytes|cannot be read"):
            call()
    assert _native.records_refused(ROWS, short, True, False, NOW_MS, 0, 0) == (0, [])
    assert _native.batch_check_append(short, *CHECKED)[:3] == (CORRUPT, short, None)
    assert tuple(_native.batch_check_request(short, 7)) == (INVALID, 0, False, 0)


def test_a_header_alone_is_one():
    """61 bytes are enough for what looks at no records."""
    assert len(_native.batch_patch_header(HEADER, 1, 2)) == 61
    _native.seal_batch(bytearray(HEADER))
    assert _native.records_check(ROWS, HEADER, False, False, NOW_MS, LARGE, LARGE)[0] == 0


def test_a_batch_that_is_too_long_for_its_length_is_not_sealed():
    """Nobody reads it, so that it needs no memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    with mmap.mmap(-1, 1 << 31, flags=flags) as memory:
        with pytest.raises(ValueError, match="^a batch has 61 bytes to 2 GiB$"):
            _native.seal_batch(memory)
        assert memory[:61] == bytes(61)


def test_a_patched_header():
    patched = _native.batch_patch_header(BATCH, LARGE, 77)
    assert struct.unpack_from(">qiiB", patched) == (LARGE, len(BATCH) - 12, 77, 2) and patched[17:] == HEADER[17:]
    told = _native.batch_patch_header(BATCH, LARGE, 77, -1, NOW_MS + 9)
    assert struct.unpack_from(">q", told, 35) == (NOW_MS + 9,) and told[21:35] == HEADER[21:35]
    assert struct.unpack_from(">I", told, 17) == (_native.crc32c(told[21:] + ROWS),)
    appended = _native.batch_patch_header(BATCH, LARGE, 77, NOW_MS + 5)
    assert appended == _native.batch_patch_header(BATCH, LARGE, 77, NOW_MS + 5, NOW_MS + 9), "their own times are gone"
    assert struct.unpack_from(">h", appended, 21) == (8,) and struct.unpack_from(">q", appended, 35) == (NOW_MS + 5,)
    for wrong, error in (("x", TypeError), (1 << 63, OverflowError)):
        with pytest.raises(error):
            _native.batch_patch_header(BATCH, 1, 2, -1, wrong)


def test_what_a_check_says():
    assert _native.batch_check_append(BATCH, *CHECKED)[:3] == (INVALID, BATCH, None), "a client's batch begins at 0"
    batch = encode_batch(RECORDS, **PRODUCER)
    found = _native.batch_check_append(batch, *CHECKED)
    assert found.batch is batch and (found.code, found.max_timestamp, found.bad_record) == (0, NOW_MS + 7, -1)
    assert tuple(found.info)[:3] == (0, len(batch), -1)
    for wrong in (batch[:-1], batch + b"x", batch[:11], batch[:12]):
        found = _native.batch_check_append(wrong, *CHECKED)
        assert tuple(found) == (CORRUPT, wrong, None, -1, -1, -1)
    assert _native.batch_check_append(batch, len(batch), *CHECKED[1:]).code == 0
    assert _native.batch_check_append(batch, len(batch) - 1, *CHECKED[1:]).code == TOO_LARGE
    compacted = _native.batch_check_append(batch, CHECKED[0], True, *CHECKED[2:])
    assert (compacted.code, compacted.info, compacted.bad_record) == (INVALID, None, 1)
    for place in (1, 4, 5, 6):
        arguments = [batch, *CHECKED]
        for wrong, error in (("x", TypeError), (1 << 64, OverflowError)):
            arguments[place] = wrong
            with pytest.raises(error):
                _native.batch_check_append(*arguments)


def test_what_a_request_may_bring():
    batch = encode_batch(RECORDS, **PRODUCER)
    transactional = encode_batch(RECORDS, transactional=True, **PRODUCER)
    assert tuple(_native.batch_check_request(batch, 7)) == (0, len(batch), False, 0)
    assert tuple(_native.batch_check_request(transactional, 7)) == (0, len(batch), True, 0)
    assert _native.batch_check_request(batch + b"x" * 99, 7).code != 0
    for wrong, error in (("x", TypeError), (1 << 64, OverflowError)):
        with pytest.raises(error):
            _native.batch_check_request(batch, wrong)
    for count in (0, 1, 3):
        with pytest.raises(TypeError, match=f"takes 2 arguments, not {count}"):
            _native.batch_check_request(*[batch, 7, 7][:count])
        with pytest.raises(TypeError, match=f"takes 8 arguments, not {count}"):
            _native.batch_check_append(*[batch, 7, 7][:count])


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250])
def test_refused_records_are_counted_all_and_listed_in_part(count):
    """The first 100; those without a key in a compacted topic."""
    records = [(b"k", b"v", NOW_MS)] + [(None, b"v", NOW_MS + number) for number in range(count)]
    batch = encode_batch(records)
    told, listed = _native.records_refused(batch[61:], batch[:61], True, False, NOW_MS, LARGE, LARGE)
    assert told == count
    assert listed == [(number + 1, INVALID, NOW_MS + number) for number in range(min(count, 100))]


def test_which_record_has_a_time():
    find = _native.records_find_timestamp
    assert [find(ROWS, HEADER, NOW_MS + later) for later in (-1, 0, 1, 7)] == [
        (0, NOW_MS), (0, NOW_MS), (1, NOW_MS + 7), (1, NOW_MS + 7)
    ]  # fmt: skip
    assert find(ROWS, HEADER, NOW_MS + 8) is None
    first = 1 + ROWS[0] // 2
    assert find(b"", HEADER, NOW_MS + 7) is find(ROWS[:first], HEADER, NOW_MS + 7) is None
    for length in (1, 2, first - 1, first + 1):
        with pytest.raises(ValueError, match="the records cannot be read"):
            find(ROWS[:length], HEADER, NOW_MS + 7)


def test_the_newest_of_each_key():
    one = encode_batch([(b"a", b"1", 5), (b"b", b"2", 5), (None, b"3", 5)], base_offset=7)
    two = encode_batch([(b"a", b"4", 5), (b"b", None, 5), (b"", b"5", 5)], base_offset=10)
    newest: dict[bytes, bytes | None] = {}
    assert _native.records_newest(one, 0, newest) == (len(one), 10) and newest == {b"a": b"1", b"b": b"2"}
    assert _native.records_newest(one + two, len(one), newest) == (len(one + two), 13)
    assert newest == {b"a": b"4", b"b": None, b"": b"5"}
    assert _native.records_newest(b"", 0, newest) == (0, -1)
    transactional = encode_batch([(b"a", b"6", 5)], base_offset=13, transactional=True, **PRODUCER)
    for behind in (transactional, two[:-1], two[:-1] + b"x", encode_batch([(b"a", b"6", 5)], codec=1)):
        assert _native.records_newest(one + behind, 0, newest) == (len(one), 10)
        assert newest[b"a"] == b"1"
    unread = raw_batch.batch(raw_batch.record(key=b"a", value=b"9"), count=2, last_delta=1)
    assert _native.records_newest(one + unread, 0, newest) == (len(one), 10)


def test_how_far_a_key_map_may_be_filled():
    for factor in (0.0, 1.0, -0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="a load factor between 0 and 1"):
            _native.KeyMap(1 << 12, factor, bytes(16))
    for factor in (5e-324, 0.5, 1 - 2**-53):
        _native.KeyMap(1 << 12, factor, bytes(16))
    for memory, fits in ((47, False), (48, True), (71, True), (72, True)):
        if fits:
            _native.KeyMap(memory, 0.5, bytes(16))
        else:
            with pytest.raises(ValueError, match="memory for two keys"):
                _native.KeyMap(memory, 0.5, bytes(16))
    keys = _native.KeyMap(24 * 100, 0.5, bytes(range(16)))
    many = [(b"%d" % number, b"v", 5) for number in range(60)]
    assert keys.learn(encode_batch(many[:50]), 0, LARGE)[0] == _native.COMPACT_END and keys.count == 50
    assert keys.learn(encode_batch(many[50:], base_offset=50), 0, LARGE) == (_native.COMPACT_FULL, 0)
    assert keys.learn(encode_batch(many[:50], base_offset=50), 0, LARGE)[0] == _native.COMPACT_END and keys.count == 50


def places_of(keys):
    """The memory of a key map, which nothing tells of: behind the head of the object the address, and for how many."""
    address, capacity = struct.unpack("<QQ", ctypes.string_at(id(keys) + object.__basicsize__, 16))
    assert capacity == 100
    return ctypes.string_at(address, 24 * capacity)


def test_a_key_stands_in_its_map_by_the_seed_that_was_given():
    """As the authors of SipHash publish it for 128 bits, the bytes 0 to 15 as seed, and nothing hashed. Another seed
    gives another hash: who does not know it cannot make two keys meet."""
    published = bytes.fromhex("a3817f04ba25a8e66df67214c7550293")
    for seed, stands_there in ((bytes(range(16)), True), (bytes(16), False), (bytes(range(1, 17)), False)):
        keys = _native.KeyMap(24 * 100, 0.5, seed)
        assert keys.learn(encode_batch([(b"", b"v", 5)]), 0, LARGE)[0] == _native.COMPACT_END
        at = 24 * (int.from_bytes(published[:8], "little") % 100)
        place = published + struct.pack("<q", 1)
        assert (places_of(keys)[at : at + 24] == place) is stands_there
        assert places_of(keys).count(bytes(24)) == 99, "it stands somewhere"


def test_how_many_ranges_were_aborted():
    """Whole ones alone count; and the last that were told."""
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    batch, whole = encode_batch([(b"k", b"v", 5)], **fields), struct.pack("<qqq", 5, 0, 9)
    for ranges, learnt in ((b"", 1), (whole[:23], 1), (whole, 0), (whole + whole[:23], 0), (b"x", 1)):
        keys = _native.KeyMap(1 << 12, 0.9, bytes(16))
        keys.set_aborted(whole), keys.set_aborted(ranges)
        assert keys.learn(batch, 0, LARGE) == (_native.COMPACT_END, len(batch)) and keys.count == learnt


def test_what_a_visitor_is_told(tmp_path):
    """A batch that is no marker has neither a kind nor a coordinator's epoch."""
    (tmp_path / "log").write_bytes(encode_batch(RECORDS, **PRODUCER))
    seen: list[tuple[int, ...]] = []
    with (tmp_path / "log").open("rb") as file:
        scan = _native.scan_segment(file.fileno(), -1, -1, 0, 4096, True, lambda *told: seen.append(told))
        assert seen == [(0, 2, NOW_MS + 7, LARGE, 500, 700, 3, 0, -1, -1)]
        assert (scan.next_offset, scan.batches, scan.aborts, scan.end, scan.last_leader_epoch) == (3, 1, 0, 0, -1)

        def refuse(*_):
            raise KeyError("no")

        with pytest.raises(KeyError):
            _native.scan_segment(file.fileno(), -1, -1, 0, 4096, True, refuse)


def test_what_a_batch_of_12_bytes_is():
    """As long as its length says, and too short for what is asked next; one less has no length."""
    assert _native.batch_check_append(bytes(12), *CHECKED).code == -1
    assert _native.batch_check_append(bytes(11), *CHECKED).code == CORRUPT


def test_who_may_begin_elsewhere_than_at_0():
    """A coordinator that writes for itself; a client may not."""
    assert [_native.batch_check_append(BATCH, *CHECKED[:-1], client).code for client in (True, False)] == [INVALID, 0]


@pytest.mark.parametrize(("before", "after", "code"), [(100, 7, 0), (99, 7, 32), (100, 6, 32)])
def test_how_far_a_time_may_be_from_the_brokers(before, after, code):
    """Of the first record and of the second, whichever call asks."""
    batch = encode_batch([(b"k", b"v", NOW_MS - 100), (b"l", b"v", NOW_MS + 7)])
    bad = -1 if code == 0 else int(before == 100)
    assert _native.records_check(batch[61:], batch[:61], False, False, NOW_MS, before, after)[::3] == (code, bad)
    count, listed = _native.records_refused(batch[61:], batch[:61], False, False, NOW_MS, before, after)
    refused = [(bad, code, NOW_MS + (7 if bad else -100))] if code else []
    assert (count, listed) == (len(refused), refused)
    told = _native.batch_check_append(batch, 1 << 20, False, False, NOW_MS, before, after, True)
    assert (told.code, told.bad_record) == (code, bad)
    assert _native.records_check(batch[61:], batch[:61], False, True, NOW_MS, before, after)[0] == 0, "its own time"


def test_a_record_that_is_longer_than_its_fields():
    """A reader takes what it says; who must understand all of it does not go on."""
    body = raw_batch.record(key=b"a", value=b"9")[1:] + b"more"
    record = raw_batch.varint(len(body)) + body
    batch = raw_batch.batch(record)
    [found] = _native.records_decode(batch[61:], batch[:61])
    assert (found.key, found.value) == (b"a", b"9")
    newest: dict[bytes, bytes | None] = {}
    assert _native.records_newest(batch, 0, newest) == (0, -1) and newest == {}
