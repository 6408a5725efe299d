"""What leaders want to change in their ISR: one request at a time, answers into the rows, and again after a failure."""

from mpbroker.controller.isr_proposals import IsrProposals
from mpbroker.protocol.messages.alter_partition import (
    AlterPartitionPartitionResult,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)

TOPIC = b"t" * 16


class NotedLog:
    """Proposals that wait, how they were asked for, and what was answered."""

    def __init__(self, *proposals):
        self.proposals, self.asked, self.answers = list(proposals), [], []

    def take_isr_proposals(self, lag_ms, now_ms, again):
        self.asked.append((lag_ms, again))
        return self.proposals

    def isr_answered(self, *answer):
        self.answers.append(answer)


def proposals_of(log):
    return IsrProposals(
        log=log, self_id=1, lag_ms=1000, identity_of=lambda row: (TOPIC, row), broker_epoch=lambda broker: broker * 10
    )


def answer(*results):
    return AlterPartitionResponse(topics=[AlterPartitionTopicResult(topic_id=TOPIC, partitions=list(results))])


def test_what_is_wanted_is_asked_for_and_the_answer_reaches_the_rows():
    log = NotedLog((3, 7, 2, (1, 2)), (4, 8, 5, (1,)))
    proposals = proposals_of(log)
    request = proposals.next_request(5000)
    assert (request.broker_id, request.broker_epoch) == (1, 10)
    rows = [
        (
            one.partition_index,
            one.leader_epoch,
            one.partition_epoch,
            [(b.broker_id, b.broker_epoch) for b in one.new_isr_with_epochs],
        )
        for one in request.topics[0].partitions
    ]
    assert rows == [(3, 7, 2, [(1, 10), (2, 20)]), (4, 8, 5, [(1, 10)])]
    done = AlterPartitionPartitionResult(3, 0, 1, 7, [1, 2], 0, 3)
    refused = AlterPartitionPartitionResult(4, 107, 1, 8, [1, 2], 0, 5)
    assert proposals.answered(answer(done, refused), 5001) == 0
    assert log.answers == [(3, 7, 3, (1, 2), 0), (4, 8, 5, (1, 2), 107)]
    assert proposals.next_request(5002) is None, "the refused one waits a little"


def test_after_a_failure_everything_is_asked_for_again():
    log = NotedLog((3, 7, 2, (1, 2)))
    proposals = proposals_of(log)
    assert proposals.next_request(5000) is not None
    assert proposals.answered(None, 5001) == 13
    assert proposals.next_request(5040) is None
    assert proposals.next_request(5060) is not None
    assert proposals.answered(AlterPartitionResponse(error_code=41), 5061) == 41
    assert proposals.next_request(5120) is not None
    assert log.answers == []
    assert [again for _, again in log.asked] == [True, True, True], "a predecessor's, and ours that failed"


def test_who_fell_behind_is_looked_for_twice_in_the_allowed_lag():
    log = NotedLog()
    proposals = proposals_of(log)
    for now_ms in (5000, 5100, 5499, 5500, 5501, 6000):
        assert proposals.next_request(now_ms) is None
    assert [lag_ms for lag_ms, _ in log.asked] == [1000, -1, -1, 1000, -1, 1000]
    assert [again for _, again in log.asked] == [True, False, False, False, False, False]
