"""Registration: one broker for each id, an epoch that grows, and what a start finds of the one before."""

from types import SimpleNamespace

import msgspec
import pytest

from mpbroker.metadata.broker_registration import Occupied, Registered, _resume, owner_of, register
from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord
from mpbroker.metadata.controller_election import elect
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import (
    Absent,
    Committed,
    Conflict,
    Entry,
    Put,
    Session,
    StoreTimeout,
    Unknown,
    Version,
)
from mpbroker.metadata.topic_record import decode_record, encode_record
from tests.harness.memory_store import MemoryStore

KEYS = Keys("c")
RECORD = BrokerRecord(1, "machine", "directory", "start-1", [ListenerRecord("PLAINTEXT", "PLAINTEXT", "h", 9092)])


class Unsure(MemoryStore):
    """Answers Unknown as often as it is told, before or after it did what was asked."""

    unknown: tuple[str, ...] = ()

    def txn(self, checks, ops, *, tag):
        if not self.unknown:
            return super().txn(checks, ops, tag=tag)
        done, self.unknown = self.unknown[0], self.unknown[1:]
        if done == "done":
            super().txn(checks, ops, tag=tag)
        return Unknown(tag)


@pytest.fixture
def store():
    return Unsure()


def _register(store, record=RECORD):
    return register(store, KEYS, record, 9000)


def _known(store):
    _, entry = store.get(KEYS.broker(1))
    return decode_record(BrokerRecord, entry.value, "key"), entry


def test_the_epoch_is_the_revision_of_the_registration(store):
    store.txn([], [], tag="")
    found = _register(store)
    assert isinstance(found, Registered)
    assert (found.epoch, found.resumed, found.session.owner) == (1, False, owner_of(1))
    assert (_known(store)[0], _known(store)[1].session) == (RECORD, found.session.id)


def test_a_new_process_of_the_same_start_goes_on(store):
    first = _register(store)
    assert _register(store) == Registered(first.epoch, first.session, resumed=True)
    moved = msgspec.structs.replace(RECORD, rack="b")
    assert _register(store, moved) == Registered(first.epoch, first.session, resumed=True)
    assert _known(store)[0] == moved


def test_a_registration_that_ended_is_made_anew_with_a_higher_epoch(store):
    first = _register(store)
    store.session_close(first.session)
    second = _register(store)
    assert (second.resumed, second.epoch > first.epoch) == (False, True)


def test_a_broker_that_starts_again_does_not_wait_for_its_old_session(store):
    first = _register(store)
    controller = store.session_open(9000, owner_of(1))
    elect(store, KEYS, 1, "term", controller)
    second = _register(store, msgspec.structs.replace(RECORD, incarnation="start-2"))
    assert second.epoch > first.epoch
    assert not store.session_renew(first.session)
    assert not store.session_renew(controller)
    assert store.get(KEYS.controller)[1] is None


def test_it_leaves_another_brokers_controller_alone(store):
    _register(store)
    controller = store.session_open(9000, owner_of(2))
    elect(store, KEYS, 2, "term", controller)
    _register(store, msgspec.structs.replace(RECORD, incarnation="start-2"))
    assert store.get(KEYS.controller)[1] is not None


@pytest.mark.parametrize("other", [{"machine": "another"}, {"directory": "another"}])
def test_another_broker_with_the_id_is_refused(store, other):
    first = _register(store)
    found = _register(store, msgspec.structs.replace(RECORD, incarnation="start-2", **other))
    assert found == Occupied(RECORD)
    assert found.sentence == "another broker has node.id 1 in this cluster: PLAINTEXT://h:9092; give each its own"
    store.session_close(first.session)
    assert isinstance(_register(store, msgspec.structs.replace(RECORD, incarnation="start-2", **other)), Registered)


