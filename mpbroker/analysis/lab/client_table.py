"""Client logs as one table, each row beside the broker's own record of that request.

Runs in the process of `mpbroker lab run`; needs the extra `studies`. Rows are joined by client hash and correlation id:
the generators use no correlation id twice in one variant.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.engine.engines.local_engine import LocalEngine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.lab import client_log
from mpbroker.analysis.lab.variant_run import VariantResult
from mpbroker.client.prepared_request import client_hash

#: What is taken over from the trace; null where the trace has no record of the request.
TRACE_COLUMNS = (
    "rx_wait_ns",
    "queue_ns",
    "local_ns",
    "purgatory_ns",
    "total_ns",
    "true_total_ns",
    "epoch_ns",
    "conn_id",
    "processor",
    "handler",
    "plane",
)
_KEYS = ["client_hash", "corr_id"]


def client_table(results: list[VariantResult]) -> pa.Table:
    """variant, phase, group, loop, connection, port, corr_id, error, intended_ns, ready_ns, sent_ns, arrived_ns,
    done_ns (null: never or not known), answered, latency_ns (done − intended; of a request without an answer: until the
    end of its run, which is less than the truth), net_ns (that without ready → sent and arrived → done, the client's
    own wait for a core), and TRACE_COLUMNS."""
    return pa.concat_tables([_joined(result) for result in results])


def _joined(result: VariantResult) -> pa.Table:
    logs = pa.concat_tables([_group_table(result, name, path) for name, path in result.logs.items()])
    engine = LocalEngine(open_input([result.trace_dir]))
    try:
        trace = engine.requests([*_KEYS, *TRACE_COLUMNS], Where())
    finally:
        engine.close()
    joined = logs.join(trace, keys=_KEYS, join_type="left outer", use_threads=False)
    return joined.drop_columns(["client_hash"]).sort_by("intended_ns")


def _group_table(result: VariantResult, group: str, path: Path) -> pa.Table:
    about, columns = client_log.read(path)
    data = {
        name: np.frombuffer(values, dtype=values.typecode) if len(values) else np.empty(0, values.typecode)
        for name, values in columns.items()
    }
    answered = data["done_ns"] >= 0
    end_ns = max(result.phases[-1][2], int(data["done_ns"].max(initial=0)))
    begins = np.array([begin for _, begin, _ in result.phases])
    phases = np.array([name for name, _, _ in result.phases])
    ports = np.array([*about["ports"], 0])
    count = len(answered)
    latency = np.where(answered, data["done_ns"], end_ns) - data["intended_ns"]
    place = np.clip(np.searchsorted(begins, data["intended_ns"], side="right") - 1, 0, None)
    return pa.table(
        {
            "variant": pa.array([result.variant.name] * count, pa.string()),
            "phase": pa.array(phases[place], pa.string()),
            "group": pa.array([group] * count, pa.string()),
            "loop": pa.array([about["loop"]] * count, pa.string()),
            "connection": data["connection"],
            "port": ports[data["connection"]].astype("int32"),
            "corr_id": data["corr_id"],
            "client_hash": np.full(count, client_hash(about["client_id"]), "int64"),
            "error": data["error"],
            "intended_ns": data["intended_ns"],
            "ready_ns": pa.array(data["ready_ns"], mask=data["ready_ns"] < 0),
            "sent_ns": pa.array(data["sent_ns"], mask=data["sent_ns"] < 0),
            "arrived_ns": pa.array(data["arrived_ns"], mask=data["arrived_ns"] < 0),
            "done_ns": pa.array(data["done_ns"], mask=~answered),
            "answered": answered,
            "latency_ns": latency,
            "net_ns": latency - _own_wait_ns(data),
        }
    )


def _own_wait_ns(data: dict[str, np.ndarray]) -> np.ndarray:
    """Nothing where it is not known."""
    before = np.where(data["sent_ns"] >= 0, data["sent_ns"] - data["ready_ns"], 0)
    return before + np.where(data["arrived_ns"] >= 0, data["done_ns"] - data["arrived_ns"], 0)
