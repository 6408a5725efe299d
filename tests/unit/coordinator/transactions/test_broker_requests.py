"""Requests of the coordinator to other brokers: every one ends, none holds the process for ever, few are remembered."""

import select
import socket
import struct
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from mpbroker.coordinator.transactions import broker_requests
from mpbroker.coordinator.transactions.broker_requests import (
    IDLE_MS,
    MAX_CONNECTIONS,
    MAX_PEERS,
    TIMEOUT_MS,
    BrokerRequests,
    _Peer,
)
from mpbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

NOBODY_THERE = 40  # addresses
BROKEN = """
import time
from mpbroker.coordinator.transactions.broker_requests import BrokerRequests

requests = BrokerRequests("b", lambda: None)
requests._turn = lambda: 1 / 0
requests.send(("127.0.0.1", 1), None, print)
time.sleep(20)
"""


def test_brokers_that_are_gone_answer_none_and_are_forgotten():
    rung = threading.Event()
    requests, found = BrokerRequests("b", rung.set), []
    with socket.socket() as taken:  # bound, never listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for number in range(1, NOBODY_THERE + 1):
            requests.send((f"127.0.0.{number}", port), WriteTxnMarkersRequest(markers=[]), found.append)
        while len(found) < NOBODY_THERE:
            assert rung.wait(5), f"{len(found)} of {NOBODY_THERE} have ended"
            rung.clear()
            requests.deliver()
    assert found == [None] * NOBODY_THERE
    assert len(requests._peers) <= MAX_PEERS


def test_a_broken_thread_ends_the_process():
    """Else whoever asked would wait for ever, and with it the end of a transaction."""
    ended = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, timeout=15)
    assert ended.returncode == 1


def test_an_answer_that_takes_its_time_is_waited_for():
    rung = threading.Event()
    requests, found = BrokerRequests("b", rung.set), []

    def answer(server):
        client, _ = server.accept()
        with client:
            asked = client.recv(1000)
            time.sleep(0.2)
            client.sendall(struct.pack(">i", 7) + asked[8:12] + b"\0\1\0")  # no markers, no tags
            client.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        requests.send(server.getsockname()[:2], WriteTxnMarkersRequest(markers=[]), found.append)
        while not found:
            assert rung.wait(5)
            rung.clear()
            requests.deliver()
    assert found == [WriteTxnMarkersResponse(markers=[])]


@pytest.mark.parametrize(
    "left_ms, waits_ms",
    [([], IDLE_MS), ([None], IDLE_MS), ([5], 5), ([50, None, 5], 5), ([5, 50], 5), ([0], 0), ([IDLE_MS + 1], IDLE_MS)],
)
def test_the_thread_wakes_for_the_first_time_limit(monkeypatch, left_ms, waits_ms):
    waited = []

    class Poll:
        """Nothing comes."""

        def register(self, fd, events):
            """It watches the bell alone: no channel has a socket."""

        def poll(self, wait_ms):
            waited.append(wait_ms)
            return []

    requests, peer = BrokerRequests("b", lambda: None), _Peer()
    peer.channels = [
        SimpleNamespace(fileno=lambda: -1, wait_ms=lambda _now, left=left: left, turn=lambda _now: None)
        for left in left_ms
    ]
    requests._peers = {("127.0.0.1", 1): peer}
    monkeypatch.setattr(broker_requests.select, "poll", Poll)
    requests._turn()
    assert waited == [waits_ms]


