"""Limits of a stream's batches, which Spark has from 4.2 on; before that stand-ins, and a batch takes all there is.
Pure."""

from dataclasses import dataclass

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    SPARK_HAS_LIMITS = True
except ImportError:
    SPARK_HAS_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """How much a batch may take."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """No limit."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """At most so many records."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark will not ask for it."""


__all__ = ["SPARK_HAS_LIMITS", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"]
