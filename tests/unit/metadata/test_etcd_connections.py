"""Connections of the client of etcd's gateway, and what each answer means: errors go by gRPC's codes."""

import socket
from http.client import BadStatusLine
from types import SimpleNamespace
from typing import Any

import pytest

from mpbroker.metadata import etcd_gateway, etcd_watch
from mpbroker.metadata.etcd_gateway import EndPoint, EtcdGateway, EtcdRefused, _Passing, raise_error

ONE, OTHER = EndPoint("127.0.0.1", 1), EndPoint("::1", 2)


class Connection:
    """Of a member that a test plays; `made`: all of them."""

    made: list["Connection"] = []  # noqa: RUF012
    content, status = b"{}", 200

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self.where, self.timeout, self.closed, self.asked = (host, port), timeout, False, []
        self.sock: Any = None
        Connection.made.append(self)

    def connect(self) -> None:
        self.sock, self.peer = socket.socketpair()
        self.sock.settimeout(self.timeout)
        self.options: list[Any] = []
        self.sock = Socket(self.sock, self.options)

    def request(self, *words: Any) -> None:
        self.asked.append(words)

    def getresponse(self) -> Any:
        return SimpleNamespace(status=self.status, read=lambda most: self.content[:most])

    def close(self) -> None:
        self.closed = True
        self.sock.close()
        self.peer.close()


class Socket:
    """One end of a pair, of which nobody can set TCP's options."""

    def __init__(self, real: socket.socket, options: list[Any]) -> None:
        self._real, self._options = real, options

    def setsockopt(self, *words: int) -> None:
        self._options.append(words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def gateway(monkeypatch):
    Connection.made = []
    monkeypatch.setattr(Connection, "content", b"{}")
    monkeypatch.setattr(Connection, "status", 200)
    monkeypatch.setattr(etcd_gateway.http.client, "HTTPConnection", Connection)
    made = EtcdGateway([ONE, OTHER], 1000)
    yield made
    made.close()
    assert all(one.closed for one in Connection.made)


def test_a_connection_is_used_again_with_the_time_that_is_left_then(gateway):
    for timeout_s in (0.5, 0.25):
        assert gateway.ask(ONE, "/p", {"a": 1}, timeout_s) == {}
        [connection] = Connection.made
        assert connection.sock.gettimeout() == timeout_s
    assert connection.where == ("127.0.0.1", 1) and connection.timeout == 0.5
    assert connection.options == [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    assert connection.asked == [("POST", "/p", '{"a": 1}', {"Content-Type": "application/json"})] * 2
    assert gateway.ask(OTHER, "/p", {}, 1.0) == {} and len(Connection.made) == 2


@pytest.mark.parametrize("what", ["its end has come", "it is out of step", "it is broken", "it is closed"])
def test_one_that_is_of_no_use_any_more_is_made_anew(gateway, what):
    def fail(*words: Any) -> None:
        raise ConnectionResetError("reset")

    gateway.ask(ONE, "/p", {}, 1.0)
    [first] = Connection.made
    if what == "its end has come":
        first.peer.close()
    elif what == "it is out of step":
        first.peer.send(b"x")
    elif what == "it is broken":
        first.sock.recv = fail
    else:
        first.close()
        first.sock = None
    assert gateway.ask(ONE, "/p", {}, 1.0) == {}
    assert len(Connection.made) == 2 and first.closed


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError("reset"), BadStatusLine("x")])
def test_after_a_failure_nobody_waits_for_the_answer_that_may_still_come(gateway, error):
    def fail(*words: Any) -> None:
        raise error

    gateway.ask(ONE, "/p", {}, 1.0)
    [first] = Connection.made
    first.getresponse = fail
    assert gateway.ask(ONE, "/p", {}, 1.0) is None and first.closed
    assert gateway.ask(ONE, "/p", {}, 1.0) == {} and len(Connection.made) == 2


@pytest.mark.parametrize(
    ("status", "content", "answer"),
    [
        (200, b'{"a": 1}', {"a": 1}),
        (200, b'{"a": 1}\n{"b": 2}\n', {"a": 1}),  # of a stream the first
        (200, b'{"a": 1,\n"b": 2}', None),
        (200, b"[1]", None),
        (200, b"<html>", None),
        (503, b"<html>", None),
        (503, b'{"code": 14}', None),
        (503, b'{"code": 14,\n "message": "no leader"}', None),
        (200, b'{"error": {"grpc_code": 14, "message": "no leader"}}', None),
        (200, b'{"error": null, "a": 1}', {"error": None, "a": 1}),
    ],
)
def test_what_is_no_answer_is_asked_of_another_member(gateway, monkeypatch, status, content, answer):
    monkeypatch.setattr(Connection, "content", content)
    monkeypatch.setattr(Connection, "status", status)
    assert gateway.ask(ONE, "/p", {}, 1.0) == answer


def test_an_error_over_several_lines_is_read_whole(gateway, monkeypatch):
    monkeypatch.setattr(Connection, "content", b'{"code": 5,\n "message": "gone"}')
    monkeypatch.setattr(Connection, "status", 404)
    with pytest.raises(EtcdRefused, match="^etcd: gone$"):
        gateway.ask(ONE, "/p", {}, 1.0)


@pytest.mark.parametrize("code", range(17))
@pytest.mark.parametrize("name", ["code", "grpc_code"])
def test_which_of_grpcs_errors_another_member_may_cure(code, name):
    """Cancelled, deadline exceeded, aborted, internal, unavailable: those of one member."""
    passes = code in (1, 4, 10, 13, 14)
    with pytest.raises(_Passing if passes else EtcdRefused, match="words") as told:
        raise_error(ONE, {name: code, "message": "words"})
    if passes:
        assert str(told.value) == "127.0.0.1:1: words"
        return
    assert (told.value.code, told.value.not_found, told.value.out_of_range) == (code, code == 5, code == 11)
    remedy = ": it has no space left; compact and defragment it, and disarm its alarm" if code == 8 else ""
    assert str(told.value) == f"etcd: words{remedy}"


@pytest.mark.parametrize(
    ("problem", "code", "text"),
    [
        ({"error": "words"}, 2, "words"),
        ({"message": "one", "error": "another"}, 2, "one"),
        ({"code": 5, "grpc_code": 11}, 5, ""),
        ("words", 2, "words"),
        ({}, 2, ""),
    ],
)
def test_an_error_without_a_code_is_unknown(problem, code, text):
    with pytest.raises(EtcdRefused) as told:
        raise_error(ONE, problem)
    assert (told.value.code, str(told.value)) == (code, f"etcd: {text}")


def test_a_member_that_leads_no_more_says_so_in_words():
    with pytest.raises(_Passing, match=r"^\[::1\]:2: etcdserver: not a primary lessor$"):
        raise_error(OTHER, {"code": 2, "message": "etcdserver: not a primary lessor"})


def test_a_line_of_a_watch_may_have_what_an_answer_may():
    """All that a page of 5,000 entries or a transaction of the largest topics takes, and no more memory than that."""
    assert etcd_gateway.MAX_ANSWER_BYTES == etcd_watch.MAX_LINE_BYTES == 64 << 20
