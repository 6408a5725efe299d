"""Requests that a coordinator refuses whatever the group: for the length of their names, in each version's words."""

import pytest

from mpbroker.coordinator.any_group import MAX_NAME_BYTES
from mpbroker.coordinator.effects import GroupRequest
from mpbroker.coordinator.group_coordinator import _request_error
from mpbroker.coordinator.responses import failure, loading
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from mpbroker.protocol.messages.sync_group import SyncGroupRequest
from mpbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

HEARTBEAT, JOIN_GROUP, SYNC_GROUP, OFFSET_FETCH = 12, 11, 14, 9
NONE, INVALID, UNKNOWN = ErrorCode.NONE, ErrorCode.INVALID_GROUP_ID, ErrorCode.UNKNOWN_SERVER_ERROR
LONGEST, TOO_LONG = "é" * (MAX_NAME_BYTES // 2), "é" * (MAX_NAME_BYTES // 2) + "x"


def request(key, version, message):
    return GroupRequest(token=1, api_key=key, version=version, message=message)


@pytest.mark.parametrize("group, code", [("g", NONE), ("", INVALID), (LONGEST, NONE), (TOO_LONG, INVALID)])
def test_the_id_of_a_group_has_as_many_bytes_as_a_record_has_room_for(group, code):
    assert _request_error(request(HEARTBEAT, 4, HeartbeatRequest(group))) == code


@pytest.mark.parametrize("field", ["instance", "type", "protocol"])
@pytest.mark.parametrize("name, code", [(LONGEST, NONE), (TOO_LONG, UNKNOWN)])
def test_names_that_a_member_gives_have_too(field, name, code):
    given = {"instance": None, "type": "consumer", "protocol": "range"} | {field: name}
    protocols = [JoinGroupRequestProtocol("first", b""), JoinGroupRequestProtocol(given["protocol"], b"")]
    message = JoinGroupRequest("g", 6000, 6000, "", given["instance"], given["type"], protocols)
    assert _request_error(request(JOIN_GROUP, 5, message)) == code


@pytest.mark.parametrize(
    "version, named, code",
    [
        (5, {"protocol_type": "consumer", "protocol_name": "range"}, NONE),
        (5, {"protocol_type": "consumer"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (5, {"protocol_name": "range"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (4, {}, NONE),
    ],
)
def test_from_version_5_on_a_sync_names_its_protocol(version, named, code):
    assert _request_error(request(SYNC_GROUP, version, SyncGroupRequest("g", 1, "m", **named))) == code


def test_a_fetch_of_offsets_fails_as_its_version_has_it():
    """Version 1 has a code in each partition alone; versions 2 to 7 one for all; version 8 one for each group."""
    topics = [OffsetFetchRequestTopic("t", [0, 3])]
    groups = [OffsetFetchRequestGroup("g", topics=topics), OffsetFetchRequestGroup("h")]
    message = OffsetFetchRequest("g", topics=topics, groups=groups)

    def failed(version):
        return failure(request(OFFSET_FETCH, version, message), 16)

    [topic] = failed(1).topics
    assert topic.name == "t" and [(row.partition_index, row.error_code) for row in topic.partitions] == [
        (0, 16),
        (3, 16),
    ]
    told = {(row.committed_offset, row.committed_leader_epoch, row.metadata) for row in topic.partitions}
    assert told == {(-1, -1, "")}
    for version in (2, 7):
        assert (failed(version).topics, failed(version).error_code, failed(version).groups) == ([], 16, [])
    for version in (8, 9):
        assert [(one.group_id, one.topics, one.error_code) for one in failed(version).groups] == [
            ("g", [], 16),
            ("h", [], 16),
        ]
        assert (failed(version).topics, failed(version).error_code) == ([], 0)
    assert failure(request(OFFSET_FETCH, 1, OffsetFetchRequest("g", topics=None)), 16).topics == []


@pytest.mark.parametrize(
    ("key", "version", "message", "code"),
    [
        (HEARTBEAT, 4, HeartbeatRequest("g"), NONE),
        (SYNC_GROUP, 3, SyncGroupRequest("g"), ErrorCode.REBALANCE_IN_PROGRESS),
        (JOIN_GROUP, 5, JoinGroupRequest("g"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (HEARTBEAT, 0, HeartbeatRequest("g"), NONE),
        (JOIN_GROUP, 0, JoinGroupRequest("g"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_what_each_hears_while_its_groups_partition_is_read(key, version, message, code):
    assert loading(request(key, version, message)).error_code == code


@pytest.mark.parametrize("version", range(6))
def test_offsets_of_a_transaction_are_refused_in_words_that_their_version_knows(version):
    topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 5)])]
    answer = loading(request(28, version, TxnOffsetCommitRequest("tx", "g", topics=topics)))
    [row] = answer.topics[0].partitions
    later, now = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert row.error_code == (now if version < 2 else later)
