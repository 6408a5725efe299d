"""Which transactions are open in the log of a partition that nobody serves: asked by `mpbroker adopt`, in its process.
Only reads.
"""

import os
import re
from typing import Final

from mpbroker._native import scan_segment
from mpbroker.log import disk
from mpbroker.log.producer_replay import ProducerReplay
from mpbroker.log.producer_snapshot import ProducerEntry, newest_snapshot

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log")
_NO_END: Final = 2**63 - 1


def open_transactions(path: str) -> list[ProducerEntry]:
    """Producers that have one open in a partition's log, in the order of their begin; as a start will find them."""
    names = disk.names(path)
    bases = sorted(int(match[1]) for name in names if (match := _SEGMENT.fullmatch(name)))
    start, entries = newest_snapshot(path, _NO_END)
    replay = ProducerReplay(start, entries)
    for base, following in zip(bases, [*bases[1:], _NO_END], strict=True):
        if following > start:
            with disk.opened(os.path.join(path, f"{base:020d}.log")) as log:
                scan_segment(log, -1, -1, base, 4096, False, replay.take)
    return sorted(replay.ongoing(), key=lambda producer: producer.txn_first)
