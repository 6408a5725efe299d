"""What a process cannot do although it runs: bits that it keeps in its row of the process table, for `mpbroker status`.

The process sets a bit when the trouble begins and clears it when it is over; a successor begins without any.
"""

from enum import IntFlag
from typing import Final


class Trouble(IntFlag):
    """Bits of the field `troubles`."""

    TRACES_NOT_WRITTEN = 1
    LOG_DIRECTORY_OFFLINE = 2
    LOG_CALLS_FAIL = 4
    MANY_RESETS = 8
    APPENDS_REFUSED = 16
    PARTITIONS_OFFLINE = 32


SENTENCES: Final = {
    Trouble.LOG_DIRECTORY_OFFLINE: (
        "the log directory is offline after an I/O error: look at the disk, then start the broker again"
    ),
    Trouble.APPENDS_REFUSED: (
        "appends are refused, because the disk was full at the start: free space, and they are accepted again"
    ),
    Trouble.PARTITIONS_OFFLINE: (
        "partitions are offline: `partition_offline` in the log says which, why, and what brings them back"
    ),
    Trouble.LOG_CALLS_FAIL: "calls on log files fail: look for free space, or for damage; the log says where and why",
    Trouble.TRACES_NOT_WRITTEN: "traces cannot be written: look for free space in the trace directory",
    Trouble.MANY_RESETS: (
        "workers died of faults again and again; after one or two more within a minute the broker ends"
    ),
}
"""Worst first."""
