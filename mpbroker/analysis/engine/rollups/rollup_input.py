"""A rollup table as studies find it: what of a trace it still knows. Runs in a command's process; reads only.

It knows which segments it counts, and so what was lost; it has no single records, so no gauges, markers or connections.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from mpbroker.analysis.engine.input.boot import Boot
from mpbroker.analysis.engine.input.clock_line import ClockLine
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.input.events import EVENTS
from mpbroker.analysis.engine.input.losses import Gap, Loss, sentences_of
from mpbroker.analysis.engine.input.trace_input import TraceInput
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.layout import RollupError
from mpbroker.analysis.engine.rollups.store import RollupStore


class RollupInput(TraceInput):
    """Of one table. `rows` holds for hours as a whole."""

    def __init__(self, table: RollupStore, rows: RowFilter = RowFilter()) -> None:
        for name, at in (("--from", rows.from_ns), ("--to", rows.to_ns)):
            if at is not None and at % layout.HOUR_NS:
                raise RollupError(f"a rollup table is cut at whole hours, and {name} is none")
        self.table = table
        counted = table.read(layout.SEGMENTS, rows).to_pylist()
        if not counted:
            raise RollupError(f"{table.root} counts no segment of that time and those brokers")
        loss = loss_of(counted)
        boots = sorted({(row["broker"], row["run"]) for row in counted})
        super().__init__(
            rows,
            loss=loss,
            clocks={Boot(broker, int(run, 16)): ClockLine(()) for broker, run in boots},
            dictionaries=(),
            sources=[row["file"] for row in counted],
            is_sampled=loss.sampled_out > 0,
        )

    @property
    def kind(self) -> str:
        return "rollup"

    @property
    def files(self) -> int:
        return self.table.file_count("counts", self.rows)

    @cached_property
    def _events(self) -> pa.Table:
        return EVENTS.empty_table()


def loss_of(counted: Sequence[dict[str, Any]]) -> Loss:
    """What these segments say was lost, between them too."""
    finished, records, dropped, sampled_out = (
        sum(row[name] for row in counted) for name in ("finished", "records", "dropped", "sampled_out")
    )
    loss = Loss(finished, records, dropped, sampled_out, tuple(_gaps(counted)))
    return loss._replace(sentences=tuple(sentences_of(loss)))


def _gaps(counted: Sequence[dict[str, Any]]) -> Iterator[Gap]:
    reached: dict[tuple[int, str, int], int] = {}
    for row in sorted(counted, key=lambda row: (row["first_seq"], row["next_seq"])):
        lane = row["broker"], row["run"], row["ring"]
        before = reached.get(lane, row["first_seq"])
        missing = max(0, row["first_seq"] - before) + row["missing"]
        if missing:
            yield Gap(row["run"], row["broker"], row["ring"], before, missing, row["begun_ns"])
        reached[lane] = max(before, row["next_seq"])
