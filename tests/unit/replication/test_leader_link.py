"""The way to one leader, step by step: what is asked in which order, what becomes of each answer, and what of an answer
that comes too late. The leader, the log and the state of the fetch are scripts that note every call."""

import struct
from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode, ProtocolError
from mpbroker.log.leader_epochs import EpochEnd
from mpbroker.protocol.messages.fetch import FetchResponse
from mpbroker.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from mpbroker.replication.follower import Append, Followed, OutOfRange, SteadyEnd, Truncate
from mpbroker.replication.leader_connection import ConnectionEnded
from mpbroker.replication.leader_link import HELD_BACK_MS, LeaderLink
from mpbroker.shm.clock import ManualClock
from tests.harness.noted_calls import Script

TOPIC, OTHER = b"t" * 16, b"o" * 16
ORDINAL, EPOCH, LEO, LOG_START = 4, 6, 100, 10
ROW = Followed(ORDINAL, TOPIC, 3, 2, EPOCH, LEO, 5, LOG_START, 90)
FENCED, OUT_OF_RANGE, STORAGE = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
LATEST, EARLIEST = -1, -2


class World:
    """A link whose surroundings are scripts; `calls` are all that it made."""

    def __init__(self, **answers):
        self.calls, self.clock = [], ManualClock()
        self.clock.advance(1000)
        self.now = self.clock.monotonic_ms()
        answers = {"row": ROW, "options": "options", "topic_name": "topic"} | answers
        logs = Script(self.calls, **answers)
        logs.log = logs
        self.fetch = Script(self.calls, **answers)
        self.fetch.node_id = 7
        self.link = LeaderLink(
            2,
            self.fetch,
            logs,
            self.clock,
            rescan=lambda: self.calls.append("rescan"),
            say=lambda event, **fields: self.calls.append((event, fields)),
            crash_point=lambda name: self.calls.append(name),
            fetched_bytes=lambda ordinal, size: self.calls.append(("fetched", ordinal, size)),
        )
        self.connection = self.link.connection = Script(self.calls, **answers)
        self.connection.is_idle, self.connection.correlation_id = True, 7

    def did(self, step):
        """What it calls for a step that an answer comes to."""
        self.fetch._answers["answered"] = [[step]]
        self.link._fetched(FetchResponse())
        assert self.calls.pop(0) == ("answered", FetchResponse(), self.now)
        return self.calls

    def failed(self, is_fenced=None):
        return ("failed", ORDINAL, self.now, *(() if is_fenced is None else (is_fenced,)))


def looked_again():
    return [("row", ORDINAL), ("moved", ORDINAL, LEO, 5, LOG_START)]


def test_an_answer_is_overdue_behind_its_time():
    """Nothing is, before anything was asked."""
    clock, asked = ManualClock(), []
    fetch = SimpleNamespace(next_request=lambda now_ms: asked.append(now_ms) or "fetch")
    link = LeaderLink(2, fetch, None, clock, rescan=lambda: None)
    link.connection = SimpleNamespace(is_idle=True, ask=lambda *request: None)
    clock.advance(700)
    assert not link.is_overdue(500)
    assert link.ask() and asked == [link.asked_ms]
    clock.advance(500)
    assert not link.is_overdue(500)
    clock.advance(1)
    assert link.is_overdue(500)


# asking


def test_questions_go_before_the_next_fetch_and_one_at_a_time():
    world = World(next_request=["fetch", None])
    world.link._ask_end(OutOfRange(ORDINAL, TOPIC, EPOCH), LATEST)
    del world.calls[:]
    world.link.lacks_since_ms = 3
    assert world.link.ask() and world.link.asked_ms == world.now and world.link.lacks_since_ms is None
    [(name, message, answer, version)] = world.calls
    assert (name, type(message), answer, version) == ("ask", ListOffsetsRequest, ListOffsetsResponse, 7)
    [topic] = message.topics
    [partition] = topic.partitions
    assert (message.replica_id, topic.name, partition.partition_index) == (7, "topic", 3)
    assert (partition.current_leader_epoch, partition.timestamp) == (EPOCH, LATEST)
    world.connection.is_idle = False
    assert not world.link.ask(), "one is under way"
    world.connection.is_idle = True
    assert world.link.ask() and not world.link.ask(), "then there is nothing now"
    assert world.calls[1:] == [
        ("next_request", world.now),
        ("ask", "fetch", FetchResponse, 17),
        ("next_request", world.now),
    ]


def test_without_a_connection_nothing_is_asked_or_written():
    world = World()
    world.link.connection = None
    assert not world.link.ask() and not world.link.wants_to_write and world.calls == []
    assert world.link.held_back_until_ms() is None and world.link.steady() is None


