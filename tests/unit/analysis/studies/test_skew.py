"""`skew`: shares of processors and handlers, in all and by window, are those of a plain count."""

from collections import Counter

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import skew
from mpbroker.trace.record import STAGES
from tests.harness.leading_findings import leading
from tests.harness.record_trace import request, write_segment

TICK_NS = 64
QUEUED = STAGES.index("dequeued")


def _run(tmp_path, records):
    write_segment(tmp_path / "t", records)
    engine = choose_engine("local", open_input([tmp_path / "t"]))
    return skew.STUDY.run(engine, StudyParameters(window_ms=100))


def test_it_is_what_a_plain_count_finds(tmp_path):
    records = [request(1_000_000_000 + n * 1_000_000, proc_id=n % 7 // 5, handler_id=n % 3) for n in range(700)]
    result = _run(tmp_path, records)
    counts = Counter(one.proc_id for one in records)
    rows = {(row["by"], row["number"]): row for row in result.tables["skew"].to_pylist()}
    assert {number: row["n"] for (by, number), row in rows.items() if by == "processor"} == counts
    assert rows["processor", 0]["share"] == counts[0] / 700 and rows["processor", 0]["even_share"] == 0.5
    epoch_ms = {row["window_ms"]: row for row in result.tables["skew_windows"].to_pylist() if row["by"] == "processor"}
    assert sum(row["n"] for row in epoch_ms.values()) == 700 and len(epoch_ms) in (7, 8)
    assert all(row["largest"] == 0 and 0.65 < row["largest_share"] < 0.8 for row in epoch_ms.values())
    assert "evenly used" in result.verdicts[0], "5 of 7 is less than half as much again as an even share"


def test_one_processor_with_nearly_everything_is_told(tmp_path):
    records = [request(1_000_000_000 + n * 1_000_000, proc_id=int(n % 10 == 0)) for n in range(400)]
    result = _run(tmp_path, records)
    assert result.verdicts[0].startswith("Processor 0 took 90 % of the requests, an even share is 50 %")
    assert "over more connections" in result.verdicts[0] and "There is one handler" in result.verdicts[1]


def test_uneven_handlers_matter_only_when_they_are_busy(tmp_path):
    idle = [request(1_000_000_000 + n * 1_000_000, handler_id=int(n % 10 == 0)) for n in range(400)]
    assert "how it should be" in _run(tmp_path / "idle", idle).verdicts[1]
    busy = [request(1_000_000_000 + n * 1_000, handler_id=int(n % 10 == 0)) for n in range(400)]
    assert "look at what holds up the others" in _run(tmp_path / "busy", busy).verdicts[1]


def test_an_uneven_load_that_costs_time_leads_the_list(tmp_path):
    """Requests wait for the processor that has most of them, and not for the other."""
    records = [
        request(1_000_000_000 + n * 1_000_000, proc_id=int(n % 10 == 0), rx_wait=5 if n % 10 == 0 else 9005)
        for n in range(400)
    ]
    _run(tmp_path, records)
    first = leading([tmp_path / "t"], skew.STUDY)[0]
    assert first.kind == "uneven_processors" and first.cost_s == 360 * 9000 * TICK_NS / 1e9
    for n in range(400):
        records[n] = records[n]._replace(rx_wait=5)
    _run(tmp_path / "even", records)
    assert "uneven_processors" not in {one.kind for one in leading([tmp_path / "even" / "t"], skew.STUDY)}


def test_an_uneven_use_of_busy_handlers_leads_the_list(tmp_path):
    records = [request(1_000_000_000 + n * 1_000, handler_id=int(n % 10 == 0)) for n in range(400)]
    queued = [
        one._replace(stage=tuple(at + 9000 * (place >= QUEUED) for place, at in enumerate(one.stage)))
        for one in records
    ]
    _run(tmp_path, queued)
    found = leading([tmp_path / "t"], skew.STUDY)
    [one] = [one for one in found if one.kind == "uneven_handlers"]
    assert one.cost_s == 400 * 9010 * TICK_NS * (0.9 - 0.5) / 1e9
