"""Which replicas cannot be served by their brokers: what an answer says that is new, and what a new life of a broker
makes unknown again."""

from types import SimpleNamespace

from mpbroker.cluster.cluster_image import PartitionId
from mpbroker.cluster.offline_replicas import OfflineReplicas
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

TOPIC = b"t" * 16
OFFLINE, SERVED, OTHER = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH


def answered(offline, broker, **codes):
    """Partitions p0, p1: what is new of them."""
    rows = [LeaderAndIsrPartitionError(partition_index=int(name[1:]), error_code=code) for name, code in codes.items()]
    answer = LeaderAndIsrResponse(topics=[LeaderAndIsrTopicError(topic_id=TOPIC, partition_errors=rows)])
    found = offline.answered(broker, answer)
    assert all(one.topic_id == TOPIC for one in found)
    return [one.number for one in found]


def known(offline):
    return {one.number: brokers for one, brokers in offline.by_partition.items()}


def test_what_is_new_in_an_answer():
    offline = OfflineReplicas()
    assert answered(offline, 1, p0=OFFLINE, p1=SERVED) == [0]
    assert answered(offline, 1, p0=OFFLINE, p1=OTHER) == []
    assert answered(offline, 2, p0=OFFLINE, p1=OFFLINE) == [0, 1]
    assert known(offline) == {0: {1, 2}, 1: {2}}
    assert answered(offline, 1, p0=OTHER) == []
    assert answered(offline, 1, p0=SERVED, p1=SERVED) == [0]
    assert known(offline) == {0: {2}, 1: {2}}
    assert answered(offline, 2, p1=SERVED) == [1]
    assert known(offline) == {0: {2}}, "nothing is kept of a partition that all can serve"
    assert offline.answered(2, SimpleNamespace()) == []


def test_a_new_life_of_a_broker_says_anew_what_it_cannot_serve():
    offline = OfflineReplicas()
    for broker in (1, 2):
        answered(offline, broker, p0=OFFLINE)
    answered(offline, 1, p1=OFFLINE)
    offline.restarted(1)
    assert known(offline) == {0: {2}}
    offline.restarted(3)
    assert known(offline) == {0: {2}}
    assert PartitionId(TOPIC, 0) in offline.by_partition
