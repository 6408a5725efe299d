"""ElectLeaders: the one replica leads already."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.harness.in_process_broker import InProcessBroker


@pytest.fixture
def broker(tmp_path):
    made = InProcessBroker(tmp_path)
    made.create_topic("t")
    return made


@pytest.mark.parametrize(("kind", "version"), [(0, 0), (0, 1), (1, 2)])
def test_no_election_is_needed(broker, kind, version):
    asked = [TopicPartitions(topic="t", partitions=[0, 7]), TopicPartitions(topic="nope", partitions=[0])]
    answer = broker.call(ElectLeadersRequest(election_type=kind, topic_partitions=asked), version)
    needed, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [
        (one.topic, [(p.partition_id, p.error_code, bool(p.error_message)) for p in one.partition_result])
        for one in answer.replica_election_results
    ] == [("t", [(0, needed, True), (7, unknown, True)]), ("nope", [(0, unknown, True)])]
    assert answer.error_code == 0


def test_of_all_partitions_none_needs_one_and_kinds_are_two(broker):
    assert broker.call(ElectLeadersRequest(topic_partitions=None), 2).replica_election_results == []
    asked = [TopicPartitions(topic="t", partitions=[0])]
    assert broker.call(ElectLeadersRequest(election_type=2, topic_partitions=asked), 2).error_code == 42
