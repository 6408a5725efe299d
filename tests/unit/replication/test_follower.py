"""What a follower asks its leader next, by what it was told."""

import pytest

from mpbroker.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from mpbroker.replication.follower import FetchLimits, Followed, LeaderFetch, Truncate

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
