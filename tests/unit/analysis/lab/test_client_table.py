"""A client's log beside the broker's records: arrivals, and what follows from them, are what both know together."""

from pathlib import Path

import pyarrow as pa
import pytest

from mpbroker.analysis.lab.client_log import NEVER, ClientLog
from mpbroker.analysis.lab.client_table import TRACE_COLUMNS, _log_table
from mpbroker.analysis.lab.scenario import Variant
from mpbroker.analysis.lab.variant_run import VariantResult
from mpbroker.client.prepared_request import client_hash

TRACE = pa.schema(
    [("client_hash", pa.int64()), ("corr_id", pa.int32()), *((name, pa.int64()) for name in ("t0_ns", *TRACE_COLUMNS))]
)


@pytest.mark.parametrize(("loop", "intended"), [("open", [100, 120]), ("closed", [100, 200])])
def test_an_answer_arrived_when_the_broker_had_sent_it(tmp_path, loop, intended):
    """One in flight. The generator stalled: it read the first answer at 1000 and found it stamped with 900; it came at
    150 + 50. So the second request was held back until 200, and no record says better when its own answer came."""
    log = ClientLog(10)
    log.add(0, 1, 0, 100, 100, 110, 900, 1000)
    log.add(0, 2, 0, 120 if loop == "open" else 900, 900, 1010, 1500, 1500)
    found = _found(tmp_path, log, loop, [(client_hash("g"), 1, 150, 50), (client_hash("other"), 2, 150, 60)])
    ready = [100, 190 if loop == "open" else 200]  # the first was sent 10 late, so its answer came 10 late
    assert found["arrived_ns"] == [200, 1500] and found["ready_ns"] == ready
    assert found["intended_ns"] == intended and found["total_ns"] == [50, None]
    assert found["latency_ns"] == [900, 1500 - intended[1]]
    assert found["net_ns"] == [900 - 10 - (1000 - 200), 1500 - intended[1] - (1010 - ready[1])]


def test_what_was_behind_a_late_request_is_not_the_brokers(tmp_path):
    """One in flight. The generator slept from 100 to 1000, and the broker answered each request in 50."""
    log = ClientLog(10)
    log.add(0, 1, 0, 100, 100, 1000, 1050, 1050)
    log.add(0, 2, 0, 200, 1050, 1050, 1100, 1100)
    log.add(0, 3, 0, 220, 1100, 1100, 1150, 1150)
    found = _found(tmp_path, log, "open", [(client_hash("g"), 1, 1000, 50)])
    assert found["latency_ns"] == [950, 900, 930]
    assert found["net_ns"] == [50, 50, 30 + 50]  # the third would have had to wait for the second all the same
    assert found["ready_ns"] == [100, 200, 250]


def test_whom_a_request_was_behind_is_told_by_the_arrival_that_the_trace_knows(tmp_path):
    """Two in flight, both sent late and answered in 50 and 60. The answers were read at 1100, and stamped so."""
    log = ClientLog(10)
    log.add(0, 1, 0, 100, 100, 1000, 1100, 1100)
    log.add(0, 2, 0, 120, 120, 1000, 1100, 1100)
    log.add(0, 3, 0, 130, 1100, 1100, 1150, 1150)
    records = [(client_hash("g"), 1, 1000, 50), (client_hash("g"), 2, 1000, 60)]
    found = _found(tmp_path, log, "open", records, in_flight=2)
    assert found["arrived_ns"] == [1050, 1060, 1150]
    assert found["ready_ns"] == [100, 120, 150] and found["net_ns"] == [50, 60, 20 + 50]


def test_where_nobody_knows_of_an_arrival_room_was_made_when_the_answer_was_read(tmp_path):
    log = ClientLog(10)
    log.add(0, 1, 0, 100, 100, 1000, NEVER, 1100)
    log.add(0, 2, 0, 120, 120, 1000, NEVER, 1100)
    log.add(0, 3, 0, 130, 1100, 1100, NEVER, 1150)
    assert _found(tmp_path, log, "open", [], in_flight=2)["ready_ns"] == [100, 120, 200]


def _found(tmp_path, log, loop, records, in_flight=1):
    about = {"client_id": "g", "loop": loop, "in_flight": in_flight, "ports": [7], "process": 0, "first_client": 0}
    log.write(tmp_path / "log", about)
    names = ("client_hash", "corr_id", "t0_ns", "total_ns")
    trace = pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in records], TRACE)
    result = VariantResult(Variant("v", False, {}), Path(), {}, [("all", 0, 2000)], {})
    return _log_table(result, "g", tmp_path / "log", trace).to_pydict()
