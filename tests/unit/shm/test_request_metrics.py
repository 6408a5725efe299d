"""Requests by API, read from rows that are laid out with the compiler's own offsets."""

import struct

from mpbroker._native import LAYOUT
from mpbroker.shm.layout import API_ROWS, STRIDES
from mpbroker.shm.request_metrics import STAGES, TICK_S, UPPER_ENDS_S, Histogram, read_apis

BUCKETS = LAYOUT["time_buckets"]


def region(processors: int) -> bytearray:
    return bytearray(STRIDES["apis"] * API_ROWS * processors)


def put(data: bytearray, processor: int, key: int, offset: int, form: str, *values: int) -> None:
    struct.pack_into(form, data, (processor * API_ROWS + key) * STRIDES["apis"] + offset, *values)


def test_rows_of_all_processors_are_summed() -> None:
    data = region(2)
    for processor, requests in ((0, 5), (1, 7)):
        put(data, processor, 3, 0, "<QQQ", 100, 1000, 1)
        put(data, processor, 3, LAYOUT["api.version"] + 8 * 4, "<Q", requests)
        put(data, processor, 3, LAYOUT["api.error"], "<iIQ", 3 - 4 * processor, 0, 2)
        put(data, processor, 3, LAYOUT["api.error"] + 16, "<iIQ", 10, 0, 1)
        at = LAYOUT["api.time"] + STAGES.index("LocalTimeMs") * 8 * (1 + BUCKETS)
        put(data, processor, 3, at, f"<{1 + BUCKETS}Q", 1000, requests, *[0] * (BUCKETS - 1))
    put(data, 1, 18, LAYOUT["api.version"] + 8 * (LAYOUT["api_versions"] - 1), "<Q", 1)
    metadata, versions = read_apis(data)
    assert (metadata.api_key, metadata.requests, metadata.versions) == (3, 12, {4: 12})
    assert (metadata.request_bytes, metadata.response_bytes, metadata.other_errors) == (200, 2000, 2)
    assert metadata.errors == {3: 2, -1: 2, 10: 2}
    assert metadata.stages["LocalTimeMs"].counts == (12, *[0] * (BUCKETS - 1))
    assert metadata.stages["LocalTimeMs"].sum_s == 2000 * TICK_S
    assert metadata.stages["TotalTimeMs"].total == 0
    assert versions.versions == {-1: 1} and versions.api_key == 18


def test_upper_ends_are_those_of_the_c_core() -> None:
    assert UPPER_ENDS_S[0] == 16 * TICK_S
    assert UPPER_ENDS_S[-1] == (16 << (BUCKETS - 2)) * TICK_S
    assert len(UPPER_ENDS_S) == BUCKETS - 1


def test_quantiles_lie_within_their_bucket() -> None:
    counts = [0] * BUCKETS
    counts[3], counts[10] = 90, 10
    durations = Histogram(tuple(counts), 0.0)
    assert UPPER_ENDS_S[2] < durations.quantile_s(0.5) < UPPER_ENDS_S[3]
    assert durations.quantile_s(0.9) == UPPER_ENDS_S[3]
    assert UPPER_ENDS_S[9] < durations.quantile_s(0.99) <= UPPER_ENDS_S[10]
    counts[10], counts[-1] = 0, 10
    assert Histogram(tuple(counts), 0.0).quantile_s(0.99) == UPPER_ENDS_S[-1]
    assert Histogram((0,) * BUCKETS, 0.0).quantile_s(0.5) == 0.0
