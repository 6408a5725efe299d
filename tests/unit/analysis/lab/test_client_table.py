"""A client's log beside the broker's records: arrivals, and what follows from them, are what both know together."""

from pathlib import Path

import pyarrow as pa
import pytest

from mpbroker.analysis.lab.client_log import ClientLog
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
    about = {"client_id": "g", "loop": loop, "in_flight": 1, "ports": [7], "process": 0, "first_client": 0}
    log.write(tmp_path / "log", about)
    records = ((client_hash("g"), 1, 150, 50), (client_hash("other"), 2, 150, 60))
    names = ("client_hash", "corr_id", "t0_ns", "total_ns")
    trace = pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in records], TRACE)
    result = VariantResult(Variant("v", False, {}), Path(), {}, [("all", 0, 2000)], {})
    found = _log_table(result, "g", tmp_path / "log", trace).to_pydict()
    assert found["arrived_ns"] == [200, 1500] and found["ready_ns"] == [100, 200]
    assert found["intended_ns"] == intended and found["total_ns"] == [50, None]
    assert found["latency_ns"] == [900, 1500 - intended[1]]
    assert found["net_ns"] == [900 - 10 - (1000 - 200), 1500 - intended[1] - (1010 - 200)]
