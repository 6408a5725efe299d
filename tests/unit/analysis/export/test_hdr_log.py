"""HdrHistogram's own library reads the log, and finds the latencies of the model in it."""

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.export import hdr_log
from tests.harness.event_model import Scenario
from tests.harness.golden_trace import golden


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    place = tmp_path_factory.mktemp("hdr")
    with golden(place / "traces", Scenario(duration_ms=2200, rate=80, service_ms=5)) as (engine, _):
        written = hdr_log.export(engine, place / "latency.hlog", 1000)
        rows = engine.requests(("api", "epoch_ns", "active_total_ns"), Where()).to_pylist()
    reader, found = HistogramLogReader(str(place / "latency.hlog"), HdrHistogram(1, 1 << 40, 3)), []
    while (one := reader.get_next_interval_histogram()) is not None:
        found.append(one)
    reader.close()
    return found, rows, written, (place / "latency.hlog").read_text()


def test_each_window_and_api_has_a_histogram_of_all_its_requests(read):
    found, rows, written, text = read
    windows = {(row["api"], row["epoch_ns"] // 10**9) for row in rows}
    assert len(found) == len(windows) > 3
    assert sum(one.get_total_count() for one in found) == len(rows)
    assert written.what == f"{len(windows)} histograms of {len(rows)} requests"
    assert text.startswith("#[Logged by mpbroker") and "#[Histogram log format version 1.3]\n" in text


def test_its_percentiles_are_those_of_the_requests(read):
    found, rows, _, _ = read
    for api in {row["api"] for row in rows}:
        whole = HdrHistogram(1, 1 << 40, 3)
        for one in found:
            if one.get_tag() == api:
                whole.add(one)
        exact = sorted(row["active_total_ns"] for row in rows if row["api"] == api)
        assert whole.get_total_count() == len(exact)
        for percent in (50, 90, 99, 100):
            place = len(exact) * percent // 100  # the library rounds the rank, up or down
            least, most = exact[max(0, place - 2)], exact[min(len(exact) - 1, place)]
            assert 0.985 * least <= whole.get_value_at_percentile(percent) <= 1.015 * most


def test_windows_follow_each_other_from_the_first(read):
    _, rows, _, text = read
    begin_ms = min(row["epoch_ns"] for row in rows) // 10**9 * 1000
    assert f"#[StartTime: {begin_ms / 1000:.3f} (seconds since epoch)]" in text
    starts = sorted({line.split(",")[1] for line in text.splitlines() if line.startswith("Tag=")})
    assert starts == ["0.000", "1.000", "2.000"]
