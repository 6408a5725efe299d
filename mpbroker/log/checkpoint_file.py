"""Kafka's checkpoint files: a version, a count, then `topic partition offset` lines. Written by the log keeper and by
recovery, read at start. A new version replaces the old one atomically and durably."""

from __future__ import annotations

import os

from mpbroker.log import disk

VERSION = 0
RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
ALL = RECOVERY_POINT, HIGH_WATERMARK, LOG_START
MAX_BYTES = 64 * 1024 * 1024

Offsets = dict[tuple[str, int], int]  # (topic, partition) → offset


def write_checkpoint(path: str, offsets: Offsets) -> None:
    """Replaces the file: temporary file, fsync, rename, fsync of the directory. OSError passes to the caller."""
    lines = [str(VERSION), str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    replace_durably(path, ("\n".join(lines) + "\n").encode())


def read_checkpoint(path: str) -> Offsets:
    """The offsets, or nothing when the file is missing or cannot be understood: then everything is recovered."""
    try:
        return parse_checkpoint(path)
    except (FileNotFoundError, ValueError):
        return {}


def parse_checkpoint(path: str) -> Offsets:
    """The offsets. FileNotFoundError; ValueError when the content is no checkpoint."""
    text = disk.read_whole(path, MAX_BYTES).decode()
    version, count, *rows = text.splitlines()
    if int(version) != VERSION or int(count) != len(rows):
        raise ValueError(f"version {version} with {len(rows)} of {count} lines")
    return {(topic, int(partition)): int(offset) for topic, partition, offset in (row.split(" ") for row in rows)}


def replace_durably(path: str, content: bytes) -> None:
    """Writes a file so that after a power loss the old or the new content is there, whole."""
    temporary = path + ".tmp"
    disk.write_file(temporary, content, sync_it=True)
    disk.rename(temporary, path)
    disk.sync_directory(os.path.dirname(path) or ".")


def replace_whole(path: str, content: bytes) -> None:
    """Writes a file so that after any crash the old or the new content is there, whole; a power loss may damage it."""
    temporary = path + ".tmp"
    disk.write_file(temporary, content, sync_it=False)
    disk.rename(temporary, path)
