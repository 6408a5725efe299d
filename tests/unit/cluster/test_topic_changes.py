"""Topics made, extended, deleted and set by the elected controller: what each answer says word for word, what many
partitions take, and what becomes of a change that another one forestalled."""

import msgspec
import pytest

from mpbroker.cluster import topic_jobs as module
from mpbroker.cluster.cluster_config import ClusterConfig
from mpbroker.cluster.events import Request, TxnDone
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import (
    AlterConfigs,
    ConfigChange,
    ConfigChanges,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    PartitionCount,
    TopicResult,
)
from mpbroker.metadata.meta_store import Delete, Put
from mpbroker.metadata.topic_names import illegal_name_sentence
from mpbroker.metadata.topic_record import TopicConfigRecord, TopicRecord, decode_record, encode_record
from mpbroker.metadata.topic_validation import BIGGEST_BLOB_BYTES, MAX_PARTITIONS_PER_REQUEST
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from tests.unit.cluster.controller_bench import ControllerBench, epoch_of

DUPLICATE = "Duplicate topic name."


@pytest.fixture
def bench():
    return ControllerBench()


def record(bench, topic_id):
    key = bench.keys.topic(topic_id)
    return decode_record(TopicRecord, bench.store.get(key)[1].value, key)


# ---- creation


def test_a_creation_says_what_was_made_and_its_record_when(bench):
    bench.now_ms = 4321
    [made] = bench.ask(CreateTopics([NewTopic("t", 2, 3, configs={"retention.ms": "5"})])).results
    assert made == TopicResult("t", 0, None, made.topic_id, 2, 3) and len(made.topic_id) == 16
    kept = record(bench, made.topic_id)
    assert (kept.id, kept.name, len(kept.replicas), kept.created_ms) == (made.topic_id.hex(), "t", 2, 4321)
    assert bench.controller.image.configs_of("t") == {"retention.ms": "5"}
    assert bench.store.get(bench.keys.topic_config("u"))[1] is None


def test_what_is_only_checked_has_no_id(bench):
    before = bench.store.revision()
    results = bench.ask(CreateTopics([NewTopic("e", 2, 3), NewTopic("f", 1, 9)], validate_only=True)).results
    assert results[0] == TopicResult("e", 0, None, bytes(16), 2, 3) and results[1].error_code == 38
    assert bench.store.revision() == before


def test_a_name_that_is_given_twice_is_refused_behind_the_others(bench):
    results = bench.ask(CreateTopics([NewTopic("d", 1, 1), NewTopic("e", 1, 1), NewTopic("d", 1, 1)])).results
    assert [(one.name, one.error_code) for one in results] == [("e", 0), ("d", ErrorCode.INVALID_REQUEST)]
    assert results[1] == TopicResult("d", ErrorCode.INVALID_REQUEST, DUPLICATE)
    assert set(bench.controller.image.by_name) == {"e"}


def test_too_many_partitions_at_once_are_none(bench):
    most = NewTopic("t", MAX_PARTITIONS_PER_REQUEST, 1)
    results = bench.ask(CreateTopics([most, NewTopic("u", 1, 1), NewTopic("d", 1, 1), NewTopic("d", 1, 1)])).results
    sentence = "Excessively large number of partitions per request."
    assert [(one.name, one.error_code, one.error_message) for one in results] == [
        ("t", ErrorCode.POLICY_VIOLATION, sentence),
        ("u", ErrorCode.POLICY_VIOLATION, sentence),
        ("d", ErrorCode.INVALID_REQUEST, DUPLICATE),
    ]
    assert bench.controller.image.topics == {}


