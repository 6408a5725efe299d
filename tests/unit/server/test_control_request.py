"""Requests that another process carries out: its answer in full, or a code for each part where there is none."""

import zlib
from array import array
from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import ControlAnswer, ControlRequest, TopicResults, decode_command
from mpbroker.protocol.codec import encode
from mpbroker.protocol.messages.elect_leaders import ElectLeadersResponse
from mpbroker.server import control_request
from mpbroker.server.apis import PARKED
from mpbroker.server.control_request import TIMEOUT_MS, ask_cluster_controller, tell_agent

LATE = ErrorCode.REQUEST_TIMED_OUT


@pytest.fixture
def parked(monkeypatch):
    """What was parked; `takes`: whether the controller's ring does."""
    found = SimpleNamespace(takes=True, calls=[])

    def park(context, request, parts, timeout_ms, build, local=False):
        found.calls.append((context, request, [decode_command(part) for part in parts], timeout_ms, local))
        found.build = build
        return found.takes

    monkeypatch.setattr(control_request, "park_for_controller", park)
    return found


REQUEST = SimpleNamespace(entry=5, fill_number=77, api_version=2)


def codes(*numbers):
    return zlib.compress(array("h", numbers).tobytes())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, (LATE, [LATE] * 3)),
        (ControlAnswer(0, codes(0, 3, 11)), (0, [0, 3, 11])),
        (ControlAnswer(77, b""), (77, [77] * 3)),
        (ControlAnswer(7, codes(0, 3)), (7, [7] * 3)),
        (TopicResults([], error_code=56), (56, [56] * 3)),
    ],
    ids=["late", "each", "whole", "others", "refused"],
)
def test_the_agents_codes_are_those_of_the_partitions(parked, answer, told):
    assert tell_agent("context", REQUEST, 3, lambda code, codes: (code, codes)) is PARKED
    assert parked.calls == [("context", REQUEST, [ControlRequest(5, 77)], TIMEOUT_MS, True)]
    assert parked.build([answer]) == told


def test_without_room_for_it_the_agent_is_late(parked):
    parked.takes = False
    assert tell_agent("context", REQUEST, 2, lambda code, codes: (code, codes)) == (LATE, [LATE] * 2)


BODY = ElectLeadersResponse(error_code=0, throttle_time_ms=3)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, LATE),
        (ControlAnswer(0, b"", zlib.compress(encode(BODY, 2))), BODY),
        (ControlAnswer(41, b""), 41),
        (TopicResults([], error_code=56), 56),
    ],
    ids=["late", "its own", "a code", "refused"],
)
def test_the_controllers_own_answer_is_passed_on(parked, answer, told):
    asked = ask_cluster_controller("context", REQUEST, ElectLeadersResponse, lambda code: int(code), 900)
    assert asked is PARKED
    assert parked.calls == [("context", REQUEST, [ControlRequest(5, 77)], 900, False)]
    assert parked.build([answer]) == told


def test_without_room_for_it_the_controller_is_late(parked):
    parked.takes = False
    assert ask_cluster_controller("context", REQUEST, ElectLeadersResponse, lambda code: int(code)) == LATE
    assert parked.calls[0][3] == TIMEOUT_MS