@pytest.mark.parametrize("wants", [True, False])
def test_a_request_that_is_not_sent_whole(wants):
    world = World()
    world.connection.wants_to_write = wants
    assert world.link.wants_to_write is wants
    world.link.write()
    assert world.calls == [("write",)]


def test_what_the_request_in_flight_lacks_is_noted_once():
    """Only of a Fetch, only where something waits, and from when it was seen first."""
    world = World(next_request=["fetch"], lacks=[False, True, True])
    world.link.note_what_it_lacks()
    assert world.link.lacks_since_ms is None and world.calls == [], "nothing is in flight"
    world.link.ask()
    world.link.note_what_it_lacks()
    assert world.link.held_back_until_ms() is None, "it lacks nothing"
    world.link.note_what_it_lacks()
    world.clock.advance(30)
    world.link.note_what_it_lacks()
    assert world.link.lacks_since_ms == world.now and world.link.held_back_until_ms() == world.now + HELD_BACK_MS
    world.connection.correlation_id = None
    assert world.link.held_back_until_ms() is None, "some of its answer has come"


def test_a_question_lacks_no_partition():
    world = World(lacks=True)
    world.link._ask_end(OutOfRange(ORDINAL, TOPIC, EPOCH), LATEST)
    world.link.ask()
    world.link.note_what_it_lacks()
    assert world.link.lacks_since_ms is None


# answers


def test_an_answer_is_taken_once():
    world = World(next_request=["fetch"], read=[None, "answer", "another"])
    world.link.ask()
    del world.calls[:]
    taken = []
    world.link._then = lambda answer: taken.append((answer, world.link._then))
    world.link.read()
    assert world.calls == [("read",)] and taken == [], "it is not there whole"
    world.link.read()
    assert taken == [("answer", None)] and world.calls[1:] == [("read",), "fetcher.answered"]
    world.link.read()
    assert taken == [("answer", None)], "nobody asked"


def test_an_answer_that_cannot_be_read_ends_the_connection():
    world = World()

    def broken():
        raise ProtocolError("too long")

    world.connection.read = broken
    with pytest.raises(ConnectionEnded, match="too long"):
        world.link.read()


def test_what_is_lost_and_what_is_closed():
    """A lost connection counts as a failure of its leader, a closed one does not; both begin anew."""
    world = World(next_request=["fetch"])
    world.link._ask_end(OutOfRange(ORDINAL, TOPIC, EPOCH), LATEST)
    world.link._then, world.link.lacks_since_ms = world.link._fetched, 5
    del world.calls[:]
    world.link.lose()
    assert world.calls == [("close",), ("begin_anew",), ("connection_lost", world.now)]
    assert (world.link.connection, world.link.lacks_since_ms, world.link.is_overdue(-1)) == (None, None, False)
    world.link.close()
    assert world.calls[3:] == [("begin_anew",)]
    world.link.connection = world.connection
    assert world.link.ask() and world.calls[4:] == [("next_request", world.now), ("ask", "fetch", FetchResponse, 17)]


# native serving


@pytest.mark.parametrize("change", ["none", "nothing asked", "question in flight", "question waits", "answer comes"])
def test_when_a_session_may_be_served_natively(change):
    world = World(next_request=["fetch"], steady="starts")
    if change == "question in flight":
        world.link._ask_end(OutOfRange(ORDINAL, TOPIC, EPOCH), LATEST)
    if change != "nothing asked":
        world.link.ask()
    if change == "question waits":
        world.link._ask_end(OutOfRange(ORDINAL, TOPIC, EPOCH), LATEST)
    if change == "answer comes":
        world.connection.correlation_id = None
    assert world.link.steady() == ("starts" if change == "none" else None)


@pytest.mark.parametrize("is_asked", [True, False])
def test_back_from_native_serving(is_asked):
    """Whether its last request is still to be answered, and appends that failed there."""
    world = World(next_request=["fetch"])
    world.link.ask()
    del world.calls[:]
    ends = [SteadyEnd(1, 5, 1, 0, 5, True, 0), SteadyEnd(ORDINAL, 5, 1, 0, 5, True, STORAGE)]
    world.link.resumed(12, is_asked, ends)
    assert world.calls == [
        ("resumed", 12, is_asked, ends),
        world.failed(False),
        ("replica_append_failed", {"ordinal": ORDINAL, "leader": 2, "error": STORAGE}),
    ]
    assert world.link.is_overdue(-1) is is_asked


# appending


def append(records=b"r" * 70, offset=LEO):
    return Append(ORDINAL, TOPIC, EPOCH, offset, records, 95, 11)


def appended(world, step):
    return ("append_follower", ORDINAL, EPOCH, step.offset, step.records, 95, 11, "options", *of_wall(world), TOPIC)


def of_wall(world):
    return (world.clock.wall_ms(),)


