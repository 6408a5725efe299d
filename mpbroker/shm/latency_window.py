"""How long requests took in the last minute, stage by stage, from the counts that processors keep anyway: the
difference of two samples. Pure; the admin process and `mpbroker trace top` feed it. Requests pay nothing for it.
"""

from collections import deque
from typing import Any, Final, NamedTuple

from mpbroker.shm.request_metrics import STAGES, ApiMetrics, Histogram

WINDOW_S: Final = 60.0
EVERY_S: Final = 5.0
"""How far samples have to lie apart to be kept."""
STAGE_NAMES: Final = {
    "RequestQueueTimeMs": "queue",
    "LocalTimeMs": "local",
    "RemoteTimeMs": "remote",
    "ResponseQueueTimeMs": "response_queue",
    "ResponseSendTimeMs": "send",
    "TotalTimeMs": "total",
}


class _Sample(NamedTuple):
    taken_s: float
    apis: dict[int, ApiMetrics]


class ApiLatencies(NamedTuple):
    """An API within the window. `stages`: name → (p50, p99) in milliseconds; None where no request reached it."""

    api_key: int
    requests: int
    per_s: float
    errors: int
    stages: dict[str, tuple[float, float] | None]


class LatencyWindow:
    """Samples of about a minute; times are monotonic seconds."""

    def __init__(self, window_s: float = WINDOW_S, every_s: float = EVERY_S) -> None:
        self._window_s, self._every_s = window_s, every_s
        self._samples: deque[_Sample] = deque()
        self._now: _Sample | None = None

    def add(self, taken_s: float, apis: list[ApiMetrics]) -> None:
        """The newest sample. One is kept that is as old as the window, those older go."""
        self._now = _Sample(taken_s, {one.api_key: one for one in apis})
        if not self._samples or taken_s - self._samples[-1].taken_s >= self._every_s:
            self._samples.append(self._now)
        while len(self._samples) > 1 and self._samples[1].taken_s <= taken_s - self._window_s:
            self._samples.popleft()

    def forget(self) -> None:
        """Another broker than before: its counts begin anew."""
        self._samples.clear()
        self._now = None

    @property
    def seconds(self) -> float:
        """What `latencies` is about; 0 after a single sample."""
        return self._now.taken_s - self._samples[0].taken_s if self._now is not None and self._samples else 0.0

    def latencies(self) -> list[ApiLatencies]:
        """APIs with requests within it, the most frequent first."""
        if self._now is None or not self.seconds:
            return []
        before = self._samples[0].apis
        rows = [_row(before.get(key), now, self.seconds) for key, now in self._now.apis.items()]
        return sorted((row for row in rows if row.requests > 0), key=lambda row: (-row.requests, row.api_key))


def document(window: LatencyWindow, names: dict[int, str]) -> dict[str, Any]:
    """For a program: seconds, and by API requests, rates, and p50 and p99 of each stage in milliseconds."""
    return {
        "seconds": round(window.seconds, 3),
        "apis": [
            {
                "api": names.get(row.api_key, str(row.api_key)),
                "requests": row.requests,
                "per_s": round(row.per_s, 1),
                "errors": row.errors,
                "stages_ms": {
                    name: None if pair is None else {"p50": pair[0], "p99": pair[1]}
                    for name, pair in row.stages.items()
                },
            }
            for row in window.latencies()
        ],
    }


def _row(before: ApiMetrics | None, now: ApiMetrics, seconds: float) -> ApiLatencies:
    requests = now.requests - (before.requests if before else 0)
    failed = sum(now.errors.values()) + now.other_errors
    failed -= sum(before.errors.values()) + before.other_errors if before else 0
    stages = {STAGE_NAMES[name]: _pair(before.stages[name] if before else None, now.stages[name]) for name in STAGES}
    return ApiLatencies(now.api_key, requests, requests / seconds, max(0, failed), stages)


def _pair(before: Histogram | None, now: Histogram) -> tuple[float, float] | None:
    one = now.since(before)
    return (_ms(one.quantile_s(0.5)), _ms(one.quantile_s(0.99))) if one.total else None


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
