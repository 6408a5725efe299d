"""The beginning of a trace that holds about so many requests: what studies of single requests read at most. Pure."""

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.engine.mathematics.windows import Extent
from mpbroker.analysis.engine.running import wording


def where(found: Extent, most: int) -> tuple[Where, list[str]]:
    """Which requests, and a sentence where these are not all."""
    if found.n <= most:
        return Where(), []
    upto = found.first_ns + int((found.last_ns - found.first_ns) * most / found.n)
    return Where(None, upto), [
        f"Looked at the first {wording.duration(upto - found.first_ns)}, about {most:,} requests."
    ]
