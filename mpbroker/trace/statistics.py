"""Per-API stage percentiles and loss accounts of a trace, from segment files; the standard library alone.

Durations go into log buckets (32 to an octave, so a percentile is at most 1.1 % off; least and greatest are exact),
hence memory stays the same however long the trace is. Counts are weighted where the trace was sampled.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterable
from math import log2
from operator import itemgetter
from typing import Any, NamedTuple

from mpbroker.errors import error_name
from mpbroker.trace import record_check, segment
from mpbroker.trace.record import NOT_REACHED, RECORD_BYTES, REQUEST, SAMPLE_SHIFT, STAGES, TICK_SHIFT

Choose = Callable[[bytes], bytes]
BUCKETS_PER_OCTAVE = 32
PERCENTILES = (50, 90, 99)

#: What is reported: name → (from stage, to stage); None is t0, the first byte of the request.
SPANS: dict[str, tuple[str | None, str]] = {
    "queue": ("enqueued", "dequeued"),
    "local": ("dequeued", "local_done"),
    "purgatory": ("purg_enter", "purg_leave"),
    "response_queue": ("resp_enq", "resp_deq"),
    "send": ("resp_deq", "send_done"),
    "total": (None, "send_done"),
}
_NARROW = struct.Struct("<44xBxh2xh14xH4x13I4x")  # a row: kind, api key, error, flags, 13 stages
_KIND, _API_KEY, _ERROR, _FLAGS, _FIRST_STAGE = range(5)
_ERROR_OF = itemgetter(_ERROR)
_T0 = _KIND  # 0 in every request: the distance of t0 from itself
_AT = {name: index + _FIRST_STAGE for index, name in enumerate(STAGES)}
_SPAN_PLACES = [(_AT[first] if first else _T0, _AT[last]) for first, last in SPANS.values()]


def bucket_of(nanoseconds: int) -> int:
    """The bucket of a duration: floor(32 * log2(ns + 1))."""
    return int(log2(nanoseconds + 1) * BUCKETS_PER_OCTAVE)


class Histogram:
    """Weighted durations in nanoseconds."""

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.least_ns, self.greatest_ns = 0, 0

    def add(self, nanoseconds: int, weight: int = 1) -> None:
        """One duration, counted `weight` times."""
        bucket = bucket_of(nanoseconds)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + weight
        self.least_ns = min(self.least_ns, nanoseconds) if self.count else nanoseconds
        self.greatest_ns = max(self.greatest_ns, nanoseconds)
        self.count += weight

    def percentile(self, percent: float) -> float:
        """Nanoseconds not exceeded by that share of the durations: the middle of the bucket; 0.0 when there are
        none."""
        wanted, seen = self.count * percent / 100, 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                middle = 2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE) - 1
                return float(min(max(middle, self.least_ns), self.greatest_ns))
        return float(self.greatest_ns)


class ApiStatistics:
    """One API's requests: their number, how many ended with each error code, and a histogram for each span."""

    def __init__(self) -> None:
        self.count = 0
        self.errors_by_code: Counter[int] = Counter()
        self.spans = {name: Histogram() for name in SPANS}

    @property
    def errors(self) -> int:
        """How many ended with an error, whichever."""
        return self.errors_by_code.total()

    def add(self, weight: int, rows: list[tuple[int, ...]]) -> None:
        """Requests of one weight; rows as _NARROW unpacks them."""
        self.count += weight * len(rows)
        for code, number in Counter(map(_ERROR_OF, rows)).items():
            if code:
                self.errors_by_code[code] += weight * number
        for (first, last), histogram in zip(_SPAN_PLACES, self.spans.values(), strict=True):
            # Equal durations are counted before they are put into buckets: this loop sees every record of a trace.
            counted = Counter(
                [row[last] - row[first] for row in rows if row[last] != NOT_REACHED and row[first] != NOT_REACHED]
            )
            for ticks, number in counted.items():
                histogram.add(max(0, ticks) << TICK_SHIFT, weight * number)


class Gap(NamedTuple):
    """`missing` requests of a lane, from sequence number first_seq on, stood in files that are gone, cut or damaged."""

    broker: int
    boot: str
    processor: int
    first_seq: int
    missing: int


