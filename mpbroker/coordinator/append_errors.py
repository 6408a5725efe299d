"""What clients hear when a record cannot be appended: the log's codes in the words of groups, as Kafka maps them."""

from __future__ import annotations

from typing import Final

from mpbroker.errors import ErrorCode

_BOTH: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


def group_append_error(code: int) -> int:
    """For the record of a group."""
    if code == ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.UNKNOWN_SERVER_ERROR if code in _TOO_LARGE else _BOTH.get(code, code)


def offset_append_error(code: int) -> int:
    """For committed offsets."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code in _TOO_LARGE else _BOTH.get(code, code)
