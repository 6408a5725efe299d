"""Why traces kept in memory are written to disk. Data; the tracer makes most, `mpbroker trace dump` and the supervisor
one each."""

import time
from typing import Any, Final, NamedTuple

ASKED, DIED, LATENCY, ERRORS, LEFT = "asked", "died", "latency", "errors", "left"
AUTOMATIC: Final = {DIED, LATENCY, ERRORS}
"""Those that rest for a while after one of them."""


class Cause(NamedTuple):
    """`text` is what the marker in the trace says. `t0_ns`: CLOCK_MONOTONIC of the moment; `epoch_ms`: the same since
    1970. `after_ms`: for how long afterwards the dump goes on."""

    kind: str
    text: str
    t0_ns: int
    epoch_ms: int
    after_ms: int = 0

    def document(self) -> dict[str, Any]:
        """As it stands in a dump."""
        return self._asdict()


def now(kind: str, text: str, after_ms: int = 0) -> Cause:
    """A cause of this moment."""
    return Cause(kind, text, time.monotonic_ns(), time.time_ns() // 1_000_000, after_ms)


def read(row: dict[str, Any]) -> Cause:
    """Of a document; KeyError, TypeError or ValueError for what is none."""
    return Cause(str(row["kind"]), str(row["text"]), int(row["t0_ns"]), int(row["epoch_ms"]), int(row["after_ms"]))
