"""What an engine costs on one machine, by measurement, and so from how many requests on Spark is the quicker one.

Pure. The local engine works on one core at a time; Spark takes long to start and spreads its work over all cores there
are. So the crossing lies lower the more cores there are, and on few cores there may be none. The constants are those of
perf/baselines/engine-costs-*.json (`python -m perf.engine_costs`), which a test holds them to.
"""

from typing import NamedTuple

MILLION = 1_000_000


class EngineCost(NamedTuple):
    """Of the studies latency, throughput, tail and fleet in one run over compacted requests. `start_s`: CPU seconds
    that do not grow with the trace, next to all of them one after the other; `cpu_s`: those of a million requests."""

    start_s: float
    cpu_s: float


LOCAL = EngineCost(start_s=1.0, cpu_s=1.69)
SPARK = EngineCost(start_s=16.2, cpu_s=1.99)


def seconds(cost: EngineCost, records: int, cores: int) -> float:
    """By the clock, where the work spreads over so many cores."""
    return cost.start_s + cost.cpu_s * records / MILLION / max(1, cores)


def crossing(cores: int) -> float | None:
    """Requests from which on Spark on so many cores of this machine is the quicker one; None: it never is."""
    saved = LOCAL.cpu_s - SPARK.cpu_s / max(1, cores)
    return MILLION * (SPARK.start_s - LOCAL.start_s) / saved if saved > 0 else None


def spark_is_quicker(records: int, cores: int) -> bool:
    """Of a trace of so many requests."""
    return seconds(SPARK, records, cores) < seconds(LOCAL, records, 1)
