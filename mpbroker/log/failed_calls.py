"""Says that calls on log files fail: a full disk refuses appends, and nobody but the client would hear of it.

A job of the log keeper. Every process counts its failed calls in shared memory; here the sum is looked at, and one line
a second at most is written while it grows.
"""

from typing import Final

from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.shm.troubles import Trouble

LOOK_EVERY_MS: Final = 1000
WELL_AFTER_MS: Final = 30_000
"""`status` shows the trouble until no call has failed for so long: longer than a health check's interval."""


class FailedCalls:
    """Looks at the sum of all processes. What failed before this process began was said by its predecessor."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._seen = keeper.io_errors()
        self._interval = Interval(keeper.clock, LOOK_EVERY_MS)
        self._failed_at_ms: int | None = None

    def do_work(self) -> None:
        """One turn."""
        if not self._interval.due():
            return
        count = self._keeper.io_errors()
        now_ms = self._keeper.clock.monotonic_ms()
        if count > self._seen:
            self._failed_at_ms = now_ms
            self._keeper.events.error(
                "log_calls_failed",
                directory=self._keeper.data_dir,
                calls=count - self._seen,
                remedy="look for free space on the disk, and for free file descriptors",
            )
        self._seen = count
        failing = self._failed_at_ms is not None and now_ms - self._failed_at_ms < WELL_AFTER_MS
        self._keeper.trouble(Trouble.LOG_CALLS_FAIL, failing)

    def remaining_ms(self) -> int:
        """Until the next look."""
        return self._interval.remaining_ms()
