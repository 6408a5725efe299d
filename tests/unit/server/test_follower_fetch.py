"""Who asks: a broker of the cluster, 0 among them, or a consumer."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log.leader_epochs import NOT_KNOWN, EpochEnd
from mpbroker.protocol.messages.fetch import FetchRequest, ReplicaState
from mpbroker.server.follower_fetch import count_position, is_by_follower, replica_of


@pytest.mark.parametrize("node_id", [-1, 0, 1])
@pytest.mark.parametrize("is_tagged", [False, True])
def test_a_broker_is_told_from_a_consumer(node_id, is_tagged):
    message = (
        FetchRequest(replica_id=5, replica_state=ReplicaState(node_id, 3))
        if is_tagged
        else FetchRequest(replica_id=node_id)
    )
    assert replica_of(message) == node_id
    for is_replicated in (False, True):
        log = SimpleNamespace(is_replicated=lambda is_replicated=is_replicated: is_replicated)
        context = SimpleNamespace(log_manager=SimpleNamespace(log=log))
        assert is_by_follower(context, message) == (is_replicated and node_id >= 0)


class Logs:
    """The log manager of one partition; `answers`: of the native calls, one after the other."""

    def __init__(self, *answers, end=NOT_KNOWN, state="there"):
        self.answers, self.asked, self.end, self.log = list(answers), [], end, self
        usual = SimpleNamespace(hw=9, lso=8, log_start=2, leader_epoch=5)
        self._state = usual if state == "there" else None

    def follower_fetched(self, *words):
        self.asked.append(words)
        return self.answers.pop(0)

    def state(self, ordinal):
        return self._state

    def end_of_epoch(self, ordinal, state, epoch):
        return self.end


def position(logs, *, epoch=4, offset=50, proposals=None, message=None):
    """(whether that is all, what was read)."""
    context = SimpleNamespace(
        log_manager=logs,
        clock=SimpleNamespace(monotonic_ms=lambda: 77),
        request_isr_change=lambda: proposals.append(1),
    )
    asked = SimpleNamespace(last_fetched_epoch=epoch, current_leader_epoch=-9, fetch_offset=offset, log_start_offset=1)
    read = SimpleNamespace(ordinal=6, error=0, diverging=None, high_watermark=-1)
    message = message or FetchRequest(replica_state=ReplicaState(3, 12))
    return count_position(context, SimpleNamespace(id=b"T"), asked, message, read), read


def test_a_position_is_counted_and_a_change_of_the_isr_asked_for():
    for is_proposed in (False, True):
        logs, proposals = Logs((0, False, -1, -1, is_proposed)), []
        assert position(logs, proposals=proposals)[0] is False and proposals == [1] * is_proposed
        assert logs.asked == [(6, 3, 12, -1, 50, 4, 1, 77, b"T")]


def test_an_epoch_below_minus_one_is_none():
    logs = Logs((0, False, -1, -1, False))
    position(logs, epoch=-5)
    assert logs.asked[0][5] == -1


@pytest.mark.parametrize(
    ("answer", "is_all", "error", "diverging"),
    [
        ((int(ErrorCode.FENCED_LEADER_EPOCH), False, -1, -1, False), True, ErrorCode.FENCED_LEADER_EPOCH, None),
        ((int(ErrorCode.REQUEST_TIMED_OUT), False, -1, -1, False), False, 0, None),
        ((0, False, 3, 0, False), True, 0, (3, 0)),
        ((0, False, 3, -1, False), False, 0, None),
    ],
    ids=["an error", "its lock is held", "diverging from the beginning", "a prefix"],
)
def test_what_a_follower_is_told_instead_of_records(answer, is_all, error, diverging):
    found, read = position(Logs(answer))
    assert (found, read.error, read.diverging) == (is_all, error, diverging)
    assert read.high_watermark == (9 if diverging else -1)


@pytest.mark.parametrize(
    ("end", "epoch", "offset", "diverging"),
    [
        (EpochEnd(4, 50), 4, 50, None),
        (EpochEnd(4, 49), 4, 50, (4, 49)),
        (EpochEnd(3, 60), 4, 50, (3, 60)),
        (EpochEnd(3, 0), 4, 50, (3, 0)),
    ],
)
def test_for_an_older_epoch_the_file_is_asked_and_the_position_counted_then(end, epoch, offset, diverging):
    logs = Logs((0, True, -1, -1, False), (0, False, -1, -1, False), end=end)
    found, read = position(logs, epoch=epoch, offset=offset)
    assert (found, read.diverging) == (diverging is not None, diverging)
    assert len(logs.asked) == (1 if diverging else 2)
    assert [words[5] for words in logs.asked] == [4, -1][: len(logs.asked)]


@pytest.mark.parametrize(
    ("state", "error"), [("there", ErrorCode.OFFSET_OUT_OF_RANGE), (None, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_an_epoch_that_nobody_knows_is_an_error(state, error):
    found, read = position(Logs((0, True, -1, -1, False), end=NOT_KNOWN, state=state))
    assert found is True and read.error == error and read.diverging is None


@pytest.mark.parametrize(("state", "epoch"), [(None, -1), (ReplicaState(3, 0), 0), (ReplicaState(3, 12), 12)])
def test_an_older_follower_names_no_epoch_of_its_own(state, epoch):
    logs = Logs((0, False, -1, -1, False))
    position(logs, message=FetchRequest(replica_id=3, replica_state=state))
    assert logs.asked[0][1:3] == (3, epoch)


def test_the_leaders_epoch_is_told_with_an_error_too():
    """From it, the follower sees who is behind."""
    found, read = position(Logs((int(ErrorCode.FENCED_LEADER_EPOCH), False, -1, -1, False)))
    assert found and (read.leader_epoch, read.high_watermark) == (5, -1)
