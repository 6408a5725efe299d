"""Commands about topics: in parts, each name once, and a result for each whatever became of its part."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import CommandTooLarge, ControlAnswer, ProducerIds, TopicResult, TopicResults
from mpbroker.server import topic_commands
from mpbroker.server.apis import PARKED
from mpbroker.server.topic_commands import TWICE, run_topic_command

LATE, INVALID = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REQUEST


@pytest.fixture
def sent(monkeypatch):
    """What was sent, two names in a part; `takes`: whether it could be."""
    found = SimpleNamespace(takes=True, calls=[])

    def in_parts(items, make):
        if "large" in items:
            raise CommandTooLarge("the name is too long")
        return [(items[n : n + 2], make(items[n : n + 2])) for n in range(0, len(items), 2)]

    def park(context, request, parts, timeout_ms, build):
        found.calls.append((context, request, parts, timeout_ms))
        found.build = build
        return found.takes

    monkeypatch.setattr(topic_commands, "encode_in_parts", in_parts)
    monkeypatch.setattr(topic_commands, "park_for_controller", park)
    return found


def run(*names, timeout_ms=100):
    return run_topic_command("context", "request", names, str.lower, "/".join, timeout_ms, lambda results: results)


@pytest.mark.parametrize(("timeout_ms", "code"), [(-1, LATE), (0, LATE), (1, None)])
def test_without_time_nothing_is_begun(sent, timeout_ms, code):
    found = run("A", "b", timeout_ms=timeout_ms)
    assert found == ([("a", code, None), ("b", code, None)] if code else PARKED)
    assert sent.calls == ([] if code else [("context", "request", ["A/b"], timeout_ms)])


def test_each_part_has_its_results_and_what_was_named_twice_comes_last(sent):
    assert run("a", "x", "b", "X", "c") is PARKED
    assert sent.calls == [("context", "request", ["a/b", "c"], 100)]
    done = TopicResults([TopicResult("a"), TopicResult("b", 36, "it exists")])
    refused = SimpleNamespace(error_code=ErrorCode.NOT_CONTROLLER, error_message="not here")
    twice = ("x", INVALID, TWICE)
    assert sent.build([done, refused]) == [("a", 0, None), ("b", 36, "it exists"), ("c", 41, "not here"), twice]
    assert sent.build([None, ProducerIds()]) == [("a", LATE, None), ("b", LATE, None), ("c", LATE, None), twice]
    assert sent.build([ControlAnswer(56, b""), done])[:2] == [("a", 56, None), ("b", 56, None)]


def test_names_that_all_come_twice_are_sent_nowhere(sent):
    assert run("a", "A", "b", "b") == [("a", INVALID, TWICE), ("b", INVALID, TWICE)] and sent.calls == []


def test_what_fits_into_no_command_is_refused(sent):
    words = "the name is too long"
    assert run("large", "a", "x", "x") == [("large", INVALID, words), ("a", INVALID, words), ("x", INVALID, TWICE)]


def test_what_could_not_be_sent_is_late(sent):
    sent.takes = False
    assert run("a", "b", "c") == [(name, LATE, None) for name in "abc"]
