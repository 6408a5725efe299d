"""A board: one document that one process puts up and any process may read; settings_board.py and controller_board.py
are the two there are.

A memfd that every process inherits. Whoever reads it in the middle of a write, or after a writer was killed there,
sees a wrong checksum, and nothing; the writer, or its successor, writes it again.
"""

import os
import struct
from typing import Final

from mpbroker import _native

MAX_BYTES: Final = 1 << 20
_HEAD = struct.Struct("<II")  # bytes of the document, their CRC-32C


def create(name: str) -> int:
    """An empty board; returns its descriptor. `name` shows in /proc alone."""
    return os.memfd_create(name, os.MFD_CLOEXEC)


def write(descriptor: int, document: bytes) -> None:
    """Put a document up in place of the one before; its writer keeps it below MAX_BYTES."""
    assert len(document) <= MAX_BYTES, "whoever writes it bounds it"
    os.pwrite(descriptor, _HEAD.pack(len(document), _native.crc32c(document)) + document, 0)


def read(descriptor: int) -> bytes | None:
    """What is up; None: nothing yet, or it is just being written."""
    content = os.pread(descriptor, _HEAD.size + MAX_BYTES, 0)
    if len(content) < _HEAD.size:
        return None
    size, checksum = _HEAD.unpack_from(content)
    document = content[_HEAD.size : _HEAD.size + size]
    return document if len(document) == size and _native.crc32c(document) == checksum else None