def test_a_name_that_another_took_meanwhile_is_taken(bench):
    (txn,) = bench.controller.event(Request(99, CreateTopics([NewTopic("t", 1, 1)])), 0)
    other = TopicRecord((b"o" * 16).hex(), "t", [[1]], 1)
    ops = [Put(bench.keys.topic_name("t"), other.id.encode()), Put(bench.keys.topic(b"o" * 16), encode_record(other))]
    bench.store.txn([], ops, tag="")
    bench.watch(settle=False)
    bench.carry_out(bench.controller.event(TxnDone(txn.tag, bench.store.txn(txn.checks, txn.ops, tag="")), 0))
    taken = TopicResult("t", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    assert bench.replies[99].results == [taken]
    assert list(bench.controller.image.topics) == [b"o" * 16]


def test_a_creation_that_never_comes_through_is_given_up(bench):
    """Nobody else writes these keys, so this is a bound and no more."""
    tries = []
    bench.controller._topic_jobs._max_operations = 5
    job = bench.controller._topic_jobs.create_topics(CreateTopics([NewTopic("t", 1, 1), NewTopic("u", 2, 1)]))
    step = next(job)
    with pytest.raises(StopIteration) as ended:
        while True:
            tries.append(step)
            step = job.send(None)
    assert module.MAX_TRIES == 20 and len(tries) == module.MAX_TRIES + 2 + 3
    assert [one.error_code for one in ended.value.value.results] == [ErrorCode.TOPIC_ALREADY_EXISTS] * 2


def test_a_creation_without_a_live_broker_that_stays_uses_those_that_stop(bench):
    for broker in (1, 2, 3):
        bench.ask(ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch_of(bench, broker)))
        if broker == 2:
            [made] = bench.ask(CreateTopics([NewTopic("t", 6, 1)])).results
            assert record(bench, made.topic_id).replicas == [[3]] * 6, "the only one that stays"
    [made] = bench.ask(CreateTopics([NewTopic("u", 1, 3)])).results
    assert made.error_code == 0 and sorted(record(bench, made.topic_id).replicas[0]) == [1, 2, 3]


def test_replicas_begin_anywhere_and_go_to_different_racks():
    firsts, pairs = set(), set()
    for seed in range(12):
        bench = ControllerBench(brokers=(), seed=seed)
        for broker, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b")):
            bench.come(broker, rack=rack)
        [made] = bench.ask(CreateTopics([NewTopic("t", 4, 2)])).results
        replicas = record(bench, made.topic_id).replicas
        racks = [{"a" if broker < 3 else "b" for broker in one} for one in replicas]
        assert racks == [{"a", "b"}] * 4 and sorted(one[0] for one in replicas) == [1, 2, 3, 4]
        firsts.add(replicas[0][0])
        pairs.add(tuple(replicas[0]))
    assert firsts == {1, 2, 3, 4} and len(pairs) > 4, "and followers begin anywhere too"


@pytest.mark.parametrize("extends", [False, True])
def test_a_name_waits_for_states_that_had_no_room_even_if_it_had_some(extends):
    """Seven checks in a transaction: a state has one for itself and one for each replica, a name two and a longer
    record one. A topic that is named has all its states, else nobody would sweep what is missing."""
    bench = ControllerBench(brokers=(1, 2, 3, 4, 5, 6, 7), max_operations=9)
    if extends:
        topic = bench.create(assignments=([7, 1, 2],))
        added = CreatePartitions([PartitionCount("t", 3, [[1, 2, 3], [4, 5, 6]])])
        before, named = len(bench.txns), bench.keys.topic(topic)
        assert bench.ask(added).results[0].error_code == 0
    else:
        before, named = len(bench.txns), bench.keys.topic_name("t")
        bench.create(assignments=([1, 2, 3], [4, 5, 6]))
    written = [
        sorted("name" if op.key == named else "state" for op in txn.ops if "/p/" in op.key or op.key == named)
        for txn in bench.txns[before:]
    ]
    assert written == [["state"], ["name", "state"]]


# ---- more partitions


def test_partitions_are_added_behind_those_there_are_and_each_answer_has_its_name(bench):
    topic = bench.create(assignments=([1, 2], [2, 3]))
    asked = [PartitionCount("t", 4, [[3, 1], [1, 3]]), *(PartitionCount(name, 2) for name in ("u", "d", "d"))]
    results = bench.ask(CreatePartitions(asked)).results
    assert results[0] == TopicResult("t")
    assert [(one.name, one.error_code) for one in results] == [("t", 0), ("u", 3), ("d", 42)]
    assert record(bench, topic).replicas == [[1, 2], [2, 3], [3, 1], [1, 3]]
    assert [bench.state(topic, number)[:3] for number in (2, 3)] == [(3, 0, [3, 1]), (1, 0, [1, 3])]


def test_partitions_that_are_only_checked_are_not_added(bench):
    topic = bench.create()
    assert bench.ask(CreatePartitions([PartitionCount("t", 3)], validate_only=True)).results == [TopicResult("t")]
    assert len(record(bench, topic).replicas) == 1


