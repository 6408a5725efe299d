"""A client's mistake, as a value: the code it gets, and Kafka's sentence. In the coordinator process."""

from __future__ import annotations

from typing import NamedTuple

from mpbroker.errors import ErrorCode


class Refusal(NamedTuple):
    """Why a request changes nothing."""

    code: int
    sentence: str


def append_error(code: int) -> int:
    """The log's code in the words of groups: what clients try again is told apart from what they do not."""
    if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
