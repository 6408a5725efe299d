"""An engine that scans the trace as seldom as it can: a table that follows from one it has is derived, not read again.

Tables of several studies often are sums of each other: a rollup per second and API contains the one per API, or of the
whole. Sums are exact, so they are the same integers. The runner puts one around either engine for the time of a run:
what its studies will ask for is read in one scan before (`prepare`). Single requests are never kept.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from mpbroker.analysis.engine.engines.accumulate import ACTIVITY_SUMS
from mpbroker.analysis.engine.engines.engine import Ask, Engine, Where, check_groups
from mpbroker.analysis.engine.input.column_set import sorted_table

MAX_ROWS = 1_000_000
_ROLLUP = (("n", "sum"), ("sum_ns", "sum"), ("max_ns", "max"))
_ACTIVITY = (*((name, "sum") for name in ACTIVITY_SUMS), ("first_epoch_ns", "min"), ("last_epoch_ns", "max"))


class ReusingEngine(Engine):
    """Keeps the tables of the engine it was given, those of up to a million rows."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner.input)
        self.name = inner.name
        self._inner = inner
        self.keeps_requests, self.least_window_ms = inner.keeps_requests, inner.least_window_ms
        self._rollups: dict[tuple[int, tuple[str, ...]], pa.Table] = {}
        self._activities: dict[tuple[int, tuple[str, ...]], pa.Table] = {}

    def rollup(self, window_ms: int, by: Sequence[str] = ()) -> pa.Table:
        groups = check_groups(by)
        return _reused(self._rollups, window_ms, groups, self._inner.rollup, merge_rollup)

    def activity(self, window_ms: int, by: Sequence[str] = ()) -> pa.Table:
        groups = check_groups(by)
        return _reused(self._activities, window_ms, groups, self._inner.activity, merge_activity)

    def tables(self, asks: Sequence[Ask]) -> list[pa.Table]:
        self.prepare(asks)
        return [(self.rollup if ask.kind == "rollup" else self.activity)(ask.window_ms, ask.by) for ask in asks]

    def percentiles(self, asks: Sequence[Ask]) -> list[pa.Table]:
        if type(self._inner).percentiles is Engine.percentiles:
            return super().percentiles(asks)  # of the tables there are
        return self._inner.percentiles(asks)

    def prepare(self, asks: Sequence[Ask]) -> None:
        """Read what these tables take, in one scan: those that follow from what there is, or from another, are left
        out."""
        wanted = [ask for ask in dict.fromkeys(asks) if not self._follows(ask)]
        finest: list[Ask] = []
        for ask in sorted(wanted, key=lambda one: (-len(one.by), one.window_ms == 0, one.window_ms)):
            if not any(_follows_from(ask, other) for other in finest):
                finest.append(ask)
        if len(finest) > 1:
            for ask, table in zip(finest, self._inner.tables(finest), strict=True):
                self._known(ask)[ask.window_ms, ask.by] = table

    def _known(self, ask: Ask) -> dict[tuple[int, tuple[str, ...]], pa.Table]:
        return self._rollups if ask.kind == "rollup" else self._activities

    def _follows(self, ask: Ask) -> bool:
        return any(_follows_from(ask, Ask(ask.kind, *known)) for known in self._known(ask))

    def requests(self, columns: Sequence[str] | None = None, where: Where = Where()) -> pa.Table:
        return self._inner.requests(columns, where)

    def close(self) -> None:
        self._inner.close()


def merge_rollup(table: pa.Table, window_ms: int | None, by: Sequence[str]) -> pa.Table:
    """Rows of rollups added up, into windows of `window_ms` (0: one; None: as they are) and by fewer groups."""
    return _folded(table, window_ms, (*by, "stage", "bucket"), _ROLLUP)


def merge_activity(table: pa.Table, window_ms: int | None, by: Sequence[str]) -> pa.Table:
    """Rows of activities added up, in the same way."""
    return _folded(table, window_ms, tuple(by), _ACTIVITY)


def _reused(
    known: dict[tuple[int, tuple[str, ...]], pa.Table],
    window_ms: int,
    by: tuple[str, ...],
    compute: Callable[[int, Sequence[str]], pa.Table],
    merge: Callable[[pa.Table, int | None, Sequence[str]], pa.Table],
) -> pa.Table:
    if (window_ms, by) not in known:
        finer = [
            table for (width, groups), table in known.items() if set(by) <= set(groups) and _contains(window_ms, width)
        ]
        table = merge(min(finer, key=len), window_ms, by) if finer else compute(window_ms, by)
        if table.num_rows > MAX_ROWS:
            return table
        known[window_ms, by] = table
    return known[window_ms, by]


def _follows_from(ask: Ask, other: Ask) -> bool:
    return ask.kind == other.kind and set(ask.by) <= set(other.by) and _contains(ask.window_ms, other.window_ms)


def _contains(window_ms: int, width_ms: int) -> bool:
    """Whether windows of `window_ms` (0: endless) are made of whole ones of `width_ms`."""
    return window_ms == width_ms or window_ms == 0 or (width_ms > 0 and window_ms % width_ms == 0)


def _folded(table: pa.Table, window_ms: int | None, keys: Sequence[str], sums: Sequence[tuple[str, str]]) -> pa.Table:
    if window_ms is not None:
        window = table.column("window_ms").to_numpy()
        window = window // window_ms * window_ms if window_ms else window * 0
        table = table.set_column(table.column_names.index("window_ms"), "window_ms", pa.array(window, pa.int64()))
    keys = ["window_ms", *keys]
    added = table.group_by(keys).aggregate(list(sums)).select([*keys, *(f"{name}_{how}" for name, how in sums)])
    return sorted_table(added.rename_columns([*keys, *(name for name, _ in sums)]), keys)
