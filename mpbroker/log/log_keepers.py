"""The log keepers of all log directories, in one process: each has jobs, checkpoints and a clean stop of its own.

Log keeper process only. A directory that fails stops its own jobs and nobody else's. What the process shows of all of
them together, troubles and gauges, is joined here.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.shm.troubles import Trouble


class OneKeeper(Protocol):
    """What is needed of LogKeeper."""

    def do_work(self) -> None:
        """One turn."""
        ...

    def flush(self) -> None:
        """One turn of its flusher, where that has a thread."""
        ...

    def flush_remaining_ms(self) -> int:
        """Until a flush may be due."""
        ...

    def remaining_ms(self) -> int:
        """Until something is due."""
        ...

    def use_config(self, config: BrokerConfig) -> None:
        """Other settings."""
        ...

    def stop(self) -> bool:
        """The clean stop."""
        ...


class Mover(Protocol):
    """What is needed of ReplicaMover."""

    def do_work(self) -> None:
        """One turn."""
        ...

    def remaining_ms(self) -> int:
        """Until something is due."""
        ...

    def stop(self) -> None:
        """No more copying."""
        ...


class LogKeepers:
    """All of them, in turns. `mover`: of partitions from one log directory to another, where there are several."""

    def __init__(self, keepers: Sequence[OneKeeper], mover: Mover | None = None) -> None:
        self._keepers = keepers
        self._mover = mover

    def do_work(self) -> None:
        """One turn of each."""
        for keeper in self._keepers:
            keeper.do_work()
        if self._mover is not None:
            self._mover.do_work()

    def flush(self) -> None:
        """One turn of each flusher, in the thread that has them (flush_thread.py)."""
        for keeper in self._keepers:
            keeper.flush()

    def flush_remaining_ms(self) -> int:
        """Until a flush may be due in one of them."""
        return min(keeper.flush_remaining_ms() for keeper in self._keepers)

    def remaining_ms(self) -> int:
        """Until something is due in one of them."""
        first_ms = min(keeper.remaining_ms() for keeper in self._keepers)
        return first_ms if self._mover is None else min(first_ms, self._mover.remaining_ms())

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's settings were read again."""
        for keeper in self._keepers:
            keeper.use_config(config)

    def stop(self) -> bool:
        """The clean stop of each, whatever becomes of the others; False if one was not clean."""
        if self._mover is not None:
            self._mover.stop()
        stopped = [keeper.stop() for keeper in self._keepers]
        return all(stopped)


class JoinedSigns:
    """Troubles and gauges of several directories as one: a trouble is there while one directory has it, a gauge is the
    sum."""

    def __init__(self, trouble: Callable[[Trouble, bool], None], set_gauge: Callable[[str, int], None]) -> None:
        self._trouble = trouble
        self._set_gauge = set_gauge
        self._troubled: dict[Trouble, set[int]] = {}
        self._gauges: dict[str, dict[int, int]] = {}

    def trouble_of(self, log_dir: int) -> Callable[[Trouble, bool], None]:
        """What one directory's jobs call."""

        def say(trouble: Trouble, is_there: bool) -> None:
            having = self._troubled.setdefault(trouble, set())
            having.add(log_dir) if is_there else having.discard(log_dir)
            self._trouble(trouble, bool(having))

        return say

    def gauge_of(self, log_dir: int) -> Callable[[str, int], None]:
        """What one directory's jobs call."""

        def say(name: str, value: int) -> None:
            values = self._gauges.setdefault(name, {})
            values[log_dir] = value
            self._set_gauge(name, sum(values.values()))

        return say
