"""Commands from a request handler to the controller, and their answers. Each handler process has its own table.

Handlers change no topic, config or block of producer ids themselves; only the controller process does. Answers arrive
through the command table in shared memory; the doorbell's poke word says when to look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from mpbroker.channel.handler_port import COMMAND_PARTS, HandlerPort
from mpbroker.metadata.commands import Answer, Command, CommandTooLarge, decode_answer, encode_command
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.shm.layout import SLOT_CLUSTER_CONTROLLER, SLOT_CONTROLLER

MAX_PARTS = COMMAND_PARTS  # commands one request may need
OnAnswer: TypeAlias = Callable[[Answer], None]
T = TypeVar("T")


class ControllerCommands:
    """Commands this handler process has under way: command number → what to do with its answer."""

    def __init__(self, port: HandlerPort, metadata: MetadataCache, in_cluster: bool = False) -> None:
        self._target = SLOT_CLUSTER_CONTROLLER if in_cluster else SLOT_CONTROLLER
        self._port = port
        self._metadata = metadata
        self._waiting: dict[int, OnAnswer] = {}

    def send(self, encoded: bytes, operation: int, on_answer: OnAnswer, local: bool = False) -> bool:
        """Queues an encoded command. False: the command table is full (it is bounded; the caller answers). `local`: for
        this broker's own controller process, also in a cluster."""
        number = self._port.send(encoded, operation, SLOT_CONTROLLER if local else self._target)
        if number < 0:
            return False
        self._waiting[number] = on_answer
        return True

    def take_answers(self) -> int:
        """Delivers every answer that is there. Returns how many."""
        if not self._waiting:
            return 0
        answers = self._port.answers()
        for number, payload in answers:
            self._metadata.refresh()
            on_answer = self._waiting.pop(number, None)
            if on_answer is not None:
                on_answer(decode_answer(payload))
        return len(answers)


def encode_in_parts(items: Sequence[T], make: Callable[[Sequence[T]], Command]) -> list[tuple[Sequence[T], bytes]]:
    """Encodes `make(items)`, halved until every part fits its slot: [(items of the part, bytes), …].

    Raises CommandTooLarge when a single item is too large or there are too many parts.
    """
    try:
        return [(items, encode_command(make(items)))]
    except CommandTooLarge:
        if len(items) < 2:
            raise
    middle = len(items) // 2
    parts = encode_in_parts(items[:middle], make) + encode_in_parts(items[middle:], make)
    if len(parts) > MAX_PARTS:
        raise CommandTooLarge(f"one request would take {len(parts)} controller commands, allowed are {MAX_PARTS}")
    return parts
