"""DelayedOperation and its purgatory: try, else watch keys and wait for a deadline.

Lives in one request handler process, which alone writes it: a parked request stays claimed by its handler in shared
memory, so no other process completes it. Keys are small integers; the caller says which keys moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mpbroker.purgatory.timing_wheel import TimerEntry, TimingWheel


class DelayedOperation:
    """One parked request. Subclasses say when it is complete and what then happens.

    `try_complete` returns True when the operation can be finished now; `on_complete` then runs exactly once, also after
    expiry; `on_expiration` runs before it when the deadline passed first.
    """

    __slots__ = ("completed", "deadline_ms", "keys", "timer")

    def __init__(self, deadline_ms: int, keys: Iterable[int]) -> None:
        self.deadline_ms = deadline_ms
        self.keys = tuple(keys)
        self.completed = False
        self.timer: TimerEntry | None = None

    def try_complete(self) -> bool:
        raise NotImplementedError

    def on_complete(self) -> None:
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Nothing by default: the answer itself shows the timeout."""

    def on_failure(self, error: Exception) -> None:
        """One of the others raised; the operation is over. The loop that runs the purgatory must not end for it."""
        raise error

    def force_complete(self) -> bool:
        """Finishes the operation unless it is finished; returns whether this call did it."""
        if self.completed:
            return False
        self.completed = True
        if self.timer is not None:
            self.timer.cancel()
        self.on_complete()
        return True


class DelayedOperationPurgatory:
    """The operations one handler has parked.

    `arm(key)` is called whenever an operation starts, or goes on, watching a key: it must make later changes of that
    key visible (the watcher bit of a partition) *before* the operation is retried, or a change between the
    first try and the wait would be missed.
    """

    def __init__(self, now_ms: int, arm: Callable[[int], None] = lambda key: None) -> None:
        self._wheel = TimingWheel(now_ms)
        self._watchers: dict[int, dict[int, DelayedOperation]] = {}
        self._arm = arm

    def __len__(self) -> int:
        return len({id(op) for watched in self._watchers.values() for op in watched.values()})

    def try_complete_else_watch(self, operation: DelayedOperation) -> bool:
        """Completes the operation now (True) or parks it until a key moves or its deadline passes (False).

        What the operation raises here is the caller's; it is not watched then."""
        if operation.try_complete():
            operation.force_complete()
            return True
        for key in operation.keys:
            self._watchers.setdefault(key, {})[id(operation)] = operation
            self._arm(key)
        try:
            completed = operation.try_complete()
        except Exception:
            self._forget(operation)
            raise
        if completed:
            self._finish(operation)
            return True
        operation.timer = self._wheel.add(operation.deadline_ms, lambda: self._expire(operation))
        return False

    def check(self, keys: Iterable[int]) -> int:
        """Retries the operations watching these keys; those still incomplete watch again. Returns how many finished."""
        completed = 0
        for key in keys:
            for operation in list(self._watchers.get(key, {}).values()):
                completed += self._retry(operation)
        return completed

    def check_hashed(self, hashes: Iterable[int], modulus: int) -> int:
        """As `check`, for callers that know the moved keys only modulo a number; a needless retry does no harm."""
        moved = set(hashes)
        return self.check([key for key in list(self._watchers) if key % modulus in moved])

    def check_all(self) -> int:
        """Retries every operation: after a recovery, or when the set of moved keys overflowed."""
        return self.check(list(self._watchers))

    def _retry(self, operation: DelayedOperation) -> bool:
        if operation.completed:
            return False
        try:
            if not operation.try_complete():
                for key in operation.keys:
                    self._arm(key)
                if not operation.try_complete():
                    return False
            self._finish(operation)
        except Exception as error:
            self._fail(operation, error)
        return True

    def advance(self, now_ms: int) -> int:
        """Expires what is due. Returns how many operations expired."""
        return self._wheel.advance(now_ms)

    @property
    def has_deadlines(self) -> bool:
        """Whether `advance` may have anything to do; cheap."""
        return self._wheel.pending > 0

    def next_due_ms(self) -> int | None:
        return self._wheel.next_due_ms()

    def _expire(self, operation: DelayedOperation) -> None:
        if operation.completed:
            return
        try:
            operation.on_expiration()
            self._finish(operation)
        except Exception as error:
            self._fail(operation, error)

    def _fail(self, operation: DelayedOperation, error: Exception) -> None:
        self._forget(operation)
        operation.completed = True
        if operation.timer is not None:
            operation.timer.cancel()
        operation.on_failure(error)

    def _finish(self, operation: DelayedOperation) -> None:
        self._forget(operation)
        operation.force_complete()

    def _forget(self, operation: DelayedOperation) -> None:
        for key in operation.keys:
            watched = self._watchers.get(key)
            if watched is not None:
                watched.pop(id(operation), None)
                if not watched:
                    del self._watchers[key]
