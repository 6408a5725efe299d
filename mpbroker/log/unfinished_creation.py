"""`.creating` in the first log directory: the topics whose partitions the controller is making and which its store does
not name yet. Written before their first directory, removed when the store has them.

Only so does a start tell what a controller left that died meanwhile, which goes, from the empty partitions of a topic
that the store has forgotten, an older copy of it say: those stay. Not synced: after a power cut they stay, too.
"""

import os
from contextlib import suppress
from typing import Final

from mpbroker.log import disk

FILE: Final = ".creating"
_MAX_BYTES: Final = 64 << 20


def note(data_dir: str, topic: str, topic_id: bytes) -> None:
    """Partitions of that topic are going to be made. On a disk that cannot take it they stay if the controller dies."""
    with suppress(OSError), disk.opened(os.path.join(data_dir, FILE), os.O_CREAT | os.O_WRONLY | os.O_APPEND) as file:
        disk.write(file, f"{topic} {topic_id.hex()}\n".encode("ascii"))


def forget(data_dir: str) -> None:
    """The store has them, or they were put away."""
    with suppress(OSError):
        disk.unlink(os.path.join(data_dir, FILE))


def noted(data_dir: str) -> dict[str, set[bytes]]:
    """Ids by topic; nothing of what cannot be read."""
    found: dict[str, set[bytes]] = {}
    with suppress(OSError, ValueError):
        for line in disk.read_text(os.path.join(data_dir, FILE), _MAX_BYTES, "ascii").splitlines():
            topic, _, digits = line.partition(" ")
            with suppress(ValueError):
                topic_id = bytes.fromhex(digits)
                found.setdefault(topic, set()).add(topic_id)
    return found
