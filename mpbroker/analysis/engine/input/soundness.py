"""Whether a segment's records are those that the tracer wrote, before any study counts them. Reads files; numpy.

Runs wherever a trace is opened: in a command's process, and where Spark plans a read. A closed segment has a checksum
of its records: where it does not fit, or is lost with the close fields, nothing of the file is counted. Records of an
open one (and those of a closed one, once more) must be possible: a kind there is, the lane's next sequence number, an
API that the broker knows or refused, a weight that sampling can give. From the first one that is not, the rest of the
file is left out. The rules are those of mpbroker/trace/record_check.py.

Sequence numbers that are skipped are requests that the file does not have: an exact count of what was lost.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mpbroker.analysis.engine.input.columns import RECORD_DTYPE
from mpbroker.trace import record_check, segment
from mpbroker.trace.record import ABORTED, KEPT, KIND_NAMES, RECORD_BYTES, REDISPATCHED, REQUEST, SAMPLE_SHIFT
from mpbroker.trace.segment import SegmentInfo

CHUNK_RECORDS = 65536
MAX_CACHED = 4096


class Hole(NamedTuple):
    """`missing` requests from the lane's number `first_seq` on are not in the file, though later ones are."""

    first_seq: int
    missing: int


class Checked(NamedTuple):
    """What a file's records are. `info`: with as many records as can be believed, and the sentence, if there is one."""

    info: SegmentInfo
    requests: int
    next_seq: int
    holes: tuple[Hole, ...]


class _Walk:
    """State while the records of one segment pass."""

    def __init__(self, info: SegmentInfo) -> None:
        self.info = info
        self.crc = segment.RecordsChecksum(info)
        self.seq = info.opened.first_seq
        self.requests = self.records = 0
        self.holes: list[Hole] = []
        self.wrong = ""
        self._apis = np.array(sorted(int(key) for key in info.opened.extra.get("apis", {})), np.int16)

    def add(self, data: bytes) -> None:
        """The next records in the file's order; once one is impossible, only the checksum goes on."""
        self.crc.add(data)
        if self.wrong:
            return
        records = np.frombuffer(data, RECORD_DTYPE)
        kinds = records["kind"]
        end = _first(kinds >= len(KIND_NAMES), len(records))
        reason = record_check.WRONG_KIND.format(kind=kinds[end]) if end < len(records) else ""
        places = np.flatnonzero(kinds[:end] == REQUEST)
        sound, request_reason = self._requests(records[places])
        if request_reason:
            end, reason = int(places[sound]), request_reason
        self.records += end
        self.wrong = reason

    def _requests(self, found: npt.NDArray[Any]) -> tuple[int, str]:
        """How many of these requests can be believed, and what the next one has that cannot be."""
        if not len(found):
            return 0, ""
        steps = self._steps(found)
        checks = (
            ((steps < 0) | (steps >= record_check.MAX_STEP), record_check.WRONG_STEP),
            (self._impossible_api(found), record_check.WRONG_API),
            (self._impossible_weight(found, steps), record_check.WRONG_WEIGHT),
        )
        places = [_first(wrong, len(found)) for wrong, _ in checks]
        sound = min(places)
        self._count(steps[:sound])
        if sound == len(found):
            return sound, ""
        return sound, checks[places.index(sound)][1].format(api_key=found["api_key"][sound])

    def _steps(self, found: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """How many sequence numbers are skipped before each request; negative: it went back."""
        seq = found["seq_lo"].astype(np.int64)
        due = np.concatenate(([self.seq & 0xFFFFFFFF], seq[:-1] + 1))
        return (seq - due + (1 << 31)) % (1 << 32) - (1 << 31)

    def _impossible_api(self, found: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        if not len(self._apis):
            return np.zeros(len(found), np.bool_)
        unknown = ~np.isin(found["api_key"], self._apis)
        return np.asarray(unknown & (found["error"] == 0) & (found["flags"] & ABORTED == 0))

    def _impossible_weight(self, found: npt.NDArray[Any], steps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Requests that failed, or are kept in any case, stand for themselves; and a lane's counters bound the rest, as
        far as they tell."""
        shift = found["flags"] >> SAMPLE_SHIFT
        always = (found["error"] != 0) | (found["plane_prio"] & 3 != 0)
        always |= found["flags"] & (ABORTED | REDISPATCHED | KEPT) != 0
        is_told = self._numbers(steps) < record_check.told_until(self.info)
        is_too_much = (1 << shift.astype(np.int64)) > record_check.most_weight(self.info)
        return np.asarray((shift > 0) & always | is_told & is_too_much)

    def _numbers(self, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The lane's numbers of requests, as far as the steps to them can be believed."""
        return np.asarray(self.seq - 1 + np.cumsum(steps + 1))

    def _count(self, steps: npt.NDArray[np.int64]) -> None:
        numbers = self._numbers(steps)
        self.holes += [Hole(int(numbers[at] - steps[at]), int(steps[at])) for at in np.flatnonzero(steps).tolist()]
        self.requests += len(steps)
        if len(steps):
            self.seq = int(numbers[-1]) + 1

    def result(self) -> Checked:
        """When all have passed, or as many as there are now."""
        info, first = self.info, self.info.opened.first_seq
        if not self.crc.fits():
            damage = record_check.not_as_closed(info)
            return Checked(info._replace(closed=None, record_count=0, damage=damage), 0, first, ())
        if self.wrong:
            damage = record_check.damaged_from(info, self.records, self.wrong)
            info = info._replace(closed=None, record_count=self.records, damage=damage)
        return Checked(info, self.requests, self.seq, tuple(self.holes))


def _first(wrong: npt.NDArray[np.bool_], otherwise: int) -> int:
    return int(np.argmax(wrong)) if wrong.any() else otherwise


_known: dict[Path, tuple[tuple[int, ...], Checked]] = {}


def check(info: SegmentInfo) -> Checked:
    """Read a segment once and judge it; a file that has not changed since is not read again by this process. OSError:
    it cannot be read."""
    if info.is_doubtful:
        return Checked(info._replace(record_count=0), 0, info.opened.first_seq, ())
    state = os.stat(info.path)
    mark = (state.st_ino, state.st_size, state.st_mtime_ns, info.record_count, *info.progress)
    known = _known.get(info.path)
    if known is not None and known[0] == mark:
        return known[1]
    walk = _Walk(info)
    for data in segment.read_chunks(info, CHUNK_RECORDS):
        walk.add(data)
    found = walk.result()
    if len(_known) >= MAX_CACHED:
        _known.clear()
    _known[info.path] = (mark, found)
    return found


assert RECORD_DTYPE.itemsize == RECORD_BYTES
