"""AlterReplicaLogDirs: what lies there already, what is asked to be moved, and what no move can be made of."""

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.harness.in_process_broker import InProcessBroker


def test_what_each_partition_is_answered(tmp_path):
    """As Kafka 3.9.2 does: the last wish for a partition counts; a name too long for a copy's directory comes first."""
    broker = InProcessBroker(tmp_path)
    broker.handler.context.log_manager.data_dirs = (str(tmp_path),)
    broker.create_topic("t", partitions=2)
    dirs = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=partitions)])
        for path, name, partitions in (
            (str(tmp_path), "t", [0, 7]),
            (str(tmp_path), "t", [1]),
            ("/nowhere", "t", [1]),
            ("/nowhere", "n" * 240, [0]),
            ("/nowhere", "u", [1]),
            (str(tmp_path), "u", [0]),
            (str(tmp_path), "empty", []),
        )
    ]
    for version in (0, 1, 2):
        answer = broker.call(AlterReplicaLogDirsRequest(dirs=dirs), version)
        assert [
            (one.topic_name, [(p.partition_index, p.error_code) for p in one.partitions]) for one in answer.results
        ] == [
            (
                "t",
                [(0, 0), (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (1, ErrorCode.LOG_DIR_NOT_FOUND)],
            ),
            ("n" * 240, [(0, ErrorCode.INVALID_TOPIC_EXCEPTION)]),
            ("u", [(1, ErrorCode.LOG_DIR_NOT_FOUND), (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
        ]
