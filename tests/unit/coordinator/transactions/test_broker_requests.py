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

from mpbroker.client import broker_channel
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
def test_a_request_takes_a_connection_that_is_idle_before_a_new_one(monkeypatch, busy, given, made):
    """At most four to one broker, and never one that has a request in flight: its answer would be another's."""
    monkeypatch.setattr(broker_channel, "BrokerChannel", lambda *address, **settings: (address, settings))
    peer = _Peer()
    channels = peer.channels = [SimpleNamespace(busy=each) for each in busy]
    idle = BrokerRequests("b", lambda: None)._idle(("127.0.0.1", 9), peer)
    new = (("127.0.0.1", 9), {"client_id": "b", "timeout_ms": TIMEOUT_MS})
    assert idle == (new if given == "new" else None if given is None else channels[given])
    assert len(peer.channels) == made
