"""Whether a segment's records are those that the tracer wrote, before any study counts them. Reads files; numpy.

Runs wherever a trace is opened: in a command's process, and where Spark plans a read. A closed segment has a checksum
of its records: where it does not fit, or is lost with the close fields, nothing of the file is counted. Records of an
open one (and those of a closed one, once more) must be possible: a kind there is, the lane's next sequence number, an
API that the broker knows or refused, a weight that sampling can give. From the first one that is not, the rest of the
file is left out.

Sequence numbers that are skipped are requests that the file does not have: an exact count of what was lost.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mpbroker.analysis.engine.input.columns import RECORD_DTYPE
from mpbroker.trace import segment
from mpbroker.trace.record import ABORTED, KEPT, KIND_NAMES, RECORD_BYTES, REDISPATCHED, REQUEST, SAMPLE_SHIFT
from mpbroker.trace.segment import SegmentInfo

CHUNK_RECORDS = 65536
#: A record may stand for so many more requests than its lane sampled out until then; one in so many lanes is refused
#: wrongly for a moment, at its very first request.
CHANCE = 1024
#: Sequence numbers go on by less than this where records are missing; a greater step is no step.
MAX_STEP = 1 << 24
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
        reason = f"kind {kinds[end]}, which there is not" if end < len(records) else ""
        places = np.flatnonzero(kinds[:end] == REQUEST)
        sound, request_reason = self._requests(records[places])
        if request_reason:
            end, reason = int(places[sound]), request_reason
        self.wrong = f"record {self.records + end} has {reason}" if reason else ""
        self.records += end

    def _requests(self, found: npt.NDArray[Any]) -> tuple[int, str]:
        """How many of these requests can be believed, and what the next one has that cannot be."""
        if not len(found):
            return 0, ""
        steps = self._steps(found)
        checks = (
            ((steps < 0) | (steps >= MAX_STEP), "a sequence number that cannot follow the one before"),
            (self._impossible_api(found), "API {api_key}, which there is not, and no error"),
            (self._impossible_weight(found), "a weight that sampling does not give"),
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

    def _impossible_weight(self, found: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Requests that failed, or are kept in any case, stand for themselves; and a lane's counters bound the rest (of
        an open segment they may be older than its last records)."""
        shift = found["flags"] >> SAMPLE_SHIFT
        always = (found["error"] != 0) | (found["plane_prio"] & 3 != 0)
        always |= found["flags"] & (ABORTED | REDISPATCHED | KEPT) != 0
        wrong = (shift > 0) & always
        if self.info.closed is not None:
            wrong |= (1 << shift.astype(np.int64)) - 1 > CHANCE * (1 + self.info.progress.sampled_out)
        return np.asarray(wrong)

    def _count(self, steps: npt.NDArray[np.int64]) -> None:
        seqs = self.seq + np.cumsum(steps + 1)
        self.holes += [Hole(int(seqs[at] - 1 - steps[at]), int(steps[at])) for at in np.flatnonzero(steps).tolist()]
        self.requests += len(steps)
        if len(steps):
            self.seq = int(seqs[-1])

    def result(self) -> Checked:
        """When all have passed, or as many as there are now."""
        info, first = self.info, self.info.opened.first_seq
        if not self.crc.fits():
            damage = f"{info.path}: its records are not those it was closed with; none of them is counted"
            return Checked(info._replace(closed=None, record_count=0, damage=damage), 0, first, ())
        if self.wrong:
            damage = f"{info.path}: {self.wrong}: it is damaged, and nothing from there on is counted"
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
    mark = (state.st_ino, state.st_size, state.st_mtime_ns, info.record_count, info.progress.sampled_out)
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