@pytest.mark.parametrize(
    ("code", "batches", "told"),
    [
        (0, 2, ["fetched", "moved"]),
        (0, 0, ["moved"]),
        (STORAGE, 1, ["fetched", "moved", "failed"]),
        (STORAGE, 0, ["failed"]),
    ],
)
def test_records_are_appended_and_counted(code, batches, told):
    """What was appended before an error is counted, too."""
    world, step = World(append_follower=(code, batches, 120, 1, 6, 11)), append()
    calls = {
        "fetched": ("fetched", ORDINAL, 70),
        "moved": ("moved", ORDINAL, 120, 6, 11),
        "failed": world.failed(False),
    }
    said = [("replica_append_failed", {"ordinal": ORDINAL, "leader": 2, "error": STORAGE})] if code else []
    assert world.did(step) == [
        ("options", ORDINAL),
        appended(world, step),
        "fetcher.appended",
        *(calls[name] for name in told),
        *said,
    ]


def test_records_of_a_topic_that_is_not_known_here_yet():
    world = World(options=[None])
    assert world.did(append()) == [("options", ORDINAL), world.failed()]


@pytest.mark.parametrize("code", [FENCED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, OUT_OF_RANGE])
def test_an_append_in_another_role_or_at_another_end(code):
    """The row says what is so now, and all rows are looked at soon."""
    world = World(append_follower=(code, 0, 0, 0, 0, 0))
    is_fenced = code != OUT_OF_RANGE
    found = world.did(append(b""))[3:]
    assert found == [
        *([] if is_fenced else [("row", ORDINAL)]),  # whether the log begins within a batch
        world.failed(is_fenced),
        *looked_again(),
        "rescan",
    ]


def test_a_busy_partition_is_tried_again_without_a_word():
    world = World(append_follower=(ErrorCode.REQUEST_TIMED_OUT, 0, 0, 0, 0, 0))
    assert world.did(append())[3:] == [world.failed(False)]


def test_a_row_that_is_no_followers_any_more():
    world = World(append_follower=(FENCED, 0, 0, 0, 0, 0), row=[None])
    is_none = ("failed", ORDINAL, world.now, ("is_fenced", True))
    assert world.did(append())[3:] == [world.failed(True), ("row", ORDINAL), is_none, "rescan", "rescan"]


# a log that begins within the leader's first batch


def batch(first, last):
    """As far as it is looked at: base offset, and its last offset counted from there."""
    return struct.pack(">q", first) + bytes(15) + struct.pack(">i", last - first)


EMPTY_ROW = ROW._replace(log_start=LEO)


@pytest.mark.parametrize(
    ("row", "records", "begins"),
    [
        (EMPTY_ROW, batch(95, 100), True),
        (EMPTY_ROW, batch(99, 105), True),
        (EMPTY_ROW, batch(0, 100), True),
        (EMPTY_ROW, batch(95, 99), False),  # it ends before
        (EMPTY_ROW, batch(100, 105), False),  # it begins where the log does
        (EMPTY_ROW, batch(-1, 105), False),
        (EMPTY_ROW, batch(95, 94), False),  # it says that it ends before it begins
        (EMPTY_ROW, batch(95, 100)[:-1], False),  # too short to say
        (ROW, batch(95, 100), False),  # the log has records
        (None, batch(95, 100), False),
        (EMPTY_ROW._replace(topic_id=OTHER), batch(95, 100), False),
        (EMPTY_ROW._replace(leader_epoch=EPOCH + 1), batch(95, 100), False),
    ],
)
def test_an_empty_log_begins_with_a_whole_batch(row, records, begins):
    refused = (OUT_OF_RANGE, 0, 0, 0, 0, 0)
    world = World(append_follower=[refused, (0, 1, 106, 1, 6, 11)], row=row, start_at=0)
    found = world.did(append(records))[3:]
    first = int.from_bytes(records[:8], "big", signed=True)
    if begins:
        assert found == [
            ("row", ORDINAL),
            ("start_at", ORDINAL, first, EPOCH, *of_wall(world)),
            "fetcher.begun_earlier",
            ("options", ORDINAL),
            appended(world, append(records, first)),
            "fetcher.appended",
            ("fetched", ORDINAL, len(records)),
            ("moved", ORDINAL, 106, 6, 11),
        ]
    else:
        assert found[:2] == [("row", ORDINAL), world.failed(False)] and found[-1] == "rescan"


def test_a_beginning_that_fails():
    world = World(append_follower=[(OUT_OF_RANGE, 0, 0, 0, 0, 0)], row=EMPTY_ROW, start_at=STORAGE)
    assert world.did(append(batch(95, 100)))[5:] == [
        "fetcher.begun_earlier",
        world.failed(False),
        ("replica_append_failed", {"ordinal": ORDINAL, "leader": 2, "error": STORAGE}),
    ]


