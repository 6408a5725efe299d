"""What follows when the log directory fails: its partitions are marked offline and the handlers that wait for them are
woken.

A job of the log keeper. The process that met the I/O error has set the directory's bit in shared memory, from which
moment every append and read answers KAFKA_STORAGE_ERROR; the bit stays until the broker is started again.
"""

from typing import Final

from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.shm.layout import PARTITION_ONLINE
from mpbroker.shm.troubles import Trouble

RETRY_MS: Final = 1000


class OfflineDirectory:
    """Looks at the bit each turn."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._said = False
        self._again = Interval(keeper.clock, RETRY_MS)

    @property
    def failed(self) -> bool:
        """Whether the directory is offline."""
        return not self._keeper.log.log_dir_online(self._keeper.log_dir)

    def do_work(self) -> None:
        """One turn."""
        if not self.failed or not self._again.due():
            return
        if not self._said:
            self._keeper.events.error(
                "log_directory_offline",
                directory=self._keeper.data_dir,
                remedy="look at the disk, then start the broker again",
            )
            self._keeper.trouble(Trouble.LOG_DIRECTORY_OFFLINE, True)
            self._said = True
        for partition in self._keeper.partitions.all:
            if self._keeper.state(partition) is not None:
                self._keeper.log.set_flags(partition.ordinal, 0, PARTITION_ONLINE)
                self._keeper.notify(partition.ordinal)
