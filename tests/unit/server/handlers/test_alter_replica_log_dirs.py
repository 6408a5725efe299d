"""AlterReplicaLogDirs: what lies there already, what is asked to be moved, and what no move can be made of."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from mpbroker.server.handlers import alter_replica_log_dirs as handler
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


class Move:
    """A broker with two log directories, and topic t of two partitions; what is asked of the log is noted."""

    def __init__(self, online=True, state="state"):
        self.asked = []
        topics = {"t": SimpleNamespace(id=b"T" * 16, partitions=[40, 41])}
        self.context = SimpleNamespace(
            metadata=SimpleNamespace(topic=topics.get),
            log_manager=SimpleNamespace(
                data_dirs=("/a", "/b"),
                log=SimpleNamespace(log_dir_online=lambda number: online),
                state=lambda ordinal: state,
                ask_move=lambda *words: self.asked.append(words) or 56,
            ),
        )

    def code(self, path="/b", name="t", number=0):
        return handler._move(self.context, path, name, number)


@pytest.mark.parametrize(("number", "ordinal"), [(-1, None), (0, 40), (1, 41), (2, None)])
def test_a_partition_that_is_there_is_asked_to_move(number, ordinal):
    move = Move()
    code = move.code(number=number)
    assert move.asked == ([] if ordinal is None else [(ordinal, "state", b"T" * 16, 1)])
    assert code == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if ordinal is None else 56)


def test_what_is_offline_cannot_be_moved():
    for offline in (Move(online=False), Move(state=None)):
        assert offline.code() == ErrorCode.KAFKA_STORAGE_ERROR and offline.asked == []


@pytest.mark.parametrize(
    ("length", "code"), [(213, ErrorCode.LOG_DIR_NOT_FOUND), (214, ErrorCode.INVALID_TOPIC_EXCEPTION)]
)
def test_a_copys_directory_has_a_name_that_file_systems_take(length, code):
    """NAME-PARTITION.ID-future, where the id is 32 letters, and the whole at most 255."""
    assert Move().code("/nowhere", "n" * length, 0) == code
    assert Move().code("/nowhere", "n" * (length - 1), 10) == code
