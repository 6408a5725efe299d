"""Which records of a segment cannot be what a tracer wrote: the rules, how what is left out is worded, and a check of
one record after the other with the standard library alone. Pure; for whoever reads traces.

Studies apply the same rules to whole columns (mpbroker/analysis/engine/input/soundness.py).
"""

import struct
from typing import TypeAlias

from mpbroker.trace.record import ABORTED, KEPT, KIND_NAMES, RECORD_BYTES, REDISPATCHED, REQUEST, SAMPLE_SHIFT
from mpbroker.trace.segment import SegmentInfo

#: A record may stand for so many more requests than its lane sampled out until then; one in so many lanes is refused
#: wrongly for a moment, at its very first request.
CHANCE = 1024
#: Sequence numbers go on by less than this where records are missing; a greater step is no step.
MAX_STEP = 1 << 24

_Row: TypeAlias = tuple[int, int, int, int, int, int]
_ROW = struct.Struct("<8xI32xBBh2xh14xH60x")  # a row: number, kind, plane and priority, api key, error, flags
_KINDS = len(KIND_NAMES)
_FOR_ITSELF = ABORTED | REDISPATCHED | KEPT

WRONG_KIND = "kind {kind}, which there is not"
WRONG_STEP = "a sequence number that cannot follow the one before"
WRONG_API = "API {api_key}, which there is not, and no error"
WRONG_WEIGHT = "a weight that sampling does not give"


def most_weight(info: SegmentInfo) -> int:
    """What a request before `told_until` stands for at most."""
    return 1 + CHANCE * (1 + info.progress.sampled_out)


def told_until(info: SegmentInfo) -> int:
    """Of the lane's requests before this number the counters say how many were sampled out among them.

    They are read after a drain, and a segment that is open, or was left so, may hold requests that came later: what was
    sampled out beside those stands nowhere yet, and it may be much. Nor is it known where the counters are damaged.
    """
    if info.closed is not None and info.damage:
        return 0
    return info.progress.written


def not_as_closed(info: SegmentInfo) -> str:
    """Of a segment whose checksum does not fit its records."""
    return f"{info.path}: its records are not those it was closed with; none of them is counted"


def damaged_from(info: SegmentInfo, record: int, reason: str) -> str:
    """Of one whose record of that number cannot be."""
    return f"{info.path}: record {record} has {reason}: it is damaged, and nothing from there on is counted"


class RecordCheck:
    """Goes through the records of a segment in the file's order. So many `records` can be; `wrong`: what the next one
    has that cannot be, empty as long as none was met."""

    def __init__(self, info: SegmentInfo) -> None:
        self.records = 0
        self.wrong = ""
        self._next_seq = info.opened.first_seq
        self._apis = frozenset(map(int, info.opened.extra.get("apis", {})))
        self._told_until, self._most_weight = told_until(info), most_weight(info)

    def sound(self, data: bytes) -> bytes:
        """Of these whole records those before the first impossible one of the segment."""
        if self.wrong:
            return b""
        for place, row in enumerate(_ROW.iter_unpack(data)):
            number, kind, _, api_key, _, flags = row
            if kind == REQUEST:
                # Most are so, and this loop sees every record of a trace.
                if number != self._next_seq & 0xFFFFFFFF or api_key not in self._apis or flags >> SAMPLE_SHIFT:
                    self.wrong = self._judge(row)
                self._next_seq += 1
            elif kind >= _KINDS:
                self.wrong = WRONG_KIND.format(kind=kind)
            if self.wrong:
                data = data[: place * RECORD_BYTES]
                break
        self.records += len(data) // RECORD_BYTES
        return data

    def _judge(self, row: _Row) -> str:
        """Why a request cannot be; empty if it can, and what is skipped before it is passed over."""
        number, _, plane_prio, api_key, error, flags = row
        step = (number - self._next_seq + (1 << 31)) % (1 << 32) - (1 << 31)
        if not 0 <= step < MAX_STEP:
            return WRONG_STEP
        self._next_seq += step
        if self._apis and api_key not in self._apis and error == 0 and not flags & ABORTED:
            return WRONG_API.format(api_key=api_key)
        weight = 1 << (flags >> SAMPLE_SHIFT)
        if error != 0 or plane_prio & 3 or flags & _FOR_ITSELF:
            is_wrong = weight > 1
        else:
            is_wrong = self._next_seq < self._told_until and weight > self._most_weight
        return WRONG_WEIGHT if is_wrong else ""


assert _ROW.size == RECORD_BYTES
