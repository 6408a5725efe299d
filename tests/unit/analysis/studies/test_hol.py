"""`hol`: what waited behind its connection's earlier requests is what a plain loop over pairs of them finds."""

import itertools

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import SampledTrace, open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import hol
from mpbroker.trace.record import STAGES
from tests.harness.leading_findings import leading
from tests.harness.record_trace import Lane, request, write_segment

TICK_NS = 64
AT = {name: place for place, name in enumerate(STAGES)}


def _chain(connection, begin, services, apart, client_hash):
    """Requests of one connection that come `apart` ticks from each other and are served one after the other."""
    found, free = [], 0
    for number, service in enumerate(services):
        arrival = begin + number * apart
        enqueued = max(arrival + 5, free)
        done = enqueued + 4 + service
        moments = {"frame_done": enqueued - 2, "parsed": enqueued - 1, "enqueued": enqueued, "dequeued": enqueued + 3}
        moments |= {"handler_start": enqueued + 4, "io_done": enqueued + 4, "local_done": done, "resp_enq": done}
        moments |= {"resp_deq": done + 6, "send_start": done + 7, "send_done": done + 9}
        stage = tuple(moments.get(name, arrival) - arrival for name in STAGES)
        one = request(arrival * TICK_NS, missing=("purg_enter", "purg_leave"), conn_id=connection, rx_wait=0)
        whole = tuple(
            each if name in moments else one.stage[AT[name]] for name, each in zip(STAGES, stage, strict=True)
        )
        found.append(one._replace(stage=whole, client_hash=client_hash))
        free = done + 6
    return found


def _run(tmp_path, records, **lane):
    write_segment(tmp_path / "t", sorted(records, key=lambda one: one.t0_ns), Lane(**lane))
    result = hol.STUDY.run(choose_engine("local", open_input([tmp_path / "t"])), StudyParameters())
    return result, {row["client"]: row for row in result.tables.get("hol").to_pylist()}


def _naive(records):
    """Blocked ticks and how many, pair by pair."""
    spent = count = 0
    for before, this in itertools.pairwise(records):
        arrival = this.t0_ns // TICK_NS
        until = min(before.t0_ns // TICK_NS + before.stage[AT["resp_deq"]], arrival + this.stage[AT["enqueued"]])
        spent, count = spent + max(0, until - arrival), count + (until > arrival)
    return spent * TICK_NS, count


def test_it_is_what_a_plain_loop_finds(tmp_path):
    busy = _chain(1, 1000, [500, 20, 30, 400, 10] * 20, 60, 7)
    calm = _chain(2, 1000, [20] * 30, 900, 8)
    result, rows = _run(tmp_path, busy + calm)
    assert (rows["client 00000007"]["blocked_ns"], rows["client 00000007"]["blocked"]) == _naive(busy)
    assert rows["client 00000008"]["blocked_ns"] == 0 == _naive(calm)[0]
    assert rows["client 00000007"]["behind_large"] == 40, "20 and 10 come behind 500 and 400"
    assert "“client 00000007” has 100 % of it" in result.verdicts[0] and "more connections" in result.verdicts[0]


def test_small_ones_behind_large_ones_are_told_to_part(tmp_path):
    result, _ = _run(tmp_path, _chain(1, 1000, [2000, 10] * 40, 1100, 7))
    assert "connections of their own" in result.verdicts[0]


def test_a_calm_connection_holds_nothing_up(tmp_path):
    result, _ = _run(tmp_path, _chain(1, 1000, [20] * 60, 900, 7))
    assert "change nothing" in result.verdicts[0]


def test_a_sample_is_refused(tmp_path):
    with pytest.raises(SampledTrace, match="hol"):
        _run(tmp_path, _chain(1, 1000, [20] * 5, 900, 7), sampled_out=3)


@pytest.mark.parametrize(
    ("services", "apart", "kind"), [([2000, 10] * 40, 10, "behind_large"), ([100] * 80, 60, "own_connection")]
)
def test_blocking_leads_the_list(tmp_path, services, apart, kind):
    """Once: the estimate of `latency` gives way to the measurement."""
    _, rows = _run(tmp_path, _chain(1, 1000, services, apart, 7))
    found = leading([tmp_path / "t"], hol.STUDY)
    assert [one.kind for one in found if one.kind in ("behind_large", "own_connection")] == [kind] == [found[0].kind]
    assert found[0].subject == "client 00000007"
    assert found[0].cost_s == rows["client 00000007"]["blocked_ns"] / 1e9
