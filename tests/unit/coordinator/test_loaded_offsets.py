"""What was read of a partition of offsets: the newest value of each key in the log's order, transactions by their
markers."""

from mpbroker.coordinator.loaded_offsets import LOADED, LoadedOffsets

A, B = b"a", b"b"


def test_without_transactions_the_last_one_counts():
    found = LoadedOffsets()
    found.add([(A, b"1"), (B, b"2")])
    found.add([(A, None)])
    assert found.newest == {A: None, B: b"2"} and found.waiting == {}


def test_a_transaction_counts_at_its_marker_and_an_aborted_one_never():
    found = LoadedOffsets()
    found.add_transactional(1, 10, [(A, b"1"), (B, None)])
    found.add_transactional(2, 11, [(B, b"2")])
    assert found.newest == {} and found.waiting == {1: {A: (b"1", LOADED + 11)}, 2: {B: (b"2", LOADED + 12)}}
    found.end(1, True)
    assert found.newest == {A: b"1"}
    found.end(2, False)
    found.end(3, True)
    assert found.newest == {A: b"1"} and found.waiting == {}


def test_what_lies_behind_it_and_counts_already_stays():
    """Of the same key alone, whichever transaction waits with it."""
    found = LoadedOffsets()
    found.add_transactional(1, 10, [(A, b"1"), (B, b"1")])
    found.add_transactional(2, 11, [(B, b"2")])
    found.add([(A, b"9")])
    assert found.waiting == {1: {A: (b"1", LOADED - 1), B: (b"1", LOADED + 11)}, 2: {B: (b"2", LOADED + 12)}}
    found.end(1, True)
    assert found.newest == {A: b"9", B: b"1"}
    found.end(2, True)
    assert found.newest == {A: b"9", B: b"2"}


def test_of_two_transactions_the_later_record_counts_whichever_ends_first():
    for first, second in ((1, 2), (2, 1)):
        found = LoadedOffsets()
        found.add_transactional(1, 10, [(A, b"1")])
        found.add_transactional(2, 11, [(A, b"2")])
        found.end(first, True)
        found.end(second, True)
        assert found.newest == {A: b"2"}


def test_where_a_record_says_that_there_is_nothing_nothing_is_waited_for():
    found = LoadedOffsets()
    found.add_transactional(1, 10, [(A, b"1"), (B, b"1")])
    found.add([(A, None)])
    assert found.waiting == {1: {B: (b"1", LOADED + 11)}}
    found.end(1, True)
    assert found.newest == {A: None, B: b"1"}
