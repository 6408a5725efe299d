"""Answers of the coordinator: each request once, in hand or parked, and again and again while there is no memory."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator import entry_answers
from mpbroker.coordinator.entry_answers import PATIENCE_MS, RETRY_MS, EntryAnswers
from mpbroker.errors import ErrorCode
from mpbroker.shm.layout import ParkedKind


class World:
    """`has_memory`: whether an answer finds room."""

    def __init__(self, monkeypatch):
        self.calls, self.lines, self.has_memory = [], [], True
        port = SimpleNamespace(
            park=lambda request, kind: self.calls.append(("park", request, kind)),
            resume=lambda request: self.calls.append(("resume", request)),
            give_back=lambda request: self.calls.append(("give back", request)),
            answer=self._answer,
            answer_close=lambda request, code, frame=b"": self.calls.append(("close", request, code, frame)),
        )
        row = SimpleNamespace(count=lambda name: self.calls.append(("count", name)))
        log = SimpleNamespace(warning=lambda event, about, **fields: self.lines.append((event, about, fields)))
        monkeypatch.setattr(entry_answers, "encode_answer", self._encode)
        monkeypatch.setattr(entry_answers, "naming", lambda request: {"client_id": "cl", "api": f"api of {request}"})
        self.answers = EntryAnswers(port, row, log)

    def _answer(self, request, frame):
        self.calls.append(("answer", request, frame))
        return self.has_memory

    @staticmethod
    def _encode(request, message):
        if message == "unwritable":
            raise ValueError("too long")
        return f"{request}: {message}"

    def did(self):
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_request_in_hand_is_answered_once(world):
    world.answers.take("r")
    world.answers.answer("r", "hello", 5)
    assert world.did() == [("answer", "r", "r: hello")]
    world.answers.answer("r", "again", 5)
    world.answers.give_back("r")
    world.answers.refuse("r", "reason")
    world.answers.close("r", "bye", 1)
    assert world.answers.park() is False, "it waits for nothing"
    assert (world.did(), world.answers.parked, world.answers.next_due_ms(5)) == ([], 0, None)


def test_one_that_is_not_answered_waits_and_is_taken_back(world):
    world.answers.take("r")
    assert world.answers.park() is True and world.answers.park() is False
    assert (world.did(), world.answers.parked) == ([("park", "r", ParkedKind.COORDINATOR)], 1)
    world.answers.answer("r", "hello", 5)
    assert world.did() == [("resume", "r"), ("answer", "r", "r: hello")] and world.answers.parked == 0
    world.answers.answer("r", "again", 5)
    assert world.did() == []


def test_handlers_go_on_with_one_in_hand_or_parked(world):
    world.answers.take("r")
    world.answers.give_back("r")
    world.answers.take("s")
    world.answers.park()
    world.answers.give_back("s")
    parked = [("park", "s", ParkedKind.COORDINATOR), ("resume", "s")]
    assert world.did() == [("give back", "r"), *parked, ("give back", "s")]


def test_what_finds_no_memory_is_tried_again_for_a_while(world):
    world.has_memory = False
    for request in ("r", "s"):
        world.answers.take(request)
        world.answers.answer(request, "hello", 100)
    assert world.answers.next_due_ms(100) == 100 + RETRY_MS
    world.did()
    both = [("answer", "r", "r: hello"), ("answer", "s", "s: hello")]
    for now_ms in (120, 100 + PATIENCE_MS - 1):
        world.answers.retry(now_ms)
        assert world.did() == both and world.answers.next_due_ms(now_ms) == now_ms + RETRY_MS
    world.answers.retry(100 + PATIENCE_MS)
    counted, closed = ("count", "requests_refused"), ErrorCode.UNKNOWN_SERVER_ERROR
    refused = [[one, counted, ("close", one[1], closed, b"")] for one in both]
    assert world.did() == [*refused[0], *refused[1]] and world.answers.next_due_ms(0) is None
    assert world.lines[0] == (
        "request_refused",
        "cl api of r no_answer_memory",
        {"reason": "no_answer_memory", "client_id": "cl", "api": "api of r", "detail": ""},
    )


def test_what_finds_memory_later_is_sent_once(world):
    world.has_memory = False
    world.answers.take("r")
    world.answers.answer("r", "hello", 100)
    world.did()
    world.has_memory = True
    world.answers.retry(120)
    world.answers.retry(140)
    assert world.did() == [("answer", "r", "r: hello")] and world.answers.next_due_ms(140) is None


def test_what_cannot_be_written_ends_its_connection(world):
    world.answers.take("r")
    world.answers.answer("r", "unwritable", 5)
    assert world.did() == [("count", "requests_refused"), ("close", "r", ErrorCode.UNKNOWN_SERVER_ERROR, b"")]
    [(event, about, fields)] = world.lines
    assert (event, about, fields["reason"], fields["detail"]) == (
        "request_refused",
        "cl api of r unanswerable",
        "unanswerable",
        "too long",
    )


def test_refused_requests_are_counted_and_say_why(world):
    world.answers.take("r")
    world.answers.refuse("r", "strange", "so strange")
    world.answers.take("s")
    world.answers.refuse("s", "strange", code=ErrorCode.UNSUPPORTED_VERSION)
    counted = ("count", "requests_refused")
    assert world.did() == [
        counted,
        ("close", "r", ErrorCode.INVALID_REQUEST, b""),
        counted,
        ("close", "s", ErrorCode.UNSUPPORTED_VERSION, b""),
    ]
    assert [fields["detail"] for _, _, fields in world.lines] == ["so strange", ""]


@pytest.mark.parametrize(("message", "frame"), [("bye", "r: bye"), (None, b""), ("unwritable", b"")])
def test_a_last_word_before_the_end_of_a_connection(world, message, frame):
    world.answers.take("r")
    world.answers.close("r", message, 7)
    assert world.did() == [("close", "r", 7, frame)] and world.lines == []


def test_at_the_end_whoever_waits_is_told(world):
    for request in ("r", "s"):
        world.answers.take(request)
        world.answers.park()
    world.did()
    world.answers.close_parked()
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert sorted(call for call in world.did() if call[0] == "close") == [("close", one, code, b"") for one in "rs"]
    assert world.answers.parked == 0
