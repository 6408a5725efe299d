"""Fetch sessions of parts: which requests have one, what is news to a client, what is written down when it is told."""

from types import SimpleNamespace

import pytest

from mpbroker.channel.fetch_session_table import (
    SESSION_BUSY,
    SESSION_HELD,
    SESSION_UNKNOWN,
    SessionPartition,
    SessionRow,
)
from mpbroker.errors import ErrorCode
from mpbroker.log.leader_epochs import EpochEnd
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from mpbroker.protocol.types import ZERO_UUID
from mpbroker.server import fetch_session as module
from mpbroker.server.fetch_session import (
    FetchContext,
    FullFetchContext,
    IncrementalFetchContext,
    SessionError,
    close_session,
    next_epoch,
    open_fetch,
)
from mpbroker.server.replica_read import FetchPlan, PartitionRead

WRONG_EPOCH, UNKNOWN_SESSION = ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
ID, NOW_MS = b"T" * 16, 5000


class Table:
    """Sessions as they are shared. `did`: what was done with them; `held`: what `hold` says; `stored`: the row."""

    def __init__(self, row=None, held=SESSION_HELD, has_room=True):
        self.did, self.held, self.stored, self.has_room = [], held, row, has_room

    def hold(self, session_id):
        self.did.append(("hold", session_id))
        return self.held

    def release(self):
        self.did.append("released")

    def drop(self):
        self.did.append("dropped")

    def read(self):
        return self.stored[:5]

    def row(self):
        return self.stored

    def put(self, row, *now_ms):
        self.did.append(("put", *now_ms))
        self.stored = row
        return self.has_room

    def make(self, *words):
        self.made = words
        return 9


def partition(number, topic="t", topic_id=ZERO_UUID, known=(9, 2), offset=0):
    return SessionPartition(topic, topic_id, number, offset, 60, 5, 4, 1, *known)


def row_of(*partitions, epoch=3, by_id=False, answered=False, fill=1):
    return SessionRow(epoch, by_id, answered, fill, 0, list(partitions))


def read_of(number, **fields):
    return PartitionRead(number, 40, **{"high_watermark": 9, "log_start": 2} | fields)


def context_of(table, topics=()):
    counted = []
    return SimpleNamespace(
        fetch_sessions=table,
        clock=SimpleNamespace(monotonic_ms=lambda: NOW_MS),
        count=counted.append,
        counted=counted,
        metadata=SimpleNamespace(topic_by_id=dict(topics).get),
    )


def asked_of(*numbers, topic="t", topic_id=ZERO_UUID, **fields):
    topics = [FetchTopic(topic, topic_id, [FetchPartition(number, fetch_offset=7) for number in numbers])]
    return FetchRequest(topics=topics if numbers else [], **{"session_id": 8, "session_epoch": 3} | fields)


@pytest.mark.parametrize(("epoch", "following"), [(1, 2), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1), (0, 1)])
def test_epochs_go_round_without_the_one_that_begins_a_session(epoch, following):
    assert next_epoch(epoch) == following


@pytest.mark.parametrize(
    ("session_id", "held", "did"),
    [
        (0, SESSION_HELD, []),
        (-1, SESSION_HELD, []),
        (1, SESSION_HELD, [("hold", 1), "dropped"]),
        (1, SESSION_UNKNOWN, [("hold", 1)]),
        (1, SESSION_BUSY, [("hold", 1)]),
    ],
)
def test_a_session_that_is_named_at_its_end_is_dropped_if_it_is_one(session_id, held, did):
    table = Table(held=held)
    close_session(table, session_id)
    assert table.did == did


# ---- which requests have one