def test_the_thread_watches_its_bell_and_each_socket_and_rings_for_answers(monkeypatch):
    """A bell that is not emptied would keep it awake; one that is not rung keeps whoever asked waiting."""
    watched, rung, read, outcomes = [], [], [], [SimpleNamespace(response="answer")]
    poll = SimpleNamespace(register=lambda fd, events: watched.append((fd, events)), poll=lambda _wait: ready)
    requests, peer = BrokerRequests("b", lambda: rung.append(1)), _Peer()
    channels = [
        SimpleNamespace(fileno=lambda fd=fd: fd, events=lambda: 4, wait_ms=lambda _now: None, turn=lambda _now: None)
        for fd in (-1, 0, 9)
    ]
    channels[2] = SimpleNamespace(**vars(channels[2]) | {"turn": lambda _now: outcomes.pop() if outcomes else None})
    channel = Hashable(channels[2])
    peer.channels, peer.in_flight = [*channels[:2], channel], {channel: SimpleNamespace(then=read.append)}
    requests._peers, requests._bell = {("127.0.0.1", 1): peer}, 77
    monkeypatch.setattr(broker_requests.select, "poll", lambda: poll)
    monkeypatch.setattr(broker_requests.os, "eventfd_read", lambda fd: read.append(fd))
    ready = [(77, 1)]
    requests._turn()
    assert watched == [(77, select.POLLIN), (0, 4), (9, 4)] and read == [77] and rung == [1]
    requests.deliver()
    assert read == [77, "answer"]
    ready = [(9, 1)]
    requests._turn()
    assert read == [77, "answer"] and rung == [1], "nothing was answered"


class Hashable:
    """A channel that can stand in a dictionary."""

    def __init__(self, channel):
        self.__dict__.update(vars(channel))


@pytest.mark.parametrize("peers, remain", [(MAX_PEERS, MAX_PEERS), (MAX_PEERS + 1, 0)])
def test_idle_brokers_are_forgotten_when_there_are_too_many(monkeypatch, peers, remain):
    requests = BrokerRequests("b", lambda: None)
    requests._peers = {("127.0.0.1", port): _Peer() for port in range(peers)}
    poll = SimpleNamespace(register=lambda *_given: None, poll=lambda _wait: [])
    monkeypatch.setattr(broker_requests.select, "poll", lambda: poll)
    requests._turn()
    assert len(requests._peers) == remain


class Channel:
    """A connection to a broker: `busy` until its outcome comes."""

    made: list["Channel"] = []  # noqa: RUF012

    def __init__(self, *words, **named):
        self.words, self.sent, self.busy, self.outcome, self.closed = (*words, named), [], False, None, False
        Channel.made.append(self)

    def turn(self, now_ms):
        outcome, self.outcome = self.outcome, None
        self.busy = self.busy and outcome is None
        return outcome

    def send(self, message, now_ms):
        self.sent.append((message, now_ms))
        self.busy = True

    def close(self):
        self.closed = True


NOW_MS = 50_000


@pytest.fixture
def peer(monkeypatch):
    """(requests, one broker, what it is asked)."""
    Channel.made = []
    monkeypatch.setattr("mpbroker.client.broker_channel.BrokerChannel", Channel)
    requests, peer = BrokerRequests("b", lambda: None), _Peer()

    def ask(*messages, until_ms=NOW_MS + 1):
        peer.waiting.extend(broker_requests._Asked(message, message, until_ms) for message in messages)
        return serve()

    def serve():
        requests._serve(("host", 9), peer, NOW_MS)
        answered = list(requests._answered)
        requests._answered.clear()
        return answered

    return SimpleNamespace(requests=requests, peer=peer, ask=ask, serve=serve)


@pytest.mark.parametrize(
    ("busy", "given", "made"),
    [
        ([], "new", 1),
        ([False], 0, 1),
        ([True], "new", 2),
        ([True, False, False], 1, 3),
        ([True] * 3, "new", 4),
        ([True] * MAX_CONNECTIONS, None, MAX_CONNECTIONS),
        ([True] * 3 + [False], 3, MAX_CONNECTIONS),
    ],
)
def test_a_request_takes_a_connection_that_is_idle_before_a_new_one(peer, busy, given, made):
    """At most four to one broker, and never one that has a request in flight: its answer would be another's."""
    channels = [Channel() for _ in busy]
    for channel, is_busy in zip(channels, busy, strict=True):
        channel.busy = is_busy
    peer.peer.channels = [*channels]
    idle = peer.requests._idle(("127.0.0.1", 9), peer.peer)
    assert peer.peer.channels == Channel.made and len(Channel.made) == made
    if given == "new":
        assert idle is Channel.made[-1]
        assert idle.words == ("127.0.0.1", 9, {"client_id": "b", "timeout_ms": TIMEOUT_MS})
    else:
        assert idle is (None if given is None else channels[given])


