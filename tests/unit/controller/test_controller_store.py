"""What the controller's store says around a transaction that may take its time, and what it gives out."""

import pytest

from mpbroker.controller import controller_store as module
from mpbroker.controller.controller_context import TopicState
from mpbroker.controller.controller_store import MAX_PRODUCER_ID, PRODUCER_ID_BLOCK, ControllerStore, StoreChanged
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Put, Unknown
from mpbroker.metadata.topic_record import ProducerIdBlock, encode_record
from tests.harness.memory_store import MemoryStore

KEYS = Keys("c")
TOPIC = TopicState(bytes([7] * 16), "t", [[0]], {}, 1)


def test_who_watches_the_process_knows_when_it_waits():
    said, store = [], MemoryStore()
    kept, txn = ControllerStore(store, KEYS, 1, said.append), store.txn
    store.txn = lambda *words, **named: said.append("txn") or txn(*words, **named)
    kept.create_topics([TOPIC], 0, b"")
    assert said == [True, "txn", False]
    store.txn = lambda *words, **named: Unknown("no answer")
    with pytest.raises(StoreChanged):
        kept.delete_topics([TOPIC], 0, b"")
    assert said[3:] == [True, False], "also when it fails"


def test_producer_ids_are_given_out_once_and_not_beyond_the_last():
    store = MemoryStore()
    kept = ControllerStore(store, KEYS, 1)
    assert [kept.allocate_producer_ids() for _ in range(2)] == [0, PRODUCER_ID_BLOCK]
    key = next(entry.key for page in store.scan("") for entry in page.entries if b"next_id" in entry.value)
    for first, given in ((MAX_PRODUCER_ID - PRODUCER_ID_BLOCK, True), (MAX_PRODUCER_ID - PRODUCER_ID_BLOCK + 1, False)):
        store.txn((), (Put(key, encode_record(ProducerIdBlock(first))),), tag="t")
        assert kept.allocate_producer_ids() == (first if given else None)


def test_a_topic_that_is_deleted_leaves_nothing_but_its_deletion():
    store = MemoryStore()
    kept = ControllerStore(store, KEYS, 1)
    kept.create_topics([TOPIC], 0, b"")
    store.txn((), (Put(KEYS.topic_config("t"), b"{}"),), tag="t")
    [deletion] = kept.delete_topics([TOPIC], 0, b"")
    assert (deletion.name, deletion.partitions) == ("t", 1)
    left = {entry.key for page in store.scan("") for entry in page.entries}
    assert KEYS.deletion(TOPIC.id) in left
    assert not left & {KEYS.topic(TOPIC.id), KEYS.topic_name("t"), KEYS.topic_config("t")}


def test_levels_that_another_changed_meanwhile_are_not_written_over():
    store = MemoryStore()
    first, second = ControllerStore(store, KEYS, 1), ControllerStore(store, KEYS, 2)
    levels = first.load_features()
    second.load_features()
    first.update_features(levels._replace(epoch=levels.epoch + 1), 0, b"")
    with pytest.raises(StoreChanged):
        second.update_features(levels._replace(epoch=levels.epoch + 1), 0, b"")
    again = second.load_features()
    assert again.epoch == levels.epoch + 1
    second.update_features(again._replace(epoch=again.epoch + 1), 0, b"")
    assert first.load_features().epoch == levels.epoch + 2


def test_of_answers_the_oldest_goes_when_there_are_enough(monkeypatch):
    monkeypatch.setattr(module, "MAX_OPERATIONS_KEPT", 2)
    store = MemoryStore()
    kept = ControllerStore(store, KEYS, 1)
    for operation in (11, 12, 13, 14):
        topic = TopicState(bytes([operation] * 16), f"t{operation}", [[0]], {}, 1)
        kept.create_topics([topic], operation, b"answer %d" % operation)
    left = [number for number in (11, 12, 13, 14) if store.get(KEYS.operation(1, number))[1] is not None]
    assert left == [13, 14]


def test_answers_of_earlier_starts_go_and_those_of_this_one_stay():
    store = MemoryStore()
    for start in (1, 2, 3):
        kept = ControllerStore(store, KEYS, start)
        kept.create_topics([TopicState(bytes([start] * 16), f"t{start}", [[0]], {}, 1)], 5, b"answer %d" % start)
    kept = ControllerStore(store, KEYS, 2)
    kept.load_operations()
    assert kept.answer_of(5) == b"answer 2" and kept.answer_of(6) is None
    left = [entry.key for page in store.scan(KEYS.operations) for entry in page.entries]
    assert left == [KEYS.operation(2, 5)]
    txns = []
    txn = store.txn
    store.txn = lambda *words, **named: txns.append(named) or txn(*words, **named)
    kept.load_operations()
    assert txns == [], "nothing to forget"
