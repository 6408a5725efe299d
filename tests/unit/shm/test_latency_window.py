"""Latencies of the last minute, from samples of counts that only grow."""

import pytest

from mpbroker.shm.latency_window import STAGE_NAMES, LatencyWindow, document
from mpbroker.shm.request_metrics import STAGES, UPPER_ENDS_S, ApiMetrics, Histogram

PRODUCE, FETCH = 0, 1


def _histogram(buckets):
    counts = [0] * (len(UPPER_ENDS_S) + 1)
    for bucket, count in buckets.items():
        counts[bucket] = count
    return Histogram(tuple(counts), 1.0)


def _api(key, buckets, errors=0, remote=False):
    stages = {name: _histogram({} if name == "RemoteTimeMs" and not remote else buckets) for name in STAGES}
    return ApiMetrics(key, {7: sum(buckets.values())}, 0, 0, {3: errors} if errors else {}, 0, stages)


def test_only_what_came_between_the_samples_counts():
    window = LatencyWindow()
    window.add(100.0, [_api(PRODUCE, {10: 1_000_000}, errors=9)])
    assert window.latencies() == [] and window.seconds == 0
    window.add(110.0, [_api(PRODUCE, {10: 1_000_000, 3: 500}, errors=11), _api(FETCH, {5: 20}, remote=True)])
    produce, fetch = window.latencies()
    assert (produce.api_key, produce.requests, produce.per_s, produce.errors) == (PRODUCE, 500, 50.0, 2)
    assert (fetch.requests, fetch.per_s, fetch.errors) == (20, 2.0, 0)
    low_ms, high_ms = UPPER_ENDS_S[2] * 1e3, UPPER_ENDS_S[3] * 1e3
    p50, p99 = produce.stages["total"]
    assert low_ms < p50 < p99 <= high_ms and p50 == pytest.approx((low_ms + high_ms) / 2, abs=0.001)
    assert produce.stages["remote"] is None and fetch.stages["remote"] is not None
    assert set(produce.stages) == set(STAGE_NAMES.values())


def test_it_looks_back_a_minute_and_keeps_few_samples():
    window = LatencyWindow()
    for second in range(601):  # one request a second, slow ones up to the 500th
        window.add(float(second), [_api(PRODUCE, {12: min(second, 500), 2: max(0, second - 500)})])
        assert len(window._samples) <= 14
    (row,) = window.latencies()
    assert 60 <= window.seconds < 65 and row.requests == window.seconds
    assert row.stages["total"][1] <= UPPER_ENDS_S[2] * 1e3


def test_an_api_without_requests_meanwhile_is_left_out():
    window = LatencyWindow()
    window.add(1.0, [_api(PRODUCE, {1: 5})])
    window.add(2.0, [_api(PRODUCE, {1: 5}), _api(FETCH, {1: 1})])
    assert [row.api_key for row in window.latencies()] == [FETCH]


def test_another_broker_begins_anew():
    window = LatencyWindow()
    window.add(1.0, [_api(PRODUCE, {1: 500})])
    window.forget()
    assert window.seconds == 0 and window.latencies() == []
    window.add(2.0, [_api(PRODUCE, {1: 3})])
    window.add(3.0, [_api(PRODUCE, {1: 4})])
    assert [row.requests for row in window.latencies()] == [1]


def test_the_document_names_apis_and_stages():
    window = LatencyWindow()
    window.add(1.0, [])
    window.add(3.0, [_api(PRODUCE, {1: 4}), _api(77, {1: 1})])
    found = document(window, {PRODUCE: "Produce"})
    assert found["seconds"] == 2.0 and [row["api"] for row in found["apis"]] == ["Produce", "77"]
    assert found["apis"][0]["stages_ms"]["remote"] is None
    assert set(found["apis"][0]["stages_ms"]["total"]) == {"p50", "p99"}
