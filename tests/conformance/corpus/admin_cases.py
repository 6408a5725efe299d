"""What administrators' tools ask of one broker, which changes nothing: OffsetForLeaderEpoch 0 to 4, DescribeCluster 0 and 1,
DescribeTopicPartitions 0, DescribeLogDirs 0 to 4, ElectLeaders 0 to 2, ListPartitionReassignments 0,
AlterPartitionReassignments 0, AlterReplicaLogDirs 0 to 2."""

from __future__ import annotations

from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from mpbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from mpbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from mpbroker.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from mpbroker.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from mpbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from mpbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.fetch_cases import filled


def ending(*topics: tuple[str, list[tuple[int, int, int]]], replica_id: int = -1) -> OffsetForLeaderEpochRequest:
    """(topic, [(partition, epoch asked about, current epoch)]) pairs."""
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[
        OffsetForLeaderTopic(topic=name, partitions=[
            OffsetForLeaderPartition(partition=p, leader_epoch=asked, current_leader_epoch=current)
            for p, asked, current in partitions]) for name, partitions in topics])


@case("epochs: where they end", range(0, 5))
def ends(x: Exchange, version: int) -> None:
    topic, empty = filled(x), x.topic("empty")
    for name in (topic, empty):
        for epoch in (0, 1, -1, -2, 5, 2**31 - 1, -2**31):
            x.ask(ending((name, [(0, epoch, -1)])), version)
    for current in (0, 1, -2):
        x.ask(ending((topic, [(0, 0, current)])), version)
    for partition in (7, -1):
        x.ask(ending((topic, [(partition, 0, -1)])), version)
    for name in (x.name("nowhere"), "", "bad name"):
        x.ask(ending((name, [(0, 0, -1)])), version)
    for replica_id in (-1, -2, 0, 5):
        x.ask(ending((topic, [(0, 0, -1)]), replica_id=replica_id), version)
    x.ask(ending(), version)
    x.ask(ending((topic, [])), version)


@case("cluster: who is in it", range(0, 2))
def cluster(x: Exchange, version: int) -> None:
    for operations in (False, True):
        x.ask(DescribeClusterRequest(include_cluster_authorized_operations=operations), version)
    for kind in (2, 0, 3, -1) if version else ():
        x.ask(DescribeClusterRequest(endpoint_type=kind), version)


@case("topic partitions: some", (0,))
def topic_partitions(x: Exchange, version: int) -> None:
    one, two = x.topic(partitions=3), x.topic("u", partitions=2)
    nowhere = x.name("nowhere")

    def ask(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
        where = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
        x.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names],
                                             response_partition_limit=limit, cursor=where), version)

    for names in ((one,), (two, one), (one, one), (nowhere,), (one, nowhere, x.name("bad name")), ("",)):
        ask(*names)
    for limit in (1, 2, 3, 4, 5, 0, -1):
        ask(one, two, limit=limit)
    for cursor in ((one, 0), (one, 1), (one, 3), (two, 1), (two, -1), (nowhere, 0), ("", 0)):
        ask(one, two, cursor=cursor)
        ask(one, two, limit=1, cursor=cursor)


@case("log dirs: of some partitions", range(0, 5))
def log_dirs(x: Exchange, version: int) -> None:
    topic, other = filled(x, partitions=2), x.topic("u")

    def ask(*topics: tuple[str, list[int]]) -> None:
        request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=name, partitions=p) for name, p in topics])
        answer = x.quietly(request, version)
        x.outcomes.append([[each.error_code, bool(each.log_dir), each.total_bytes > 0, each.usable_bytes > 0, sorted(
            [t.name.removeprefix(x.prefix), sorted([p.partition_index, p.partition_size, p.offset_lag, p.is_future_key]
                                                   for p in t.partitions)] for t in each.topics)]
                           for each in answer.results] + [answer.error_code])

    ask((topic, [0, 1]))
    ask((topic, [1]), (other, [0]))
    ask((topic, [7]), (x.name("nowhere"), [0]))
    ask()
    ask((topic, []))
    answer = x.quietly(DescribeLogDirsRequest(topics=None), version)
    x.outcomes.append([len(answer.results), topic in [t.name for t in answer.results[0].topics]])


@case("elections: of leaders that lead", range(0, 3))
def elections(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=2)
    for kind in (0, 1, 2, -1) if version else (0,):
        for partitions in ([0], [0, 1], [7], [0, 0], []):
            x.ask(ElectLeadersRequest(election_type=kind, timeout_ms=5000, topic_partitions=[
                TopicPartitions(topic=topic, partitions=partitions)]), version)
    for name in (x.name("nowhere"), "", "bad name"):
        x.ask(ElectLeadersRequest(timeout_ms=5000, topic_partitions=[TopicPartitions(topic=name, partitions=[0])]), version)
    x.ask(ElectLeadersRequest(timeout_ms=5000, topic_partitions=[]), version)


@case("reassignments: none", (0,))
def reassignments(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=2)
    for asked in ([(topic, [0, 1])], [(topic, [7])], [(x.name("nowhere"), [0])], [("", [0])], [], [(topic, [])],
                  [(topic, [0]), (topic, [0])]):
        x.ask(ListPartitionReassignmentsRequest(timeout_ms=5000, topics=[
            ListPartitionReassignmentsTopics(name=name, partition_indexes=p) for name, p in asked]), version)
    x.ask(ListPartitionReassignmentsRequest(timeout_ms=5000, topics=None), version)


@case("reassignments: to this broker and to others", (0,))
def to_others(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=2)
    for name in (topic, x.name("nowhere"), "", "bad name"):
        for number, replicas in ((0, [0]), (0, [1]), (0, [0, 1]), (0, [0, 0]), (0, []), (0, None), (7, [0]), (7, None), (-1, [0]),
                                 (0, [-1])):
            x.ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[ReassignableTopic(name=name, partitions=[
                ReassignablePartition(partition_index=number, replicas=replicas)])]), version)
    for numbers in ([0, 1], [0, 0], []):
        x.ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[ReassignableTopic(name=topic, partitions=[
            ReassignablePartition(partition_index=number, replicas=[0]) for number in numbers])]), version)
    x.ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[]), version)


@case("log dirs: moves to where partitions lie, and elsewhere", range(0, 3))
def moves(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=2)
    here = x.quietly(DescribeLogDirsRequest(topics=[]), 4).results[0].log_dir

    def ask(*dirs: tuple[str, str, list[int]]) -> None:
        x.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[
            AlterReplicaLogDirTopic(name=name, partitions=partitions)]) for path, name, partitions in dirs]), version)

    for path in (here, "/nowhere", "relative", "", here + "/"):
        for name, partitions in ((topic, [0, 1]), (topic, [7]), (topic, [-1]), (topic, []), (x.name("nowhere"), [0])):
            ask((path, name, partitions))
    ask((here, topic, [0]), ("/nowhere", topic, [1]))
    ask()