def test_who_is_overtaken_leaves_no_session_behind(store):
    """Another broker of the id was quicker between the look and the registration."""
    other, opened, txn = msgspec.structs.replace(RECORD, incarnation="start-2", machine="another"), [], store.txn
    session_open = store.session_open
    store.session_open = lambda *how: opened.append(session_open(*how)) or opened[-1]

    def overtaken(*arguments, tag):
        store.txn = txn
        assert isinstance(_register(store, other), Registered)
        return txn(*arguments, tag=tag)

    store.txn = overtaken
    assert _register(store) == Occupied(other)
    ours, theirs = opened
    assert not store.session_renew(ours) and store.session_renew(theirs)


@pytest.mark.parametrize("unknown", [("done",), ("lost",), ("lost", "done"), ("lost", "lost", "done")])
def test_what_nobody_knows_is_looked_up(store, unknown):
    store.unknown = unknown
    found = _register(store)
    assert found.epoch == _known(store)[1].create_rev
    assert found.session.id == _known(store)[1].session
    assert len(store._sessions) == 1


def test_it_gives_up_at_some_time(store):
    store.unknown = ("lost",) * 50
    with pytest.raises(StoreTimeout, match="5 attempts"):
        _register(store)


@pytest.mark.parametrize("is_renewed", [True, False, None])
def test_a_start_goes_on_with_a_session_that_lives(is_renewed):
    """None: nobody finds it."""
    renewed, entry = [], Entry(KEYS.broker(1), b"", 3, 7, 9, 5)
    store = SimpleNamespace(
        session_find=lambda number: None if is_renewed is None else f"session {number}",
        session_renew=lambda session: renewed.append(session) or is_renewed,
    )
    found = _resume(store, entry, RECORD, RECORD)
    assert (found is not None) is bool(is_renewed) and renewed == ([] if is_renewed is None else ["session 5"])
    if found is not None:
        assert (found.session, found.resumed) == ("session 5", True)
    assert _resume(store, msgspec.structs.replace(entry, session=None), RECORD, RECORD) is None


@pytest.mark.parametrize(
    ("outcome", "goes_on"), [(Committed(9), True), (Unknown("start-1"), True), (Conflict((None,)), False)]
)
def test_other_addresses_are_written_where_nobody_else_was(outcome, goes_on):
    """Unknown: whoever wrote there meanwhile had to see the old ones, and the next look tells."""
    asked = []
    store = SimpleNamespace(
        session_find=lambda number: Session(number, "broker-1", 9000),
        session_renew=lambda session: True,
        txn=lambda checks, ops, *, tag: asked.append((checks, ops, tag)) or outcome,
    )
    key, moved = KEYS.broker(1), msgspec.structs.replace(RECORD, rack="b")
    found = _resume(store, Entry(key, b"", 3, 7, 9, 5), RECORD, moved)
    assert asked == [([Version(key, 3)], [Put(key, encode_record(moved), 5)], "start-1")]
    assert found == (Registered(7, Session(5, "broker-1", 9000), resumed=True) if goes_on else None)


def test_a_registration_is_for_nobody_who_is_there(store):
    asked, txn = [], store.txn
    store.txn = lambda checks, ops, *, tag: asked.append((checks, ops, tag)) or txn(checks, ops, tag=tag)
    found = _register(store)
    key = KEYS.broker(1)
    assert asked == [([Absent(key)], [Put(key, encode_record(RECORD), found.session.id)], "start-1")]


def test_one_without_a_session_is_in_the_way_until_somebody_takes_it_away(store):
    """It cannot be ended, nor gone on with."""
    for record in (RECORD, msgspec.structs.replace(RECORD, incarnation="start-2")):
        store.txn([], [Put(KEYS.broker(1), encode_record(record))], tag="")
        with pytest.raises(StoreTimeout, match=f"^{KEYS.broker(1)}: no registration in 5 attempts$"):
            _register(store)


def test_all_listeners_of_the_other_broker_are_named():
    listeners = [ListenerRecord("A", "SSL", "h", 1), ListenerRecord("B", "PLAINTEXT", "i", 2)]
    found = Occupied(msgspec.structs.replace(RECORD, id=4, listeners=listeners))
    assert found.sentence.startswith("another broker has node.id 4 in this cluster: A://h:1, B://i:2; ")
