"""The controller's end of an InProcessBroker's command table: a test reads the commands and gives the answers."""

from __future__ import annotations

from mpbroker.channel.command_channel import CommandChannel
from mpbroker.metadata.commands import Answer, Command, decode_command, encode_answer
from mpbroker.shm.layout import SLOT_CONTROLLER
from tests.harness.in_process_broker import InProcessBroker


class InProcessController:
    """`take` and `answer` are the two halves of the real controller's loop."""

    def __init__(self, broker: InProcessBroker, slot: int = SLOT_CONTROLLER) -> None:
        self._broker = broker
        self._channel = CommandChannel(broker.core, slot)

    def take(self) -> tuple[int, Command] | None:
        """The next command with its number; None when there is none."""
        claimed = self._channel.claim(0)
        return None if claimed is None else (claimed[0], decode_command(claimed[2]))

    def answer(self, number: int, answer: Answer) -> None:
        """Answers a command and lets the handler deliver it."""
        assert self._channel.complete(number, encode_answer(answer), self._broker.core.metadata_generation)
        self._broker.step()

    def serve(self, *answers: Answer) -> list[Command]:
        """Answers the commands that wait, in order; there must be as many. Returns them."""
        commands = []
        for answer in answers:
            claimed = self.take()
            assert claimed is not None, f"{len(commands)} commands, {len(answers)} answers"
            commands.append(claimed[1])
            self.answer(claimed[0], answer)
        assert self.take() is None
        return commands