@pytest.mark.parametrize(
    ("version", "epoch", "kind", "did"),
    [
        (6, 0, FetchContext, []),
        (6, 3, FetchContext, []),
        (7, -1, FetchContext, [("hold", 8), "dropped"]),
        (7, 0, FullFetchContext, [("hold", 8), "dropped"]),
        (7, 3, IncrementalFetchContext, [("hold", 8), ("put", NOW_MS)]),
    ],
)
def test_which_requests_have_a_session(version, epoch, kind, did):
    table = Table(row_of(partition(0)))
    request = SimpleNamespace(api_version=version, fill_number=2)
    found = open_fetch(context_of(table), request, asked_of(0, session_epoch=epoch))
    assert type(found) is kind and table.did == did
    assert found.session_id == (8 if kind is IncrementalFetchContext else 0)
    assert found.conclude(FetchPlan([])) == 0


@pytest.mark.parametrize(
    ("version", "numbers", "refused"), [(12, (0,), False), (13, (0,), True), (13, (), False), (14, (0, 1), True)]
)
def test_an_id_of_zeros_names_nothing_that_a_session_remembers(version, numbers, refused):
    request, table = SimpleNamespace(api_version=version, fill_number=2), Table()
    topic = FetchTopic("t", ZERO_UUID, [FetchPartition(number) for number in numbers])
    asked = FetchRequest(topics=[topic], session_epoch=0)
    if not refused:
        assert type(open_fetch(context_of(table), request, asked)) is FullFetchContext
        return
    with pytest.raises(SessionError) as error:
        open_fetch(context_of(table), request, asked)
    assert error.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("session_id", [0, -1, -(2**31)])
def test_no_session_is_asked_for_by_the_least_of_ids(session_id):
    table, request = Table(held=SESSION_UNKNOWN), SimpleNamespace(api_version=12, fill_number=2)
    with pytest.raises(SessionError):
        open_fetch(context_of(table), request, asked_of(0, session_id=session_id))
    assert table.did == [("hold", 0)]


@pytest.mark.parametrize(
    ("row", "held", "version", "code", "did"),
    [
        (row_of(partition(0)), SESSION_BUSY, 12, WRONG_EPOCH, []),
        (row_of(partition(0)), SESSION_UNKNOWN, 12, UNKNOWN_SESSION, []),
        (row_of(partition(0), epoch=4), SESSION_HELD, 12, WRONG_EPOCH, ["released"]),
        (row_of(partition(0), epoch=2), SESSION_HELD, 12, WRONG_EPOCH, ["released"]),
        (row_of(partition(0), by_id=True), SESSION_HELD, 12, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ["released"]),
        (row_of(partition(0)), SESSION_HELD, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ["released"]),
        (row_of(partition(0), by_id=True), SESSION_HELD, 13, ErrorCode.UNKNOWN_SERVER_ERROR, ["released"]),
        (row_of(partition(0), fill=2, answered=True), SESSION_HELD, 12, UNKNOWN_SESSION, ["dropped"]),
    ],
    ids=["busy", "unknown", "later", "earlier", "by id", "by name", "no id", "answered"],
)
def test_a_session_that_cannot_go_on_is_counted_and_left_to_others(row, held, version, code, did):
    table = Table(row, held)
    context = context_of(table)
    with pytest.raises(SessionError) as error:
        open_fetch(context, SimpleNamespace(api_version=version, fill_number=2), asked_of(0))
    assert error.value.code == code and table.did == [("hold", 8), *did]
    assert context.counted == ["fetch_sessions_wrong"]


def test_one_that_has_grown_too_large_is_refused_and_one_without_partitions_ends():
    request, table = SimpleNamespace(api_version=12, fill_number=2), Table(row_of(partition(0)), has_room=False)
    context = context_of(table)
    with pytest.raises(SessionError) as error:
        open_fetch(context, request, asked_of(1))
    assert error.value.code == UNKNOWN_SESSION
    assert context.counted == ["fetch_sessions_refused", "fetch_sessions_wrong"]
    table = Table(row_of(partition(0)))
    last = asked_of(forgotten_topics_data=[ForgottenTopic("t", ZERO_UUID, [0])])
    found = open_fetch(context_of(table), request, last)
    assert type(found) is FetchContext and table.did == [("hold", 8), "dropped"] and found.session_id == 0


