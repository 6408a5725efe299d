"""The controller's image of the store: whatever it is told, and in whatever order its own commits and the watch's
batches come, it is in the end what a scan of the store shows."""

from random import Random

import pytest

from mpbroker.cluster.cluster_image import ClusterImage, PartitionId
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
