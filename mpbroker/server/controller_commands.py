"""The handler's side of the controller: send a command, park until its answer is here and visible. Request handlers.

Handlers change no topic, config or id block themselves; the controller process alone does. A command's operation id
comes from the fill number of the request it serves, so that the re-run of a request whose handler died finds the
first run's result. Answers arrive through the command table; the doorbell's poke word says when to look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mpbroker.channel.handler_port import COMMAND_PARTS
from mpbroker.metadata.commands import CommandTooLarge, decode_answer, encode_command
from mpbroker.purgatory.delayed_operation import DelayedOperation
from mpbroker.server.apis import fail_parked
from mpbroker.shm.layout import ParkedKind

MAX_PARTS = COMMAND_PARTS  # commands one request may need


class ControllerCommands:
    """Commands this handler process has under way: command number → what to do with its answer."""

    def __init__(self, port, metadata) -> None:
        self._port = port
        self._metadata = metadata
        self._waiting: dict[int, Callable] = {}

    def send(self, encoded: bytes, operation: int, on_answer: Callable) -> bool:
        """Queues an encoded command. False: the command table is full (it is bounded; the caller answers)."""
        number = self._port.send(encoded, operation)
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


class DelayedCommand(DelayedOperation):
    """A request parked until the controller answered all its commands.

    `build(answers)` makes the response; a command not answered in time has None in its place.
    """

    PARKED_KIND = ParkedKind.CONTROLLER
    __slots__ = ("answers", "build", "context", "missing", "request")

    def __init__(self, context, request, deadline_ms: int, build: Callable, parts: int) -> None:
        super().__init__(deadline_ms, ())
        self.context = context
        self.request = request
        self.build = build
        self.answers: list = [None] * parts
        self.missing = parts

    def try_complete(self) -> bool:
        return self.missing == 0

    def receiver(self, part: int) -> Callable:
        """What to call with the answer of one part."""

        def deliver(answer) -> None:
            self.answers[part] = answer
            self.missing -= 1
            if self.missing == 0:
                try:
                    self.force_complete()
                except Exception as error:
                    self.on_failure(error)

        return deliver

    def on_expiration(self) -> None:
        self.request.flag_timed_out()

    def on_complete(self) -> None:
        self.context.resume(self.request)
        self.context.answer(self.request, self.build(self.answers))

    def on_failure(self, error: Exception) -> None:
        fail_parked(self.context, self.request, error)


def encode_in_parts(items: Sequence, make: Callable) -> list[tuple[Sequence, bytes]]:
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


def park_for_controller(context, request, parts: Sequence[bytes], timeout_ms: int, build: Callable) -> bool:
    """Sends the encoded commands of a request and parks it. False: none could be sent, nothing is parked."""
    deadline_ms = context.clock.monotonic_ms() + max(timeout_ms, 1)
    delayed = DelayedCommand(context, request, deadline_ms, build, len(parts))
    sent = [
        context.commands.send(encoded, request.fill_number * MAX_PARTS + number, delayed.receiver(number))
        for number, encoded in enumerate(parts)
    ]
    if not any(sent):
        context.count("controller_commands_refused")
        return False
    delayed.missing = sum(sent)
    context.port.park(request, DelayedCommand.PARKED_KIND)
    context.purgatory.try_complete_else_watch(delayed)
    return True
