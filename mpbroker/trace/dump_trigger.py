"""What makes the dash-cam write: a slow request, many failed ones, a process that died. The tracer's own state.

It sees every piece of records that leaves a lane. A trigger counts once in a while (`rest_ms`), or one bad minute would
fill the disk.
"""

from typing import NamedTuple

from mpbroker import _native
from mpbroker.protocol.api_keys import API_NAMES
from mpbroker.trace import dump_cause, record
from mpbroker.trace.dump_cause import Cause
from mpbroker.trace.record import NOT_REACHED, RECORD_BYTES, SATURATED, TICK_NS, TICK_SHIFT

_NS_PER_MS, _NS_PER_S = 1_000_000, 1_000_000_000
ERROR_WINDOW_S = 10
LEAST_REQUESTS = 100
_SEND_DONE = record.STAGES.index("send_done")


class TriggerLimits(NamedTuple):
    """As the settings mpbroker.trace.dashcam.* say; latency -1 and percent 0: never."""

    latency_ms: int
    error_percent: int
    rest_ms: int
    after_ms: int


class DumpTrigger:
    """Fed with records and deaths, asked once a turn. Times are monotonic nanoseconds."""

    def __init__(self, limits: TriggerLimits) -> None:
        self.limits = limits
        self.left_out = 0
        self._cause: Cause | None = None
        self._fired_ns: int | None = None
        self._seconds: dict[int, tuple[int, int]] = {}  # second → requests, failed

    def see(self, records: memoryview, now_ns: int) -> None:
        """Records that have just left a lane."""
        if self.limits.latency_ms < 0 and not self.limits.error_percent:
            return
        requests, failed, slow = _native.trace_scan(records, self._slow_ticks())
        if slow >= 0:
            self._want(dump_cause.LATENCY, _slow_text(records, slow, self.limits.latency_ms))
        if self.limits.error_percent:
            before = self._seconds.get(now_ns // _NS_PER_S, (0, 0))
            self._seconds[now_ns // _NS_PER_S] = before[0] + requests, before[1] + failed

    def died(self, text: str) -> None:
        """A process did."""
        self._want(dump_cause.DIED, text)

    def take(self, now_ns: int) -> Cause | None:
        """The trigger since the last call, if one counts; others add to `left_out`."""
        self._look_at_errors(now_ns)
        cause, self._cause = self._cause, None
        if cause is None:
            return None
        if self._fired_ns is not None and now_ns - self._fired_ns < self.limits.rest_ms * _NS_PER_MS:
            self.left_out += 1
            return None
        self._fired_ns = now_ns
        return cause

    def _look_at_errors(self, now_ns: int) -> None:
        oldest = now_ns // _NS_PER_S - ERROR_WINDOW_S
        self._seconds = {second: counts for second, counts in self._seconds.items() if second > oldest}
        requests, failed = (sum(column) for column in zip((0, 0), *self._seconds.values(), strict=True))
        too_many = bool(self.limits.error_percent) and failed * 100 >= self.limits.error_percent * requests
        if too_many and requests >= LEAST_REQUESTS:
            self._seconds.clear()
            self._want(dump_cause.ERRORS, f"{failed} of {requests} requests failed within {ERROR_WINDOW_S} s")

    def _slow_ticks(self) -> int:
        if self.limits.latency_ms < 0:
            return NOT_REACHED
        return min(self.limits.latency_ms * _NS_PER_MS >> TICK_SHIFT, SATURATED)

    def _want(self, kind: str, text: str) -> None:
        """The first of a turn stands for those after it."""
        if self._cause is None:
            self._cause = dump_cause.now(kind, text, self.limits.after_ms)


def _slow_text(records: memoryview, index: int, limit_ms: int) -> str:
    one = record.unpack(records, index * RECORD_BYTES)
    name = API_NAMES.get(one.api_key, f"Api{one.api_key}")
    waited = 0 if one.rx_wait == NOT_REACHED else one.rx_wait
    taken_ms = (one.stage[_SEND_DONE] + waited) * TICK_NS // _NS_PER_MS
    return f"{name} of connection {one.conn_id:#x} took {taken_ms} ms; the limit is {limit_ms} ms"
