"""What a follower asks one leader for, request by request: sessions, pauses, what is held back, what is out of date."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from mpbroker.replication.follower import (
    LAST_EPOCH,
    THROTTLED_MS,
    Append,
    FetchLimits,
    Followed,
    LeaderFetch,
    SteadyEnd,
    SteadyStart,
    Truncate,
    truncation_target,
)

T, U = b"t" * 16, b"u" * 16
FOLLOWER, OWN_EPOCH, SESSION = 3, 77, 9
LIMITS = FetchLimits(wait_max_ms=500, min_bytes=2, max_bytes=1000, response_max_bytes=5000, backoff_ms=150)


def row(partition, topic_id=T, epoch=4, **fields):
    """Rows of t begin with ordinal 10, those of u with 20."""
    ordinal = (10 if topic_id == T else 20) + partition
    return Followed(
        ordinal, topic_id, partition, 0, epoch, **{"leo": 30, "last_epoch": 3, "log_start": 5, "hw": 29} | fields
    )


def asked(request):
    return [(topic.topic_id[:1], one.partition) for topic in request.topics for one in topic.partitions]


def gone(request):
    return {one.topic_id: one.partitions for one in request.forgotten_topics_data}


def answer(*rows, session=SESSION, code=0, topic_id=T):
    topics = [FetchableTopicResponse(topic_id=topic_id, partitions=list(rows))] if rows else []
    return FetchResponse(session_id=session, error_code=code, responses=topics)


@pytest.fixture
def fetch():
    made = LeaderFetch(FOLLOWER, OWN_EPOCH, LIMITS)
    made.follow([row(0), row(1)])
    return made


def test_the_first_request_names_everything_and_who_asks(fetch):
    request = fetch.next_request(1000)
    assert request.replica_state == ReplicaState(replica_id=FOLLOWER, replica_epoch=OWN_EPOCH)
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.session_id, request.session_epoch)
    assert limits == (500, 2, 5000, 0, 0) and len(fetch) == 2
    assert request.topics[0].topic_id == T and request.topics[0].partitions == [
        FetchPartition(
            partition=number,
            current_leader_epoch=4,
            fetch_offset=30,
            last_fetched_epoch=3,
            log_start_offset=5,
            partition_max_bytes=1000,
        )
        for number in (0, 1)
    ]
    assert request.forgotten_topics_data == []


def test_within_a_session_only_what_changed_is_named(fetch):
    fetch.next_request(0)
    fetch.answered(answer(), 0)
    second = fetch.next_request(0)
    assert (asked(second), gone(second), second.session_id, second.session_epoch) == ([], {}, SESSION, 1)
    fetch.answered(answer(), 0)
    fetch.moved(11, 35, 4, 6)
    third = fetch.next_request(0)
    assert asked(third) == [(b"t", 1)] and third.session_epoch == 2
    [one] = third.topics[0].partitions
    assert (one.fetch_offset, one.last_fetched_epoch, one.log_start_offset) == (35, 4, 6)
    fetch.answered(answer(), 0)
    fetch.follow([row(1, leo=99), row(0, U), row(2, U)])
    fourth = fetch.next_request(0)
    assert (asked(fourth), gone(fourth)) == ([(b"u", 0), (b"u", 2)], {T: [0]})
    fetch.answered(answer(), 0)
    fetch.follow([])
    assert fetch.next_request(0) is None and len(fetch) == 0


def test_partitions_of_one_topic_are_forgotten_together(fetch):
    fetch.follow([row(0), row(1), row(0, U), row(1, U)])
    fetch.next_request(0)
    fetch.answered(answer(), 0)
    fetch.follow([row(1, U)])
    request = fetch.next_request(0)
    assert request.forgotten_topics_data == [
        ForgottenTopic(topic_id=T, partitions=[0, 1]),
        ForgottenTopic(topic_id=U, partitions=[0]),
    ]


@pytest.mark.parametrize(
    ("again", "offset", "epoch"),
    [(row(0, leo=99), 40, 4), (row(0, epoch=5, leo=99), 99, 5), (row(0, leo=99)._replace(ordinal=19), 99, 4)],
    ids=["the same epoch", "another epoch", "another row"],
)
def test_who_is_followed_in_the_same_epoch_goes_on_where_it_is(fetch, again, offset, epoch):
    fetch.moved(10, 40, 3, 5)
    fetch.follow([again])
    [one] = fetch.next_request(0).topics[0].partitions
    assert (one.fetch_offset, one.current_leader_epoch) == (offset, epoch)


def test_sessions_count_their_epochs_and_begin_again_behind_the_last_one(fetch):
    for is_asked, epoch, expected in (
        (True, 7, 7),
        (False, 7, 8),
        (False, LAST_EPOCH - 1, LAST_EPOCH),
        (False, LAST_EPOCH, 1),
    ):
        fetch.begin_anew()
        fetch.next_request(0)
        fetch.answered(answer(), 0)
        fetch.resumed(epoch, is_asked, [])
        assert fetch.next_request(0).session_epoch == expected


@pytest.mark.parametrize(
    ("code", "pause_ms"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 20),
    ],
)
def test_a_session_that_is_no_more_is_followed_by_a_new_one(fetch, code, pause_ms):
    fetch.next_request(0)
    fetch.answered(answer(), 0)
    fetch.next_request(0)
    assert fetch.answered(answer(code=code), 100) == []
    assert (fetch.next_request(100 + pause_ms - 1) is None) is bool(pause_ms)
    request = fetch.next_request(100 + pause_ms)
    assert (request.session_id, request.session_epoch, len(asked(request))) == (0, 0, 2)


def test_each_lost_connection_is_followed_by_a_longer_pause(fetch):
    now_ms, pauses = 0, []
    for _ in range(5):
        fetch.connection_lost(now_ms)
        pauses.append(fetch.due_ms(now_ms) - now_ms)
        assert fetch.next_request(now_ms + pauses[-1] - 1) is None
        now_ms += pauses[-1]
    assert pauses == [20, 40, 80, 150, 150]
    assert fetch.next_request(now_ms) is not None
    fetch.answered(answer(), now_ms)
    fetch.connection_lost(now_ms)
    assert fetch.due_ms(now_ms) - now_ms == 20, "an answer ends them"


def test_what_waited_for_a_step_is_asked_for_over_another_connection(fetch):
    fetch.next_request(0)
    steps = fetch.answered(answer(PartitionData(0), PartitionData(1)), 0)
    assert len(steps) == 2 and fetch.next_request(0) is None
    fetch.begin_anew()
    assert len(asked(fetch.next_request(0))) == 2


@pytest.mark.parametrize(("at_ms", "before_ms", "due_ms"), [(50, 0, 50), (50, 70, 70), (80, 70, 80)])
def test_nothing_is_asked_before_the_latest_of_what_was_said(fetch, at_ms, before_ms, due_ms):
    fetch.not_before(before_ms)
    fetch.not_before(at_ms)
    assert fetch.due_ms(0) == due_ms and fetch.due_ms(due_ms + 5) == due_ms + 5
    assert fetch.next_request(due_ms - 1) is None and fetch.next_request(due_ms) is not None


def test_a_failed_step_is_tried_again_after_pauses_that_grow_until_one_succeeds(fetch):
    fetch.follow([row(0)])
    now_ms, pauses = 0, []
    for _ in range(5):
        fetch.failed(10, now_ms)
        pauses.append(fetch.due_ms(now_ms) - now_ms)
        now_ms += pauses[-1]
    assert pauses == [20, 40, 80, 150, 150] and fetch.lag() == 1
    fetch.moved(10, 31, 3, 5)
    assert fetch.lag() == 0
    fetch.failed(10, now_ms)
    assert fetch.due_ms(now_ms) - now_ms == 20
    fetch.failed(99, now_ms)
    fetch.moved(99, 1, 1, 1)
    assert len(fetch) == 1, "of a row that is not followed nothing is known"


def test_a_fenced_one_waits_until_the_rows_are_looked_at_and_keeps_its_pause(fetch):
    fetch.follow([row(0)])
    fetch.failed(10, 0, is_fenced=True)
    assert fetch.next_request(10_000) is None and fetch.due_ms(0) is None and fetch.lag() == 1
    fetch.follow([row(0, leo=33)])
    assert fetch.next_request(19) is None and fetch.due_ms(0) == 20
    [one] = fetch.next_request(20).topics[0].partitions
    assert one.fetch_offset == 33 and fetch.lag() == 1
    fetch.failed(10, 20)
    assert fetch.due_ms(20) == 60


@pytest.mark.parametrize(
    ("leader_hw", "held"),
    [(None, True), (29, False), (30, False), (31, True), (0, False)],
    ids=["not told", "behind", "equal", "lags", "at its beginning"],
)
def test_a_partition_that_lags_is_held_back_while_the_rate_is_used_up(leader_hw, held):
    looked = []
    fetch = LeaderFetch(FOLLOWER, OWN_EPOCH, LIMITS, lambda ordinal: looked.append(ordinal) or is_held)
    fetch.follow([row(0)])
    is_held = False
    fetch.next_request(0)
    if leader_hw is not None:
        [step] = fetch.answered(answer(PartitionData(0, high_watermark=leader_hw)), 0)
        fetch.moved(step.ordinal, 30, 3, 5)
    is_held = True
    looked.clear()
    assert (fetch.next_request(100) is None) is held and looked == ([10] if held else [])
    assert fetch.due_ms(100) == (100 + THROTTLED_MS if held else 100)
    is_held = False
    assert (fetch.next_request(100 + THROTTLED_MS - 1) is None) is held
    assert looked == ([10] if held else []), "not looked at meanwhile"
    assert fetch.next_request(100 + THROTTLED_MS) is not None
    assert fetch.lag() == 0, "it is no error"


@pytest.mark.parametrize(("leader_hws", "lag"), [([], 0), ([30, 29], 0), ([40, 33], 10), ([33, 40], 10)])
def test_how_far_it_lags_is_by_what_the_leader_has_committed(fetch, leader_hws, lag):
    fetch.next_request(0)
    fetch.answered(answer(*(PartitionData(n, high_watermark=hw) for n, hw in enumerate(leader_hws))), 0)
    assert fetch.largest_lag() == lag
    fetch.follow([])
    assert fetch.largest_lag() == 0


@pytest.mark.parametrize(
    ("records", "taken"),
    [(b"abc", b"abc"), (None, b""), (3, b""), (b"", b"")],
    ids=["bytes", "null", "a length", "none"],
)
def test_records_are_appended_where_they_were_asked_for(fetch, records, taken):
    fetch.next_request(0)
    data = PartitionData(1, high_watermark=28, log_start_offset=6, records=records)
    assert fetch.answered(answer(data), 0) == [Append(11, T, 4, 30, taken, 28, 6)]
    assert fetch.answered(answer(data), 0) == [], "it waits for that step"
    diverging = PartitionData(0, diverging_epoch=EpochEndOffset(epoch=2, end_offset=8))
    assert fetch.answered(answer(diverging), 0) == [Truncate(10, T, 4, 2, 8)]


def test_an_error_of_one_partition_is_followed_by_a_pause_of_that_one(fetch):
    fetch.next_request(0)
    data = [PartitionData(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), PartitionData(1)]
    [step] = fetch.answered(answer(*data), 100)
    fetch.moved(step.ordinal, 30, 3, 5)
    assert fetch.lag() == 1
    request = fetch.next_request(119)
    assert (asked(request), gone(request), request.max_wait_ms) == ([], {T: [0]}, 20)
    fetch.answered(answer(), 119)
    assert asked(fetch.next_request(120)) == [(b"t", 0)]


def test_what_it_lacks_is_what_was_followed_since_the_last_request(fetch):
    assert fetch.lacks()
    fetch.next_request(0)
    assert not fetch.lacks()
    fetch.follow([row(0), row(1), row(2)])
    assert fetch.lacks()
    fetch.failed(12, 5)
    assert not fetch.lacks(), "it waits for its pause"


def start(one, leader_hw=29):
    return SteadyStart(one.topic_id, one.partition, one.ordinal, one.leader_epoch, 30, 3, 5, leader_hw)


def test_a_session_is_served_natively_when_nothing_waits_for_anything_else(fetch):
    assert fetch.steady() is None, "there is no session yet"
    fetch.follow([row(0, U), row(1), row(0)])
    for _ in range(2):
        fetch.next_request(0)
        for topic_id, numbers in ((U, [0]), (T, [0, 1])):
            rows = [PartitionData(n, high_watermark=29) for n in numbers]
            for step in fetch.answered(answer(*rows, topic_id=topic_id), 0):
                fetch.moved(step.ordinal, 30, 3, 5)
    request = fetch.next_request(0)
    found = fetch.steady()
    assert found == (SESSION, request.session_epoch, [start(row(0)), start(row(1)), start(row(0, U))])
    fetch.follow([row(0, U), row(1), row(0), row(2)])
    assert fetch.steady() is None, "one is not asked for"


@pytest.mark.parametrize("why", ["waits", "fenced", "pause"])
def test_it_is_not_while_one_waits_or_failed(fetch, why):
    fetch.next_request(0)
    fetch.answered(answer(), 0)
    fetch.next_request(0)
    assert fetch.steady() is not None
    if why == "waits":
        fetch.answered(answer(PartitionData(0)), 0)
    else:
        fetch.failed(10, 0, is_fenced=why == "fenced")
    assert fetch.steady() is None


def test_what_was_served_natively_goes_on_here(fetch):
    fetch.next_request(0)
    fetch.answered(answer(), 0)
    fetch.next_request(0)
    fetch.resumed(5, False, [SteadyEnd(10, 50, 4, 6, 49, False, 0), SteadyEnd(11, 60, 5, 7, 61, True, 0)])
    request = fetch.next_request(0)
    assert (asked(request), request.session_epoch) == ([(b"t", 1)], 6), "of the other one the leader was told"
    [one] = request.topics[0].partitions
    assert (one.fetch_offset, one.last_fetched_epoch, one.log_start_offset) == (60, 5, 7)
    assert fetch.largest_lag() == 1


@pytest.mark.parametrize(
    ("own_end", "leader_end", "leo", "target"),
    [(-1, 7, 9, 7), (-1, 12, 9, 9), (0, 7, 9, 0), (5, 7, 9, 5), (8, 7, 9, 7), (12, 13, 9, 9)],
)
def test_where_a_log_is_cut(own_end, leader_end, leo, target):
    assert truncation_target(own_end, leader_end, leo) == target


def test_limits_are_kafkas_unless_they_are_set():
    assert FetchLimits() == FetchLimits(500, 1, 1_048_576, 10_485_760, 1000)


def test_no_session_survives_its_connection(fetch):
    fetch.next_request(0)
    fetch.answered(answer(), 0)
    fetch.next_request(0)
    assert len(fetch.answered(answer(PartitionData(0)), 0)) == 1
    fetch.connection_lost(0)
    request = fetch.next_request(20)
    assert (request.session_id, request.session_epoch, len(asked(request))) == (0, 0, 2)


def test_what_is_due_first_counts_and_a_step_that_failed_waits_no_more(fetch):
    fetch.next_request(0)
    assert len(fetch.answered(answer(PartitionData(0), PartitionData(1)), 0)) == 2
    assert fetch.due_ms(0) is None, "both wait for the shell"
    fetch.failed(11, 0)
    fetch.failed(11, 0)
    assert fetch.due_ms(0) == 40
    fetch.failed(10, 0)
    assert fetch.due_ms(0) == 20
    assert gone(fetch.next_request(20)) == {T: [1]}, "the other one is asked for as before"


def test_the_leader_waits_for_no_longer_than_a_fenced_one_is_paused(fetch):
    for _ in range(2):
        fetch.failed(10, 0, is_fenced=True)
    assert [fetch.next_request(now_ms).max_wait_ms for now_ms in (0, 30, 100)] == [40, 40, 40]
    fetch.follow([row(0), row(1)])
    fetch.failed(10, 100)
    assert [fetch.next_request(now_ms).max_wait_ms for now_ms in (100, 130, 175, 180)] == [80, 50, 20, 500]


@pytest.mark.parametrize(("backoff_ms", "pauses"), [(0, [1, 1]), (1, [1, 1]), (30, [20, 30])])
def test_a_pause_is_no_longer_than_the_setting_and_never_none(backoff_ms, pauses):
    fetch = LeaderFetch(FOLLOWER, OWN_EPOCH, LIMITS._replace(backoff_ms=backoff_ms))
    fetch.follow([row(0)])
    seen = []
    for _ in pauses:
        fetch.failed(10, 0)
        seen.append(fetch.due_ms(0))
    assert seen == pauses
