"""Requests by API, as processors count them in the `apis` region (native/request/request_metrics.h): by version and
error code, bytes, and a histogram of the time in each stage, named as in Kafka's RequestMetrics.

Pure arithmetic on bytes that somebody read; used by the admin process. Single writer of a row: its processor.
"""

import struct
from typing import Final, NamedTuple

from mpbroker._native import LAYOUT
from mpbroker.shm.layout import API_ROWS, STRIDES

TICK_S: Final = 64e-9
"""Durations are counted in ticks of 64 ns."""
STAGES: Final = (
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
    "TotalTimeMs",
)
UPPER_ENDS_S: Final = tuple(
    (LAYOUT["time_first_ticks"] << bucket) * TICK_S for bucket in range(LAYOUT["time_buckets"] - 1)
)
"""Upper end of each bucket but the last, which has none: 1.024 µs, each the double of the one before."""

_VERSIONS: Final = LAYOUT["api_versions"]
_ERRORS: Final = LAYOUT["api_errors"]
_BUCKETS: Final = LAYOUT["time_buckets"]
_ROW: Final = struct.Struct(f"<QQQ8x{_VERSIONS}Q" + "iIQ" * _ERRORS + f"{(1 + _BUCKETS) * len(STAGES)}Q")
assert len(STAGES) == LAYOUT["request_times"] and _ROW.size <= STRIDES["apis"]


class Histogram(NamedTuple):
    """Durations: `counts` by bucket, the last one without an upper end, and the sum of all in seconds."""

    counts: tuple[int, ...]
    sum_s: float

    @property
    def total(self) -> int:
        """How many durations."""
        return sum(self.counts)

    def since(self, before: "Histogram | None") -> "Histogram":
        """What was added after an earlier look; None: all of it."""
        if before is None:
            return self
        counts = tuple(max(0, b - a) for a, b in zip(before.counts, self.counts, strict=True))
        return Histogram(counts, max(0.0, self.sum_s - before.sum_s))

    def quantile_s(self, share: float) -> float:
        """The duration that `share` of them do not exceed, within its bucket by proportion; 0 when there is none."""
        wanted, seen = share * self.total, 0
        for bucket, count in enumerate(self.counts):
            if count and seen + count >= wanted:
                if bucket == len(UPPER_ENDS_S):
                    return UPPER_ENDS_S[-1]
                low = UPPER_ENDS_S[bucket - 1] if bucket else 0.0
                return low + (UPPER_ENDS_S[bucket] - low) * max(0.0, wanted - seen) / count
            seen += count
        return 0.0


class ApiMetrics(NamedTuple):
    """One API, over all processors since the broker started. `versions`: requests by version, -1 for those beyond the
    table; `errors`: answers by error code, without `other_errors`, whose codes found no place."""

    api_key: int
    versions: dict[int, int]
    request_bytes: int
    response_bytes: int
    errors: dict[int, int]
    other_errors: int
    stages: dict[str, Histogram]

    @property
    def requests(self) -> int:
        """Requests of all versions."""
        return sum(self.versions.values())


class _Row(NamedTuple):
    fixed: tuple[int, ...]
    versions: tuple[int, ...]
    errors: tuple[int, ...]
    times: tuple[int, ...]


def _unpack(data: bytes | memoryview, at: int) -> _Row:
    values = _ROW.unpack_from(data, at)
    versions, errors = 3 + _VERSIONS, 3 + _VERSIONS + 3 * _ERRORS
    return _Row(values[:3], values[3:versions], values[versions:errors], values[errors:])


def read_apis(data: bytes | memoryview) -> list[ApiMetrics]:
    """Every API that was asked for, by key. `data`: the region's bytes, all processors."""
    stride, found = STRIDES["apis"], []
    processors = len(data) // stride // API_ROWS
    for key in range(API_ROWS):
        rows = [_unpack(data, (processor * API_ROWS + key) * stride) for processor in range(processors)]
        rows = [row for row in rows if any(row.versions)]
        if rows:
            found.append(_sum(key, rows))
    return found


def _sum(key: int, rows: list[_Row]) -> ApiMetrics:
    errors: dict[int, int] = {}
    for row in rows:
        for code, count in zip(row.errors[::3], row.errors[2::3], strict=True):
            if count:
                errors[code] = errors.get(code, 0) + count
    fixed, versions, times = (
        [sum(column) for column in zip(*part, strict=True)]
        for part in ([row.fixed for row in rows], [row.versions for row in rows], [row.times for row in rows])
    )
    return ApiMetrics(
        api_key=key,
        versions={v if v < _VERSIONS - 1 else -1: count for v, count in enumerate(versions) if count},
        request_bytes=fixed[0],
        response_bytes=fixed[1],
        errors=errors,
        other_errors=fixed[2],
        stages={name: _histogram(times, which) for which, name in enumerate(STAGES)},
    )


def _histogram(times: list[int], which: int) -> Histogram:
    first = which * (1 + _BUCKETS)
    return Histogram(tuple(times[first + 1 : first + 1 + _BUCKETS]), times[first] * TICK_S)
