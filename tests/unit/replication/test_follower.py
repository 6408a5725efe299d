"""What a follower asks its leader next, by what it was told."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from mpbroker.replication.follower import FetchLimits, Followed, LeaderFetch, OutOfRange, Truncate

LEADER, FOLLOWER = 0, 1


def test_an_answer_of_another_session_begins_a_new_one():
    """The leader may end a session, or begin another one, with any answer: the next epoch is that session's first."""
    fetch = LeaderFetch(FOLLOWER, 1, FetchLimits(wait_max_ms=0))
    fetch.follow([Followed(0, b"t" * 16, 0, LEADER, 1, 0, 0, 0, 0)])
    seen = []
    for told in (7, 7, 0, 9, 9):
        asked = fetch.next_request(0)
        seen.append((asked.session_id, asked.session_epoch))
        fetch.answered(FetchResponse(session_id=told), 0)
    assert seen == [(0, 0), (7, 1), (7, 2), (0, 0), (9, 1)]


@pytest.mark.parametrize("end_offset, truncates", [(-1, False), (0, True), (1, True)])
def test_a_log_that_diverges_from_its_very_beginning_is_truncated_to_nothing(end_offset, truncates):
    fetch = LeaderFetch(FOLLOWER, 1, FetchLimits(wait_max_ms=0))
    fetch.follow([Followed(0, b"t" * 16, 0, LEADER, 1, 0, 0, 0, 0)])
    fetch.next_request(0)
    data = PartitionData(partition_index=0, diverging_epoch=EpochEndOffset(epoch=0, end_offset=end_offset))
    [step] = fetch.answered(FetchResponse(responses=[FetchableTopicResponse(topic_id=b"t" * 16, partitions=[data])]), 0)
    assert isinstance(step, Truncate) is truncates
    assert not truncates or (step.end_offset, step.epoch) == (end_offset, 0)


@pytest.mark.parametrize(
    ("code", "waits_ms"),
    [
        (ErrorCode.NONE, [500, 500]),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, [20, 20, 500]),  # it has not heard of the election yet
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, [20, 20, 500]),
        (ErrorCode.FENCED_LEADER_EPOCH, [20, 20, 20]),  # the row here is behind: until it is looked at again
    ],
)
def test_a_leader_holds_no_answer_back_while_another_partition_is_to_be_asked_for_soon(code, waits_ms):
    """A connection has one request in flight: a partition that was refused would wait for it as well, and acks=all for
    the partition."""
    fetch = LeaderFetch(FOLLOWER, 1, FetchLimits(wait_max_ms=500))
    fetch.follow([Followed(number, b"t" * 16, number, LEADER, 1, 0, 0, 0, 0) for number in (0, 1)])
    assert fetch.next_request(0).max_wait_ms == 500
    data = [PartitionData(partition_index=0, error_code=code), PartitionData(partition_index=1)]
    answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=b"t" * 16, partitions=data)])
    for step in fetch.answered(answer, 0):
        fetch.moved(step.ordinal, 0, 0, 0)
    seen = []
    for now_ms in (0, 19, 20)[: len(waits_ms)]:
        seen.append(fetch.next_request(now_ms).max_wait_ms)
        fetch.answered(FetchResponse(), now_ms)
    assert seen == waits_ms


def followed(partition):
    return Followed(partition, b"t" * 16, partition, LEADER, 1, 0, 0, 0, 0)


def answer(*partitions, **more):
    rows = [PartitionData(partition_index=number, **more) for number in partitions]
    return FetchResponse(session_id=7, responses=[FetchableTopicResponse(topic_id=b"t" * 16, partitions=rows)])


def asked_for(request):
    return [(one.partition, one.fetch_offset) for topic in request.topics for one in topic.partitions]


def test_what_is_out_of_range_is_asked_for_again_from_where_the_log_begins_then():
    """Nothing of it meanwhile, and nothing that is said of it counts."""
    fetch = LeaderFetch(FOLLOWER, 1, FetchLimits(wait_max_ms=0))
    fetch.follow([followed(0)])
    assert asked_for(fetch.next_request(0)) == [(0, 0)]
    for steps in ([OutOfRange(0, b"t" * 16, 1)], []):
        assert fetch.answered(answer(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE), 0) == steps
        assert fetch.next_request(10_000) is None and fetch.due_ms(0) is None
    fetch.moved(0, 40, 0, 40)
    assert asked_for(fetch.next_request(0)) == [(0, 40)]


def test_only_what_is_followed_and_was_asked_for_is_taken_from_an_answer():
    """0 is followed no more, 2 not yet asked for, 3 followed in another epoch."""
    fetch = LeaderFetch(FOLLOWER, 1, FetchLimits(wait_max_ms=0))
    fetch.follow([followed(0), followed(1), followed(3)])
    assert asked_for(fetch.next_request(0)) == [(0, 0), (1, 0), (3, 0)]
    fetch.follow([followed(1), followed(2), followed(3)._replace(leader_epoch=2)])
    assert [step.ordinal for step in fetch.answered(answer(0, 1, 2, 3, high_watermark=0), 0)] == [1]
