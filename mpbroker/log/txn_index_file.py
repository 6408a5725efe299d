"""Kafka's .txnindex files, whole: read and written by recovery, which owns the directory then, and read by tools.

While a broker runs, entries are appended by native/log/txn_index.c and read by native/log/aborted.c. A segment without
aborted transactions has no such file.
"""

from __future__ import annotations

import struct
from typing import Final

from mpbroker.log import disk
from mpbroker.log.checkpoint_file import replace_durably
from mpbroker.log.producer_replay import AbortedTxn
from mpbroker.log.set_aside import set_aside

SUFFIX: Final = ".txnindex"
VERSION: Final = 0
ENTRY: Final = struct.Struct(">hqqqq")
MAX_BYTES: Final = 256 * 1024 * 1024


def read_aborted(path: str, *, cut_off: bool = False) -> list[AbortedTxn]:
    """All entries; ValueError: it is no such file. One that is not there has none. `cut_off`: somebody may be writing
    the last one."""
    try:
        content = disk.read_whole(path, MAX_BYTES)
    except FileNotFoundError:
        return []
    if cut_off:
        content = content[: len(content) - len(content) % ENTRY.size]
    if len(content) % ENTRY.size:
        raise ValueError(f"{len(content)} bytes are not a whole number of entries")
    rows = list(ENTRY.iter_unpack(content))
    if any(row[0] != VERSION for row in rows):
        raise ValueError("an entry of an unknown version")
    return [AbortedTxn(*row[1:]) for row in rows]


def write_aborted(path: str, aborted: list[AbortedTxn]) -> None:
    """The file of a segment as it has to be: none, or an empty one, without entries. One that says something else is
    kept aside; an end that was not committed, or is missing, is what a crash leaves."""
    wanted = b"".join(ENTRY.pack(VERSION, *row) for row in aborted)
    there = disk.read_whole(path, MAX_BYTES) if disk.exists(path) else b""
    if there and not (wanted and (there.startswith(wanted) or wanted.startswith(there))):
        set_aside(path)
    if wanted:
        replace_durably(path, wanted)


def is_sound(aborted: list[AbortedTxn], base: int, end: int) -> bool:
    """Whether these can be the entries of a segment from `base` up to `end`: by ascending markers that lie in it."""
    offsets = [entry.last_offset for entry in aborted]
    return offsets == sorted(offsets) and all(base <= offset < end for offset in offsets)
