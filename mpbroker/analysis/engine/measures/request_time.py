"""What all requests of a trace took, and findings with a price in it. Pure but for the engine.

A study that looks at a part of the trace prices the part; a cause is taken to have the same share of the rest.
"""

from typing import NamedTuple

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.running.finding import Finding


class RequestTime(NamedTuple):
    """`whole_s`: seconds of active_total over all requests. `looked_at`: the share of them that costs are of."""

    whole_s: float
    looked_at: float = 1.0

    def explained(
        self, kind: str, sentence: str, ns: float, subject: str = "", refines: tuple[str, ...] = ()
    ) -> list[Finding]:
        """One finding that explains `ns` of the requests looked at; none where it explains nothing."""
        if ns <= 0 or self.whole_s <= 0:
            return []
        cost_s = ns / 1e9 / min(1.0, max(self.looked_at, 1e-9))
        return [Finding(kind, sentence, cost_s, self.whole_s, subject, refines)]


def of(engine: Engine, looked_at: float = 1.0) -> RequestTime:
    """Of the whole trace."""
    whole = sum(row["sum_ns"] for row in engine.rollup(0).to_pylist() if row["stage"] == "active_total")
    return RequestTime(whole / 1e9, looked_at)
