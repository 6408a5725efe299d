"""A broker that came back is told what holds now; nobody waits for the answer of its last life."""

import select
import socket
from types import SimpleNamespace

from mpbroker.cluster.cluster_controller import Outgoing
from mpbroker.controller.control_sender import ControlSender
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest

WALL_MS = 1_800_000_000_000


class Controller:
    """One broker, and what it is to be told."""

    def __init__(self):
        self.epoch, self.asked = 5, 0

    def targets(self):
        return [2]

    def broker(self, broker):
        return SimpleNamespace(epoch=self.epoch, record=None)

    def next_request(self, broker, now_ms):
        assert now_ms == WALL_MS, "the clock that the logic is given everywhere else: it compares"
        self.asked += 1
        return Outgoing(broker, self.epoch, UpdateMetadataRequest(broker_epoch=self.epoch))


def accepted(listener):
    assert select.select([listener], [], [], 5)[0]
    return listener.accept()[0]


def test_a_stopped_connection_ends_when_the_broker_comes_back():
    controller, answers = Controller(), []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        sender = ControlSender(node_id=1, address=lambda record: address, answered=answers.append, log=None)
        sender.turn(controller, 0, WALL_MS)
        with accepted(listener) as stopped:
            sender.turn(controller, 1, WALL_MS)
            assert controller.asked == 1, "one in flight"
            controller.epoch = 9
            sender.turn(controller, 2, WALL_MS)
            assert controller.asked == 2
            stopped.settimeout(5)
            while stopped.recv(4096):  # what was sent, then the end
                pass
        with accepted(listener):
            sender.turn(controller, 3, WALL_MS)
        assert answers == [], "the logic forgot the old request itself"
        sender.close()
