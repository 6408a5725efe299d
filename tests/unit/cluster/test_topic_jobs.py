"""Topics made, extended, changed and deleted by the elected controller."""

import pytest

from mpbroker.cluster.cluster_config import ClusterConfig
from mpbroker.cluster.topic_jobs import MAX_TRIES, TOPIC
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
)
from mpbroker.metadata.meta_store import Put
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.unit.cluster.controller_bench import ControllerBench, roles, stops


@pytest.fixture
def bench():
    return ControllerBench()


class TestTopics:
    def test_a_deleted_topic_goes_at_once(self, bench):
        bench.create()
        bench.take_sent()
        assert bench.ask(DeleteTopics(["t"])).results[0].error_code == 0
        sent = bench.take_sent()
        assert stops(sent) == [(1, 0, -2, True), (2, 0, -2, True), (3, 0, -2, True)]
        leaders = {
            (broker, state.leader)
            for broker, request in sent
            if isinstance(request, UpdateMetadataRequest)
            for topic in request.topic_states
            for state in topic.partition_states
        }
        assert leaders == {(1, -2), (2, -2), (3, -2)}
        assert not [key for key in bench.store._data if "/p/" in key or "/t/" in key or "/tn/" in key]
        assert bench.ask(DeleteTopics(["t"])).results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        bench.create()

    def test_a_name_created_again_waits_for_the_deletion_to_be_answered(self, bench):
        bench.create()
        bench.answering.discard(3)
        bench.ask(DeleteTopics(["t"]))
        bench.create()
        sent = [(broker, request) for broker, request in bench.take_sent() if broker == 3]
        assert len(roles(sent)) == 1  # of the first creation

    def test_replicas_are_placed_by_the_defaults(self):
        bench = ControllerBench(config=ClusterConfig(num_partitions=6, default_replication_factor=2))
        (result,) = bench.ask(CreateTopics([NewTopic("t")])).results
        assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 6, 2)
        leaders = [bench.state(result.topic_id, n)[0] for n in range(6)]
        assert sorted(leaders) == [1, 1, 2, 2, 3, 3]

    def test_refusals(self, bench):
        bench.create("a.b")
        asked = [NewTopic("a.b", 1, 1), NewTopic("a_b", 1, 1), NewTopic("c", 1, 9), NewTopic("d", 1, 1), NewTopic("d")]
        codes = {result.name: result.error_code for result in bench.ask(CreateTopics(asked)).results}
        assert codes == {"a.b": 36, "a_b": 17, "c": 38, "d": 42}
        assert bench.ask(CreateTopics([NewTopic("e", 2, 3)], validate_only=True)).results[0].error_code == 0
        assert set(bench.controller.image.by_name) == {"a.b"}

    def test_a_topic_of_many_partitions_takes_several_transactions_and_its_name_is_last(self):
        bench = ControllerBench(max_operations=20)
        (result,) = bench.ask(CreateTopics([NewTopic("t", 100, 3)])).results
        assert result.error_code == 0
        named = [n for n, txn in enumerate(bench.txns) if any("/tn/" in op.key for op in txn.ops)]
        assert len(bench.txns) > 5 and named == [len(bench.txns) - 1]
        assert all(max(len(txn.ops), len(txn.checks)) <= 20 for txn in bench.txns)
        assert all(bench.state(result.topic_id, n)[1] == 0 for n in range(100))

    def test_many_topics_share_a_transaction(self, bench):
        before = len(bench.txns)
        results = bench.ask(CreateTopics([NewTopic(f"t{n}", 1, 3) for n in range(30)])).results
        assert {result.error_code for result in results} == {0} and len(bench.txns) == before + 1

    def test_what_a_dead_controller_left_of_a_creation_is_swept(self, bench):
        kept = bench.create()
        key = bench.keys.partition(b"o" * 16, 0)
        beyond = bench.keys.partition(kept, 5)
        value = bench.store.get(bench.keys.partition(kept, 0))[1].value
        bench.store.txn([], [Put(key, value), Put(beyond, value)], tag="")
        bench.elect()
        assert bench.store.get(key)[1] is None and bench.store.get(beyond)[1] is None
        assert bench.state(kept)[0] == 1

    def test_more_partitions(self, bench):
        topic = bench.create()
        bench.take_sent()
        results = bench.ask(CreatePartitions([PartitionCount("t", 3), PartitionCount("u", 3)])).results
        assert [result.error_code for result in results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert bench.state(topic, 2)[1] == 0
        assert {number for _, number, *_ in roles(bench.take_sent())} == {1, 2}
        assert bench.ask(CreatePartitions([PartitionCount("t", 3)])).results[0].error_code == 37

    def test_settings(self, bench):
        bench.create(configs={"retention.ms": "5"})
        change = ConfigChanges(2, "t", [ConfigChange("segment.bytes", 0, "1048576")])
        assert bench.ask(AlterConfigs([change])).results[0].error_code == 0
        assert bench.controller.image.configs_of("t") == {"retention.ms": "5", "segment.bytes": "1048576"}
        assert bench.ask(AlterConfigs([change], replace=True)).results[0].error_code == 0
        assert bench.controller.image.configs_of("t") == {"segment.bytes": "1048576"}
        strange = ConfigChanges(2, "u", [ConfigChange("segment.bytes", 0, "1048576")])
        assert bench.ask(AlterConfigs([strange])).results[0].error_code == 3


def test_the_type_of_a_topics_settings_and_the_bound_of_tries():
    assert (TOPIC, MAX_TRIES) == (2, 20)
