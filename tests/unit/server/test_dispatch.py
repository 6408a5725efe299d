"""Which versions of an API are served: from the lowest to the highest, both included."""

from types import SimpleNamespace

import pytest

from mpbroker.channel.handler_port import MAX_ATTEMPTS
from mpbroker.errors import ErrorCode, ProtocolError
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mpbroker.protocol.messages.metadata import MetadataRequest
from mpbroker.server import dispatch, server_context
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.apis import CLOSE, HANDED_OVER, MALFORMED, NO_ANSWER, PARKED
from mpbroker.server.deliver import deliver
from mpbroker.server.handlers import fetch
from mpbroker.server.replica_read import check_leader_epoch
from mpbroker.server.request_trace import HANDLER_START
from mpbroker.server.server_context import ServerContext
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize("version", [0, 13])
def test_the_lowest_and_the_highest_version_are_served(tmp_path, version):
    assert InProcessBroker(tmp_path).call(MetadataRequest(topics=[]), version).brokers


@pytest.mark.parametrize("beyond", [-1, 1])
def test_the_versions_beyond_them_are_refused_before_they_are_read(monkeypatch, beyond):
    api, refused = API_TABLE.get(3), []
    monkeypatch.setattr(dispatch, "waits_for_repair", lambda *_: False)
    monkeypatch.setattr(dispatch, "is_poison", lambda *_: False)
    monkeypatch.setattr(dispatch, "_unsupported_version", lambda _, request, found: refused.append(found))
    version = api.versions[0] - 1 if beyond < 0 else api.versions[1] + 1
    dispatch.dispatch(None, SimpleNamespace(api_key=3, api_version=version))
    assert refused == [api]


@pytest.mark.parametrize(("version", "on_partitions"), [(6, True), (7, True), (12, True), (13, False), (16, False)])
def test_a_fetch_that_fails_as_a_whole_says_it_where_its_version_has_room(version, on_partitions):
    message = FetchRequest(session_id=5, topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])])
    response = fetch.failed(message, version, 56)
    assert (response.error_code, response.session_id) == (56, 5)
    found = [
        (topic.topic, one.partition_index, one.error_code) for topic in response.responses for one in topic.partitions
    ]
    assert found == ([("t", 3, 56)] if on_partitions else [])


@pytest.mark.parametrize(("index", "renewed"), [(0, False), (1, True), (2, True)])
def test_a_listener_that_was_added_a_moment_ago_is_looked_up(index, renewed):
    old = (SimpleNamespace(name="old", removed=False), SimpleNamespace(name="gone", removed=True))
    new = tuple(SimpleNamespace(name=f"new {number}", removed=False) for number in range(3))
    context = ServerContext.__new__(ServerContext)
    context.listeners, context.renew_listeners = old, lambda: new
    assert context.listener(index).name == (f"new {index}" if renewed else "old")


