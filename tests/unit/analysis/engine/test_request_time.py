"""Prices of findings: seconds of the whole trace, also where a study looked at a part of it."""

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.measures import request_time
from mpbroker.analysis.engine.measures.request_time import RequestTime
from tests.harness.record_trace import random_requests, write_segment


def test_a_part_is_priced_as_the_rest():
    [whole] = RequestTime(10.0).explained("queue", "It waits.", 2e9, "x", ("work",))
    assert (whole.cost_s, whole.of_s, whole.share, whole.subject, whole.refines) == (2.0, 10.0, 0.2, "x", ("work",))
    [part] = RequestTime(10.0, 0.25).explained("queue", "It waits.", 2e9)
    assert (part.cost_s, part.share) == (8.0, 0.8)


@pytest.mark.parametrize("ns", [0, -5])
def test_what_explains_nothing_is_no_finding(ns):
    assert RequestTime(10.0).explained("queue", "It waits.", ns) == []
    assert RequestTime(0.0).explained("queue", "It waits.", 5) == []


def test_the_whole_is_that_of_all_requests(tmp_path):
    write_segment(tmp_path, random_requests(300, seed=3))
    engine = choose_engine("local", open_input([tmp_path]))
    took = engine.requests(["active_total_ns"])["active_total_ns"].to_pylist()
    assert request_time.of(engine).whole_s == pytest.approx(sum(ns for ns in took if ns is not None) / 1e9)
