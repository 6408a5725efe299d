"""Makes the reserve file and, after a start on a full disk, lets appends in again once there is room.

A job of the log keeper; reserve_file.py says what the reserve is for. After a start that gave it up the controller has
set the directory's bit in shared memory: appends are answered with KAFKA_STORAGE_ERROR, reads and retention go on. What
groups and transactions write is little, and goes into what the reserve left, until that is nearly spent.
"""

from typing import Final

from mpbroker.log import reserve_file
from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.log.unusable import free_bytes
from mpbroker.shm.troubles import Trouble

LOOK_EVERY_MS: Final = 1000


class ReserveKeeper:
    """Looks once a second: a statvfs, and only while the reserve is missing."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._interval = Interval(keeper.clock, LOOK_EVERY_MS)
        self._refusing = False
        self._spent = False
        self._failed = False

    def do_work(self) -> None:
        """One turn."""
        if not self._interval.due():
            return
        refused = not self._keeper.log.takes_appends(self._keeper.log_dir)
        if refused and not self._refusing:
            self._say_refused()
        if (reserve_file.is_whole(self._keeper.data_dir) or self._make()) and refused:
            self._keeper.log.refuse_appends(self._keeper.log_dir, False)
            self._keeper.trouble(Trouble.APPENDS_REFUSED, False)
            self._keeper.events.info("appends_accepted_again", directory=self._keeper.data_dir)
            refused = False
        self._refusing = refused
        self._spent = refused and self._spare_the_rest()

    def remaining_ms(self) -> int:
        """Until the next look."""
        return self._interval.remaining_ms()

    def _say_refused(self) -> None:
        self._keeper.trouble(Trouble.APPENDS_REFUSED, True)
        self._keeper.events.warning(
            "appends_refused",
            directory=self._keeper.data_dir,
            free_bytes=free_bytes(self._keeper.data_dir),
            reason="the disk was full at the start; consumers read and retention deletes",
            remedy=f"free {reserve_file.MIN_FREE_BYTES >> 20} MiB on the disk; appends are then accepted again",
        )

    def _spare_the_rest(self) -> bool:
        """Whether nobody may write any more: deleting, a stop and the next start need what is left."""
        left = free_bytes(self._keeper.data_dir)
        spent = left is not None and left < reserve_file.MIN_LEFT_BYTES
        self._keeper.log.refuse_appends(self._keeper.log_dir, True, spent)
        if spent and not self._spent:
            self._keeper.events.warning(
                "group_appends_refused",
                directory=self._keeper.data_dir,
                free_bytes=left,
                remedy=f"free {reserve_file.MIN_FREE_BYTES >> 20} MiB on the disk",
            )
        return spent

    def _make(self) -> bool:
        try:
            made = reserve_file.make(self._keeper.data_dir)
        except OSError as error:  # without a reserve all goes on, but for a start on a full disk
            if not self._failed:
                self._keeper.events.warning("reserve_not_made", directory=self._keeper.data_dir, error=error)
            self._failed = True
            return False
        self._failed = False
        return made
