"""What requests waited for in the request rings, and what handlers did meanwhile: one broker of one run at a time.

Pure but for the engine. From single requests in their order, so not from sampled traces.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.mathematics import moments, utilisation
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.mathematics.windows import Extent
from mpbroker.analysis.engine.measures import bounded_part

MAX_REQUESTS = 5_000_000
_COLUMNS = ("run", "broker", "plane", "handler", "epoch_ns", "ring", "seq", *moments.COLUMNS)
NO_HANDLER = -1


class HandlerWork(NamedTuple):
    """Requests of one broker that came out of a request ring, in the order in which they were put there.

    handlers    how many there were
    handled     when a handler let go of it: answered, parked or handed over
    starved_s   seconds in which handlers, together, were ready but had no core; None: the system does not tell
    first_epoch_ns      nanoseconds since 1970 of the first one's coming into the ring
    table       what else was asked for of them, beside what their moments need
    """

    run: str
    broker: int
    handlers: int
    plane: npt.NDArray[Any]
    handler: Int64s
    enqueued: Int64s
    dequeued: Int64s
    handled: Int64s
    starved_s: float | None
    first_epoch_ns: int
    table: pa.Table

    @property
    def wait(self) -> Int64s:
        """Nanoseconds in the ring."""
        return self.dequeued - self.enqueued

    @property
    def service(self) -> Int64s:
        """Nanoseconds in a handler's hands."""
        busy: Int64s = np.maximum(self.handled - self.dequeued, 0)
        return busy


def read(
    engine: Engine, found: Extent, more: Sequence[str] = (), most: int = MAX_REQUESTS
) -> tuple[list[HandlerWork], list[str]]:
    """Of all brokers, with `more` columns; and a sentence where the trace is larger than `most`, or only a part of it
    was read."""
    where, said = bounded_part.where(found, most)
    if engine.input.rows != RowFilter(brokers=engine.input.rows.brokers):
        said.append("Only a part of the trace was read: a handler that was at work for others counts as free here.")
    table, gauges = engine.requests([*_COLUMNS, *more], where), engine.input.gauges()
    when = moments.of(table)
    taken = moments.present(table, "queue_ns")
    used = utilisation.of_processes(gauges)
    works = []
    for (run, broker), rows in moments.groups(table, ("run", "broker")):
        rows = rows[taken[rows]]
        if len(rows):
            rows = rows[np.lexsort((*_numbers(table, rows), when.dequeued[rows], when.enqueued[rows]))]
            works.append(_work(run, broker, table, when, rows, used))
    return works, said


def _numbers(table: pa.Table, rows: Int64s) -> list[Int64s]:
    """What puts requests of one moment in the same order, whichever engine read them."""
    return [np.asarray(table[name].to_numpy(), np.int64)[rows] for name in ("seq", "ring")]


def _work(run: str, broker: int, table: pa.Table, when: moments.Moments, rows: Int64s, used: pa.Table) -> HandlerWork:
    handler = np.asarray(table["handler"].fill_null(NO_HANDLER).to_numpy(), np.int64)[rows]
    epoch = np.asarray(table["epoch_ns"].to_numpy(), np.int64)[rows]
    mine = [row for row in _handlers_of(used, run, broker) if epoch.min() <= row["epoch_ns"]]
    waits = [row["runqueue_share"] for row in mine]
    known = bool(waits) and None not in waits
    return HandlerWork(
        run,
        broker,
        max(len(np.unique(handler[handler >= 0])), len({row["process"] for row in mine})),
        np.asarray(table["plane"].to_numpy(zero_copy_only=False))[rows],
        handler,
        when.enqueued[rows],
        when.dequeued[rows],
        np.maximum(when.handled, when.dequeued)[rows],
        sum(row["seconds"] * row["runqueue_share"] for row in mine) if known else None,
        int((epoch - table["t0_ns"].to_numpy()[rows]).min() + when.enqueued[rows[0]]),
        table.take(rows),
    )


def _handlers_of(used: pa.Table, run: str, broker: int) -> list[dict[str, Any]]:
    here = pc.and_(pc.equal(used["run"], run), pc.equal(used["broker"], broker))
    found: list[dict[str, Any]] = used.filter(pc.and_(here, pc.equal(used["role"], "handler"))).to_pylist()
    return found
