"""The handler's side of the controller: send a command, park until its answer is here and visible. Request handlers.

Handlers change no topic, config or id block themselves; the controller process alone does. A command carries the fill
number of the request it serves as its operation id, so that the re-run of a request whose handler died finds the
first run's result. Answers arrive through the command table; the doorbell's poke word says when to look.
"""

from __future__ import annotations

from collections.abc import Callable

from mpbroker.metadata.commands import decode_answer, encode_command
from mpbroker.purgatory.delayed_operation import DelayedOperation

#: The controller ring was full, or the command larger than a slot.
REFUSED = None


class ControllerCommands:
    """Commands this handler process has under way: command number → what to do with its answer."""

    def __init__(self, port, metadata) -> None:
        self._port = port
        self._metadata = metadata
        self._waiting: dict[int, Callable] = {}

    def send(self, command, operation: int, on_answer: Callable) -> int | None:
        """Queues a command. Returns its number, or REFUSED when the table is full (bounded; the caller answers)."""
        number = self._port.send(encode_command(command), operation)
        if number < 0:
            return REFUSED
        self._waiting[number] = on_answer
        return number

    def forget(self, number: int) -> None:
        """The waiting request timed out: the answer, when it comes, only frees its slot."""
        self._waiting[number] = _ignore

    def take_answers(self) -> int:
        """Delivers every answer that is there. Returns how many."""
        answers = self._port.answers()
        for number, payload in answers:
            self._metadata.refresh()
            self._waiting.pop(number, _ignore)(decode_answer(payload))
        return len(answers)


def _ignore(answer) -> None:
    """The request it belonged to has been answered already."""


class DelayedCommand(DelayedOperation):
    """A request parked until the controller answered. `build(answer)` makes the response, answer None: timed out."""

    PARKED_KIND = 3
    __slots__ = ("context", "request", "build", "answer", "number")

    def __init__(self, context, request, deadline_ms: int, build: Callable) -> None:
        super().__init__(deadline_ms, ())
        self.context = context
        self.request = request
        self.build = build
        self.answer = None
        self.number: int | None = None

    def try_complete(self) -> bool:
        return self.answer is not None

    def deliver(self, answer) -> None:
        self.answer = answer
        self.force_complete()

    def on_expiration(self) -> None:
        self.context.commands.forget(self.number)

    def on_complete(self) -> None:
        self.context.answer(self.request, self.build(self.answer))


def park_for_controller(context, request, command, timeout_ms: int, build: Callable) -> bool:
    """Sends the command for a request and parks the request. False: refused, nothing was sent or parked."""
    deadline_ms = context.clock.monotonic_ms() + max(timeout_ms, 1)
    delayed = DelayedCommand(context, request, deadline_ms, build)
    context.port.park(request, DelayedCommand.PARKED_KIND)
    delayed.number = context.commands.send(command, request.fill_number, delayed.deliver)
    if delayed.number is REFUSED:
        return False
    context.purgatory.try_complete_else_watch(delayed)
    return True