def test_many_partitions_take_several_transactions_of_which_the_last_has_the_record():
    bench = ControllerBench(max_operations=8)
    topic = bench.create(assignments=([1, 2],))
    before = len(bench.txns)
    assert bench.ask(CreatePartitions([PartitionCount("t", 12)])).results[0].error_code == 0
    written = [bench.keys.topic(topic) in {op.key for op in txn.ops} for txn in bench.txns[before:]]
    assert len(written) > 2 and written == [False] * (len(written) - 1) + [True]
    assert [bench.state(topic, number)[1] for number in range(12)] == [0] * 12
    assert len(record(bench, topic).replicas) == 12


def test_an_extension_that_never_comes_through_is_given_up_and_one_of_a_topic_that_is_gone_is_done(bench):
    topic = bench.create()
    jobs = bench.controller._topic_jobs
    steps = jobs._extend(bench.controller.image.topics[topic], [[1], [2], [3]])
    assert len(list(steps)) == module.MAX_TRIES + 3
    known = bench.controller.image.topics.pop(topic)
    assert list(jobs._extend(known, [[1]])) == []


def test_an_extension_keeps_a_move_that_is_under_way(bench):
    topic = bench.create(assignments=([1, 2],))
    moving = TopicRecord(topic.hex(), "t", [[1, 3, 2]], 1, adding=[[3]], removing=[[2]])
    bench.store.txn([], [Put(bench.keys.topic(topic), encode_record(moving))], tag="")
    bench.watch()
    assert bench.ask(CreatePartitions([PartitionCount("t", 2, [[2, 1]])])).results[0].error_code == 0
    kept = record(bench, topic)
    assert (kept.replicas, kept.adding, kept.removing) == ([[1, 3, 2], [2, 1]], [[3], []], [[2], []])


# ---- deletion