@pytest.mark.parametrize(
    ("asked", "code"), [(-1, 0), (5, 0), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_an_older_leader_epoch_is_fenced_and_a_newer_one_not_known(asked, code):
    assert check_leader_epoch(asked, 5) == code


@pytest.mark.parametrize("has_memory", [True, False])
def test_an_answer_without_memory_waits_for_room(monkeypatch, has_memory):
    later, sent = [], []
    context = ServerContext.__new__(ServerContext)
    context.port = SimpleNamespace(answer=lambda request, frame: sent.append(frame) or has_memory)
    context.answer_later = lambda request, frame: later.append(frame)
    monkeypatch.setattr(server_context, "encode_answer", lambda request, message, version: b"frame")
    context.answer("request", "message")
    assert sent == [b"frame"] and later == ([] if has_memory else [b"frame"])


class Asked:
    """A request of parts, and what became of it; `cells`: which of its result cells are filled."""

    def __init__(self, monkeypatch, attempts=0, cells=()):
        self.did, note = [], lambda *words: self.did.append(words)
        self.request = SimpleNamespace(
            api_key=3, api_version=9, attempts=attempts, cell_count=len(cells), payload=bytes(range(256)) * 2,
            stamp=lambda stage: note("stamp", stage),
        )  # fmt: skip
        self.context = SimpleNamespace(
            refuse=lambda request, reason, error=None, code=None: note("refuse", reason, code),
            count=lambda name: note("count", name), answer=lambda request, answer, version: note("answer", version),
            port=SimpleNamespace(
                cell=lambda request, number: cells[number],
                answer_close=lambda request, code, frame=b"": note("close", code, frame),
            ),
            log=SimpleNamespace(error=lambda event, **fields: note(event, fields["frame"])),
            apis=SimpleNamespace(failure=lambda request, code: ("failed", code)),
            fail=lambda request, error, message: note("fail", type(error).__name__, message),
        )  # fmt: skip
        monkeypatch.setattr(dispatch, "waits_for_repair", lambda *_: False)
        monkeypatch.setattr(dispatch, "naming", lambda request: {})
        monkeypatch.setattr(dispatch, "encode_answer", lambda request, message: message)
        self.patch = monkeypatch.setattr

    def dispatched(self):
        dispatch.dispatch(self.context, self.request)
        return self.did


@pytest.mark.parametrize(
    ("key", "version", "refusal"),
    [
        (9999, 0, ("refuse", "unknown_api_key", ErrorCode.UNSUPPORTED_VERSION)),
        (3, 99, ("refuse", "unsupported_version", ErrorCode.UNSUPPORTED_VERSION)),
        (0, 2, ("refuse", "version_not_served", ErrorCode.UNSUPPORTED_VERSION)),
        (3, 9, ("refuse", "malformed_body", ErrorCode.INVALID_REQUEST)),
        (18, 99, ("answer", 0)),
    ],
)
def test_what_cannot_be_served_closes_its_connection_but_for_the_question_what_is(monkeypatch, key, version, refusal):
    """A client that asks for versions in one that is too new is told in the oldest."""
    asked = Asked(monkeypatch)
    asked.request.api_key, asked.request.api_version = key, version
    asked.request.payload = b""
    assert asked.dispatched() == [refusal]


@pytest.mark.parametrize("fails", [False, True])
def test_a_handler_that_raises_fails_its_request_alone(monkeypatch, fails):
    asked, api = Asked(monkeypatch), SimpleNamespace(handle=lambda *words: 1 / 0 if fails else words[2])
    asked.patch(dispatch, "deliver", lambda context, request, outcome: asked.did.append(("deliver", outcome)))
    dispatch._execute(asked.context, asked.request, api, "body")
    outcome = ("fail", "ZeroDivisionError", "body") if fails else ("deliver", "body")
    assert asked.did == [("stamp", HANDLER_START), outcome]


@pytest.mark.parametrize(
    ("attempts", "cells", "poison"),
    [
        (MAX_ATTEMPTS - 1, (), False),
        (MAX_ATTEMPTS, (), True),
        (MAX_ATTEMPTS + 1, (), True),
        (MAX_ATTEMPTS, ("done",), False),
        (MAX_ATTEMPTS, ("done", None), True),
        (MAX_ATTEMPTS, (None, "done"), True),
        (MAX_ATTEMPTS - 1, (None,), False),
    ],
)
def test_what_killed_its_handlers_is_not_run_again_unless_all_of_it_is_done(monkeypatch, attempts, cells, poison):
    asked = Asked(monkeypatch, attempts, cells)
    assert dispatch.is_poison(asked.context, asked.request) is poison


def test_a_frame_that_kills_is_answered_with_an_error_and_noted(monkeypatch):
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    asked = Asked(monkeypatch, MAX_ATTEMPTS)
    frame = bytes(range(256)).hex()
    assert asked.dispatched() == [
        ("count", "poison_requests"),
        ("poison_request", frame),
        ("close", code, ("failed", code)),
    ]


@pytest.mark.parametrize("error", [ProtocolError("no"), KeyError(3), ValueError("no")])
def test_one_that_cannot_even_be_read_is_only_closed(monkeypatch, error):
    def fail(*_):
        raise error

    asked = Asked(monkeypatch, MAX_ATTEMPTS)
    asked.context.apis.failure = fail
    assert asked.dispatched()[-1] == ("close", ErrorCode.UNKNOWN_SERVER_ERROR, b"")


@pytest.mark.parametrize(
    ("outcome", "did"),
    [
        (PARKED, []),
        (HANDED_OVER, []),
        (NO_ANSWER, ["none"]),
        (CLOSE, [("close", 0)]),
        (MALFORMED, [("refuse", "malformed_body", ErrorCode.INVALID_REQUEST)]),
        ("body", [("answer", "body")]),
    ],
)
def test_what_a_handler_came_to_is_delivered(outcome, did):
    """A connection that a handler closes has its error noted already."""
    found = []
    context = SimpleNamespace(
        answer=lambda request, message: found.append(("answer", message)),
        refuse=lambda request, reason, code: found.append(("refuse", reason, code)),
        port=SimpleNamespace(
            answer_none=lambda request: found.append("none"),
            answer_close=lambda request, code: found.append(("close", code)),
        ),
    )
    deliver(context, "request", outcome)
    assert found == did
