"""The probe of perf.control_plane against a real broker: its own times, and the trace's of the same requests."""

import pytest

from perf.control_plane import IDLE_CORR_ID, comparison, figures, judged
from perf.load.probe import ask_in_turn, percentile, share_seen, trace_of_probes
from tests.harness.broker import Broker

pytestmark = pytest.mark.slow


def test_every_request_of_a_probe_is_in_the_trace(tmp_path):
    with Broker(tmp_path) as broker:
        probes = ask_in_turn({"data": broker.port(), "control": broker.port()}, 0.3, IDLE_CORR_ID)
    trace = trace_of_probes(broker.data_dir / "traces")
    for probe in probes.values():
        assert probe.waited_ms and probe.waited_ms.keys() <= trace.keys()
        seen = share_seen(probe, trace)
        assert 0 <= seen["rx_wait_and_queue_share"] <= 1.01 and seen["in_broker_ms"] > 0
        assert all(probe.waited_ms[each] <= probe.seen_ms[each] for each in probe.waited_ms)
    assert set(figures(probes)) == {
        f"{name}_{seen}{label}_ms" for name in probes for seen in ("", "seen_") for label in ("p50", "p99")
    }


def test_percentiles():
    assert percentile(dict(enumerate(range(100))), 0.99) == 99 and percentile({0: 5.0}, 0.5) == 5.0


def test_a_run_is_judged_by_its_own_idle_and_data_figures():
    quick = judged({"idle_control_p99_ms": 0.5, "data_p99_ms": 20.0, "control_p99_ms": 2.0})
    assert (quick["limit_beside_data_ms"], quick["limit_ms"]) == (4.0, 5.0)
    assert (quick["of_limit_beside_data"], quick["of_limit"]) == (0.5, 0.4)
    slow_machine = judged({"idle_control_p99_ms": 4.0, "data_p99_ms": 20.0, "control_p99_ms": 9.0})
    assert slow_machine["limit_beside_data_ms"] == slow_machine["limit_ms"] == 8.0 and slow_machine["of_limit"] > 1


def test_the_comparison_says_what_is_missed():
    run = {
        f"{idle}{name}_{seen}p99_ms": 1.0
        for idle in ("", "idle_")
        for name in ("data", "control")
        for seen in ("", "seen_")
    }
    run |= {
        f"{name}_{key}": 0.1
        for name in ("data", "control")
        for key in ("rx_wait_ms", "queue_ms", "in_broker_ms", "on_the_way_ms", "rx_wait_and_queue_share")
    }
    text = comparison(
        run
        | {
            "flood_requests_per_s": 9.0,
            "limit_beside_data_ms": 0.5,
            "limit_ms": 5.0,
            "of_limit_beside_data": 2.0,
            "of_limit": 0.2,
        },
        5,
    )
    assert "MISSED (2.00 of it)" in text and "met (0.20 of it)" in text and "median of 5 runs" in text
