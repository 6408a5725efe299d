"""A produce from the request to its outcome, of parts: which code is the whole answer's, what each partition comes to,
who waits for what, and how a producer that wants no answer hears of an error."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.log.log_manager import PartitionBusyError
from mpbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from mpbroker.server.apis import CLOSE, HANDED_OVER, NO_ANSWER, PARKED
from mpbroker.server.handlers import produce as module
from mpbroker.shm.layout import ParkedKind

NOW_MS, LATE, INVALID = 1000, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_RECORD
UNKNOWN, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID


def asked(*counts, acks=1, timeout_ms=5000, **fields):
    """Topics a, b, …, each with so many partitions."""
    topics = [
        TopicProduceData(
            name=name,
            topic_id=name.encode() * 16,
            partition_data=[PartitionProduceData(index=index, records=b"r") for index in range(count)],
        )
        for name, count in zip("abcd", counts, strict=False)
    ]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics, **{"transactional_id": None} | fields)


def check(code=0, transactional=False, whole=0):
    return SimpleNamespace(code=code, transactional=transactional, whole_request=whole)


def result(code=0, index=0):
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1 if code else 7)


class World:
    """`did`: what was called, in order. `results`: of the appends, one after the other; an exception is raised."""

    def __init__(self, monkeypatch):
        self.did, self.results, self.checks, self.recorded = [], [], {}, {}
        self.monkeypatch, self.has_cells = monkeypatch, True
        note = self.note = lambda *words: self.did.append(words)
        self.request = SimpleNamespace(
            api_version=9, cell_count=0, stamp=lambda stage: note("stamp", stage), flag_timed_out=lambda: note("late")
        )
        self.topics = {name: SimpleNamespace(name=name, id=name.encode() * 16) for name in "ab"}
        by_id = {topic.id: topic for topic in self.topics.values()}
        self.context = SimpleNamespace(
            metadata=SimpleNamespace(refresh=lambda: note("refresh"), topic=self.topics.get, topic_by_id=by_id.get),
            clock=SimpleNamespace(monotonic_ms=lambda: NOW_MS), count=lambda *words: note("count", *words),
            port=SimpleNamespace(
                ensure_cells=lambda request, count: note("cells", count) or self.has_cells,
                give_to_coordinator=lambda request: note("coordinator"), park=lambda request, kind: note("park", kind),
            ),
            native_topics=SimpleNamespace(learn=lambda topic: note("learn", topic.name)),
            log_manager=SimpleNamespace(flush_on_commit=False),
            purgatory=SimpleNamespace(try_complete_else_watch=lambda one: note("watch", one)),
        )  # fmt: skip
        self.patch("append_partition", self._append)
        self.patch("recorded_result", lambda context, request, topic, index, cell: self.recorded.get(cell))
        self.patch("check_request_records", lambda records, version: check())
        self.patch("note_error", lambda request, response: note("noted"))

    def patch(self, name, value):
        self.monkeypatch.setattr(module, name, value)

    def _append(self, context, request, topic, data, checked, cell, acks):
        self.note("append", topic and topic.name, data.index, cell, acks)
        outcome = self.results.pop(0) if self.results else result(index=data.index)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def serve(self, message, until_ms=NOW_MS + 1):
        return module._serve(self.context, self.request, message, until_ms)

    def named(self, name):
        return [words[1:] for words in self.did if words[0] == name]


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def codes(response):
    return [one.error_code for topic in response.responses for one in topic.partition_responses]


@pytest.mark.parametrize(("version", "named"), [(12, "a"), (13, "b"), (14, "b")])
@pytest.mark.parametrize(("timeout_ms", "patience_ms"), [(-1, 1000), (0, 1000), (1000, 1000), (1001, 1001)])
def test_it_begins_with_topics_as_they_are_now_and_has_a_second_at_least(
    world, version, named, timeout_ms, patience_ms
):
    world.request.api_version = version
    world.patch("describe_produce", lambda request, message: world.note("describe", message.topic_data[0].name))
    world.patch("_serve", lambda context, request, message, until_ms: (message.topic_data, until_ms))
    message = asked(1, 1, timeout_ms=timeout_ms)
    message.topic_data[0].topic_id, message.topic_data[1].topic_id = b"b" * 16, b"x" * 16
    topics, until_ms = module.handle(world.context, world.request, message)
    assert world.did == [("refresh",), ("describe", named)] and until_ms == NOW_MS + patience_ms
    assert [topic.name for topic in topics] == ([named, "b"] if version < 13 else [named, ""])


def test_a_partition_named_twice_is_one(world):
    world.patch("describe_produce", lambda request, message: None)
    message = asked(1)
    message.topic_data[0].partition_data.append(PartitionProduceData(index=0, records=b"last"))
    assert module.handle(world.context, world.request, message).responses
    assert world.named("append") == [("a", 0, 0, 1)] and world.named("cells") == [(1,)]


# ---- one code for all


@pytest.mark.parametrize(
    ("tx", "checks", "code"),
    [
        (None, [check(), check(code=2)], 0),
        (None, [check(), check(code=2, whole=1)], 2),
        (None, [check(code=87, whole=2), check(code=2, whole=1)], 2),
        (None, [check(code=87, whole=2)], 87),
        (None, [check(transactional=True)], ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (None, [check(transactional=True), check(code=2, whole=1)], 2),
        (None, [check(transactional=True), check(code=87, whole=2)], ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("tx", [check()], 0),
        ("tx", [check(transactional=True), check(code=87, whole=2)], 87),
        (None, [], 0),
    ],
)
def test_a_batch_that_cannot_be_read_or_is_transactional_without_an_id_fails_all(tx, checks, code):
    assert module._whole_request_code(asked(len(checks), transactional_id=tx), checks) == code


@pytest.mark.parametrize(
    ("tx", "producers", "checks", "code"),
    [
        ("tx", [(5, 0), (6, 0)], [check(transactional=True)] * 2, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("tx", [(5, 0), (5, 1)], [check(transactional=True)] * 2, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("tx", [(0, 0), (6, 0)], [check(transactional=True)] * 2, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("tx", [(5, 0), (5, 0)], [check(transactional=True)] * 2, 0),
        ("tx", [(-1, -1), (6, 0)], [check(transactional=True)] * 2, 0),
        ("tx", [(-1, 0), (6, 0)], [check(transactional=True)] * 2, 0),
        ("tx", [(5, 0), (6, 0)], [check(transactional=True), check()], 0),
        ("tx", [(5, 0), (6, 0)], [check(transactional=True), check(code=2, transactional=True)], 0),
        (None, [(5, 0), (6, 0)], [check(transactional=True)] * 2, 0),
    ],
)
def test_a_transaction_has_one_producer(world, tx, producers, checks, code):
    left = dict(zip((b"0", b"1"), producers, strict=True))
    world.patch("producer_of", left.get)
    message = asked(2, transactional_id=tx)
    for number, data in enumerate(message.topic_data[0].partition_data):
        data.records = str(number).encode()
    assert module._several_producers_code(message, checks) == code


@pytest.mark.parametrize(("acks", "closes"), [(1, False), (-1, False), (0, True)])
def test_a_request_that_fails_as_a_whole_appends_nothing(world, acks, closes):
    world.patch("check_request_records", lambda records, version: check(code=2, whole=1))
    outcome = world.serve(asked(2, acks=acks))
    assert world.did == [("noted",)] * closes
    assert outcome is CLOSE if closes else codes(outcome) == [2, 2]


def test_only_a_corrupt_message_has_a_sentence():
    for code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
        [topic] = module.failed(asked(2), 9, code).responses
        sentence = ERRORS[code].sentence if code == ErrorCode.CORRUPT_MESSAGE else None
        told = [(one.index, one.error_code, one.base_offset, one.error_message) for one in topic.partition_responses]
        assert told == [(0, code, -1, sentence), (1, code, -1, sentence)]


# ---- each partition


def test_each_partition_has_a_cell_in_the_order_of_the_request(world):
    world.results = [result(), result(UNKNOWN, 1), result(), result()]
    answer = world.serve(asked(2, 1, 1))
    appended = [("a", 0, 0, 1), ("a", 1, 1, 1), ("b", 0, 2, 1), (None, 0, 3, 1)]
    assert world.named("append") == appended and world.named("cells") == [(4,)]
    assert world.named("learn") == [("a",), ("b",)], "the native path knows what is there"
    assert [topic.name for topic in answer.responses] == ["a", "b", "c"] and codes(answer) == [0, UNKNOWN, 0, 0]
    assert world.did[-2:] == [("stamp", module.IO_DONE), ("count", "produce_partition_errors", 1)]


@pytest.mark.parametrize("run_before", [False, True])
def test_what_an_earlier_run_came_to_is_not_made_again(world, run_before):
    world.request.cell_count, world.recorded = 2 if run_before else 0, {0: result(3), 1: None}
    answer = world.serve(asked(2))
    made = [("a", 1, 1, 1)] if run_before else [("a", 0, 0, 1), ("a", 1, 1, 1)]
    assert world.named("append") == made and codes(answer) == ([3, 0] if run_before else [0, 0])


def test_without_memory_for_cells_nothing_is_appended(world):
    world.has_cells = False
    answer = world.serve(asked(2, 1))
    assert codes(answer) == [LATE] * 3 and world.named("append") == []
    assert [one.index for topic in answer.responses for one in topic.partition_responses] == [0, 1, 0]
    assert world.named("count") == [("answer_memory_exhausted",), ("produce_partition_errors", 3)]


@pytest.mark.parametrize(("until_ms", "waits"), [(NOW_MS + 1, True), (NOW_MS, False), (NOW_MS - 1, False)])
def test_a_busy_partition_is_waited_for_until_the_requests_own_time(world, until_ms, waits):
    waited = []
    world.patch("wait_for_partitions", lambda context, request, *words: waited.append(words))
    world.results = [PartitionBusyError(40), result(index=1), PartitionBusyError(42)]
    outcome = world.serve(asked(3), until_ms)
    assert len(world.named("append")) == 3, "the others are made meanwhile"
    if waits:
        [(ordinals, until, again)] = waited
        assert outcome is PARKED and (list(ordinals), until) == ([40, 42], until_ms) and world.named("late") == []
        world.did.clear()
        assert codes(again(until_ms)) == [0, 0, 0] and world.did[0] == ("refresh",)
        return
    assert waited == [] and codes(outcome) == [LATE, 0, LATE]
    assert world.did[-4:] == [
        ("late",),
        ("count", "purgatory_expired"),
        ("stamp", module.IO_DONE),
        ("count", "produce_partition_errors", 2),
    ]


@pytest.mark.parametrize("busy", [False, True])
def test_a_partition_that_is_not_in_its_transaction_yet_is_the_coordinators_to_add(world, busy):
    """As soon as nothing is busy any more: the request comes back to be made again."""
    world.patch("wait_for_partitions", lambda *_: None)
    world.results = [None, PartitionBusyError(40) if busy else result()]
    assert world.serve(asked(3)) is (PARKED if busy else HANDED_OVER)
    assert world.named("coordinator") == [()] * (not busy) and world.named("stamp") == []
    assert len(world.named("append")) == 3


@pytest.mark.parametrize(
    ("version", "known", "code", "checked", "told", "explained"),
    [
        (12, False, UNKNOWN, 0, UNKNOWN, False),
        (13, False, UNKNOWN, 0, UNKNOWN_ID, False),
        (13, False, LATE, 0, LATE, False),
        (13, True, UNKNOWN, 0, UNKNOWN, False),
        (7, True, INVALID, 0, INVALID, False),
        (8, True, INVALID, 0, INVALID, True),
        (8, True, ErrorCode.INVALID_TIMESTAMP, 0, ErrorCode.INVALID_TIMESTAMP, True),
        (8, True, INVALID, INVALID, INVALID, False),
        (8, True, 2, 0, 2, False),
    ],
)
def test_what_newer_versions_say_about_an_error(world, version, known, code, checked, told, explained):
    named, found = [], result(code)
    world.patch("name_records", lambda context, *words: named.append(words))
    world.request.api_version, topic = version, world.topics["a"] if known else None
    module._explain(world.context, world.request, topic, "data", check(checked), found)
    assert found.error_code == told and len(named) == explained


@pytest.mark.parametrize(("version", "found"), [(12, "a"), (13, "b")])
def test_a_topic_is_named_by_id_from_version_13_on(world, version, found):
    world.request.api_version = version
    one = TopicProduceData(name="a", topic_id=b"b" * 16)
    assert module._topic(world.context, world.request, one) is world.topics[found]


# ---- the answer


@pytest.mark.parametrize(("code", "outcome"), [(0, NO_ANSWER), (UNKNOWN, CLOSE)])
def test_who_wants_no_answer_hears_of_errors_by_a_closed_connection(world, code, outcome):
    world.results = [result(code)]
    assert world.serve(asked(1, acks=0)) is outcome
    assert world.named("noted") == [()] * (outcome is CLOSE)


class Pending:
    """In place of DelayedProduce; `waits`: whether it is not complete yet."""

    PARKED_KIND = ParkedKind.PRODUCE

    def __init__(self, waits):
        self.waits, self.asked = waits, []

    def of(self, *words):
        self.asked.append(words[2:])
        return "pending" if self.waits else None


@pytest.mark.parametrize(
    ("acks", "flush", "found", "asks"),
    [
        (1, False, [0, 0], False),
        (1, True, [0, 3], True),
        (-1, False, [0, 3], True),
        (-1, True, [0, 0], True),
        (-1, True, [3, 3], False),
        (1, True, [3, 3], False),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
def test_who_was_promised_more_waits_for_it(world, acks, flush, found, asks, waits):
    pending, response, message = Pending(waits), ProduceResponse(), asked(2, acks=acks)
    world.patch("DelayedProduce", pending)
    world.context.log_manager.flush_on_commit = flush
    results = [result(code) for code in found]
    outcome = module._answer_or_park(world.context, world.request, message, results, response)
    assert pending.asked == [(message, results, response)] * asks
    parked = asks and waits
    assert outcome is (PARKED if parked else response)
    assert world.did == [("park", ParkedKind.PRODUCE), ("watch", "pending")] * parked


@pytest.mark.parametrize(("version", "code"), [(12, UNKNOWN), (13, UNKNOWN_ID)])
def test_newer_versions_say_more_of_each_partition(world, version, code):
    world.request.api_version, world.results = version, [result(UNKNOWN)]
    message = asked(1)
    message.topic_data[0].name, message.topic_data[0].topic_id = "gone", b"x" * 16
    assert codes(world.serve(message)) == [code]


def test_one_cell_is_an_earlier_run(world):
    world.request.cell_count, world.recorded = 1, {0: result(3)}
    assert codes(world.serve(asked(1))) == [3] and world.named("append") == []
