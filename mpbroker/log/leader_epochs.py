"""The leader epochs a partition's records were written in (KIP-101), from Kafka's leader-epoch-checkpoint.

Pure but for the reading of the file. The loader reads it at start, request handlers for the few requests that ask where
an epoch ended. With one broker the epoch never changes; a directory that Kafka wrote may hold several.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from mpbroker.log import disk
from mpbroker.log.partition_directory import EPOCH_FILE

UNDEFINED: Final = -1
_MAX_BYTES: Final = 1 << 20


class EpochStart(NamedTuple):
    """An epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record; both −1: not known."""

    epoch: int
    end_offset: int


NOT_KNOWN: Final = EpochEnd(UNDEFINED, UNDEFINED)


def read_epochs(directory: str) -> list[EpochStart]:
    """The epochs in rising order; none where the file is missing or cannot be read."""
    try:
        text = disk.read_text(os.path.join(directory, EPOCH_FILE), _MAX_BYTES, "ascii")
        rows = [line.split(" ") for line in text.split("\n")[2:] if line]
        return sorted(EpochStart(int(epoch), int(offset)) for epoch, offset in rows)
    except (FileNotFoundError, ValueError):
        return []


def merged_epochs(written: Sequence[EpochStart], kept: Sequence[EpochStart], log_end: int) -> list[EpochStart]:
    """All that are known: the latest ones as shared memory has them, before them what the file says; without any in
    memory a truncation has cut them all, and those in the file that began at the log's end or beyond it."""
    if not kept:
        return [each for each in written if each.start_offset < log_end]
    older = [each for each in written if each.epoch < kept[0].epoch and each.start_offset < kept[0].start_offset]
    return [*older, *kept]


def end_of_epoch(epochs: Sequence[EpochStart], asked: int, log_end: int) -> EpochEnd:
    """Where the records of epoch `asked` end, as Kafka's leader answers it.

    The latest epoch ends at the log's end. One between two others is answered with the next smaller one and where that
    ended, one before the first with itself and where the first began, one after the last with NOT_KNOWN.
    """
    if not epochs or asked == UNDEFINED or asked > epochs[-1].epoch:
        return NOT_KNOWN
    if asked == epochs[-1].epoch:
        return EpochEnd(asked, log_end)
    following = next(number for number, each in enumerate(epochs) if each.epoch > asked)
    floor = epochs[following - 1].epoch if following else asked
    return EpochEnd(floor, epochs[following].start_offset)
