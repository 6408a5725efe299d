"""Client logs as one table, each row beside the broker's own record of that request.

Runs in the process of `mpbroker lab run`; needs the extra `studies`. Rows are joined by client hash and correlation id:
the generators use no correlation id twice in one variant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.engine.engines.local_engine import LocalEngine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.lab import arrivals, client_log, on_time
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
Columns = dict[str, np.ndarray]


def client_table(results: list[VariantResult]) -> pa.Table:
    """variant, repeat, phase, group, loop, process, connection, port, corr_id, error, intended_ns, ready_ns, sent_ns,
    arrived_ns, done_ns (null: never or not known), answered, latency_ns (done − intended; of a request without an
    answer: until the end of its run, which is less than the truth), net_ns (that without ready → sent and arrived →
    done, the client's own wait for a core), and TRACE_COLUMNS. `ready_ns` is when a request might have gone, had the
    generator been on time with it and with those before it. `process` is the generator process of the group."""
    return pa.concat_tables([_joined(result) for result in results])


def _joined(result: VariantResult) -> pa.Table:
    engine = LocalEngine(open_input([result.trace_dir]))
    try:
        trace = engine.requests([*_KEYS, "t0_ns", *TRACE_COLUMNS], Where())
    finally:
        engine.close()
    tables = [_log_table(result, group, path, trace) for group, paths in result.logs.items() for path in paths]
    return pa.concat_tables(tables).sort_by("intended_ns")


def _log_table(result: VariantResult, group: str, path: Path, trace: pa.Table) -> pa.Table:
    """The requests of one generator process, each beside its record."""
    about, columns = client_log.read(path)
    data: Columns = {
        name: np.frombuffer(values, dtype=values.typecode) if len(values) else np.empty(0, values.typecode)
        for name, values in columns.items()
    }
    count = len(data["corr_id"])
    keys = {"client_hash": np.full(count, client_hash(about["client_id"]), "int64"), "corr_id": data["corr_id"]}
    rows = pa.table({**keys, "row": np.arange(count)})
    records = rows.join(trace, keys=_KEYS, join_type="left outer", use_threads=False).sort_by("row")
    table = _clients(result, group, about, _as_it_arrived(result, about, data, records))
    for name in TRACE_COLUMNS:
        table = table.append_column(name, records[name])
    return table


def _as_it_arrived(result: VariantResult, about: dict[str, Any], data: Columns, records: pa.Table) -> Columns:
    """The log with arrivals, and what follows from them, as the trace knows them too."""
    send_done = pc.fill_null(pc.add(records["t0_ns"], records["total_ns"]), -1).to_numpy()
    arrived = arrivals.arrived_ns(data["arrived_ns"], data["done_ns"], data["sent_ns"], send_done)
    noted = np.where(data["arrived_ns"] >= 0, data["arrived_ns"], data["done_ns"])
    begins = np.array([begin for _, begin, _ in result.phases])
    closed = about["loop"] == "closed"
    least = begins[_phase_places(result, data["intended_ns"])] if closed else data["intended_ns"]
    ready = arrivals.ready_ns(
        data["connection"], data["corr_id"], about["in_flight"], data["ready_ns"], noted, arrived, least
    )
    intended = ready if closed else data["intended_ns"]
    freed = np.where(arrived >= 0, arrived, data["done_ns"])
    sends = on_time.Sends(data["connection"], data["corr_id"], intended, ready, data["sent_ns"], freed)
    on_time_ns = on_time.ready_ns(sends, about["in_flight"])
    return {**data, "arrived_ns": arrived, "intended_ns": intended, "ready_ns": on_time_ns}


def _phase_places(result: VariantResult, at_ns: np.ndarray) -> np.ndarray:
    begins = np.array([begin for _, begin, _ in result.phases])
    return np.clip(np.searchsorted(begins, at_ns, side="right") - 1, 0, None)


def _clients(result: VariantResult, group: str, about: dict[str, Any], data: Columns) -> pa.Table:
    answered, count = data["done_ns"] >= 0, len(data["done_ns"])
    end_ns = max(result.phases[-1][2], int(data["done_ns"].max(initial=0)))
    phases = np.array([name for name, _, _ in result.phases])
    ports = np.array([*about["ports"], 0])
    latency = np.where(answered, data["done_ns"], end_ns) - data["intended_ns"]
    return pa.table(
        {
            "variant": pa.array([result.variant.name] * count, pa.string()),
            "repeat": np.full(count, result.repeat, "int32"),
            "phase": pa.array(phases[_phase_places(result, data["intended_ns"])], pa.string()),
            "group": pa.array([group] * count, pa.string()),
            "loop": pa.array([about["loop"]] * count, pa.string()),
            "process": np.full(count, about["process"], "int32"),
            "connection": (data["connection"] + about["first_client"]).astype("int32"),
            "port": ports[data["connection"]].astype("int32"),
            "corr_id": data["corr_id"],
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


def _own_wait_ns(data: Columns) -> np.ndarray:
    """Nothing where it is not known."""
    before = np.where(data["sent_ns"] >= 0, data["sent_ns"] - data["ready_ns"], 0)
    return before + np.where(data["arrived_ns"] >= 0, data["done_ns"] - data["arrived_ns"], 0)
