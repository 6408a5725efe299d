"""The elected controller's connections to the brokers: one loop, one request in flight for each broker, so that a
broker that stands still delays nobody. Cluster controller's process only.

What to send is asked for at the moment of sending, so a broker that was away hears what is wanted now, never what was
wanted then. A connection that fails, or that is silent for 30 s, is closed; the logic waits 100 ms before it says more.
One to a broker that has come back since the request was sent is closed at once, and what it is to know now is sent.
"""

import select
from collections.abc import Callable
from typing import Final

from mpbroker.client.broker_channel import BrokerChannel
from mpbroker.cluster.cluster_controller import ClusterController, Outgoing
from mpbroker.cluster.events import Answered
from mpbroker.metadata.cluster_records import BrokerRecord
from mpbroker.shm.events import Events

IDLE_MS: Final = 500


class ControlSender:
    """`address(record)`: where a broker takes control requests, None: nowhere. `answered(event)`: to the logic."""

    def __init__(
        self,
        *,
        node_id: int,
        address: Callable[[BrokerRecord], tuple[str, int] | None],
        answered: Callable[[Answered], object],
        log: Events,
        crash_point: Callable[[str], object] = lambda name: None,
    ) -> None:
        self._node_id = node_id
        self._address = address
        self._answered = answered
        self._log = log
        self._crash_point = crash_point
        self._channels: dict[int, BrokerChannel] = {}
        self._sent: dict[int, Outgoing] = {}

    def register(self, poll: "select.poll") -> None:
        """What to poll for."""
        for channel in self._channels.values():
            if channel.fileno() >= 0:
                poll.register(channel.fileno(), channel.events())

    def wait_ms(self, now_ms: int) -> int:
        """The longest the loop may wait."""
        waits = [wait for channel in self._channels.values() if (wait := channel.wait_ms(now_ms)) is not None]
        return min([IDLE_MS, *waits])

    def turn(self, controller: ClusterController, now_ms: int, wall_ms: int) -> None:
        """Take answers, then send what is wanted. `wall_ms`: the clock that the logic is given."""
        for broker in list(self._channels):
            self._receive(broker, now_ms)
        targets = controller.targets()
        for broker, sent in list(self._sent.items()):
            live = controller.broker(broker)
            if live is not None and live.epoch != sent.broker_epoch:  # it came back: nobody answers for its last life
                self._channels.pop(broker).close()
                del self._sent[broker]
        for broker in self._channels.keys() - set(targets):
            self._channels.pop(broker).close()
            self._sent.pop(broker, None)
        for broker in targets:
            if broker not in self._sent:
                self._send(controller, broker, now_ms, wall_ms)

    def push(self) -> None:
        """Send what waits for a connection or for room in it, and nothing else."""
        for channel in self._channels.values():
            channel.push()

    def _receive(self, broker: int, now_ms: int) -> None:
        channel = self._channels.get(broker)
        outcome = None if channel is None else channel.turn(now_ms)
        sent = self._sent.get(broker)
        if outcome is None or sent is None:
            return
        self._crash_point("cluster_controller.told")
        del self._sent[broker]
        if outcome.response is None:
            self._log.warning("control_request_failed", str(broker), broker=broker, problem=outcome.problem)
        self._answered(Answered(broker, sent.broker_epoch, outcome.response))

    def _send(self, controller: ClusterController, broker: int, now_ms: int, wall_ms: int) -> None:
        live = controller.broker(broker)
        address = None if live is None else self._address(live.record)
        channel = self._channels.get(broker)
        if channel is not None and channel.address != address:
            self._channels.pop(broker).close()
            channel = None
        if address is None:
            return
        outgoing = controller.next_request(broker, wall_ms)
        if outgoing is None:
            return
        if channel is None:
            channel = self._channels[broker] = BrokerChannel(*address, client_id=str(self._node_id))
        self._sent[broker] = outgoing
        channel.send(outgoing.request, now_ms)
        self._crash_point("cluster_controller.sent")

    def close(self) -> None:
        """The term is over."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._sent.clear()
