"""DelayedCommand: a request parked until the controller answers its commands. Lives in the handler that claimed it.

A command's operation id comes from the fill number of its request. When a handler dies and another runs the request
again, the controller recognises the id and gives the first run's result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from mpbroker.channel.handler_port import Request
from mpbroker.metadata.commands import Answer
from mpbroker.protocol.types import Struct
from mpbroker.server.controller_commands import MAX_PARTS
from mpbroker.server.server_context import ParkedRequest, ServerContext
from mpbroker.shm.layout import ParkedKind

#: Makes the response out of one answer for each command, in order; None for one that was not answered in time.
Build: TypeAlias = Callable[[Sequence[Answer | None]], Struct]


class DelayedCommand(ParkedRequest):
    """Completes when every command is answered, or when the request's own timeout has passed."""

    PARKED_KIND = ParkedKind.CONTROLLER
    __slots__ = ("answers", "build", "missing")

    def __init__(self, context: ServerContext, request: Request, deadline_ms: int, build: Build, parts: int) -> None:
        super().__init__(context, request, deadline_ms)
        self.build = build
        self.answers: list[Answer | None] = [None] * parts
        self.missing = parts

    def try_complete(self) -> bool:
        return self.missing == 0

    def receiver(self, part: int) -> Callable[[Answer], None]:
        """What to call with the answer of one part."""

        def deliver(answer: Answer) -> None:
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
        self.context.count("purgatory_expired")

    def on_complete(self) -> None:
        self.context.resume(self.request)
        self.context.answer(self.request, self.build(self.answers))


def park_for_controller(
    context: ServerContext,
    request: Request,
    parts: Sequence[bytes],
    timeout_ms: int,
    build: Build,
    local: bool = False,
) -> bool:
    """Sends the encoded commands of a request and parks it. False: none could be sent, nothing is parked. `local`: they
    are for this broker's own controller process, also in a cluster."""
    deadline_ms = context.clock.monotonic_ms() + max(timeout_ms, 1)
    delayed = DelayedCommand(context, request, deadline_ms, build, len(parts))
    sent = [
        context.commands.send(encoded, request.fill_number * MAX_PARTS + number, delayed.receiver(number), local)
        for number, encoded in enumerate(parts)
    ]
    if not any(sent):
        context.count("controller_commands_refused")
        return False
    delayed.missing = sum(sent)
    context.port.park(request, DelayedCommand.PARKED_KIND)
    context.purgatory.try_complete_else_watch(delayed)
    return True