def test_what_is_deleted_is_named_and_what_is_not_there_refused(bench):
    first, second = bench.create("t"), bench.create("u")
    asked = DeleteTopics(["t", "u", "v", "w", "d", "d"], {"t": first, "u": b"x" * 16, "w": b"w" * 16})
    assert bench.ask(asked).results == [
        TopicResult("t"),
        TopicResult("u", ErrorCode.UNKNOWN_TOPIC_ID),
        TopicResult("v", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        TopicResult("w", ErrorCode.UNKNOWN_TOPIC_ID),
        TopicResult("d", ErrorCode.INVALID_REQUEST, DUPLICATE),
    ]
    assert list(bench.controller.image.topics) == [second]


def test_a_topic_goes_with_its_settings(bench):
    bench.create(configs={"retention.ms": "5"})
    bench.ask(DeleteTopics(["t"]))
    assert bench.store.get(bench.keys.topic_config("t"))[1] is None
    bench.create()
    assert bench.controller.image.configs_of("t") == {}


def test_deletion_may_be_switched_off():
    bench = ControllerBench(config=ClusterConfig(delete_topic_enable=False))
    bench.create()
    disabled = TopicResult("t", ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    assert bench.ask(DeleteTopics(["t"])).results == [disabled] and bench.controller.image.topic("t")


def test_a_deletion_that_never_comes_through_is_given_up(bench):
    topic = bench.create()
    jobs = bench.controller._topic_jobs
    assert len(list(jobs._delete(bench.controller.image.topics[topic]))) == module.MAX_TRIES
    known = bench.controller.image.topics.pop(topic)
    assert list(jobs._delete(known)) == []


@pytest.mark.parametrize("states", [1, 30])
def test_what_a_dead_controller_left_is_swept_whatever_it_is(states):
    bench = ControllerBench(max_operations=8)
    kept = bench.create()
    value = bench.store.get(bench.keys.partition(kept, 0))[1].value
    left = [bench.keys.partition(b"o" * 16, number) for number in range(states)]
    left += [bench.keys.partition(kept, number) for number in range(5, 5 + states)]
    for key in left:
        bench.store.txn([], [Put(key, value)], tag="")
    before = len(bench.txns)
    bench.elect()
    assert [key for key in left if bench.store.get(key)[1]] == [] and bench.controller.image.orphans() == []
    assert len(bench.txns) - before == 1 + (1 if states == 1 else states // 6), "six keys in each"
    assert bench.state(kept)[0] == 1


# ---- settings


def change(name, *changes, resource_type=2):
    return ConfigChanges(resource_type, name, [ConfigChange(*one) for one in changes])


def results(bench, *resources, **how):
    answer = bench.ask(AlterConfigs(list(resources), **how))
    return [(one.name, one.error_code, one.error_message) for one in answer.results]


def test_why_settings_of_a_topic_are_refused(bench):
    bench.create()
    size = BIGGEST_BLOB_BYTES
    room = f"There is no room for so many settings of one topic ({size} bytes are kept)."
    illegal = illegal_name_sentence("a b")
    long = ",".join(f"{n}:{n}" for n in range(1000, 1000 + size // 10))
    assert results(
        bench,
        change("t", ("retention.ms", 0, "5"), resource_type=4),
        change("t", ("retention.ms", 2, "5")),
        change("", ("retention.ms", 0, "5")),
        change("a b", ("retention.ms", 0, "5")),
        change("t", ("retention.ms", 0, "x")),
        change("u", ("retention.ms", 0, "5")),
        change("t", ("leader.replication.throttled.replicas", 0, long)),
    ) == [
        ("t", ErrorCode.INVALID_REQUEST, "The cluster's controller changes settings of topics only."),
        ("t", ErrorCode.INVALID_CONFIG, "Can't APPEND to key retention.ms because its type is not LIST."),
        ("", ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, illegal),
        ("t", ErrorCode.INVALID_CONFIG, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'u' does not exist."),
        ("t", ErrorCode.POLICY_VIOLATION, room),
    ]
    assert bench.controller.image.configs_of("t") == {}


def test_settings_that_are_only_checked_or_the_same_write_nothing(bench):
    bench.create(configs={"retention.ms": "5"})
    before = bench.store.revision()
    assert results(bench, change("t", ("retention.ms", 0, "6")), validate_only=True) == [("t", 0, None)]
    assert results(bench, change("t", ("retention.ms", 0, "5")), change("t")) == [("t", 0, None)] * 2
    assert bench.store.revision() == before


def test_settings_that_all_went_leave_no_key(bench):
    bench.create(configs={"retention.ms": "5"})
    assert results(bench, change("t", ("retention.ms", 1, None))) == [("t", 0, None)]
    assert bench.store.get(bench.keys.topic_config("t"))[1] is None
    assert bench.controller.image.configs_of("t") == {}


@pytest.mark.parametrize("replace", [False, True])
def test_a_change_that_another_forestalled_is_made_upon_that(bench, replace):
    bench.create(configs={"retention.ms": "5"})
    others = TopicConfigRecord({"retention.ms": "7", "segment.bytes": "1048576"})
    bench.store.txn([], [Put(bench.keys.topic_config("t"), encode_record(others))], tag="")  # not seen yet
    assert results(bench, change("t", ("flush.messages", 0, "9")), replace=replace) == [("t", 0, None)]
    kept = decode_record(TopicConfigRecord, bench.store.get(bench.keys.topic_config("t"))[1].value, "t").configs
    assert kept == ({"flush.messages": "9"} if replace else others.configs | {"flush.messages": "9"})


def test_a_change_of_a_topic_that_was_deleted_meanwhile_is_refused(bench):
    topic = bench.create(configs={"retention.ms": "5"})
    keys = [bench.keys.topic_name("t"), bench.keys.topic(topic), bench.keys.topic_config("t")]
    bench.store.txn([], [Delete(key) for key in keys], tag="")
    bench.watch(settle=False)
    [(_, code, _)] = results(bench, change("t", ("retention.ms", 0, "6")))
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bench.store.get(bench.keys.topic_config("t"))[1] is None


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_bytes_of_settings_are_kept(bench, more):
    bench.create()
    name = "leader.replication.throttled.replicas"
    room = BIGGEST_BLOB_BYTES - len(msgspec.json.encode({name: ""}))
    pairs = ",".join(["1000:1000"] * (room // 10))
    text = pairs + "0" * (room + more - len(pairs))
    [(_, code, _)] = results(bench, change("t", (name, 0, text)))
    assert code == (ErrorCode.POLICY_VIOLATION if more else 0)
