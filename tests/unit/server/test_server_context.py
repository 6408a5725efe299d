"""What a handler knows around a request: listeners by number, settings as they are stored, what it starts with."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ErrorCode
from mpbroker.purgatory.delayed_operation import DelayedOperationPurgatory
from mpbroker.server import server_context as module
from mpbroker.server.server_context import ANSWER_PATIENCE_MS, ANSWER_RETRY_MS, DelayedAnswer, ServerContext
from mpbroker.shm.clock import ManualClock
from tests.harness.in_process_broker import InProcessBroker

CONFIG = load_broker_config(overrides=["listeners=PLAINTEXT://127.0.0.1:0"], environ={}, cores=2)


def listener(name="PLAINTEXT", removed=False, control=False):
    return SimpleNamespace(name=name, removed=removed, control=control)


@pytest.fixture
def context():
    """With one listener; what it asks for listeners has two."""
    context = ServerContext.__new__(ServerContext)
    context.listeners, context.config, context.cluster = (listener(),), CONFIG, object()
    context.renewed = []
    context.renew_listeners = lambda: context.renewed.append(True) or (listener(), listener("ADDED"))
    return context


def test_it_starts_with_nothing_that_another_process_has_to_be_asked_for(tmp_path):
    context = InProcessBroker(tmp_path).handler.context
    assert context.asks_coordinator is False and context.stored_settings() is None and context.is_ending() is False
    assert context.renew_listeners() is context.listeners and context.request_isr_change() is None
    assert (context.leader_quota, context.fetch_deadline_ms, context.produce_deadline_ms) == (None, None, None)
    assert context.node_id == context.config.node_id
    assert context.producer_ids.take() is None and context.auto_creation.create([]) is True
    assert context.native_topics.fetch.max_bytes == context.config.fetch_max_bytes, "the settings hold from the start"


def test_listeners_are_looked_up_anew_only_for_one_that_is_not_known(context):
    assert context.listener(0) is context.listeners[0] and context.renewed == []
    assert context.listener(1).name == "ADDED" and context.renewed == [True]
    assert context.listener(1).name == "ADDED" and context.renewed == [True], "now it is known"


def test_one_that_was_removed_is_looked_up_anew(context):
    context.listeners = (listener(removed=True), listener())
    assert not context.listener(1).removed and context.renewed == []
    assert not context.listener(0).removed and context.renewed == [True]


@pytest.mark.parametrize(
    ("bound", "in_cluster", "expected"),
    [
        (listener(CONFIG.end_points.inter_broker), True, True),
        (listener("CONTROL", control=True), True, True),
        (listener("OTHER"), True, False),
        (listener(CONFIG.end_points.inter_broker), False, False),
        (listener("CONTROL", control=True), False, False),
    ],
)
def test_between_brokers_there_is_a_cluster_and_its_listener(context, bound, in_cluster, expected):
    context.listeners, context.cluster = (listener("OTHER"), bound), object() if in_cluster else None
    assert context.is_between_brokers(1) is expected


def test_shown_are_settings_as_they_are_stored(context, monkeypatch):
    built = []

    def build(given, cores, stored):
        built.append((given.texts, cores, stored))
        if stored == "unusable":
            raise module.ConfigError("listeners", "no")
        return "as stored"

    monkeypatch.setattr(module, "build_broker_config", build)
    for stored, shown in ((None, CONFIG), (CONFIG.dynamic, CONFIG), ("new", "as stored"), ("unusable", CONFIG)):
        context.stored_settings = lambda stored=stored: stored
        assert context.shown_config() == shown
    assert built == [(CONFIG.texts, CONFIG.cores, "new"), (CONFIG.texts, CONFIG.cores, "unusable")]


class Answers:
    """A context that answers: `did` says what became of requests. `room`: whether there is memory for an answer."""

    def __init__(self, monkeypatch):
        self.did, self.room = [], True
        note = lambda *words: self.did.append(words)  # noqa: E731
        context = self.context = ServerContext.__new__(ServerContext)
        context.clock = ManualClock()
        context.purgatory = DelayedOperationPurgatory(context.clock.monotonic_ms())
        context.port = SimpleNamespace(
            answer=lambda request, frame: note("answer", frame) or self.room,
            answer_close=lambda request, code: note("close", code),
        )
        context.row = SimpleNamespace(count=lambda *words: note("count", *words))
        context.log = SimpleNamespace(
            warning=lambda event, about, **fields: note(event, about, fields["reason"], fields["detail"]),
            exception=lambda event, error, about, **fields: note(event, about, fields["api"]),
        )
        context.apis = SimpleNamespace(failure=lambda request, code, message: ("failed", code, message))
        monkeypatch.setattr(module, "naming", lambda request: {"client_id": "me", "api": "Fetch"})
        monkeypatch.setattr(module, "encode_answer", self._encode)
        self.versions = []

    def _encode(self, request, message, version):
        self.versions.append(version)
        if message == "too long":
            raise ValueError("a name")
        return message

    def passes(self, ms):
        self.context.clock.advance(ms)
        self.context.purgatory.advance(self.context.clock.monotonic_ms())


@pytest.fixture
def answers(monkeypatch):
    return Answers(monkeypatch)


REFUSED = [("count", "requests_refused", 1), ("request_refused", "me Fetch why", "why", "")]


@pytest.mark.parametrize("version", [None, 0, 3])
def test_an_answer_is_written_in_the_version_that_was_asked_in_or_given(answers, version):
    answers.context.answer("request", "message", **{} if version is None else {"version": version})
    assert answers.versions == [version] and answers.did == [("answer", "message")]


def test_an_answer_that_cannot_be_written_closes_the_connection(answers):
    answers.context.answer("request", "too long")
    told = ("request_refused", "me Fetch unanswerable", "unanswerable", "a name")
    assert answers.did == [("count", "requests_refused", 1), told, ("close", ErrorCode.UNKNOWN_SERVER_ERROR)]


def test_who_is_refused_is_counted_told_and_closed_with_the_code(answers):
    answers.context.refuse("request", "why", code=ErrorCode.INVALID_REQUEST)
    assert answers.did == [*REFUSED, ("close", ErrorCode.INVALID_REQUEST)]


@pytest.mark.parametrize("held", [True, False])
def test_a_request_that_failed_is_answered_if_it_is_still_to_be_answered(answers, held):
    class Request:
        @property
        def generation(self):
            if held:
                return 0
            raise ValueError

    answers.context.fail(Request(), RuntimeError("broken"), "body")
    api = "Fetch" if held else "answered"
    told = [("request_failed", f"{api} RuntimeError", api), ("count", "handler_exceptions", 1)]
    failure = ("failed", ErrorCode.UNKNOWN_SERVER_ERROR, "body")
    assert answers.did == told + [("answer", failure)] * held


def test_an_answer_without_memory_is_tried_every_few_milliseconds(answers):
    answers.room = False
    answers.context.answer("request", "message")
    answers.passes(ANSWER_RETRY_MS - 1)
    assert len(answers.did) == 1
    answers.passes(1)
    answers.room = True
    answers.passes(ANSWER_RETRY_MS)
    answers.passes(ANSWER_RETRY_MS)
    assert answers.did == [("answer", "message")] * 3 and not answers.context.purgatory.has_deadlines


@pytest.mark.parametrize(
    ("patience_ms", "tries"), [(ANSWER_RETRY_MS, 1), (ANSWER_RETRY_MS + 1, 2), (3 * ANSWER_RETRY_MS, 3)]
)
def test_it_is_tried_as_long_as_there_is_patience_and_then_refused(answers, patience_ms, tries):
    answers.room = False
    waits = DelayedAnswer(answers.context, "request", "message", patience_ms)
    assert not answers.context.purgatory.try_complete_else_watch(waits)
    for _ in range(5):
        answers.passes(ANSWER_RETRY_MS)
    assert answers.did[:tries] == [("answer", "message")] * tries
    told = ("request_refused", "me Fetch no_answer_memory", "no_answer_memory", "")
    assert answers.did[tries:] == [REFUSED[0], told, ("close", ErrorCode.UNKNOWN_SERVER_ERROR)]


def test_a_clients_own_patience_is_not_asked_for(answers):
    answers.context.answer_later("request", "message")
    answers.room = False
    for _ in range(ANSWER_PATIENCE_MS // ANSWER_RETRY_MS):
        answers.passes(ANSWER_RETRY_MS)
    tried = [words for words in answers.did if words[0] == "answer"]
    assert len(tried) == ANSWER_PATIENCE_MS // ANSWER_RETRY_MS and answers.did[-1][0] == "close"


def test_what_raises_while_it_waits_fails_its_request(answers):
    failed = []
    answers.context.fail = lambda request, error: failed.append((request, error))
    waits, error = DelayedAnswer(answers.context, "request", "message", 100), RuntimeError()
    waits.on_failure(error)
    assert failed == [("request", error)] and not waits.try_complete()


def test_a_request_that_waited_is_in_hand_again():
    context, resumed = ServerContext.__new__(ServerContext), []
    context.port = SimpleNamespace(resume=resumed.append)
    context.resume("request")
    assert resumed == ["request"]
