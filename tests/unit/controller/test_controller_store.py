"""What the controller's store says around a transaction that may take its time, and what it gives out."""

import pytest

from mpbroker.controller import controller_store as module
from mpbroker.controller.controller_context import TopicState
from mpbroker.controller.controller_store import (
    MAX_OPERATIONS_KEPT,
    MAX_PRODUCER_ID,
    PRODUCER_ID_BLOCK,
    BrokerLayer,
    ControllerStore,
    GroupLayer,
    StoreChanged,
)
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Delete, Put, Unknown
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


def test_producer_ids_that_logs_know_are_not_given_out_again():
    kept = ControllerStore(MemoryStore(), KEYS, 1)
    assert not kept.pass_producer_ids(-1) and kept.pass_producer_ids(0)
    assert kept.pass_producer_ids(4711) and not kept.pass_producer_ids(4711) and not kept.pass_producer_ids(17)
    assert [kept.allocate_producer_ids() for _ in range(2)] == [4712, 4712 + PRODUCER_ID_BLOCK]
    assert not kept.pass_producer_ids(4712 + 2 * PRODUCER_ID_BLOCK - 1), "the last that was given out"
    assert not kept.pass_producer_ids(MAX_PRODUCER_ID) and kept.pass_producer_ids(MAX_PRODUCER_ID // 2)
    assert kept.allocate_producer_ids() == MAX_PRODUCER_ID // 2 + 1


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


def topic(name="t", number=7, **configs):
    own = {key.replace("_", "."): text for key, text in configs.items()}
    return TopicState(bytes([number] * 16), name, [[0]], own, 1)


def loaded(store):
    """As the next controller finds them."""
    return {one.name: one for one in ControllerStore(store, KEYS, 9).load_topics()}


def test_topics_are_known_after_a_change_as_the_next_controller_finds_them():
    """Versions and revisions too: the next change builds upon them."""
    store = MemoryStore()
    kept = ControllerStore(store, KEYS, 1)
    plain, own = topic("plain", 1), topic("own", 2, retention_ms="5")
    kept.create_topics([plain, own], 0, b"")
    assert loaded(store) == {"plain": plain, "own": own}
    assert (plain.config_version, own.config_version, own.record_version) == (0, 1, 1)
    assert {one.revision for one in (plain, own)} == {store.revision()}
    plain.replicas = [[0], [0]]
    kept.add_partitions([plain], 0, b"")
    assert plain.record_version == 2 and loaded(store) == {"plain": plain, "own": own}
    kept.alter_configs([(plain, {"segment.bytes": "9"}), (own, {})], [], 0, b"")
    assert (plain.config_version, own.config_version) == (1, 0) and (plain.configs, own.configs) == (
        {"segment.bytes": "9"}, {},
    )  # fmt: skip
    found = loaded(store)
    assert found["plain"] == plain and (found["own"].configs, found["own"].config_version) == ({}, 0)
    kept.alter_configs([(plain, {"segment.bytes": "10"}), (own, {"retention.ms": "6"})], [], 0, b"")
    assert (plain.config_version, own.config_version) == (2, 1) and loaded(store) == {"plain": plain, "own": own}


def test_layers_of_brokers_and_groups_are_written_upon_their_versions():
    """A broker's layer stays when it is empty, a group's goes."""
    store = MemoryStore()
    kept = ControllerStore(store, KEYS, 1)
    wanted = [BrokerLayer(None, {"a": "1"}), BrokerLayer(3, {"b": "2"}), GroupLayer("g", {"c": "3"})]
    first = kept.alter_configs([], wanted, 0, b"")
    assert first == [one._replace(version=1) for one in wanted]
    found = ControllerStore(store, KEYS, 2)
    assert found.load_broker_configs() == {None: first[0], 3: first[1]}
    assert found.load_group_configs() == {"g": first[2]}
    second = kept.alter_configs([], [one._replace(configs={}) for one in first], 0, b"")
    assert [one.version for one in second] == [2, 2, 0]
    assert found.load_broker_configs() == {None: second[0], 3: second[1]} and found.load_group_configs() == {}
    third = kept.alter_configs([], [one._replace(configs={"d": "4"}) for one in second], 0, b"")
    assert [one.version for one in third] == [3, 3, 1]
    for stale in second:
        with pytest.raises(StoreChanged):
            kept.alter_configs([], [stale._replace(configs={"e": "5"})], 0, b"")


def other_version(store, key):
    value = store.get(key)[1].value
    store.txn((), (Put(key, value),), tag="t")


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        (lambda kept, one: kept.add_partitions([one], 0, b""), KEYS.topic(TOPIC.id)),
        (lambda kept, one: kept.delete_topics([one], 0, b""), KEYS.topic(TOPIC.id)),
        (lambda kept, one: kept.alter_configs([(one, {"a": "b"})], [], 0, b""), KEYS.topic(TOPIC.id)),
        (lambda kept, one: kept.alter_configs([(one, {"a": "b"})], [], 0, b""), KEYS.topic_config("t")),
        (lambda kept, one: kept.create_topics([topic("t", 9)], 0, b""), None),
    ],
    ids=["more partitions", "deletion", "settings", "settings of their own", "creation"],
)
def test_what_another_changed_meanwhile_is_not_written_over(change, touched):
    store = MemoryStore()
    kept, one = ControllerStore(store, KEYS, 1), topic(retention_ms="5")
    kept.create_topics([one], 0, b"")
    if touched is not None:
        other_version(store, touched)
    before = store.revision()
    with pytest.raises(StoreChanged):
        change(kept, one)
    assert store.revision() == before


