"""The controller's image of the store: whatever it is told, and in whatever order its own commits and the watch's
batches come, it is in the end what a scan of the store shows."""

from random import Random

import pytest

from mpbroker.cluster.cluster_image import DELETED_LEADER, NO_LEADER, ClusterImage, PartitionId
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Delete, DeletePrefix, Put
from mpbroker.metadata.topic_record import TopicConfigRecord, TopicRecord, encode_record
from tests.harness.memory_store import MemoryStore
from tests.unit.cluster.controller_bench import broker_record

KEYS = Keys("c")
TOPICS = {name: bytes([number]) * 16 for number, name in enumerate(("a", "b.c", "b_c", "d"))}
PARTITIONS = 3


def put(key, record):
    return Put(key, encode_record(record))


def some_op(rng):
    """One that a controller or an agent may do, in any order."""
    name = rng.choice(list(TOPICS))
    topic_id, broker = TOPICS[name], rng.randrange(4)
    replicas = [rng.sample(range(4), 2) for _ in range(rng.randrange(1, PARTITIONS + 1))]
    moving = [[rng.randrange(4)]] * rng.randrange(len(replicas) + 1)
    topic = TopicRecord(topic_id.hex(), name, replicas, 5, adding=moving, removing=moving[:1])
    partition = KEYS.partition(topic_id, rng.randrange(PARTITIONS))
    return rng.choice(
        [
            put(KEYS.topic(topic_id), topic),
            put(partition, PartitionRecord(broker, rng.randrange(9), [broker], 1)),
            put(partition, PartitionRecord(broker, rng.randrange(9), [broker], 1)),
            put(KEYS.broker(broker), broker_record(broker, life=rng.randrange(9))),
            put(KEYS.topic_config(name), TopicConfigRecord({"retention.ms": str(rng.randrange(9))})),
            Put(KEYS.producer_id_block, b'{"next_id": 1000}'),
            Put(KEYS.features, b"{}"),
            Delete(KEYS.topic(topic_id)),
            Delete(KEYS.broker(broker)),
            Delete(KEYS.topic_config(name)),
            Delete(partition),
            DeletePrefix(KEYS.partitions_of(topic_id)),
            DeletePrefix(KEYS.partitions),
            DeletePrefix(KEYS.brokers),
            DeletePrefix(KEYS.topics),
        ]
    )


def loaded(store):
    image = ClusterImage(KEYS)
    for page in store.scan(KEYS.prefix):
        image.load(page.rev, page.entries)
    return image


def known(image):
    """Everything that it says, however it came to know it."""
    return {
        "rev": image.rev,
        "brokers": image.brokers,
        "topics": image.topics,
        "by_name": {name: image.topic(name).id for name in image.by_name},
        "partitions": image.partitions,
        "configs": {name: image.configs_of(name) for name in TOPICS},
        "producer ids": image.producer_id_block,
        "hosted": {broker: held for broker, held in image.hosted.items() if held},
        "colliding": {name: image.colliding(name) is not None for name in TOPICS},
        "orphans": sorted(image.orphans()),
        "keys": {entry.key for page in (image.entry(key) for key in ALL) if (entry := page)},
    }


ALL = [
    KEYS.producer_id_block,
    KEYS.features,
    *(KEYS.broker(broker) for broker in range(4)),
    *(KEYS.topic(topic_id) for topic_id in TOPICS.values()),
    *(KEYS.topic_config(name) for name in TOPICS),
    *(KEYS.partition(topic_id, number) for topic_id in TOPICS.values() for number in range(PARTITIONS)),
]


