"""What every job of the log keeper works with, and when it works: handed in, so that a test can step each by itself.

Log keeper only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from mpbroker._native import Log, PartitionState
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.log import disk
from mpbroker.log.data_dir import FIRST
from mpbroker.log.kept_partitions import KeptPartition, Partitions
from mpbroker.log.syncs import InlineSyncs, Syncs
from mpbroker.shm.clock import Began, Clock
from mpbroker.shm.events import Events
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE
from mpbroker.shm.process_table import WaitName
from mpbroker.shm.troubles import Trouble

NEVER_MS: Final = 2**63 - 1
BUSY_RETRY_MS: Final = 1000
SHOWN: Final = PARTITION_EXISTS | PARTITION_ONLINE


def _nothing(*_: object) -> None:
    """The default of callbacks that a test does not need."""


def _always(_: int) -> bool:
    """Where there is one log directory."""
    return True


class Lock(Protocol):
    """A lock of threads."""

    def locked(self) -> bool:
        """Whether somebody has it."""
        ...

    def acquire(self) -> bool:
        """Wait for it and take it."""
        ...

    def release(self) -> None:
        """Give it up."""
        ...


class IoFailures(NamedTuple):
    """Failed calls of one process on log files: how many since its slot was begun, and of the last one errno and
    partition (its row in the partition table; -1: not known)."""

    calls: int
    errno: int
    ordinal: int


class KeeperContext(Struct):
    """The log keeper's surroundings.

    config        BrokerConfig in force (a reload replaces it)
    notify        rings the handlers that wait for a partition's row
    waiting       names what the process waits for in the process table
    trouble       says there what cannot be done, or can again (shm.troubles)
    crash_point   where tests kill the process
    count         counters by name
    set_gauge     gauges by name
    pids          of the broker's processes
    io_failures   which calls on log files have failed, a row for each process
    is_successor  whether a log keeper of this boot ran before
    first_delay_ms  pause before the first round of every job
    pool          where partitions are synced; one after the other unless given
    log_dir       number of the log directory in partition rows, `data_dir` its path
    is_mine       whether a partition's row is one of this log directory
    began         when the broker was started; None: not known
    cleaning      held by the one compaction of all log directories; None: there is one directory
    """

    log: Log
    partitions: Partitions
    clock: Clock
    config: BrokerConfig
    data_dir: str
    events: Events
    notify: Callable[[int], None] = _nothing
    waiting: Callable[[WaitName], None] = _nothing
    trouble: Callable[[Trouble, bool], None] = _nothing
    crash_point: Callable[[str], None] = _nothing
    count: Callable[..., None] = _nothing
    set_gauge: Callable[[str, int], None] = _nothing
    pids: Callable[[], Iterable[int]] = tuple
    io_failures: Callable[[], Sequence[IoFailures]] = tuple
    is_successor: bool = False
    first_delay_ms: int = 0
    pool: Syncs | None = None
    log_dir: int = FIRST
    is_mine: Callable[[int], bool] = _always
    cleaning: Lock | None = None
    began: Began | None = None

    def __post_init__(self) -> None:
        self.pool = self.pool or InlineSyncs(self.log)

    @property
    def syncs(self) -> Syncs:
        """Where partitions are synced."""
        assert self.pool is not None
        return self.pool

    def directory(self, partition: KeptPartition) -> str:
        """Path of a partition's directory."""
        return f"{self.data_dir}/{partition.dir}"

    def state(self, partition: KeptPartition) -> PartitionState | None:
        """The row's state; None when it is offline, cannot be read, or belongs to another partition by now."""
        try:
            state = self.log.state(partition.ordinal)
        except RuntimeError:  # the lock was not to be had, or its holder's damage could not be repaired
            return None
        is_here = state.dir == partition.dir and state.log_dir == self.log_dir
        return state if state.flags & SHOWN == SHOWN and is_here else None

    def is_offline(self, partition: KeptPartition) -> bool:
        """Whether its log is shown, and cannot be served. RuntimeError: the row cannot be read at the moment."""
        state = self.log.state(partition.ordinal)
        return state.flags & SHOWN == PARTITION_EXISTS and (state.dir, state.log_dir) == (partition.dir, self.log_dir)

    def is_absent(self, partition: KeptPartition) -> bool:
        """Whether this broker holds no replica of it: its row is an identity without a log."""
        try:
            return not self.log.state(partition.ordinal).dir
        except RuntimeError:
            return False

    def is_busy(self, partition: KeptPartition) -> bool:
        """Whether somebody, a stopped process perhaps, holds its lock for longer than one waits. A job leaves such a
        partition for later and goes on with the next."""
        return self.log.is_busy(partition.ordinal)

    def io_failed(self, what: str, error: OSError, **fields: object) -> None:
        """A file of our own could not be written. What passes is tried again when it is due;
        what does not takes the directory offline."""
        self.events.error(what, error=error, **fields)
        if disk.condemns(error):
            self.log.fail_log_dir(self.log_dir)


class Interval:
    """Something that is due once per interval; the first time after `first_delay_ms`."""

    def __init__(self, clock: Clock, interval_ms: int, first_delay_ms: int = 0) -> None:
        self._clock = clock
        self.interval_ms = interval_ms
        self._next_ms = clock.monotonic_ms() + first_delay_ms

    def due(self) -> bool:
        """True at most once per interval."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self.interval_ms
        return True

    def postpone(self) -> None:
        """Due one interval from now."""
        self._next_ms = self._clock.monotonic_ms() + self.interval_ms

    def hasten(self) -> None:
        """Due at the next call."""
        self._next_ms = 0

    def remaining_ms(self) -> int:
        """Until it is due."""
        return max(0, self._next_ms - self._clock.monotonic_ms())


class PartitionRound:
    """All partitions once per interval, a bounded number each turn, so that no job holds up the others."""

    def __init__(
        self, clock: Clock, partitions: Partitions, interval_ms: int, first_delay_ms: int = 0, most_a_turn: int = 64
    ) -> None:
        self.interval = Interval(clock, interval_ms, first_delay_ms)
        self._partitions = partitions
        self._most = most_a_turn
        self._left: Sequence[KeptPartition] = ()
        self._again: dict[int, KeptPartition] = {}  # by row
        self._again_interval = Interval(clock, BUSY_RETRY_MS)

    def take(self) -> Sequence[KeptPartition]:
        """The next ones of the round in hand; of a new round if one is due and none is in hand. Before them those that
        were busy."""
        taken = self._take_again()
        if not self._left:
            if not self.interval.due():
                return taken
            self._left = self._partitions.all
        following, self._left = self._left[: self._most], self._left[self._most :]
        return [*taken, *following]

    def again(self, partition: KeptPartition) -> None:
        """It was busy (KeeperContext.is_busy): give it out again in a while."""
        if not self._again:
            self._again_interval.postpone()
        self._again[partition.ordinal] = partition

    def _take_again(self) -> Sequence[KeptPartition]:
        if not self._again or not self._again_interval.due():
            return ()
        living = {partition.topic_id for partition in self._partitions.all}
        waiting, self._again = self._again, {}
        return [partition for partition in waiting.values() if partition.topic_id in living]

    def remaining_ms(self) -> int:
        """Until there is something to take."""
        if self._left:
            return 0
        again_ms = self._again_interval.remaining_ms() if self._again else NEVER_MS
        return min(self.interval.remaining_ms(), again_ms)