def test_each_connection_has_one_request_in_flight_and_there_are_few(peer):
    """One that waits for its followers must not hold the others up."""
    assert peer.ask("a") == [] and peer.ask("b", "c", "d", "e", "f") == []
    assert [channel.sent for channel in Channel.made] == [[(name, NOW_MS)] for name in "abcd"]
    assert [one.message for one in peer.peer.waiting] == ["e", "f"] and len(peer.peer.in_flight) == 4
    timeout = {"client_id": "b", "timeout_ms": broker_requests.TIMEOUT_MS}
    assert [channel.words for channel in Channel.made] == [("host", 9, timeout)] * broker_requests.MAX_CONNECTIONS
    Channel.made[2].outcome = SimpleNamespace(response="answer")
    assert peer.serve() == [("c", "answer")]
    assert Channel.made[2].sent[1:] == [("e", NOW_MS)] and len(peer.peer.in_flight) == 4
    Channel.made[0].outcome = SimpleNamespace(response=None)
    assert peer.serve() == [("a", None)], "none came"
    assert sorted(one.message for one in peer.peer.in_flight.values()) == ["b", "d", "e", "f"]
    assert not peer.peer.waiting and len(Channel.made) == 4


def test_a_connection_that_is_free_is_used_again(peer):
    peer.ask("a")
    Channel.made[0].outcome = SimpleNamespace(response="answer")
    assert peer.ask("b") == [("a", "answer")]
    assert len(Channel.made) == 1 and Channel.made[0].sent == [("a", NOW_MS), ("b", NOW_MS)]


@pytest.mark.parametrize(("until_ms", "ends"), [(NOW_MS - 1, True), (NOW_MS, True), (NOW_MS + 1, False)])
def test_a_request_that_nobody_waits_for_any_more_ends_unsent(peer, until_ms, ends):
    assert peer.ask("a", until_ms=until_ms) == ([("a", None)] if ends else [])
    assert len(Channel.made) == (not ends)


@pytest.mark.parametrize(("more", "ended"), [(0, 0), (1, 1), (3, 3)])
def test_the_oldest_fail_where_too_many_wait_for_one_broker(peer, monkeypatch, more, ended):
    monkeypatch.setattr(broker_requests, "MAX_WAITING", 5)
    peer.ask(*"abcd")
    numbers = list(range(5 + more))
    assert peer.ask(*numbers) == [(number, None) for number in numbers[:ended]]
    assert [one.message for one in peer.peer.waiting] == numbers[ended:]


def test_only_brokers_with_nothing_to_do_are_forgotten(peer):
    waiting, flying, idle = _Peer(), _Peer(), _Peer()
    waiting.waiting.append("asked")
    flying.in_flight["channel"] = "asked"
    idle.channels = [Channel("x"), Channel("y")]
    peer.requests._peers = {("w", 1): waiting, ("f", 1): flying, ("i", 1): idle}
    peer.requests._forget_idle()
    assert list(peer.requests._peers) == [("w", 1), ("f", 1)]
    assert [channel.closed for channel in Channel.made] == [True, True]


def test_a_thread_begins_with_the_first_request_and_its_bell_is_rung_for_each(monkeypatch):
    started, rung, found = [], [], []
    thread = lambda **named: SimpleNamespace(start=lambda: started.append(named["daemon"]))  # noqa: E731
    monkeypatch.setattr(broker_requests.threading, "Thread", thread)
    monkeypatch.setattr(broker_requests.os, "eventfd", lambda *words: 0)
    monkeypatch.setattr(broker_requests.os, "eventfd_write", lambda *words: rung.append(words))
    monkeypatch.setattr(broker_requests, "_now_ms", lambda: NOW_MS)
    requests = BrokerRequests("b", lambda: None)
    for name in "ab":
        requests.send(("host", 9), name, found.append)
    assert started == [True] and rung == [(0, 1)] * 2
    until_ms = NOW_MS + broker_requests.TIMEOUT_MS
    assert [(address, one.message, one.until_ms) for address, one in requests._asked] == [
        (("host", 9), "a", until_ms),
        (("host", 9), "b", until_ms),
    ]
    requests._answered.extend([(found.append, "first"), (found.append, None)])
    requests.deliver()
    requests.deliver()
    assert found == ["first", None]
