"""Says that calls on log files fail: a full disk refuses appends, and nobody but the client would hear of it.

A job of the log keeper. Every process counts its failed calls in shared memory and leaves errno and partition of the
last one there; here they are looked at once a second.
"""

import errno
import os
from typing import Final

from mpbroker.log.data_dir import FIRST
from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.shm.troubles import Trouble

LOOK_EVERY_MS: Final = 1000
WELL_AFTER_MS: Final = 30_000
"""`status` shows the trouble until no call has failed for so long: longer than a health check's interval."""
_SPACE: Final = "free space on the disk; appends succeed again as soon as there is some"
_IN_THE_WAY: Final = "something else has the name of a file of the log: move it away"
_DESCRIPTORS: Final = "raise the limit on open files (ulimit -n, LimitNOFILE)"
REMEDIES: Final = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EMFILE: _DESCRIPTORS,
    errno.ENFILE: _DESCRIPTORS,
    errno.ENOMEM: "free memory",
    errno.ENOENT: "a file of the log is gone: put it back, or delete the topic",
    errno.EBADMSG: "a batch is damaged on disk: bring its segment back from a copy, or delete the records up to it",
    errno.ERANGE: "a file of the log is shorter than it was: bring it back from a copy",
    **dict.fromkeys((errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.ELOOP), _IN_THE_WAY),
}
OTHER_REMEDY: Final = "look at the disk; the directory stays offline until the broker is started again"


class FailedCalls:
    """Looks at the failures of all processes. What failed before a successor began was said by its predecessor; what
    failed before the first one began, which comes last of all processes, nobody has said."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._seen = [failures.calls if keeper.is_successor else 0 for failures in keeper.io_failures()]
        self._interval = Interval(keeper.clock, LOOK_EVERY_MS)
        self._failed_at_ms: int | None = None

    def do_work(self) -> None:
        """One turn: a line for each error and partition that is new."""
        if not self._interval.due():
            return
        found: dict[tuple[int, int], int] = {}
        for slot, failures in enumerate(self._keeper.io_failures()):
            calls = failures.calls - self._seen[slot]
            self._seen[slot] = failures.calls
            if calls > 0 and self._is_mine(failures.ordinal):
                key = (failures.errno, failures.ordinal)
                found[key] = found.get(key, 0) + calls
        for (number, ordinal), calls in found.items():
            self._say(number, ordinal, calls)
        now_ms = self._keeper.clock.monotonic_ms()
        if found:
            self._failed_at_ms = now_ms
        failing = self._failed_at_ms is not None and now_ms - self._failed_at_ms < WELL_AFTER_MS
        self._keeper.trouble(Trouble.LOG_CALLS_FAIL, failing)

    def _say(self, number: int, ordinal: int, calls: int) -> None:
        name, partition = errno.errorcode.get(number, "unknown"), self._partition(ordinal)
        self._keeper.events.error(
            "log_calls_failed",
            f"{name} {partition}",
            directory=self._keeper.data_dir,
            partition=partition,
            errno=number,
            error=f"{name}: {os.strerror(number)}",
            calls=calls,
            remedy=REMEDIES.get(number, OTHER_REMEDY),
        )

    def _is_mine(self, ordinal: int) -> bool:
        """What belongs to no partition is said once, for the first log directory."""
        return self._keeper.log_dir == FIRST if ordinal < 0 else self._keeper.is_mine(ordinal)

    def _partition(self, ordinal: int) -> str:
        """Its directory's name; `unknown` when the row has none or belongs to nobody any more."""
        return next((kept.dir for kept in self._keeper.partitions.all if kept.ordinal == ordinal), "unknown")

    def remaining_ms(self) -> int:
        """Until the next look."""
        return self._interval.remaining_ms()