class TraceStatistics:
    """A whole trace. `finished`, `dropped`, `sampled_out` come from the lanes' counters, `records` are counted here.

    All count requests; `weighted` is what the records stand for where the trace was sampled. `damage`: a sentence for
    each file whose records are not those that were written, as far as its header did not tell; what cannot be believed
    of it is not counted, as in studies.
    """

    def __init__(self) -> None:
        self.apis: dict[int, ApiStatistics] = {}
        self.finished = self.records = self.dropped = self.sampled_out = 0
        self.segments = 0
        self.damage: list[str] = []
        self._lanes: dict[tuple[int, int, int], list[tuple[int, str, int, int]]] = {}

    @property
    def weighted(self) -> int:
        """How many requests the records of all APIs stand for (of those chosen, where some were)."""
        return sum(api.count for api in self.apis.values())

    def gaps(self) -> list[Gap]:
        """Where a lane's numbers are not whole. What retention deleted before its first segment here is no gap."""
        found = []
        for (broker, boot_id, ring), segments in self._lanes.items():
            reached: int | None = None
            for first_seq, _, next_seq, written in sorted(segments):
                for begin, end in ((reached, first_seq), (next_seq, written)):
                    if begin is not None and begin < end:
                        found.append(Gap(broker, f"{boot_id:016x}", ring, begin, end - begin))
                reached = max(reached or 0, next_seq, written)
        return found

    def add_segment(self, info: segment.SegmentInfo, choose: Choose | None = None) -> None:
        """Count a segment's records in, as far as they can be believed, and its share of the lane's counters.

        A segment being written may hold records newer than its counters, a damaged one fewer: what is there counts.
        With `choose` (whole records → those wanted) the others count as records and in no API.
        """
        before, damage = self.records, self._add_sound(info, choose)
        records = self.records - before
        finished, written, dropped, sampled_out = info.progress.share()
        self.segments += 1
        self.dropped += dropped
        self.sampled_out += sampled_out
        if info.closed is None or info.damage or damage:
            self.finished += records + dropped + sampled_out
        else:
            self.finished += finished
        first_seq = info.opened.first_seq
        self._lanes.setdefault(info.opened[:3], []).append(
            (first_seq, info.path.name, first_seq + records, first_seq + written)
        )
        if damage:
            self.damage.append(damage)

    def _add_sound(self, info: segment.SegmentInfo, choose: Choose | None) -> str:
        """Count in what can be believed; a sentence where that is less than the header promises."""
        if info.is_doubtful:
            return ""
        if info.closed is not None and not segment.verify(info):
            return record_check.not_as_closed(info)
        check = record_check.RecordCheck(info)
        for chunk in segment.read_chunks(info):
            self._add_chosen(check.sound(chunk), choose)
            if check.wrong:
                return record_check.damaged_from(info, check.records, check.wrong)
        return ""

    def _add_chosen(self, records: bytes, choose: Choose | None) -> None:
        if choose is None:
            self.add_records(records)
            return
        wanted = self.records + sum(row[_KIND] == REQUEST for row in _NARROW.iter_unpack(records))
        self.add_records(choose(records))
        self.records = wanted

    def add_records(self, records: bytes) -> None:
        """Count whole records in; those of other kinds than request are passed over."""
        groups: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for row in _NARROW.iter_unpack(records):
            if row[_KIND] == REQUEST:
                groups.setdefault((row[_API_KEY], row[_FLAGS] >> SAMPLE_SHIFT), []).append(row)
        for (api_key, shift), rows in groups.items():
            self.records += len(rows)
            self.apis.setdefault(api_key, ApiStatistics()).add(1 << shift, rows)

    def to_json(self, api_name: "dict[int, str]") -> dict[str, Any]:
        """What `trace stats --json` prints; durations in microseconds."""
        return {
            "finished": self.finished,
            "records": self.records,
            "dropped": self.dropped,
            "sampled_out": self.sampled_out,
            "weighted": self.weighted,
            "segments": self.segments,
            "gaps": [gap._asdict() for gap in self.gaps()],
            "damage": self.damage,
            "apis": [
                {"api_key": key, "api": api_name.get(key, str(key)), **_api_json(self.apis[key])}
                for key in sorted(self.apis)
            ],
        }


def _api_json(api: ApiStatistics) -> dict[str, Any]:
    stages = {}
    for name, histogram in api.spans.items():
        if histogram.count:
            stages[name] = {
                "count": histogram.count,
                "max_us": histogram.greatest_ns / 1000,
                **{f"p{percent}_us": round(histogram.percentile(percent) / 1000, 3) for percent in PERCENTILES},
            }
    errors = [
        {"code": code, "name": error_name(code), "count": count} for code, count in api.errors_by_code.most_common()
    ]
    return {"count": api.count, "errors": api.errors, "errors_by_code": errors, "stages": stages}


def collect(
    infos: Iterable[segment.SegmentInfo], choose: Callable[[segment.SegmentInfo], Choose] | None = None
) -> TraceStatistics:
    """Statistics of many segments; with `choose`, APIs are counted of the records that it gives for each."""
    result = TraceStatistics()
    for info in infos:
        result.add_segment(info, choose(info) if choose else None)
    return result


assert _NARROW.size == RECORD_BYTES
