"""A watch's stream, stepped: what etcd's gateway sends line by line, and what becomes of it."""

import json
import socket
from types import SimpleNamespace

import pytest

from mpbroker.metadata import etcd_watch
from mpbroker.metadata.etcd_gateway import EndPoint, decode, encode
from mpbroker.metadata.etcd_watch import AGAIN_S, PROBE_S, PROBE_TIMEOUT_S, EtcdWatch
from mpbroker.metadata.meta_store import Compacted, StoreError
from tests.harness.descriptors import open_descriptors

OK = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"


class World:
    """Two members, a clock, and a watch of what begins with a/ from revision 5 on."""

    def __init__(self, monkeypatch):
        self.now_s, self.probes, self.answers = 100.0, [], True
        self.servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        for server in self.servers:
            server.settimeout(5)
        points = tuple(EndPoint(*server.getsockname()) for server in self.servers)
        monkeypatch.setattr(etcd_watch, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        self.gateway = SimpleNamespace(end_points=points, end_point=points[0], ask=self._ask)
        self.watch = EtcdWatch(self.gateway, "a/", "a0", 5)
        self.stream = None

    def _ask(self, end_point, path, request, timeout_s):
        self.probes.append((end_point, path, decode(request["key"]), request["count_only"], timeout_s))
        return {} if self.answers else None

    def opened(self, member=1, head=OK):
        """The next take opens the stream there; what was asked for."""
        assert self.watch.take() == []
        self.stream, _ = self.servers[member].accept()
        self.stream.settimeout(5)
        asked = b""
        while not asked.endswith(b"}}"):
            asked += self.stream.recv(4096)
        self.stream.sendall(head)
        head, _, body = asked.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        return head, json.loads(body)["create_request"]

    def say(self, *results, ending=b"\n"):
        self.stream.sendall(b"".join(json.dumps({"result": one}).encode() + ending for one in results))

    def take(self):
        """Loopback delivers at once: nothing is waited for."""
        return [(batch.rev, [(event.key, event.entry and event.entry.value) for event in batch.events])
                for batch in self.watch.take()]  # fmt: skip

    def is_open(self):
        return self.watch._socket is not None

    def close(self):
        self.watch.close()
        for each in (*self.servers, *([self.stream] if self.stream else [])):
            each.close()


@pytest.fixture
def world(monkeypatch):
    made = World(monkeypatch)
    yield made
    made.close()


def put(key, rev, value=b"v"):
    return {"kv": {"key": encode(key), "value": encode(value), "mod_revision": str(rev)}}


def gone(key, rev):
    return {"type": "DELETE", "kv": {"key": encode(key), "mod_revision": str(rev)}}


def test_it_asks_for_what_comes_behind_what_was_delivered(world):
    head, asked = world.opened()
    first = head.split(b"\r\n")
    assert (
        first[0] == b"POST /v3/watch HTTP/1.0"
        and f"Host: 127.0.0.1:{world.gateway.end_points[1].port}".encode() in first
    )
    assert (decode(asked["key"]), decode(asked["range_end"])) == (b"a/", b"a0")
    assert (asked["start_revision"], asked["progress_notify"]) == ("5", True)
    world.say({"events": [put("a/x", 8)]})
    assert world.take() == [(8, [("a/x", b"v")])] and world.watch.rev == 8
    world.stream.close()
    assert world.take() == [] and not world.is_open()
    world.now_s += AGAIN_S
    assert world.opened(member=0)[1]["start_revision"] == "9", "at the other member"


def test_changes_of_a_transaction_come_together(world):
    world.opened()
    world.say({"created": True}, {"events": [put("a/x", 6), gone("a/y", 6), put("a/z", 7, b"")]})
    assert world.take() == [(6, [("a/x", b"v"), ("a/y", None)]), (7, [("a/z", b"")])]
    assert world.watch.rev == 7


def test_what_was_delivered_is_not_delivered_again(world):
    world.opened()
    world.say({"events": [put("a/old", 4), put("a/x", 5), put("a/y", 6)]})
    assert world.take() == [(5, [("a/x", b"v")]), (6, [("a/y", b"v")])]
    world.say({"events": [put("a/y", 6)]})
    assert world.take() == [] and world.watch.rev == 6


@pytest.mark.parametrize(
    "result, rev",
    [
        ({"header": {"revision": "9"}}, 9),  # progress
        ({"header": {"revision": "3"}}, 4),
        ({}, 4),
        ({"created": True, "header": {"revision": "9"}}, 4),  # what is older may still come
    ],
)
def test_progress_is_noted_and_never_goes_back(world, result, rev):
    world.opened()
    world.say(result)
    assert world.take() == [] and world.watch.rev == rev and world.is_open()


def test_lines_come_in_pieces(world):
    world.opened(head=b"HTTP/1.0 200 OK\r\nA: b\r\n")
    assert world.take() == [] and world.is_open()
    line = json.dumps({"result": {"events": [put("a/x", 5)]}}).encode()
    world.stream.sendall(b"\r\n\n  \n" + line[:20])
    assert world.take() == []
    world.stream.sendall(line[20:])
    assert world.take() == [], "its line has not ended"
    world.stream.sendall(b"\n" + line[:5])
    assert world.take() == [(5, [("a/x", b"v")])] and bytes(world.watch._received) == line[:5]


@pytest.mark.parametrize(
    "head", [b"HTTP/1.0 503 No\r\n\r\n", b"HTTP/1.0 404 No\r\n\r\n{}\n", b"nonsense\r\n\r\n", b"\r\n\r\n"]
)
def test_a_stream_that_is_refused_is_given_up(world, head):
    world.opened(head=head)
    assert world.take() == [] and not world.is_open()


@pytest.mark.parametrize(
    "line", [b"{broken\n", b"[]\n", b'{"error": {"message": "m"}}\n', b'{"result": {"canceled": true}}\n']
)
def test_a_line_that_says_nothing_ends_the_stream(world, line):
    world.opened()
    world.say({"events": [put("a/x", 5)]})
    world.stream.sendall(line)
    world.say({"events": [put("a/y", 6)]})
    assert world.take() == [(5, [("a/x", b"v")])] and not world.is_open() and world.watch.rev == 5
    world.now_s += AGAIN_S
    assert world.opened(member=0)[1]["start_revision"] == "6"


def test_a_history_that_is_gone_is_said_and_ends_the_watch(world):
    world.opened()
    world.say({"canceled": True, "compact_revision": "20"})
    with pytest.raises(Compacted) as told:
        world.take()
    assert told.value.min_rev == 21 and not world.is_open()
    with pytest.raises(StoreError, match="closed"):
        world.take()


def test_a_watch_that_is_not_permitted_is_over(world):
    world.opened()
    world.say({"canceled": True, "cancel_reason": "etcdserver: permission denied"})
    with pytest.raises(StoreError, match="permission denied"):
        world.take()
    with pytest.raises(StoreError, match="closed"):
        world.take()


@pytest.mark.parametrize("length, is_too_long", [(64, False), (65, True)])
def test_a_line_without_an_end_is_not_kept_for_ever(world, monkeypatch, length, is_too_long):
    monkeypatch.setattr(etcd_watch, "MAX_LINE_BYTES", 64)
    world.opened()
    world.stream.sendall(b"x" * length)
    if is_too_long:
        with pytest.raises(StoreError, match="more than 64 bytes"):
            world.take()
    else:
        assert world.take() == []
    assert world.is_open() is not is_too_long


def test_a_member_that_answers_no_read_is_left(world):
    world.opened()
    world.now_s += PROBE_S - 0.01
    world.take()
    assert not world.probes
    world.now_s += 0.01
    world.take()
    world.take()
    probe = (world.gateway.end_points[1], "/v3/kv/range", b"a/", True, PROBE_TIMEOUT_S)
    assert world.probes == [probe] and world.is_open()
    world.answers = False
    world.now_s += PROBE_S
    world.take()
    assert world.probes == [probe, probe] and not world.is_open()
    world.opened(member=0)
    world.now_s += PROBE_S - 0.01
    world.take()
    assert len(world.probes) == 2, "a new stream has its time"


def test_members_are_tried_in_turn_and_not_all_at_once(world, monkeypatch):
    tried = []

    def refuse(address, timeout):
        tried.append(address[1])
        raise OSError("refused")

    with monkeypatch.context() as patched:
        patched.setattr(etcd_watch.socket, "create_connection", refuse)
        for step_s in (0, 0, AGAIN_S - 0.01, 0.011, AGAIN_S):
            world.now_s += step_s
            assert world.take() == []
    one, two = (point.port for point in world.gateway.end_points)
    assert tried == [two, one, two]
    world.now_s += AGAIN_S
    world.opened(member=0)


def test_who_waits_wakes_for_a_change_or_after_its_time(world, monkeypatch):
    world.opened()
    waits = []

    class Epoll:
        """Each wait takes its time; before the third one something comes."""

        def poll(self, wait_s):
            waits.append(round(wait_s, 6))
            world.now_s += wait_s
            if len(waits) == 3:
                world.say({"events": [put("a/x", 5)]})

    real, world.watch._epoll = world.watch._epoll, Epoll()
    assert world.watch.take(300) == [] and waits == [0.25, 0.05]
    assert [batch.rev for batch in world.watch.take(1000)] == [5] and waits == [0.25, 0.05, 0.25]
    world.watch._epoll = real


def test_a_watch_has_one_descriptor_whatever_becomes_of_its_streams(world):
    descriptor = world.watch.fileno()
    world.opened()
    world.say({"events": [put("a/x", 5)]})
    assert world.watch._epoll.poll(5) and world.watch.fileno() == descriptor
    world.take()
    world.watch.close()
    assert not world.is_open()
    with pytest.raises(StoreError):
        world.watch.take()


def test_the_next_member_is_the_one_behind_and_after_the_last_the_first():
    points = tuple(EndPoint("127.0.0.1", port) for port in (1, 2, 3))
    assert [etcd_watch._next(points, point) for point in points] == [points[1], points[2], points[0]]
    assert etcd_watch._next(points[:1], points[0]) == points[0]


@pytest.mark.parametrize("result", [{}, {"header": {}}, {"header": {"revision": "0"}}])
def test_a_line_without_a_revision_is_no_progress(world, result):
    world.watch.rev = 0  # of a watch from the first revision on
    world.opened()
    world.say(result)
    assert world.take() == [] and world.watch.rev == 0


def test_a_closed_watch_holds_no_descriptor(world):
    before = open_descriptors()
    watch = EtcdWatch(world.gateway, "a/", "a0", 5)
    watch.take()
    assert len(open_descriptors() - before) == 2, "the stream, and what the caller waits for"
    watch.close()
    assert open_descriptors() <= before
