"""AlterReplicaLogDirs: what lies there already, and what would have to be moved."""

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.harness.in_process_broker import InProcessBroker


def test_a_move_to_where_it_lies_is_done_and_any_other_is_refused(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.handler.context.log_manager.data_dirs = (str(tmp_path), str(tmp_path / "other"))
    broker.create_topic("t", partitions=2)
    dirs = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=partitions)])
        for path, name, partitions in (
            (str(tmp_path), "t", [0, 7]),
            ("/nowhere", "t", [1]),
            (str(tmp_path / "other"), "t", [1]),
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
                [
                    (0, 0),
                    (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    (1, ErrorCode.LOG_DIR_NOT_FOUND),
                    (1, ErrorCode.KAFKA_STORAGE_ERROR),
                ],
            ),
            ("u", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
        ]
