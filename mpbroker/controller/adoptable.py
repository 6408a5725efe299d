"""Which directories are partitions beyond doubt, and what becomes of partitions that are missing between them: asked by
`mpbroker adopt`, in the command's process, and by a start that names a stray.

A folder of somebody's may be called `photos-2024`. Taken for a partition it would give a topic of 2,025 partitions, and
from some number on a store for which the broker's tables have no room.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from mpbroker.log import disk, partition_directory
from mpbroker.log.checkpoint_file import HIGH_WATERMARK, RECOVERY_POINT, read_checkpoint
from mpbroker.log.partition_directory import EPOCH_FILE, FoundDirectory
from mpbroker.log.segment_recovery import BATCH_BEGIN, INDEX, LOG, MAGIC

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log")
_SHOWN: Final = 20


def is_partition(data_dir: str, found: FoundDirectory) -> bool:
    """By its partition.metadata, or by a segment that begins with a batch, has its index or the partition's epochs
    beside it. What cannot be read is none."""
    if found.topic_id is not None:
        return True
    path = os.path.join(data_dir, found.name)
    with suppress(OSError):
        names = set(disk.names(path))
        bases = [match[1] for name in sorted(names) if (match := _SEGMENT.fullmatch(name))]
        return any(f"{base}{INDEX}" in names or EPOCH_FILE in names or _has_batch(path, base) for base in bases)
    return False


def _has_batch(path: str, base: str) -> bool:
    """Whether a file begins as a segment of that name does."""
    segment = os.path.join(path, base + LOG)
    if not os.path.isfile(segment):
        return False
    begin = disk.read_whole(segment, BATCH_BEGIN.size)
    if len(begin) < BATCH_BEGIN.size:
        return False
    offset, length, _epoch, magic = BATCH_BEGIN.unpack(begin)
    return bool(magic == MAGIC and offset >= int(base) and length > 0)


def was_made_anew(data_dir: str, name: str) -> bool:
    """Whether a directory holds an empty log from offset 0 on, as one does that was made because another one of that
    name was away; nothing is lost when that one takes its place. (A log that retention emptied begins higher.)"""
    names = disk.names(os.path.join(data_dir, name))
    if not names:
        return True
    bases = {match[1] for each in names if (match := _SEGMENT.fullmatch(each))}
    return bases <= {"0" * 20} and partition_directory.is_unused(data_dir, name)


def shown(numbers: Iterable[int]) -> str:
    """Partition numbers for people, runs of them as `4-7`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ", ".join([*texts[:_SHOWN], *(["…"] if len(texts) > _SHOWN else [])])


class Written:
    """What the checkpoints of a data directory say of partitions, whether these are there or not."""

    def __init__(self, data_dir: str) -> None:
        names = (RECOVERY_POINT, HIGH_WATERMARK)
        self._files = [read_checkpoint(os.path.join(data_dir, name)) for name in names]

    def up_to(self, topic: str, partition: int) -> int:
        """The highest offset named for it; 0: none. Above 0 a partition whose directory is missing is offline."""
        return max(0, *(offsets.get((topic, partition), 0) for offsets in self._files))


def begin_empty(data_dir: str, topic: str, partition: int, topic_id: bytes, base: int) -> None:
    """The directory of a partition of which nothing is left, with an empty log: offsets go on where it ended."""
    name = partition_directory.directory_name(topic, partition)
    partition_directory.prepare(data_dir, name, topic_id)
    with disk.opened(os.path.join(data_dir, name, f"{base:020d}{LOG}"), os.O_CREAT | os.O_WRONLY | os.O_EXCL):
        pass
