"""The file that says the last stop was a clean one (`.kafka_cleanshutdown`, as Kafka's).

The log keeper writes it as the very last thing of a clean stop; the controller takes it away at start, before anything
is written, so that it never speaks of a later state than the one it was written for.
"""

import json
import os
from typing import Final

from mpbroker.log.checkpoint_file import replace_durably, sync_directory

MARKER: Final = ".kafka_cleanshutdown"
VERSION: Final = 0
NO_BROKER_EPOCH: Final = -1


def write_marker(data_dir: str, broker_epoch: int = NO_BROKER_EPOCH) -> None:
    """Everything in the directory is on disk and whole. OSError passes."""
    content = json.dumps({"version": VERSION, "brokerEpoch": broker_epoch})
    replace_durably(os.path.join(data_dir, MARKER), content.encode())


def take_marker(data_dir: str) -> bool:
    """Whether the last stop was clean; the file is gone afterwards, durably. OSError passes."""
    try:
        os.unlink(os.path.join(data_dir, MARKER))
    except FileNotFoundError:
        return False
    sync_directory(data_dir)
    return True