def test_out_of_range_behind_some_batches_is_no_beginning():
    world = World(append_follower=[(OUT_OF_RANGE, 1, 101, 0, 5, 11)], row=EMPTY_ROW)
    assert not any(call[0] == "start_at" for call in world.did(append(batch(95, 100))))


# truncating


@pytest.mark.parametrize(("own_end", "end", "target"), [(80, 90, 80), (95, 90, 90), (-1, 90, 90), (-1, 120, LEO)])
def test_a_log_that_parts_from_the_leaders_is_cut(own_end, end, target):
    world = World(end_of_epoch=EpochEnd(3, own_end), truncate_follower=0)
    assert world.did(Truncate(ORDINAL, TOPIC, EPOCH, 3, end)) == [
        ("row", ORDINAL),
        ("end_of_epoch", ORDINAL, 3),
        ("truncate_follower", ORDINAL, target, EPOCH, *of_wall(world)),
        "fetcher.truncated",
        ("replica_truncated", {"ordinal": ORDINAL, "leader": 2, "end": LEO, "to": target}),
        *looked_again(),
    ]


@pytest.mark.parametrize("row", [None, ROW._replace(topic_id=OTHER), ROW._replace(leader_epoch=EPOCH + 1)])
@pytest.mark.parametrize("step", [Truncate(ORDINAL, TOPIC, EPOCH, 3, 90), OutOfRange(ORDINAL, TOPIC, EPOCH)])
def test_a_step_of_another_topic_or_epoch_does_nothing(row, step):
    world = World(row=[row, ROW])
    found = [call for call in world.did(step) if call != ("topic_name", ORDINAL)]
    assert found == [("row", ORDINAL), world.failed(True), *looked_again(), "rescan"]
    assert not world.link._questions


def test_a_cut_that_fails():
    world = World(end_of_epoch=EpochEnd(3, 80), truncate_follower=STORAGE)
    assert world.did(Truncate(ORDINAL, TOPIC, EPOCH, 3, 90))[3:] == [
        "fetcher.truncated",
        world.failed(False),
        ("replica_append_failed", {"ordinal": ORDINAL, "leader": 2, "error": STORAGE}),
    ]


# finding its place again


def answered(world, offset, code=0, partitions=1):
    """The answer to the question that was put last."""
    told = [ListOffsetsPartitionResponse(partition_index=3, error_code=code, offset=offset)] * partitions
    question = world.link._questions.popleft()
    del world.calls[:]
    question.then(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="topic", partitions=told)]))
    return world.calls


def asking(**answers):
    world = World(**answers)
    world.did(OutOfRange(ORDINAL, TOPIC, EPOCH))
    return world


def test_a_topic_without_a_name_is_not_asked_about():
    world = World(topic_name=[""])
    assert world.did(OutOfRange(ORDINAL, TOPIC, EPOCH))[2:] == [world.failed(True), *looked_again(), "rescan"]


def test_an_end_before_ours_is_where_the_log_is_cut():
    world = asking(truncate_follower=0)
    assert answered(world, LEO - 1)[1:3] == [
        ("truncate_follower", ORDINAL, LEO - 1, EPOCH, *of_wall(world)),
        "fetcher.truncated",
    ]


@pytest.mark.parametrize(("start", "begins"), [(LEO - 1, False), (LEO, False), (LEO + 1, True)])
def test_an_end_at_or_behind_ours_asks_for_the_start(start, begins):
    """The leader's log begins behind what is here: everything here is older than what it keeps."""
    world = asking(start_at=0)
    assert answered(world, LEO) == [("row", ORDINAL), ("row", ORDINAL), ("topic_name", ORDINAL)]
    [question] = world.link._questions
    assert question.message.topics[0].partitions[0].timestamp == EARLIEST
    found = answered(world, start)[1:]
    assert found == (
        [
            ("start_at", ORDINAL, start, EPOCH, *of_wall(world)),
            "fetcher.begun_anew",
            ("replica_begun_anew", {"ordinal": ORDINAL, "leader": 2, "end": LEO, "at": start}),
            *looked_again(),
        ]
        if begins
        else [world.failed()]
    )


def test_a_beginning_anew_that_fails():
    world = asking(start_at=STORAGE)
    answered(world, LEO)
    assert answered(world, LEO + 1)[2:] == [
        "fetcher.begun_anew",
        world.failed(False),
        ("replica_append_failed", {"ordinal": ORDINAL, "leader": 2, "error": STORAGE}),
    ]


@pytest.mark.parametrize(
    ("row", "code", "partitions"),
    [(ROW, FENCED, 1), (ROW, 0, 0), (None, 0, 1), (ROW._replace(topic_id=OTHER), 0, 1)],
)
def test_an_end_that_says_nothing(row, code, partitions):
    world = asking(row=[ROW, row])
    assert answered(world, LEO - 1, code, partitions) == [("row", ORDINAL), world.failed()]
    assert not world.link._questions
