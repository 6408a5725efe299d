"""How many processors and handlers there are to be, and which come or go for that; supervisor only.

A slot that is left keeps its listener for as long as there is one: what its last process passed back to the acceptor
may still lie in their socketpair. All processors of a listener that was removed go; when the acceptor has let go of it,
too, its places are anybody's.
"""

from typing import NamedTuple

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.shm.process_context import BoundListener
from mpbroker.supervisor.process_types import ProcessPlan, process_type
from mpbroker.supervisor.workers import Worker, Workers


class Room(NamedTuple):
    """How many of a kind the shared memory has places for."""

    processors: int
    handlers: int


class Changes(NamedTuple):
    """`come`: processes to fork; `go`: workers to send away; `stay`: those that were to leave and are wanted again."""

    come: list[ProcessPlan]
    go: list[Worker]
    stay: list[Worker]
    short: dict[str, int]  # by role: how many found no place

    def __bool__(self) -> bool:
        return bool(self.come or self.go or self.stay)


class Staffing:
    """What the configuration wants beside what there is."""

    def __init__(self, workers: Workers, room: Room) -> None:
        self._workers = workers
        self._room = room
        self._listener_of: dict[int, int] = {}  # places that ever had a processor
        self._note_places()

    def changes(self, config: BrokerConfig, listeners: tuple[BoundListener, ...]) -> Changes:
        """Nothing where the numbers are right."""
        changes = Changes([], [], [], {})
        for listener in listeners:
            if listener.removed:
                changes.go.extend(
                    each for each in self._workers.all if each.plan.listener == listener.index and not each.leaving
                )
                continue
            self._balance(changes, "processor", config.processors(listener.name), listener.index)
        self._balance(changes, "handler", config.num_io_threads + config.reserved_handlers, None)
        return changes

    def _note_places(self) -> None:
        for worker in self._of("processor"):
            self._listener_of[worker.plan.index] = worker.plan.listener or 0

    def processors(self) -> dict[int, list[int]]:
        """Places of each listener's processors, also those that were left: an acceptor looks for what was passed
        back there before it died."""
        found: dict[int, list[int]] = {}
        for index, listener in sorted(self._listener_of.items()):
            found.setdefault(listener, []).append(index)
        return found

    def forget(self, listener: int) -> list[int]:
        """Places of a listener that was removed, has no process left and is not the acceptor's any more; they are
        anybody's from now on."""
        places = [index for index, owner in self._listener_of.items() if owner == listener]
        for index in places:
            del self._listener_of[index]
        return places

    def left_places(self) -> list[int]:
        """Places of processors that are there no more."""
        present = {worker.plan.index for worker in self._of("processor")}
        return [index for index in self._listener_of if index not in present]

    def _of(self, role: str) -> list[Worker]:
        return [worker for worker in self._workers.all if worker.plan.type.role == role]

    def _balance(self, changes: Changes, role: str, wanted: int, listener: int | None) -> None:
        mine = sorted(
            (worker for worker in self._of(role) if worker.plan.listener == listener),
            key=lambda worker: worker.plan.index,
        )
        present = [worker for worker in mine if not worker.leaving]
        changes.go.extend(present[wanted:])
        missing = max(0, wanted - len(present))
        free = self._free(changes, role, listener)[:missing]
        changes.come.extend(ProcessPlan(process_type(role), index, listener) for index in free)
        for index in free:
            if listener is not None:
                self._listener_of[index] = listener
        leaving = [worker for worker in mine if worker.leaving]
        changes.stay.extend(leaving[: missing - len(free)])
        short = missing - len(free) - len(leaving)
        if short > 0:
            changes.short[role] = changes.short.get(role, 0) + short

    def _free(self, changes: Changes, role: str, listener: int | None) -> list[int]:
        """Indexes that nobody has, those first that were of this listener."""
        taken = {worker.plan.index for worker in self._of(role)}
        taken |= {plan.index for plan in changes.come if plan.type.role == role}
        if listener is None:
            return [index for index in range(self._room.handlers) if index not in taken]
        homes = self._listener_of
        free = [p for p in range(self._room.processors) if p not in taken and homes.get(p, listener) == listener]
        return sorted(free, key=lambda index: (index not in homes, index))