@pytest.mark.parametrize("seed", range(30))
def test_own_commits_and_the_watch_come_to_what_the_store_has(seed):
    rng = Random(seed)
    store, watched = MemoryStore(), 0
    image = loaded(store)
    for _ in range(60):
        ops = [some_op(rng)]
        if rng.random() < 0.3 and isinstance(ops[0], Put) and isinstance(other := some_op(rng), Put | Delete):
            ops += [other] if other.key != ops[0].key else []
        before = store.revision()
        store.txn([], ops, tag="")
        if store.revision() > before and rng.random() < 0.5:
            image.commit(store.revision(), ops)
        while watched < store.revision() and rng.random() < 0.7:
            watched += 1
            image.apply(watched, store._history[watched])
    for rev in range(watched + 1, store.revision() + 1):
        image.apply(rev, store._history[rev])
    assert image._gone == {}, "nothing older can come any more, so nothing is kept of what is gone"
    states = {(topic_id, number) for topic_id, numbers in image._states.items() for number in numbers}
    assert states == set(image.partitions) and all(image._states.values()), "and nothing of a topic that has none"
    wanted = known(loaded(store))
    if wanted["colliding"] != (found := known(image))["colliding"]:
        both = {"b.c", "b_c"} & found["by_name"].keys()
        assert both, "two names that collide, of which only one is left"
        found["colliding"] = wanted["colliding"]
    assert found == wanted


def test_a_conflict_shows_what_is_there_now():
    store = MemoryStore()
    store.txn([], [put(KEYS.broker(1), broker_record(1)), put(KEYS.broker(2), broker_record(2))], tag="")
    image = loaded(store)
    store.txn([], [Delete(KEYS.broker(1)), put(KEYS.broker(3), broker_record(3))], tag="")
    keys = [KEYS.broker(broker) for broker in (1, 2, 3, 4)]
    changes = image.correct({key: store.get(key)[1] for key in keys})
    assert [(change.kind, change.id, change.after is None) for change in changes] == [
        ("broker", 1, True),
        ("broker", 3, False),
    ]
    assert image.alive(2) and image.alive(3) and not image.alive(1)
    assert image.correct({key: store.get(key)[1] for key in keys}) == [], "nothing is new"


def test_what_is_gone_does_not_come_back_by_an_older_batch():
    store = MemoryStore()
    store.txn([], [put(KEYS.broker(1), broker_record(1))], tag="")
    image = ClusterImage(KEYS)
    store.txn([], [Delete(KEYS.broker(1))], tag="")
    image.apply(1, store._history[1])
    image.commit(2, [Delete(KEYS.broker(1))])
    assert image.apply(1, store._history[1]) == [] and not image.alive(1)
    assert image.apply(2, store._history[2]) == [] and image.rev == 2


def test_an_own_write_that_was_found_gone_does_not_come_back_with_the_watchs_batch_of_it():
    """The store is asked again before the watch has told of the write, and after somebody deleted what was written."""
    store, image = MemoryStore(), ClusterImage(KEYS)
    written = [put(KEYS.broker(1), broker_record(1))]
    store.txn([], written, tag="")
    assert [change.kind for change in image.commit(1, written)] == ["broker"]
    store.txn([], [Delete(KEYS.broker(1))], tag="")
    assert [change.after for change in image.correct({KEYS.broker(1): store.get(KEYS.broker(1))[1]})] == [None]
    assert image.apply(1, store._history[1]) == [] and not image.alive(1)
    assert image.apply(2, store._history[2]) == [] and not image.alive(1)


def test_a_partition_beyond_a_topic_has_nobody():
    store = MemoryStore()
    topic_id = TOPICS["a"]
    store.txn([], [put(KEYS.topic(topic_id), TopicRecord(topic_id.hex(), "a", [[1, 2], [2, 3]], 5))], tag="")
    image = loaded(store)
    assert image.assignment(PartitionId(topic_id, 1)).replicas == (2, 3)
    assert (
        image.assignment(PartitionId(topic_id, 2)) is None and image.assignment(PartitionId(bytes([9]) * 16, 0)) is None
    )
    assert [one.number for one in image.partitions_of(image.topic("a"))] == [0, 1]
    assert image.topic("b") is None and image.configs_of("a") == {}


