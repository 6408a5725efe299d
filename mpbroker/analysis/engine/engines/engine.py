"""What every engine does with a trace: rollup, activity, requests. Two engines give the same integers for the same
trace.

Runs in a command's process; choose_engine.py picks one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from mpbroker.errors import MpbrokerError

if TYPE_CHECKING:
    import pyarrow as pa

    from mpbroker.analysis.engine.input.trace_input import TraceInput

#: What `by` may name; the columns are those of the requests frame.
GROUPS = ("run", "broker", "api", "listener", "plane", "client", "processor", "handler", "error")


class EngineError(MpbrokerError):
    """An engine cannot be had, or was asked for something it does not know."""

    exit_code = 2


class Ask(NamedTuple):
    """A table that an engine is asked for: its `rollup` or `activity` of these windows and groups."""

    kind: Literal["rollup", "activity"]
    window_ms: int
    by: tuple[str, ...] = ()


class Where(NamedTuple):
    """Which requests: times in nanoseconds since 1970 (from_ns <= epoch_ns < to_ns), names as the frame has them.

    `order`: a frame column, "-" before it for falling; ties by epoch_ns, run, broker, ring, seq. `limit`: at most so
    many, after ordering. Without an order the rows come in no particular one.
    """

    from_ns: int | None = None
    to_ns: int | None = None
    apis: tuple[str, ...] | None = None
    planes: tuple[str, ...] | None = None
    min_total_ns: int | None = None
    limit: int | None = None
    order: str | None = None


class Engine(ABC):
    """Sums up the requests of one TraceInput (whose own limits on time, api and broker always hold)."""

    name: str = ""
    #: Whether `requests` can be asked: a rollup table has none.
    keeps_requests = True
    #: Windows are made of whole ones of this length.
    least_window_ms = 1

    def __init__(self, source: "TraceInput") -> None:
        self.input = source

    @abstractmethod
    def tables(self, asks: Sequence[Ask]) -> "list[pa.Table]":
        """What `rollup` and `activity` give, in the order asked: all from one scan of the trace. `by` is checked."""

    def rollup(self, window_ms: int, by: Sequence[str] = ()) -> "pa.Table":
        """Histograms: window_ms int64 (start of the window, milliseconds since 1970), *by, stage string, bucket int32,
        n int64 (weighted), sum_ns int64 (weighted), max_ns int64; sorted by all of them in this order.

        Stages are durations.ROLLUP_STAGES; missing durations are not counted. `window_ms` 0: one window that begins at
        0.
        """
        return self.tables([Ask("rollup", window_ms, check_groups(by))])[0]

    def activity(self, window_ms: int, by: Sequence[str] = ()) -> "pa.Table":
        """Sums per window: window_ms int64, *by, then int64 all: n, errors, req_bytes, resp_bytes, throttled, aux_sum,
        handler_ns, saturated, backwards (weighted), first_epoch_ns, last_epoch_ns; sorted by window and `by`.
        """
        return self.tables([Ask("activity", window_ms, check_groups(by))])[0]

    def percentiles(self, asks: Sequence[Ask]) -> "list[pa.Table]":
        """Of the rollups asked for, without their histograms: window_ms, *by, stage, n, sum_ns, max_ns, and `p50_ns`,
        `p99_ns` (float64), in the same order. What an engine brings together for it does not grow with the histograms.
        """
        from mpbroker.analysis.engine.engines import quantiles

        return [quantiles.of_rollup(table, ask.by) for table, ask in zip(self.tables(asks), asks, strict=True)]

    @abstractmethod
    def requests(self, columns: Sequence[str] | None = None, where: Where = Where()) -> "pa.Table":
        """Single requests with columns of columns.FRAME (None: all)."""

    def close(self) -> None:  # noqa: B027 (most engines hold nothing)
        """Give back what the engine holds (a Spark session that it started)."""


def check_groups(by: Sequence[str]) -> tuple[str, ...]:
    """`by` as a tuple; EngineError when it names something that cannot be grouped by."""
    unknown = [name for name in by if name not in GROUPS]
    if unknown or len(set(by)) != len(by):
        raise EngineError(f"cannot group by {', '.join(unknown or by)}; there are: {', '.join(GROUPS)}")
    return tuple(by)
