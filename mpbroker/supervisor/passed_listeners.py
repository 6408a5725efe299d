"""Which listeners the acceptor has: those it was forked with, and those passed to it since; supervisor only."""

import socket

from mpbroker.network import listener_passing
from mpbroker.supervisor.sockets import Listening


class PassedListeners:
    """`held`: indexes of listeners that the acceptor has, or may have still although they were removed."""

    def __init__(self) -> None:
        self._channel, self.acceptors_end = listener_passing.channel_pair()
        self.held: set[int] = set()

    def begin(self, listening: Listening) -> dict[int, socket.socket]:
        """What the next acceptor is forked with; nothing that was meant for the one before is left."""
        listener_passing.let_go_of(self._channel)
        while (passed := listener_passing.receive(self.acceptors_end)) is not None:
            if passed.listening is not None:
                passed.listening.close()
        self.held = {one.index for one in listening.present}
        return {index: listening.sockets[index] for index in sorted(self.held)}

    def follow(self, listening: Listening) -> None:
        """Pass on what it has not got, again what it had no descriptor for. To be called when all is published."""
        self.held.difference_update(listener_passing.let_go_of(self._channel))
        for one in listening.present:
            missing = one.index not in self.held
            if missing and listener_passing.pass_on(self._channel, one.index, listening.sockets[one.index]):
                self.held.add(one.index)

    def close(self) -> None:
        """At the end."""
        self._channel.close()
        self.acceptors_end.close()