@pytest.mark.parametrize("seed", range(10))
def test_an_own_commit_is_in_the_image_before_the_watch_has_told_of_it(seed):
    """What is decided next builds upon it, versions and revisions of keys included; told is what is another now."""
    rng = Random(seed)
    store, by_id = MemoryStore(), lambda image: {**image.brokers, **image.topics, **image.partitions}
    image = loaded(store)
    for _ in range(60):
        ops, before, was = [some_op(rng)], store.revision(), by_id(image)
        store.txn([], ops, tag="")
        changes = image.commit(store.revision(), ops)
        wanted, now = loaded(store), by_id(image)
        assert [image.entry(key) for key in ALL] == [wanted.entry(key) for key in ALL]
        skipped = {"rev", "colliding"}
        assert {name: one for name, one in known(image).items() if name not in skipped} == {
            name: one for name, one in known(wanted).items() if name not in skipped
        }
        assert (changes == []) or store.revision() > before
        told = {change.id: (change.before, change.after) for change in changes if change.kind != "configs"}
        assert told == {key: (was.get(key), now.get(key)) for key in told}
        assert {key for key in was.keys() | now.keys() if was.get(key) != now.get(key)} <= told.keys()


def test_a_commit_keeps_who_made_a_key_and_whose_session_it_is():
    image, key = ClusterImage(KEYS), KEYS.broker(1)
    record = broker_record(1)
    [change] = image.commit(5, [Put(key, encode_record(record), 77)])
    assert (change.kind, change.id, change.before, change.after) == ("broker", 1, None, image.brokers[1])
    entry = image.entry(key)
    assert (entry.version, entry.create_rev, entry.mod_rev, entry.session) == (1, 5, 5, 77)
    image.commit(8, [Put(key, encode_record(record))])
    entry = image.entry(key)
    assert (entry.version, entry.create_rev, entry.mod_rev, entry.session) == (2, 5, 8, None)
    assert (image.brokers[1].epoch, image.brokers[1].mod_rev) == (5, 8)


def test_only_one_of_two_names_that_collide_is_named():
    """Kafka's metrics write a dot as an underscore."""
    store, image = MemoryStore(), ClusterImage(KEYS)
    topic = TopicRecord(TOPICS["b.c"].hex(), "b.c", [[1]], 5)
    assert image.colliding("b_c") is None
    store.txn([], [put(KEYS.topic(TOPICS["b.c"]), topic)], tag="")
    image = loaded(store)
    assert image.colliding("b_c") == image.colliding("b.c") == "b.c" and image.colliding("bc") is None
    image.commit(2, [Delete(KEYS.topic(TOPICS["b.c"]))])
    assert image.colliding("b_c") is None and image.topic("b.c") is None and image.hosted[1] == set()


def test_a_deletion_of_all_partitions_below_a_name_takes_those_alone():
    image, ids = ClusterImage(KEYS), (TOPICS["a"], TOPICS["d"])
    for rev, topic_id in enumerate(ids, 1):
        image.commit(rev, [put(KEYS.partition(topic_id, number), PartitionRecord(1, 0, [1], 1)) for number in (0, 1)])
    changes = image.commit(3, [DeletePrefix(KEYS.partitions_of(ids[0]))])
    assert [change.id for change in changes] == [PartitionId(ids[0], 0), PartitionId(ids[0], 1)]
    assert sorted(image.partitions) == [PartitionId(ids[1], 0), PartitionId(ids[1], 1)] == image.orphans()
    assert image.commit(4, [DeletePrefix(KEYS.partitions_of(ids[0]))]) == []


@pytest.mark.parametrize(
    ("adding", "removing", "wanted"),
    [
        ([], [], [((1, 2), (), ()), ((2, 3), (), ())]),
        ([[2]], [[1], [3]], [((1, 2), (2,), (1,)), ((2, 3), (), (3,))]),
        ([[], [3]], [[1]], [((1, 2), (), (1,)), ((2, 3), (3,), ())]),
    ],
)
def test_moves_of_the_first_partitions_leave_the_others_as_they_are(adding, removing, wanted):
    store, topic_id = MemoryStore(), TOPICS["a"]
    record = TopicRecord(topic_id.hex(), "a", [[1, 2], [2, 3]], 5, adding=adding, removing=removing)
    store.txn([], [put(KEYS.topic(topic_id), record)], tag="")
    assert list(loaded(store).topic("a").assignments) == wanted


def test_an_image_of_nothing_is_of_no_revision():
    assert loaded(MemoryStore()).rev == 0


def test_leaders_that_are_none_have_kafkas_numbers():
    assert (NO_LEADER, DELETED_LEADER) == (-1, -2)
