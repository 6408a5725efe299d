"""Elections: one controller for an epoch, epochs without gaps, a guard that the deposed one cannot pass."""

import pytest

from mpbroker.metadata.cluster_records import ControllerEpochRecord, ControllerRecord
from mpbroker.metadata.controller_election import Another, Elected, elect, resign
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import (
    Absent,
    Committed,
    Conflict,
    Delete,
    Put,
    StoreError,
    StoreTimeout,
    Value,
    Version,
)
from mpbroker.metadata.topic_record import decode_record, encode_record
from tests.unit.metadata.test_broker_registration import Unsure

KEYS = Keys("c")


@pytest.fixture
def store():
    return Unsure()


def _elect(store, node, term):
    session = store.session_open(9000, f"broker-{node}")
    return elect(store, KEYS, node, term, session), session


def _epoch(store):
    _, entry = store.get(KEYS.controller_epoch)
    return decode_record(ControllerEpochRecord, entry.value, "key").epoch


def test_the_first_one_has_epoch_one_and_the_others_follow_it(store):
    won, _ = _elect(store, 1, "a")
    lost, _ = _elect(store, 2, "b")
    assert (won.epoch, won.rev, _epoch(store)) == (1, 1, 1)
    assert isinstance(lost, Another)
    assert (lost.record.id, lost.record.epoch) == (1, 1)


def test_the_next_one_fences_the_last(store):
    first, session = _elect(store, 1, "a")
    assert isinstance(store.txn([first.guard], [Put("x", b"1")], tag=""), Committed)
    store.session_close(session)
    second, _ = _elect(store, 2, "b")
    assert second.epoch == 2
    assert isinstance(store.txn([first.guard], [Put("x", b"old")], tag=""), Conflict)
    assert isinstance(store.txn([second.guard], [Put("x", b"2")], tag=""), Committed)


def test_of_two_that_try_at_once_one_wins(store, monkeypatch):
    mine, other = store.session_open(9000, "broker-1"), store.session_open(9000, "broker-2")
    get = store.get

    def then_the_other_is_faster(key):
        found = get(key)
        if key == KEYS.controller_epoch and found[1] is None:
            monkeypatch.setattr(store, "get", get)
            assert elect(store, KEYS, 2, "b", other).epoch == 1
        return found

    monkeypatch.setattr(store, "get", then_the_other_is_faster)
    assert elect(store, KEYS, 1, "a", mine).record.id == 2
    assert _epoch(store) == 1


def test_the_successor_of_a_dead_process_of_the_same_broker_does_not_wait(store):
    _elect(store, 1, "a")
    again, _ = _elect(store, 1, "b")
    assert (again.epoch, _epoch(store)) == (2, 2)


@pytest.mark.parametrize("unknown", [("done",), ("lost",), ("lost", "lost", "done")])
def test_what_nobody_knows_is_looked_up(store, unknown):
    store.unknown = unknown
    won, _ = _elect(store, 1, "a")
    assert isinstance(won, Elected)
    assert (won.epoch, _epoch(store)) == (1, 1)
    assert isinstance(store.txn([won.guard], [Put("x", b"")], tag=""), Committed)


def test_it_gives_up_at_some_time(store):
    store.unknown = ("lost",) * 50
    with pytest.raises(StoreTimeout, match="5 attempts"):
        _elect(store, 1, "a")


def test_nobody_is_elected_with_a_session_that_has_ended(store):
    session = store.session_open(9000, "broker-1")
    store.session_close(session)
    with pytest.raises(StoreError, match="ended"):
        elect(store, KEYS, 1, "a", session)


def test_resigning_lets_the_next_one_in_and_takes_nobody_elses_place(store):
    first, _ = _elect(store, 1, "a")
    resign(store, KEYS, first, 1, "a")
    second, _ = _elect(store, 2, "b")
    assert second.epoch == 2
    resign(store, KEYS, first, 1, "a")
    assert store.get(KEYS.controller)[1] is not None


def _put(store, key, record, session=None):
    assert isinstance(store.txn([], [Put(key, encode_record(record), session and session.id)], tag=""), Committed)


@pytest.mark.parametrize("last", [2**31 - 3, 2**31 - 2, 2**31 - 1])
def test_epochs_are_numbers_of_the_wire_and_end_with_them(store, last):
    """int32 in every request of a controller."""
    _put(store, KEYS.controller_epoch, ControllerEpochRecord(last))
    if last < 2**31 - 1:
        assert _elect(store, 1, "a")[0].epoch == last + 1 == _epoch(store)
        return
    with pytest.raises(OverflowError):
        _elect(store, 1, "a")
    assert store.get(KEYS.controller)[1] is None and _epoch(store) == last


def test_one_that_was_elected_before_it_knew_has_that_elections_guard(store):
    _put(store, KEYS.controller_epoch, ControllerEpochRecord(6))
    first, _ = _elect(store, 1, "a")
    store.txn([], [Put("x", b"")], tag="")
    again, _ = _elect(store, 1, "a")
    assert again == first == Elected(7, Version(KEYS.controller_epoch, 2), 2)


@pytest.mark.parametrize("epoch", [None, 6, 8])
def test_an_election_that_somebody_has_followed_already_is_over(store, epoch):
    session = store.session_open(9000, "broker-1")
    _put(store, KEYS.controller, ControllerRecord(1, 7, "a"), session)
    if epoch is not None:
        _put(store, KEYS.controller_epoch, ControllerEpochRecord(epoch))
    with pytest.raises(StoreTimeout, match=f"^{KEYS.controller}: the election of epoch 7 is over$"):
        elect(store, KEYS, 1, "a", session)


def test_a_term_of_ours_that_no_session_ends_stands(store):
    _put(store, KEYS.controller, ControllerRecord(1, 7, "old"))
    found, _ = _elect(store, 1, "a")
    assert found == Another(ControllerRecord(1, 7, "old"))


def test_another_brokers_session_is_left_alone(store):
    first, session = _elect(store, 2, "b")
    assert first.epoch == 1 and isinstance(_elect(store, 1, "a")[0], Another)
    assert store.session_renew(session) and isinstance(_elect(store, 2, "b")[0], Elected)


def test_both_keys_of_a_term_are_written_together_behind_a_look_at_both(store):
    asked, txn = [], store.txn
    store.txn = lambda checks, ops, *, tag: asked.append((checks, ops, tag)) or txn(checks, ops, tag=tag)
    won, session = _elect(store, 1, "a")
    record = encode_record(ControllerRecord(1, 1, "a"))
    epoch = encode_record(ControllerEpochRecord(1))
    puts = [Put(KEYS.controller, record, session.id), Put(KEYS.controller_epoch, epoch)]
    resign(store, KEYS, won, 1, "a")
    assert asked == [
        ([Absent(KEYS.controller), Absent(KEYS.controller_epoch)], puts, "a"),
        ([won.guard, Value(KEYS.controller, record)], [Delete(KEYS.controller)], "resign a"),
    ]
    assert store.get(KEYS.controller)[1] is None and _epoch(store) == 1
