"""`slowclient`: rates, slow answers and memory held are those of a plain loop over the records."""

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import slowclient
from mpbroker.trace.record import NOT_REACHED, STAGES
from tests.harness.leading_findings import leading
from tests.harness.record_trace import request, write_segment

TICK_NS = 64
AT = {name: place for place, name in enumerate(STAGES)}


def _answer(number, client_hash, size, send_ticks):
    one = request(1_000_000_000 + number * 10_000_000, client_hash=client_hash, resp_bytes=size, corr_id=number)
    stage = list(one.stage)
    stage[AT["send_done"]] = stage[AT["resp_deq"]] + send_ticks
    return one._replace(stage=tuple(stage))


def _run(tmp_path, records):
    write_segment(tmp_path / "t", records)
    result = slowclient.STUDY.run(choose_engine("local", open_input([tmp_path / "t"])), StudyParameters())
    return result, {row["client"]: row for row in result.tables["slowclient"].to_pylist()}


def test_it_is_what_a_plain_loop_finds(tmp_path):
    slow_ticks = slowclient.SLOW_NS // TICK_NS
    records = [_answer(n, 7, 1_000_000, slow_ticks * (3 if n % 4 == 0 else 0) + 50) for n in range(100)]
    records += [_answer(n, 8, 500, 40) for n in range(100)]
    result, rows = _run(tmp_path, records)
    took = [(one.stage[AT["send_done"]] - one.stage[AT["resp_deq"]]) * TICK_NS for one in records[:100]]
    slow = [ns for ns in took if ns > slowclient.SLOW_NS]
    row = rows["client 00000007"]
    assert (row["slow"], row["slow_ns"], row["slow_bytes"]) == (len(slow), sum(slow), 1_000_000 * len(slow)) and slow
    assert row["send_ns"] == sum(took) and row["bytes_s"] == 1e9 * 1_000_000 * len(slow) / sum(slow)
    assert row["held_byte_s"] == sum(ns // 1000 for ns in took) * 1_000_000 // 1_000_000
    assert row["send_p99_ns"] == sorted(took)[98] and rows["client 00000008"]["slow"] == 0
    assert result.verdicts[0].startswith("“client 00000007” takes its answers at 33 MB/s")


def test_quick_ones_are_left_alone(tmp_path):
    result, _ = _run(tmp_path, [_answer(n, 8, 500, 40) for n in range(100)])
    assert result.verdicts[0].startswith("No client is slow") and "Change nothing" in result.verdicts[0]


def test_an_answer_that_was_never_sent_to_its_end_counts(tmp_path):
    """Its connection ended first: the slowest of all."""
    slow_ticks = slowclient.SLOW_NS // TICK_NS
    records = [_answer(n, 7, 1_000_000, 50) for n in range(20)]
    stage = [*records[0].stage]
    stage[AT["send_start"]], stage[AT["send_done"]] = stage[AT["resp_deq"]] + 9 * slow_ticks, NOT_REACHED
    result, rows = _run(tmp_path, [records[0]._replace(stage=tuple(stage)), *records[1:]])
    assert rows["client 00000007"]["slow"] == 1 and "takes its answers at 11 MB/s" in result.verdicts[0]


def test_a_slow_reader_leads_the_list(tmp_path):
    """In the place of “sending the answer”, at the price of the answers that were slow."""
    slow_ticks = slowclient.SLOW_NS // TICK_NS
    _, rows = _run(tmp_path, [_answer(n, 7, 1_000_000, slow_ticks * (3 if n % 4 == 0 else 0) + 50) for n in range(100)])
    found = leading([tmp_path / "t"], slowclient.STUDY)
    assert (found[0].kind, found[0].subject) == ("slow_reader", "client 00000007")
    assert found[0].cost_s == rows["client 00000007"]["slow_ns"] / 1e9 and "send" not in {one.kind for one in found}
