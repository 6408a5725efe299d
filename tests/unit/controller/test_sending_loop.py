"""The elected controller's sending loop over real sockets: one request in flight for each broker, and one that stands
still delays nobody."""

import select
import socket
import time
from types import SimpleNamespace

import pytest

from mpbroker.cluster.cluster_controller import Outgoing
from mpbroker.controller.agent import address_of
from mpbroker.controller.control_sender import ControlSender
from mpbroker.metadata.cluster_records import ListenerRecord
from mpbroker.protocol.headers import decode_request_header, encode_response_frame
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

STILL, HEALTHY = 1, 2
WANTED = 20


class Logic:
    """Wants some requests sent to each broker, one after the other."""

    def __init__(self):
        self.wanted = dict.fromkeys((STILL, HEALTHY), WANTED)
        self.flying, self.answered, self.failed = set(), [], []

    def targets(self):
        return list(self.wanted)

    def broker(self, broker):
        return SimpleNamespace(record=broker, epoch=7)

    def next_request(self, broker, now_ms):
        assert broker not in self.flying, "two requests in flight"
        if self.wanted[broker] == 0:
            return None
        self.wanted[broker] -= 1
        self.flying.add(broker)
        return Outgoing(broker, 7, UpdateMetadataRequest(controller_id=3))

    def told(self, event):
        assert event.broker_epoch == 7
        self.flying.discard(event.broker)
        (self.failed if event.response is None else self.answered).append(event.broker)


class Receiver:
    """Accepts, and answers what it is asked to answer. `offset`: by how much it errs about the number of a request."""

    offset = 0

    def __init__(self):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = self.listening.getsockname()
        self.connections = []
        self.requests = 0

    def serve(self, answers=True):
        if select.select([self.listening], [], [], 0)[0]:
            self.connections.append(self.listening.accept()[0])
        for connection in list(self.connections):
            if not select.select([connection], [], [], 0)[0]:
                continue
            head = connection.recv(4, socket.MSG_WAITALL)
            if not head:
                self.connections.remove(connection)
                connection.close()
                continue
            length = int.from_bytes(head, "big")
            header = decode_request_header(connection.recv(length, socket.MSG_WAITALL))
            self.requests += 1
            if answers:
                frame = encode_response_frame(
                    6, header.api_version, header.correlation_id + self.offset, UpdateMetadataResponse()
                )
                connection.sendall(frame)

    def close(self):
        for one in (self.listening, *self.connections):
            one.close()


@pytest.fixture
def world():
    receivers = {STILL: Receiver(), HEALTHY: Receiver()}
    logic, lines = Logic(), []
    log = SimpleNamespace(warning=lambda event, about, **fields: lines.append((event, fields["broker"])))
    sender = ControlSender(node_id=3, address=lambda record: receivers[record].address, answered=logic.told, log=log)
    yield SimpleNamespace(receivers=receivers, logic=logic, sender=sender, lines=lines)
    sender.close()
    for receiver in receivers.values():
        receiver.close()


def run(world, until, answers=(HEALTHY,)):
    deadline = time.monotonic() + 10
    while not until():
        assert time.monotonic() < deadline, (world.logic.answered, world.lines)
        world.sender.turn(world.logic, time.monotonic_ns() // 1_000_000, 0)
        for broker, receiver in world.receivers.items():
            receiver.serve(answers=broker in answers)


def test_one_that_stands_still_delays_nobody(world):
    run(world, lambda: world.logic.answered.count(HEALTHY) == WANTED)
    assert world.receivers[STILL].requests == 1, "and hears nothing more until it has answered"
    assert world.logic.answered == [HEALTHY] * WANTED and world.logic.failed == []
    assert len(world.receivers[HEALTHY].connections) == 1


def test_a_connection_that_ends_is_told_and_made_again(world):
    run(world, lambda: world.receivers[STILL].requests == 1)
    world.receivers[STILL].connections.pop().close()
    run(world, lambda: world.logic.answered.count(STILL) == 3, answers=(STILL, HEALTHY))
    assert world.logic.failed == [STILL] and world.lines == [("control_request_failed", STILL)]


def test_one_that_is_gone_is_forgotten(world):
    run(world, lambda: world.receivers[STILL].requests == 1)
    del world.logic.wanted[STILL]
    run(world, lambda: world.logic.answered.count(HEALTHY) == WANTED)
    assert STILL not in world.logic.answered + world.logic.failed
    assert world.receivers[STILL].connections == [], "closed"


@pytest.mark.parametrize(
    ("control", "registered", "port"),
    [
        (None, ("PLAINTEXT", "CONTROL"), 1),  # we have no control plane
        ("CONTROL", ("PLAINTEXT", "CONTROL"), 2),
        ("CONTROL", ("PLAINTEXT",), 1),  # that broker has none
        ("CONTROL", ("OTHER",), None),
    ],
)
def test_where_a_broker_takes_control_requests(control, registered, port):
    listeners = [ListenerRecord(name, "PLAINTEXT", "h", number) for number, name in enumerate(registered, 1)]
    end_points = SimpleNamespace(control=control and SimpleNamespace(listener_name=control), inter_broker="PLAINTEXT")
    found = address_of(SimpleNamespace(listeners=listeners), end_points)
    assert found == (None if port is None else ("h", port))


def test_a_broker_that_is_known_keeps_its_connection(world):
    """However often it is named as a target, and however much it is sent."""
    world.logic.targets = lambda: [HEALTHY, STILL, HEALTHY, HEALTHY]
    run(world, lambda: world.logic.answered.count(HEALTHY) == WANTED)
    assert [len(receiver.connections) for receiver in world.receivers.values()] == [1, 1]


def test_an_answer_to_another_request_ends_the_connection(world, monkeypatch):
    """Of another number, or when nothing was asked."""
    monkeypatch.setattr(Receiver, "offset", 1)
    run(world, lambda: world.logic.failed == [HEALTHY])
    assert world.logic.answered == []
    monkeypatch.setattr(Receiver, "offset", 0)
    run(world, lambda: world.logic.answered.count(HEALTHY) == WANTED - 1)
    [connection] = world.receivers[HEALTHY].connections
    connection.sendall(encode_response_frame(6, 8, 1, UpdateMetadataResponse()))
    run(world, lambda: not world.receivers[HEALTHY].connections)
    assert world.logic.failed == [HEALTHY], "nothing was lost with it"