def test_settings_of_a_topic_that_has_none_yet_are_not_written_over_those_of_another():
    store = MemoryStore()
    kept, one = ControllerStore(store, KEYS, 1), topic()
    kept.create_topics([one], 0, b"")
    store.txn((), (Put(KEYS.topic_config("t"), b"{}"),), tag="t")
    with pytest.raises(StoreChanged):
        kept.alter_configs([(one, {"a": "b"})], [], 0, b"")


def test_directories_of_partitions_that_are_no_more_are_not_kept():
    store, one = MemoryStore(), topic()
    one.directories = ["a", "b", "c"]
    ControllerStore(store, KEYS, 1).create_topics([one], 0, b"")
    assert loaded(store)["t"].directories == ["a"]


def test_a_deletion_is_kept_until_it_is_finished():
    store = MemoryStore()
    kept = ControllerStore(store, KEYS, 1)
    one = topic()
    kept.create_topics([one], 0, b"")
    deletions = kept.delete_topics([one], 0, b"")
    assert kept.load_deletions() == deletions and kept.load_topics() == []
    kept.finish_deletion(one.id)
    assert kept.load_deletions() == []


def test_levels_that_were_never_written_are_those_of_a_new_cluster_and_come_back_as_they_were():
    store = MemoryStore()
    kept = ControllerStore(store, KEYS, 1)
    levels = kept.load_features()
    written = levels._replace(epoch=3, metadata_version=4, kraft_version=1, transaction_version=2, group_version=1)
    kept.update_features(written, 0, b"")
    kept.update_features(written, 0, b"")
    ControllerStore(MemoryStore(), KEYS, 1).update_features(written, 0, b"")  # where nothing is stored, unread
    assert ControllerStore(store, KEYS, 2).load_features() == written
    store.txn((), (Delete(KEYS.features),), tag="t")
    assert kept.load_features() == levels
    kept.update_features(written, 0, b"")


def test_producer_ids_that_another_takes_at_the_same_time_are_not_given_out_twice():
    store = MemoryStore()
    first, second = ControllerStore(store, KEYS, 1), ControllerStore(store, KEYS, 2)
    for taken in (0, PRODUCER_ID_BLOCK):
        get = store.get

        def forestalled(key, get=get):
            found = get(key)
            store.get = get
            assert second.allocate_producer_ids() is not None
            return found

        store.get = forestalled
        with pytest.raises(StoreChanged):
            first.allocate_producer_ids()
        assert second.allocate_producer_ids() == 2 * taken + PRODUCER_ID_BLOCK


def test_what_is_kept_of_answers_and_given_out_of_producer_ids():
    """Blocks and their end are Kafka's; an answer is kept for as many commands as may be under way at once."""
    assert (PRODUCER_ID_BLOCK, MAX_PRODUCER_ID, MAX_OPERATIONS_KEPT) == (1000, 2**63 - 1, 512)
    store = MemoryStore()
    kept = ControllerStore(store, KEYS, 1)
    kept.create_topics([topic()], 0, b"")
    kept.finish_deletion(TOPIC.id)
    kept.allocate_producer_ids()
    assert [page.entries for page in store.scan(KEYS.operations)] == [()], "no answer of a command without a number"
