"""Requests of the coordinator to other brokers: every one ends, none holds the process for ever, few are remembered."""

import socket
import struct
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from mpbroker.coordinator.transactions import broker_requests
from mpbroker.coordinator.transactions.broker_requests import IDLE_MS, MAX_PEERS, BrokerRequests, _Peer
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
