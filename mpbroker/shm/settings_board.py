"""The board (board.py) of dynamic settings as the controller stored them last, for the supervisor and who shows them.

The controller alone writes it: each of its two layers for brokers is at most 64 KiB, that for groups 256 KiB
(controller/broker_settings.py).
"""

import json

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.shm import board


def create() -> int:
    """An empty board; returns its descriptor."""
    return board.create("mpbroker-settings")


def write(descriptor: int, settings: DynamicSettings) -> None:
    """Put settings up in place of those before."""
    board.write(descriptor, json.dumps([dict(layer) for layer in settings]).encode())


def read(descriptor: int) -> DynamicSettings | None:
    """What is up; None: nothing yet, or it is just being written."""
    document = board.read(descriptor)
    return None if document is None else DynamicSettings(*json.loads(document))
