"""The controller's end of the command table, and the cluster's controller's: handlers' commands come one at a time,
each is answered where it lies."""

from mpbroker import _native
from mpbroker.shm.layout import SLOT_CONTROLLER


class CommandChannel:
    """Used by the process of that slot alone."""

    def __init__(self, core: _native.Core, slot: int = SLOT_CONTROLLER) -> None:
        self._port = _native.CommandPort(core, slot)

    def recover(self) -> int:
        """Commands a dead controller held are queued again; before the loop begins. Returns how many."""
        return self._port.recover()

    def claim(self, wait_ms: float) -> tuple[int, int, bytes] | None:
        """(number, operation, command); None after wait_ms, a signal, or a bell for another reason."""
        return self._port.claim(wait_ms)

    def complete(self, number: int, answer: bytes, generation_after: int) -> bool:
        """Answer it; the change is visible from that metadata generation on. False: the answer is too long."""
        return self._port.complete(number, answer, generation_after)
