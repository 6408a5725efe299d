"""Auto-creation: topics created because a client asked for them (auto.create.topics.enable). Request handlers.

The request is answered at once, as Kafka does, without waiting for the controller; the client asks again. A name for
which this process has a command under way is not sent again; the controller refuses duplicates of other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.metadata.commands import CommandTooLarge, CreateTopics
from mpbroker.server.controller_commands import ControllerCommands, encode_in_parts
from mpbroker.server.internal_topics import new_topic

MAX_UNDER_WAY = 1000  # names; beyond it the client's next try sends the command
NOBODY_ASKS_AGAIN = 0  # operation id


class AutoCreation:
    """The names this handler process has asked the controller for."""

    def __init__(self, commands: ControllerCommands, config: Callable[[], BrokerConfig]) -> None:
        self._commands = commands
        self._config = config
        self._under_way: set[str] = set()

    def create(self, names: list[str]) -> bool:
        """Asks for topics with the broker's default partitions and replication. False: some could not be sent."""
        wanted = [name for name in names if name not in self._under_way][: MAX_UNDER_WAY - len(self._under_way)]
        if not wanted:
            return True
        try:
            parts = encode_in_parts(wanted, self._command)
        except CommandTooLarge:
            return False
        sent = [self._send(part, encoded) for part, encoded in parts]  # each of them, whatever became of the others
        return all(sent)

    def _command(self, names: Sequence[str]) -> CreateTopics:
        return CreateTopics(topics=[new_topic(name, self._config()) for name in names], forward=True)

    def _send(self, names: Sequence[str], encoded: bytes) -> bool:
        self._under_way.update(names)
        if self._commands.send(encoded, NOBODY_ASKS_AGAIN, lambda answer: self._under_way.difference_update(names)):
            return True
        self._under_way.difference_update(names)
        return False
