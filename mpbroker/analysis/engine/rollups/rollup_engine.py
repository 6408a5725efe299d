"""Tables of an engine from a rollup table: sums of what it keeps, or a refusal that says what it does not keep.

Runs in a command's process. Sums of whole numbers: the same integers as from the traces, but that each segment was
placed in time by its own clock samples.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Ask, Engine, EngineError, Where
from mpbroker.analysis.engine.engines.reusing_engine import merge_activity, merge_rollup
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.rollup_input import RollupInput
from mpbroker.analysis.engine.rollups.store import RollupStore

FOLDED_ROWS = 1 << 20


class RollupEngine(Engine):
    """In this process: one file after the other, each added up before the next is opened."""

    name = "local"
    keeps_requests = False
    input: RollupInput

    def __init__(self, source: RollupInput) -> None:
        super().__init__(source)
        self.least_window_ms = source.table.window_ms

    def tables(self, asks: Sequence[Ask]) -> list[pa.Table]:
        return [self._table(ask) for ask in asks]

    def _table(self, ask: Ask) -> pa.Table:
        table, rows = self.input.table, self.input.rows
        dataset = dataset_of(table, ask, rows)
        merge = merge_rollup if ask.kind == "rollup" else merge_activity
        kept = layout.schema_of(table.datasets[dataset])
        needed = {*ask.by, *(("api",) if rows.apis else ())}
        columns = [name for name in kept.names if name not in table.datasets[dataset].by or name in needed]
        empty = pa.schema([kept.field(name) for name in columns]).empty_table()
        waiting = [merge(empty, ask.window_ms, ask.by)]
        for part in table.parts(dataset, rows, columns):
            wanted = part if rows.apis is None else part.filter(pc.is_in(part["api"], pa.array(rows.apis)))
            waiting.append(merge(wanted, ask.window_ms, ask.by))
            if sum(one.num_rows for one in waiting[1:]) > max(FOLDED_ROWS, 2 * waiting[0].num_rows):
                waiting = [merge(pa.concat_tables(waiting), None, ask.by)]
        return merge(pa.concat_tables(waiting), ask.window_ms, ask.by)

    def requests(self, columns: Sequence[str] | None = None, where: Where = Where()) -> pa.Table:
        raise EngineError(f"{self.input.table.root} is a rollup table: it has no single requests")


def dataset_of(table: RollupStore, ask: Ask, rows: RowFilter) -> str:
    """The dataset that a table follows from; EngineError says what is not kept."""
    wanted = {*ask.by, *(("api",) if rows.apis else ())}
    same = {name: one for name, one in table.datasets.items() if one.kind == ask.kind and wanted <= set(one.by)}
    for name, one in same.items():
        if ask.window_ms == 0 or ask.window_ms % one.window_ms == 0:
            return name
    if same:
        width = min(one.window_ms for one in same.values())
        raise EngineError(
            f"{table.root} is a rollup table with windows of {width} ms by {', '.join(ask.by) or 'nothing'}: "
            f"--window-ms {width} or a multiple of it"
        )
    raise EngineError(
        f"{table.root} is a rollup table and keeps no {ask.kind} by {', '.join(sorted(wanted))}: "
        "ask the traces, raw or compacted"
    )
