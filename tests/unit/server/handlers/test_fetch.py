"""A fetch from the request to the answer, of parts: when it waits, what it sends where memory is short or the log moves
under it, and whom its session and its trace hear of."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, LeaderIdAndEpoch
from mpbroker.server.apis import PARKED
from mpbroker.server.fetch_session import SessionError
from mpbroker.server.handlers import fetch as module
from mpbroker.server.replica_read import FetchPlan, PartitionRead
from mpbroker.shm.layout import ParkedKind

NOT_LEADER, FENCED = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH
NOW_MS = 1000


def plan_of(*lengths, urgent=False, **fields):
    reads = [PartitionRead(number, 40 + number, length=length, **fields) for number, length in enumerate(lengths)]
    return FetchPlan([(("t", b"T" * 16), reads)] if reads else [], total_bytes=sum(lengths), is_urgent=urgent)


class World:
    """`did`: what was called, in order. `plans`: what planning comes to, one after the other."""

    def __init__(self, monkeypatch):
        self.did, self.plans, self.room, self.crowded, self.memory, self.code = [], [], 10**6, False, True, 0
        self.monkeypatch = monkeypatch
        note = self.note = lambda *words: self.did.append(words)
        self.fetch = SimpleNamespace(
            message=None, session_id=77, told=lambda plan: plan.topics, conclude=self._conclude,
            undo=lambda: note("undo"),
        )  # fmt: skip
        self.request = SimpleNamespace(
            api_version=11, parked_kind=0, listener=0, stamp=lambda stage: note("stamp", stage)
        )
        self.context = SimpleNamespace(
            metadata=SimpleNamespace(refresh=lambda: note("refresh")), fetch_deadline_ms=None,
            clock=SimpleNamespace(monotonic_ms=lambda: NOW_MS), count=lambda *words: note("count", *words),
            answer=lambda request, response: note("answer", response), is_ending=lambda: False,
            port=SimpleNamespace(
                park=lambda request, kind: note("park", kind), room=lambda wanted: min(self.room, wanted),
                crowded=lambda: self.crowded, allocate=self._allocate, release=lambda token: note("release", token),
                answer_extent=lambda request, token, end: note("extent", token, end) or self.sends,
            ),
            purgatory=SimpleNamespace(try_complete_else_watch=lambda one: note("watch", type(one).__name__)),
        )  # fmt: skip
        self.sends = True
        self.patch("plan_fetch", self._plan)

    def patch(self, name, value):
        self.monkeypatch.setattr(module, name, value)

    def _plan(self, context, message, version, *most, **look):
        self.note("plan", *most, *(name for name, wanted in look.items() if wanted))
        return self.plans.pop(0)

    def _conclude(self, plan):
        self.note("conclude", plan.total_bytes)
        return self.code

    def _allocate(self, size):
        self.note("allocate", size)
        return ("view", "token") if self.memory else None

    def named(self, name):
        return [words[1:] for words in self.did if words[0] == name]


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def asked(*names, **fields):
    topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0)]) for name in names]
    return FetchRequest(**{"max_wait_ms": 500, "min_bytes": 50, "topics": topics} | fields)


# ---- whether it waits


@pytest.mark.parametrize(
    ("code", "parked", "named"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ParkedKind.FETCH, 9),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 0, 9),
    ],
)
def test_an_answer_that_a_session_refuses_names_it_as_kafkas_does(world, code, parked, named):
    def refuse(*_):
        raise SessionError(code)

    world.patch("open_fetch", refuse)
    world.request.parked_kind = parked
    answer = module.handle(world.context, world.request, asked("t", session_id=9))
    assert (answer.error_code, answer.session_id) == (code, named)


def handled(world, message, plan, deadline_ms=None):
    """The outcome, and how often it was sent at once."""
    sent = []
    world.patch("open_fetch", lambda context, request, message: SimpleNamespace(message=message))
    world.patch("_learn_topics", lambda context, message: "first")
    world.patch("describe_fetch", lambda request, *words: world.note("describe", *words[1:]))
    world.patch("send", lambda context, request, fetch, plan: sent.append(plan) or PARKED)
    world.plans, world.context.fetch_deadline_ms = [plan], deadline_ms
    return module.handle(world.context, world.request, message), len(sent)


@pytest.mark.parametrize(
    ("fields", "plan", "deadline_ms", "waits"),
    [
        ({}, plan_of(49), None, True),
        ({}, plan_of(50), None, False),
        ({}, plan_of(51), None, False),
        ({}, plan_of(0, urgent=True), None, False),
        ({"max_wait_ms": 0}, plan_of(0), None, False),
        ({"max_wait_ms": 1}, plan_of(0), None, True),
        ({"topics": []}, plan_of(), None, False),
        ({"min_bytes": 0}, plan_of(0), None, False),
        ({"min_bytes": 1}, plan_of(0), None, True),
        ({}, plan_of(0), NOW_MS + 1, True),
        ({}, plan_of(0), NOW_MS, False),
        ({}, plan_of(0), NOW_MS - 1, False),
    ],
)
def test_it_waits_for_records_as_long_as_nothing_is_to_be_told(world, fields, plan, deadline_ms, waits):
    outcome, sent = handled(world, asked("t", "u", **fields), plan, deadline_ms)
    assert outcome is PARKED and sent == (not waits)
    parts = [("refresh",), ("plan", "first_look"), ("describe", 0 if fields.get("topics") == [] else 2, "first")]
    assert world.did == parts + [("park", ParkedKind.FETCH), ("watch", "DelayedFetch")] * waits


@pytest.mark.parametrize(("level", "ordinal", "refused"), [(2, 0, True), (-1, 0, True), (1, 0, False), (2, -1, False)])
def test_an_isolation_level_that_is_none_fails_it_where_something_is_here(world, level, ordinal, refused):
    """As in Kafka, which knows no better."""
    plan = FetchPlan([(("t", b""), [PartitionRead(0, ordinal)])], is_urgent=True)
    outcome, sent = handled(world, asked("t", isolation_level=level), plan)
    assert sent == (not refused)
    if refused:
        assert outcome.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("topics", "first", "learnt"),
    [
        ([], "", []),
        ([("t", b"")], "t", ["t"]),
        ([("", b"T")], "t", ["t"]),
        ([("gone", b"")], "gone", []),
        ([("gone", b""), ("t", b"")], "gone", ["t"]),
        ([("", b"x"), ("t", b"")], "", ["t"]),
        ([("u", b""), ("t", b"")], "u", ["u", "t"]),
    ],
)
def test_the_native_path_learns_what_was_asked_and_the_trace_the_first_ones_name(world, topics, first, learnt):
    known, taught = {name: SimpleNamespace(name=name) for name in "tu"}, []
    by_id = {b"T": known["t"]}
    world.context.metadata = SimpleNamespace(topic=known.get, topic_by_id=by_id.get)
    world.context.native_topics = SimpleNamespace(learn=lambda topic: taught.append(topic.name))
    message = FetchRequest(topics=[FetchTopic(topic=name, topic_id=topic_id) for name, topic_id in topics])
    assert module._learn_topics(world.context, message) == first and taught == learnt


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ([("t", [(0, 5)])], [("t", [(0, 5)])]),
        ([("t", [])], []),
        ([("t", [(0, 5), (1, 6), (0, 7)])], [("t", [(0, 7), (1, 6)])]),
        ([("t", [(0, 5)]), ("u", [(0, 1)]), ("t", [(1, 6)])], [("t", [(0, 5)]), ("u", [(0, 1)]), ("t", [(1, 6)])]),
        ([("t", [(0, 5)]), ("t", [(1, 6), (0, 7)])], [("t", [(0, 7), (1, 6)])]),
        ([("t", [(0, 5)]), ("u", [])], [("t", [(0, 5)])]),
        ([("t", [(0, 5), (0, 7)])], [("t", [(0, 7)])]),
    ],
)
def test_a_partition_named_twice_keeps_its_first_place_and_its_last_fields(given, read):
    message = FetchRequest(
        topics=[
            FetchTopic(topic=name, partitions=[FetchPartition(partition=p, fetch_offset=at) for p, at in rows])
            for name, rows in given
        ]
    )
    module.merge_repeated(message)
    found = [(one.topic, [(p.partition, p.fetch_offset) for p in one.partitions]) for one in message.topics]
    assert found == read


# ---- what is sent


def test_a_log_that_changed_under_the_plan_is_planned_again_and_at_last_answered_without_records(world):
    outcomes, sent = [False, False, False], []
    world.patch("_send_shortened", lambda context, request, fetch, plan: sent.append(plan) or outcomes.pop(0))
    first, second, third, last = (plan_of(number) for number in (1, 2, 3, 4))
    world.plans = [second, third, last]
    assert module.send(world.context, world.request, world.fetch, first) is PARKED
    assert sent == [first, second, third] and world.named("plan") == [()] * 3
    [(answer,)] = world.named("answer")
    assert [one.records for topic in answer.responses for one in topic.partitions] == [b""]
    assert (answer.session_id, last.topics[0][1][0].length) == (77, 0)


@pytest.mark.parametrize(("until_ms", "waits"), [(None, True), (None, False), (NOW_MS, True), (NOW_MS, False)])
def test_without_memory_it_waits_or_is_refused(world, monkeypatch, until_ms, waits):
    world.patch("_send_shortened", lambda *_: None)
    monkeypatch.setattr(module.FetchWithoutMemory, "has_patience", lambda self: waits)
    assert module.send(world.context, world.request, world.fetch, plan_of(9, 0), until_ms) is PARKED
    exhausted = [("count", "answer_memory_exhausted")] * (until_ms is None)
    parked = [("park", ParkedKind.FETCH), ("watch", "FetchWithoutMemory")]
    if waits:
        assert world.did == exhausted + parked
        return
    assert world.did[: len(exhausted) + 1] == [*exhausted, ("conclude", 9)]
    [(answer,)] = world.named("answer")
    [topic] = answer.responses
    assert [one.error_code for one in topic.partitions] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


def test_a_broker_that_ends_just_sends_no_records(world):
    world.context.is_ending = lambda: True
    module._refuse(world.context, world.request, world.fetch, plan_of(9, 0, high_watermark=5))
    [(answer,)] = world.named("answer")
    [topic] = answer.responses
    assert [(one.error_code, one.records, one.high_watermark) for one in topic.partitions] == [(0, b"", 5)] * 2


@pytest.mark.parametrize(
    ("room", "outcomes", "most", "crowded", "sent", "counted"),
    [
        (100, [True], [], True, True, False),
        (99, [True], [99], True, True, True),
        (99, [True], [99], False, True, False),
        (99, [None, True], [99, 0], True, True, True),
        (100, [None, True], [0], True, True, True),
        (100, [None, None], [0], True, None, False),
        (99, [False], [99], True, False, False),
        (100, [None, False], [0], True, False, False),
    ],
)
def test_where_memory_is_short_less_is_sent_but_a_batch(world, room, outcomes, most, crowded, sent, counted):
    tried, world.room, world.crowded = [], room, crowded
    world.patch("_send_once", lambda context, request, fetch, plan: tried.append(plan.total_bytes) or outcomes.pop(0))
    world.plans = [plan_of(60 - number) for number in range(len(most))]
    assert module._send_shortened(world.context, world.request, world.fetch, plan_of(100)) is sent
    assert world.named("plan") == [(bytes_,) for bytes_ in most] and outcomes == []
    assert tried == [100] * (room == 100) + [60, 59][: len(most)]
    assert world.named("count") == [("fetches_shortened",)] * counted


def test_what_was_planned_anew_in_full_is_not_shortened(world):
    """The same bytes are there, in another piece of memory."""
    world.crowded, outcomes, world.plans = True, [None, True], [plan_of(100)]
    world.patch("_send_once", lambda *_: outcomes.pop(0))
    assert module._send_shortened(world.context, world.request, world.fetch, plan_of(100)) is True
    assert world.named("count") == []


def sent_once(world, plan, filled=True, size=200):
    given = []
    world.patch("encoded_size", lambda response, version: size)
    world.patch("encode_answer_into", lambda request, response, view: given.append(response) or (190, ["hole"]))
    world.patch("fill", lambda context, plan, view, holes: world.note("fill", view, holes) or filled)
    world.fetch.message = asked("t")
    return module._send_once(world.context, world.request, world.fetch, plan), given


def test_records_are_read_into_the_answers_memory(world):
    sent, [answer] = sent_once(world, plan_of(9))
    assert sent is True and answer.session_id == 77
    assert [one.records for one in answer.responses[0].partitions] == [9]
    stamp = ("stamp", module.IO_DONE)
    taken = ("allocate", 200 + module.FRAME_OVERHEAD_BYTES)
    assert world.did == [taken, ("conclude", 9), ("fill", "view", ["hole"]), stamp, ("extent", "token", 190)]


@pytest.mark.parametrize(("filled", "sends"), [(False, True), (True, False)])
def test_what_was_not_sent_is_undone_and_its_memory_is_free(world, filled, sends):
    world.sends = sends
    sent, _ = sent_once(world, plan_of(9, throttled=True), filled)
    assert sent is False and world.did[-2:] == [("undo",), ("release", "token")]
    assert world.named("extent") == [("token", 190)] * filled and world.named("count") == []


def test_an_answer_that_raises_is_undone_too(world):
    world.fetch.conclude = lambda plan: 1 / 0
    with pytest.raises(ZeroDivisionError):
        sent_once(world, plan_of(9))
    assert world.did[-2:] == [("undo",), ("release", "token")]


def test_without_memory_nothing_is_concluded(world):
    world.memory = False
    assert sent_once(world, plan_of(9)) == (None, [])
    assert world.did == [("allocate", 200 + module.FRAME_OVERHEAD_BYTES)]


def test_without_records_no_memory_is_taken(world):
    sent, _ = sent_once(world, plan_of(0, 0))
    assert sent is True and [words[0] for words in world.did] == ["conclude", "answer"]


def test_what_a_throttled_follower_gets_counts(world):
    plan = plan_of(9, 30, 5, throttled=True)
    plan.topics[0][1][1].throttled = False
    sent_once(world, plan)
    assert world.named("count") == [("leader_throttled_bytes", 14)]


def test_what_the_session_has_against_an_answer_is_all_of_it(world):
    world.code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    sent, [answer] = sent_once(world, plan_of(9))
    assert sent is True and answer == FetchResponse(error_code=world.code, session_id=77)
    assert world.named("count") == [("fetch_sessions_wrong",)] and world.named("fill") == []


# ---- who leads


@pytest.mark.parametrize(
    ("version", "urgent", "named"), [(15, True, False), (16, True, True), (16, False, False), (17, True, True)]
)
def test_where_a_leader_is_news_it_is_named_from_version_16_on(world, version, urgent, named):
    looked, world.request.api_version = [], version
    world.patch("current_leader", lambda context, ordinal: looked.append(ordinal) or (ordinal - 40, 6))
    world.patch("places_of", lambda context, request, leaders: [(leader[0], "host", 9, None) for leader in leaders])
    plan = plan_of(0, 0, 0, 0, urgent=urgent)
    for read, error in zip(plan.reads(), (NOT_LEADER, 0, FENCED, ErrorCode.OFFSET_OUT_OF_RANGE), strict=True):
        read.error = error
    answer = module._response(world.context, world.request, world.fetch, plan)
    told = [one.current_leader for one in answer.responses[0].partitions]
    assert told == ([LeaderIdAndEpoch(0, 6), None, LeaderIdAndEpoch(2, 6), None] if named else [None] * 4)
    assert [one.node_id for one in answer.node_endpoints] == ([0, 2] if named else [])
    assert looked == ([40, 42] if named else [])


def test_a_partition_named_twice_is_read_once(world):
    both = asked("t", "t")
    handled(world, both, plan_of(50))
    assert len(both.topics) == 1 and world.named("describe") == [(1, "first")]


@pytest.mark.parametrize(("version", "told"), [(12, True), (13, False)])
def test_a_fetch_that_fails_as_a_whole_has_offsets_of_nothing(version, told):
    answer = module.failed(asked("t", session_id=9), version, 56)
    found = [one for topic in answer.responses for one in topic.partitions]
    assert (answer.error_code, answer.session_id) == (56, 9)
    assert [(one.error_code, one.high_watermark, one.records) for one in found] == [(56, -1, None)] * told