def test_a_request_that_changes_its_session_is_of_all_its_partitions():
    """What is known of a partition stays when it is asked for anew; what is forgotten is not there any more."""
    table = Table(row_of(partition(0), partition(1), partition(2, offset=3), fill=1))
    message = asked_of(1, 5, forgotten_topics_data=[ForgottenTopic("t", ZERO_UUID, [0, 77])])
    found = open_fetch(context_of(table), SimpleNamespace(api_version=12, fill_number=2), message)
    row = table.stored
    assert (row.epoch, row.fill_number, row.is_answered) == (4, 2, False)
    kept = [(one.partition, one.fetch_offset, one.high_watermark, one.log_start) for one in row.partitions]
    assert kept == [(1, 7, 9, 2), (2, 3, 9, 2), (5, 7, -1, -1)]
    [topic] = message.topics
    asked = topic.partitions[1]
    assert found.message is message and [one.partition for one in topic.partitions] == [1, 2, 5]
    assert (asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch) == (5, 3, 4)
    assert (asked.log_start_offset, asked.partition_max_bytes) == (1, 60)


def test_a_session_by_ids_remembers_names_as_soon_as_they_are_known():
    table = Table(row_of(partition(0, "", ID), partition(0, "", b"x" * 16), by_id=True))
    request = SimpleNamespace(api_version=13, fill_number=2)
    message = asked_of(1, topic="", topic_id=ID, forgotten_topics_data=[ForgottenTopic("", b"x" * 16, [0])])
    open_fetch(context_of(table, {ID: SimpleNamespace(name="t")}), request, message)
    assert [(one.topic, one.topic_id, one.partition) for one in table.stored.partitions] == [("t", ID, 0), ("t", ID, 1)]
    table = Table(row_of(partition(0, "", ID), by_id=True))
    open_fetch(context_of(table), request, asked_of(topic_id=ID))
    assert [one.topic for one in table.stored.partitions] == [""]
    table = Table(row_of(partition(0, "t", ID), by_id=True))
    open_fetch(context_of(table), request, asked_of(topic_id=ID))
    assert [one.topic for one in table.stored.partitions] == ["t"], "also of an id that is no topic's any more"


# ---- one that begins


@pytest.mark.parametrize(("version", "by_id"), [(12, False), (13, True), (14, True)])
@pytest.mark.parametrize(("replica", "is_follower"), [(-1, False), (0, True), (3, True)])
@pytest.mark.parametrize("tagged", [False, True])
def test_a_session_begins_with_what_its_answer_told(version, by_id, replica, is_follower, tagged):
    fields = {"replica_state": ReplicaState(replica, 1)} if tagged else {"replica_id": replica}
    topic_id = ID if by_id else ZERO_UUID
    table, asked = Table(), asked_of(0, 1, topic="" if by_id else "t", topic_id=topic_id, **fields)
    found = FullFetchContext(context_of(table, {ID: SimpleNamespace(name="t")}), asked, version)
    reads = [read_of(1, high_watermark=6), read_of(0)]
    assert found.session_id == 0
    assert found.conclude(FetchPlan([(("" if by_id else "t", topic_id), reads)])) == 0 and found.session_id == 9
    now_ms, sorts_by_id, follows, partitions = table.made
    assert (now_ms, sorts_by_id, follows) == (NOW_MS, by_id, is_follower)
    rows = [(one.topic, one.partition, one.fetch_offset, one.high_watermark, one.log_start) for one in partitions]
    assert rows == [("t", 1, 7, 6, 2), ("t", 0, 7, 9, 2)]
    found.undo()
    assert table.did == [("hold", 9), "dropped"]


# ---- one that goes on


@pytest.mark.parametrize(
    ("fields", "news"),
    [
        ({}, False),
        ({"length": 1}, True),
        ({"error": 3}, True),
        ({"diverging": EpochEnd(3, 4)}, True),
        ({"preferred": 0}, True),
        ({"high_watermark": 10}, True),
        ({"log_start": 1}, True),
    ],
)
def test_what_is_news(fields, news):
    assert IncrementalFetchContext._is_news(partition(0), read_of(0, **fields)) is news


