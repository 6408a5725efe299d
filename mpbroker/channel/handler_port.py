"""The request handler's end of the request path; one per handler process, which alone uses it.

`serve_or_claim` serves what the native path can and returns the first other request (control plane first); `answer*`
ends it, `park` keeps it for later. Beside the requests the port carries the handler's commands to the controller and
the bells that say which parked requests to look at again.
"""

from typing import Final

from mpbroker import _native
from mpbroker._native import COMMAND_FULL, COMMAND_PARTS, COMMAND_TOO_LONG, Cell, Request
from mpbroker.shm.layout import SLOT_CONTROLLER
from mpbroker.shm.process_context import ProcessContext

__all__ = ["COMMAND_FULL", "COMMAND_PARTS", "COMMAND_TOO_LONG", "MAX_ATTEMPTS", "Cell", "HandlerPort", "Request"]

MAX_ATTEMPTS: Final = 2
"""A request with so many `attempts` killed two handlers while they executed it: answer an error and close."""


class HandlerPort(_native.HandlerPort):
    """All of a handler's shared memory. What it inherits: serve_or_claim, answer, allocate, answer_extent, answer_none,
    answer_close, set_phase, ensure_cells, cell, park, resume, watch, take_dirty, recover, idle."""

    def __init__(self, core: _native.Core, index: int) -> None:
        self._commands = _native.CommandPort(core, core.handler_slot(index))

    def send(self, command: bytes, operation: int, target: int = SLOT_CONTROLLER) -> int:
        """A command to the controller, or to the process of another slot: its number, or COMMAND_FULL,
        COMMAND_TOO_LONG. `operation`: the fill number of the request it serves times COMMAND_PARTS plus a part, or 0
        for none; sent again under the same one, a command is found, not repeated."""
        return self._commands.send(command, operation, target)

    def answers(self) -> list[tuple[int, bytes]]:
        """The controller's answers to this process that came since the last call: (number, bytes)."""
        arrived = []
        for number, _operation, answer, _generation in self._commands.answers():
            self._commands.free(number)
            arrived.append((number, answer))
        return arrived


def open_handler_port(ctx: ProcessContext) -> HandlerPort:
    """The port of a handler process or of the coordinator, from its ProcessContext."""
    return HandlerPort(ctx.core, ctx.core.coordinator if ctx.role == "coordinator" else ctx.index)
