"""Writes one dump of the dash-cam: closed segments and names, from a directory in memory into one on disk.

The tracer alone, a piece a turn, so that lanes are drained in between. A file is there under its name when all of it
is; a tracer that died leaves the rest to its successor. `dump.json`, written last, says why and whether something is
missing.
"""

import contextlib
import json
import os
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from mpbroker.trace import dictionary, dump_cause, manifest, segment
from mpbroker.trace.dump_cause import Cause

FILE = "dump.json"
PATTERN = "dump-*"
PART_SUFFIX = ".part"
PIECE_BYTES = 1 << 20
MAX_CAUSES = 64
_MAX_OF_A_SECOND = 1000


class _Copy(NamedTuple):
    """A file under way."""

    name: str
    source: int
    target: int
    size: int


class Dump:
    """`add` names what to copy, `step` copies some of it, `complete` ends it."""

    def __init__(self, memory: Path, target: Path, causes: list[Cause], until_ns: int = 0) -> None:
        self.memory = memory
        self.target = target
        self.causes = causes
        self.until_ns = until_ns
        self.lost = 0
        self._waiting: deque[str] = deque()
        self._taken: set[str] = {path.name for path in target.glob(f"*{segment.SUFFIX}")}
        self._copy: _Copy | None = None
        self._copied = 0

    @property
    def is_busy(self) -> bool:
        """Whether something waits to be copied."""
        return self._copy is not None or bool(self._waiting)

    def join(self, cause: Cause) -> None:
        """One more reason for it."""
        if len(self.causes) < MAX_CAUSES:
            self.causes.append(cause)

    def add_closed(self) -> None:
        """Every closed segment that is not in it yet; an open one comes when it is closed."""
        for row in manifest.read(self.memory):
            self._add(row.file)

    def add_all(self) -> None:
        """Every segment there is, also one that cannot be read: nobody writes there any more."""
        for path in sorted(self.memory.glob(f"*{segment.SUFFIX}")):
            self._add(path.name)

    def step(self, most_bytes: int = PIECE_BYTES) -> int:
        """Copy up to so many bytes; returns how many. OSError: the rest waits."""
        left = most_bytes
        while left > 0 and (self._copy is not None or self._begin_next()):
            assert self._copy is not None
            moved = os.sendfile(self._copy.target, self._copy.source, self._copied, min(left, self._rest()))
            self._copied += moved
            left -= moved
            if not self._rest() or not moved:
                self._end_copy()
        return most_bytes - left

    def complete(self) -> None:
        """Names, manifest and what it is about; nothing may wait any more. OSError: not yet, try again."""
        assert not self.is_busy
        for path in self.memory.glob(dictionary.PATTERN):
            self._waiting.append(path.name)
        while self.step():
            pass
        rows = manifest.rebuild(self.target)
        said = {
            "causes": [cause.document() for cause in self.causes],
            "segments": len(rows),
            "records": sum(row.records for row in rows),
            "segments_lost": self.lost,
        }
        _write_synced(self.target / FILE, json.dumps(said).encode())

    def abandon(self) -> None:
        """Give descriptors back; what was copied stays."""
        if self._copy is not None:
            for file in self._copy.source, self._copy.target:
                with contextlib.suppress(OSError):
                    os.close(file)
            self._copy = None

    def _add(self, name: str) -> None:
        if name not in self._taken:
            self._taken.add(name)
            self._waiting.append(name)

    def _rest(self) -> int:
        return self._copy.size - self._copied if self._copy is not None else 0

    def _begin_next(self) -> bool:
        """Open the next file that is there still; False when none waits."""
        while self._waiting:
            name = self._waiting[0]
            try:
                source = os.open(self.memory / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # it had to make room in memory
                self.lost += 1
                self._waiting.popleft()
                continue
            try:
                target = os.open(
                    self.target / (name + PART_SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
                )
            except BaseException:
                os.close(source)
                raise
            self._copy = _Copy(name, source, target, os.fstat(source).st_size)
            self._copied = 0
            self._waiting.popleft()
            return True
        return False

    def _end_copy(self) -> None:
        copy = self._copy
        assert copy is not None
        os.fsync(copy.target)
        self.abandon()
        (self.target / (copy.name + PART_SUFFIX)).replace(self.target / copy.name)


def new_directory(dumps: Path, broker_id: int, cause: Cause) -> Path:
    """Make `dump-<UTC>-b<broker>-<kind>`, for this user alone."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(cause.epoch_ms // 1000))
    for number in range(1, _MAX_OF_A_SECOND):
        path = dumps / f"dump-{moment}-b{broker_id}-{cause.kind}{'' if number == 1 else f'-{number}'}"
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700, parents=True)
            return path
    raise FileExistsError(f"{path} and all before it exist")


def read(directory: Path) -> dict[str, Any] | None:
    """What a complete dump says of itself: causes, segments, records, segments_lost; None for one under way or none."""
    try:
        said = json.loads((directory / FILE).read_bytes())
        causes = [dump_cause.read(row) for row in said["causes"]]
        numbers = {name: int(said[name]) for name in ("segments", "records", "segments_lost")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {"causes": causes, **numbers}


def _write_synced(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(PART_SUFFIX)
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    temporary.replace(path)