def going_on(table, *partitions, **row):
    begun = row_of(*partitions, **row)
    table.stored = begun if table.stored is None else table.stored
    return IncrementalFetchContext(table, asked_of(), begun)


def test_only_news_are_told_and_neighbours_are_one_topic():
    places = [("t", 0), ("u", 0), ("t", 1), ("t", 2)]
    found = going_on(Table(), *(partition(number, name) for name, number in places))
    assert [(one.topic, [p.partition for p in one.partitions]) for one in found.message.topics] == [
        ("t", [0]),
        ("u", [0]),
        ("t", [1, 2]),
    ]
    topics = [((name, ZERO_UUID), [read_of(number, length=name != "u")]) for name, number in places]
    told = [(key[0], [read.partition for read in reads]) for key, reads in found.told(FetchPlan(topics))]
    assert told == [("t", [0, 1, 2])], "what stood between them is not told"


def concluded(table, *reads, **row):
    found = going_on(table, partition(0), partition(1), partition(2), **row)
    return found.conclude(FetchPlan([(("t", ZERO_UUID), list(reads))]))


@pytest.mark.parametrize(
    ("held", "epoch", "code", "did"),
    [
        (SESSION_BUSY, 3, WRONG_EPOCH, []),
        (SESSION_UNKNOWN, 3, 0, []),
        (SESSION_HELD, 4, WRONG_EPOCH, ["released"]),
        (SESSION_HELD, 3, 0, [("put",)]),
    ],
)
def test_an_answer_is_of_the_session_as_it_was_when_the_request_began(held, epoch, code, did):
    """One that had to make room meanwhile is no error yet: the next request will hear of it."""
    table = Table(row_of(partition(0), epoch=epoch), held)
    assert concluded(table, read_of(0, high_watermark=10)) == code and table.did == [("hold", 8), *did]


def test_where_nothing_changed_nothing_is_written_down():
    table = Table()
    assert concluded(table, read_of(0), read_of(1), read_of(2)) == 0
    assert table.did == [("hold", 8), "released"]


@pytest.mark.parametrize(
    ("fields", "kept", "order"),
    [
        ({"high_watermark": 10}, (10, 2), [0, 1, 2]),
        ({"log_start": 5}, (9, 5), [0, 1, 2]),
        ({"length": 1}, (9, 2), [0, 2, 1]),
        ({"length": 1, "high_watermark": 10}, (10, 2), [0, 2, 1]),
        ({"error": 3, "high_watermark": 9}, (-1, 2), [0, 1, 2]),
    ],
)
def test_what_a_client_was_told_is_written_down_and_who_gave_records_comes_last(fields, kept, order):
    """After an error all is told anew."""
    table = Table()
    assert concluded(table, read_of(0), read_of(1, **fields), read_of(2)) == 0
    assert table.stored.is_answered and table.stored.epoch == 3
    found = {one.partition: (one.high_watermark, one.log_start) for one in table.stored.partitions}
    assert found == {0: (9, 2), 1: kept, 2: (9, 2)}
    assert [one.partition for one in table.stored.partitions] == order


def test_an_answer_may_be_concluded_again():
    """From what was known before it: a partition is not changed in place."""
    table, known = Table(), partition(0)
    found = going_on(table, known)
    plan = FetchPlan([(("t", ZERO_UUID), [read_of(0, high_watermark=10)])])
    for _ in range(2):
        assert found.conclude(plan) == 0 and table.stored.partitions[0].high_watermark == 10
        assert known == partition(0)
        written = table.stored.partitions[0]
        same = module._knowing(known, 9, 2)
        assert same == known and written == module._knowing(known, 10, 2)
    found.undo()
    assert table.did == [("hold", 8), ("put",)] * 2
