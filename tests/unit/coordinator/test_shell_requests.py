"""The coordinator's shell, method by method: what of a request reaches the logic, what becomes of one that cannot."""

from types import SimpleNamespace

import pytest

from mpbroker.channel.handler_port import MAX_ATTEMPTS
from mpbroker.coordinator import shell as module
from mpbroker.coordinator.effects import Answer, GroupRequest
from mpbroker.coordinator.responses import FAILED
from mpbroker.coordinator.shell import HANDLER_START, LOGGED_FRAME_BYTES
from mpbroker.errors import ErrorCode, ProtocolError
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.group_apis import BY_KEY
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.unit.coordinator.shell_world import BEAT, NOW, Token, World


@pytest.fixture(autouse=True)
def tokens(monkeypatch):
    """The shell takes them for claimed requests."""
    monkeypatch.setattr(module, "Request", Token)


def frame(message, version):
    return encode_request_frame(message, version, 1, "named")[4:]


# a request comes


@pytest.mark.parametrize(
    ("attempts", "row", "waits"), [(0, 5, False), (1, 5, True), (1, 0, True), (1, None, False), (0, None, False)]
)
def test_a_second_run_waits_for_the_repair_of_the_first(attempts, row, waits):
    world = World(port={"intended_row": lambda _: row}, answers={"park": lambda: True})
    world.replace("_follow_metadata", "_run")
    request = Token(attempts=attempts)
    world.made.execute(request)
    assert [one for one in world.done if one[0] != "port.intended_row"] == [
        ("answers.take", request),
        "coordinator.taken",
        ("_follow_metadata",),
        *([("answers.park",)] if waits else [("_run", request), ("answers.park",), "coordinator.parked"]),
    ]
    assert world.made._unrepaired == ([request] if waits else [])


def test_what_was_answered_at_once_is_not_parked():
    world = World(answers={"park": lambda: False})
    world.replace("_follow_metadata", "_run")
    world.made.execute(Token())
    assert world.done[-1] == ("answers.park",)


LOWEST, HIGHEST = BY_KEY[ApiKey.HEARTBEAT].versions


@pytest.mark.parametrize(
    ("key", "version", "is_served"),
    [
        (ApiKey.HEARTBEAT, LOWEST, True),
        (ApiKey.HEARTBEAT, HIGHEST, True),
        (ApiKey.HEARTBEAT, LOWEST - 1, False),
        (ApiKey.HEARTBEAT, HIGHEST + 1, False),
        (ApiKey.METADATA, 3, False),
    ],
)
def test_versions_that_are_served(key, version, is_served):
    world = World()
    world.replace("_execute")
    request = Token(key, version, payload=frame(BEAT, version) if is_served else b"")
    world.made._run(request)
    if is_served:
        [(name, asked, api, message)] = world.done
        assert (name, asked, api, message.member_id) == ("_execute", request, BY_KEY[key], "m")
        assert request.client_id == "named"
    else:
        assert world.done == [
            ("answers.refuse", request, "unsupported_version", ("code", ErrorCode.UNSUPPORTED_VERSION))
        ]


def test_a_body_that_cannot_be_read_closes_the_connection():
    world = World()
    request = Token(payload=frame(BEAT, 3)[:-3])
    world.made._run(request)
    [(name, asked, reason, detail)] = world.done
    assert (name, asked, reason) == ("answers.refuse", request, "malformed_body") and detail


def test_a_broken_request_ends_alone():
    """With error -1 where its message is known, and with its connection where it is not."""
    error = ZeroDivisionError("broken")

    def broken(*_):
        raise error

    world = World()
    world.made._execute = broken
    request = Token(payload=frame(BEAT, 3))
    world.made._run(request)
    logged, counted, (name, asked, answer, now_ms) = world.done
    assert logged[:3] == ("log.exception", "request_failed", error) and ("client_id", "named") in logged
    assert counted == ("row.count", "handler_exceptions")
    assert (name, asked, answer.error_code, now_ms) == ("answers.answer", request, -1, 7)
    world.done.clear()
    world.made._fail(request, error, None)
    assert world.done[1:] == [counted, ("answers.refuse", request, "unreadable", "broken")]


def test_a_protocol_error_within_a_request_is_a_bad_request():
    world = World()

    def broken(*_):
        raise ProtocolError("odd")

    world.made._execute = broken
    request = Token(payload=frame(BEAT, 3))
    world.made._run(request)
    assert world.done == [("answers.refuse", request, "malformed_body", "odd")]


# what the logic is told of it


@pytest.mark.parametrize("address", [None, bytes(10) + b"\xff\xff\x7f\0\0\1", bytes(15) + b"\1"])
def test_what_the_logic_is_told(address):
    world = World()
    world.replace("_decide")
    world.made._recorded = lambda request: {}
    request = Token(client_address=address)
    world.made._execute(request, BY_KEY[ApiKey.HEARTBEAT], BEAT)
    host = {None: "/", bytes(15) + b"\1": "/::1"}.get(address, "/127.0.0.1")
    asked = GroupRequest(request, ApiKey.HEARTBEAT, 3, BEAT, "cl", host, 2, b"\0\0\0\0\0\0\1\2", frozenset())
    assert world.done == [("_decide", asked)] and request.stamps == [HANDLER_START]


