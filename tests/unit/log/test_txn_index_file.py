"""Files of aborted transactions: what may stand in one, what a crash leaves, what is kept aside."""

import struct

import pytest

from mpbroker.log.txn_index_file import AbortedTxn, is_sound, read_aborted, write_aborted

ONE, TWO = AbortedTxn(7, 10, 20, 20), AbortedTxn(8, 15, 30, 21)
ENTRY_BYTES = 34


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "00000000000000000010.txnindex")


@pytest.mark.parametrize(
    ("offsets", "sound"),
    [((), True), ((10,), True), ((29,), True), ((10, 20, 29), True), ((9,), False), ((30,), False), ((20, 12), False)],
)
def test_markers_ascend_within_their_segment(offsets, sound):
    assert is_sound([AbortedTxn(1, 0, offset, 0) for offset in offsets], 10, 30) is sound


def test_what_is_written_is_read_entry_by_entry_as_kafka_stores_it(path):
    assert read_aborted(path) == []
    write_aborted(path, [ONE, TWO])
    assert read_aborted(path) == [ONE, TWO]
    with open(path, "rb") as file:
        assert file.read(ENTRY_BYTES) == struct.pack(">hqqqq", 0, *ONE)


def test_an_end_that_is_being_written_is_no_fault_where_that_may_be(path):
    write_aborted(path, [ONE, TWO])
    with open(path, "r+b") as file:
        file.truncate(2 * ENTRY_BYTES - 1)
    assert read_aborted(path, cut_off=True) == [ONE]
    with pytest.raises(ValueError, match="67 bytes are not a whole number"):
        read_aborted(path)


def test_an_entry_of_another_version_is_refused(path):
    with open(path, "wb") as file:
        file.write(struct.pack(">hqqqq", 1, *ONE))
    with pytest.raises(ValueError, match="unknown version"):
        read_aborted(path)


@pytest.mark.parametrize(
    ("there", "wanted", "aside"),
    [
        ([ONE], [ONE, TWO], False),
        ([ONE, TWO], [ONE], False),
        ([TWO], [ONE], True),
        ([ONE], [], True),
        ([], [ONE], False),
    ],
    ids=["an end is missing", "an end too many", "another one", "none wanted", "none there"],
)
def test_a_file_that_says_something_else_is_kept_aside(path, tmp_path, there, wanted, aside):
    write_aborted(path, there)
    write_aborted(path, wanted)
    assert read_aborted(path) == wanted
    assert any(".cut" in one.name for one in tmp_path.iterdir()) is aside
