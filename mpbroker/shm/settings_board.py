"""The board: dynamic settings of brokers as the controller stored them last, for the supervisor and who shows settings.

A memfd that every process inherits; the controller alone writes it, and its successor writes it again. Whoever reads it
in the middle of a write, or after a writer was killed there, sees a wrong checksum, and nothing.
"""

import json
import os
import struct
from typing import Final

from mpbroker import _native
from mpbroker.config.dynamic import DynamicSettings

MAX_BYTES: Final = 1 << 20
_HEAD = struct.Struct("<II")  # bytes of the document, their CRC-32C


def create() -> int:
    """An empty board; returns its descriptor."""
    return os.memfd_create("mpbroker-settings", os.MFD_CLOEXEC)


def write(descriptor: int, settings: DynamicSettings) -> None:
    """Put settings up in place of those before."""
    document = json.dumps([dict(layer) for layer in settings]).encode()
    assert len(document) <= MAX_BYTES, "layers that the controller lets grow to 64 and 256 KiB"
    os.pwrite(descriptor, _HEAD.pack(len(document), _native.crc32c(document)) + document, 0)


def read(descriptor: int) -> DynamicSettings | None:
    """What is up; None: nothing yet, or it is just being written."""
    content = os.pread(descriptor, _HEAD.size + MAX_BYTES, 0)
    if len(content) < _HEAD.size:
        return None
    size, checksum = _HEAD.unpack_from(content)
    document = content[_HEAD.size : _HEAD.size + size]
    if len(document) != size or _native.crc32c(document) != checksum:
        return None
    return DynamicSettings(*json.loads(document))