@pytest.mark.parametrize(
    ("attempts", "recorded", "flushes", "in_cluster", "ends"),
    [
        (0, {}, True, True, "_decide"),
        (MAX_ATTEMPTS - 1, {}, False, False, "_decide"),
        (MAX_ATTEMPTS, {}, False, False, "_answer_poison"),
        (MAX_ATTEMPTS, {3: "cell"}, False, False, "_decide"),
        (0, {3: "cell"}, True, False, "_await_recorded"),
        (0, {3: "cell"}, False, True, "_await_recorded"),
        (MAX_ATTEMPTS, {3: "cell"}, True, True, "_await_recorded"),
    ],
)
def test_runs_that_found_something_and_runs_that_killed(attempts, recorded, flushes, in_cluster, ends):
    world = World(logs={"flush_on_commit": flushes})
    world.replace("_decide", "_answer_poison", "_await_recorded")
    world.made._is_in_cluster, world.made._recorded = in_cluster, lambda request: recorded
    request = Token(attempts=attempts)
    world.made._execute(request, BY_KEY[ApiKey.HEARTBEAT], BEAT)
    [(name, asked, *rest)] = world.done
    assert name == ends
    if ends == "_answer_poison":
        assert asked is request and rest[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert asked.appended == frozenset(recorded) and rest == ([recorded] if "await" in ends else [])


def test_a_request_that_kills_is_logged_and_its_connection_closed():
    world = World()
    request = Token(payload=memoryview(bytes(range(256)) * 2))
    world.made._answer_poison(request, "message")
    counted, logged, closed = world.done
    assert counted == ("row.count", "poison_requests")
    assert logged[:2] == ("log.error", "poison_request")
    assert ("frame", bytes(range(256))[:LOGGED_FRAME_BYTES].hex()) in logged and ("api", "Heartbeat") in logged
    assert closed == ("answers.close", request, "message", ErrorCode.UNKNOWN_SERVER_ERROR)


def test_transactions_have_a_logic_of_their_own():
    world = World()
    world.replace("_decide_group")
    for key in (ApiKey.HEARTBEAT, ApiKey.INIT_PRODUCER_ID):
        world.made._decide(SimpleNamespace(api_key=key))
    assert [name for name, _ in world.done] == ["_decide_group", "transactions.handle"]


@pytest.mark.parametrize(
    ("groups", "cells"),
    [(["a"], None), (["a", "a"], None), (["b", "a"], {1: 0, 2: 1}), (["c", "a", "b"], {1: 0, 2: 1, 9: 2})],
)
def test_a_request_of_several_partitions_has_a_cell_for_each(groups, cells):
    """In the order of the partitions: a second run finds them again, whatever the order of the groups."""
    world = World(groups={"partition_of": {"a": 1, "b": 2, "c": 9}.get, "handle": lambda *_: ["effect"]})
    world.replace("_take")
    request = Token(ApiKey.DELETE_GROUPS, 2)
    asked = GroupRequest(request, ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=groups))
    world.made._decide_group(asked)
    assert world.made._cells == ({} if cells is None else {request: cells})
    assert world.done[-2:] == [("groups.handle", asked, NOW), ("_take", ["effect"])]
    other = Token()
    world.made._decide_group(GroupRequest(other, ApiKey.HEARTBEAT, 3, BEAT))
    assert other not in world.made._cells


# what an earlier run appended


def cell(ordinal, error=0):
    return SimpleNamespace(ordinal=ordinal, error=error)


@pytest.mark.parametrize("key", [ApiKey.OFFSET_COMMIT, ApiKey.INIT_PRODUCER_ID])
def test_what_an_earlier_run_appended_by_partition(key):
    """Of its own topic: that of groups, or that of transactions; what was refused is tried again."""
    cells = [cell(11), None, cell(12, error=56), cell(13), cell(99)]
    world = World(
        port={"cell": lambda _, number: cells[number]}, transactions={"topic": SimpleNamespace(partitions=[13, 40])}
    )
    world.made._topic = SimpleNamespace(partitions=[10, 11, 12, 13])
    found = world.made._recorded(Token(key, cell_count=5))
    assert found == ({1: cells[0], 3: cells[3]} if key == ApiKey.OFFSET_COMMIT else {0: cells[3]})
    assert world.made._recorded(Token(key, cell_count=0)) == {}
    assert world.made._recorded(Token(key, cell_count=3)).keys() == ({1} if key == ApiKey.OFFSET_COMMIT else set())
    world.made._topic = world.made._transactions.topic = None
    assert world.made._recorded(Token(key, cell_count=5)) == {}


@pytest.mark.parametrize(
    ("code", "heard"),
    [(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT), (ErrorCode.KAFKA_STORAGE_ERROR, 15), (0, None)],
)
def test_a_second_run_goes_on_when_all_that_the_first_one_wrote_is_settled(code, heard):
    world = World()
    world.replace("_take", "_decide")
    request = Token()
    asked = GroupRequest(request, ApiKey.HEARTBEAT, 3, BEAT)
    world.made._await_recorded(asked, {1: "one", 4: "four"})
    (_, first, first_ms, one), (_, second, second_ms, four) = world.done
    assert (first, first_ms, second, second_ms) == ("one", 7, "four", 7)
    del world.done[:]
    four(0)
    assert world.done == [], "the other one is not settled"
    one(code)
    answer = Answer(request, FAILED[ApiKey.HEARTBEAT](BEAT, 3, heard)) if heard else None
    assert world.done == ([("_take", [answer])] if heard else [("_decide", asked)])
