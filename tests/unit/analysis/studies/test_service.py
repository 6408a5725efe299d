"""`service`: sums and percentiles are those of a plain loop over the records; what sizes cost is what was put in."""

import random

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import service
from mpbroker.trace.record import STAGES
from tests.harness.leading_findings import leading
from tests.harness.record_trace import request, write_segment

TICK_NS = 64
AT = {name: place for place, name in enumerate(STAGES)}


def _request(number, size, parts, ticks):
    """A request whose handler had it for `ticks`."""
    one = request(
        1_000_000 * number, req_bytes=size, nparts=parts, corr_id=number, missing=("purg_enter", "purg_leave")
    )
    begin = one.stage[AT["dequeued"]]
    later = {"handler_start": 0, "io_done": ticks // 2, "local_done": ticks - 5, "resp_enq": ticks}
    later |= {"resp_deq": ticks + 10, "send_start": ticks + 20, "send_done": ticks + 30}
    stage = tuple(begin + later[name] if name in later else one.stage[place] for name, place in AT.items())
    return one._replace(stage=stage)


def _run(tmp_path, records):
    write_segment(tmp_path / "t", records)
    result = service.STUDY.run(choose_engine("local", open_input([tmp_path / "t"])), StudyParameters())
    return result, result.tables["service"].to_pylist()


def test_it_is_what_a_plain_loop_finds(tmp_path):
    chance = random.Random(8)
    asked = [(chance.randrange(100, 60_000), chance.randrange(1, 20)) for _ in range(300)]
    ticks = [100 + size // 64 + 12 * parts + chance.randrange(9) for size, parts in asked]
    records = [
        _request(n + 1, size, parts, took) for n, ((size, parts), took) in enumerate(zip(asked, ticks, strict=True))
    ]
    result, [row] = _run(tmp_path, records)
    ns = sorted(took * TICK_NS for took in ticks)
    assert (row["n"], row["handler_ns"], row["max_ns"]) == (300, sum(ns), ns[-1]) and row["share"] == 1.0
    assert (row["p50_ns"], row["p99_ns"]) == (ns[149], ns[296]) and row["mean_ns"] == sum(ns) // 300
    assert abs(row["kib_in_ns"] - 1024) < 5 and abs(row["partition_ns"] - 12 * TICK_NS) < 20 and row["explained"] > 0.99
    assert row["kib_out_ns"] is None, "all answers had one size"
    assert "for each KiB received" in result.verdicts[1] and "for each partition" in result.verdicts[1]


def test_what_a_request_costs_whatever_its_size_says_to_batch(tmp_path):
    chance = random.Random(9)
    records = [_request(n, chance.randrange(100, 9000), 1, 400 + chance.randrange(50)) for n in range(1, 200)]
    result, [row] = _run(tmp_path, records)
    assert row["partition_ns"] is None and abs(row["request_ns"] - 425 * TICK_NS) < 10 * TICK_NS
    assert "fewer and larger ones cost less" in result.verdicts[1]


@pytest.mark.parametrize(("per_byte", "kind"), [(0, "fixed_cost"), (1, "size_cost")])
def test_what_requests_cost_leads_the_list(tmp_path, per_byte, kind):
    """In the place of “the broker's own work”, which says less."""
    chance = random.Random(9)
    sizes = [chance.randrange(100, 9000) for _ in range(200)]
    ticks = [100 + size * per_byte + 4000 * (1 - per_byte) + chance.randrange(50) for size in sizes]
    records = [_request(n + 1, size, 1, took) for n, (size, took) in enumerate(zip(sizes, ticks, strict=True))]
    start = records[0].stage[AT["handler_start"]]  # nothing is read or written
    records = [
        one._replace(stage=tuple(start if place == AT["io_done"] else at for place, at in enumerate(one.stage)))
        for one in records
    ]
    _, [row] = _run(tmp_path, records)
    found = leading([tmp_path / "t"], service.STUDY)
    assert found[0].kind == kind and "work" not in {one.kind for one in found} and found[0].subject == "Produce"
    fixed = row["request_ns"] / row["mean_ns"]
    price = row["handler_ns"] * (1 - fixed if per_byte else 1.0) / 1e9
    assert found[0].cost_s == pytest.approx(price, rel=1e-6)
