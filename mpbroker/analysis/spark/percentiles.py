"""Percentiles of histograms within Spark: what comes out is a row per group, whose buckets quantiles.py turns into
nanoseconds, as for every engine. Runs in the driver."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpbroker.analysis.engine.engines.quantiles import LEEWAY, QUANTILES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_buckets(cells: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    """From rows *keys, bucket, n, sum_ns, max_ns to one row per key: n, sum_ns, max_ns and the buckets of the
    percentiles."""
    from pyspark.sql.functions import expr

    within = f"PARTITION BY {', '.join(keys)}"
    counted = cells.selectExpr(
        *(*keys, "bucket", "n", "sum_ns", "max_ns"),
        f"sum(n) OVER ({within} ORDER BY bucket ROWS UNBOUNDED PRECEDING) AS upto",
        f"sum(n) OVER ({within}) AS whole",
    )
    places = [
        f"min(CASE WHEN upto >= greatest(1.0D, {q!r}D * whole) - {LEEWAY!r}D THEN bucket END) AS {name}_bucket"
        for name, q in QUANTILES.items()
    ]
    sums = ["sum(n) AS n", "sum(sum_ns) AS sum_ns", "max(max_ns) AS max_ns"]
    return counted.groupBy(*keys).agg(*map(expr, (*sums, *places)))
