"""What Spark says when it fails, as one sentence. Runs in the driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from mpbroker.analysis.spark.session import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collected(frame: "DataFrame") -> pa.Table:
    """A frame's rows; SparkError."""
    with reported():
        return frame.toArrow()


@contextmanager
def reported() -> Iterator[None]:
    """SparkError with the two lines that matter of what Spark says, or the one of what it runs on says."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        said = next((line[2:] for line in str(error).splitlines() if line.startswith(": ")), "unknown")
        raise SparkError(f"Spark failed: {said}") from error
    except PySparkException as error:
        lines = [
            line.strip() for line in str(error).splitlines() if line.strip() and "SQLSTATE" not in line.split(":")[0]
        ]
        what = (
            dict.fromkeys([lines[0].removesuffix(" Traceback (most recent call last):"), lines[-1]])
            if lines
            else ["unknown"]
        )
        raise SparkError(f"Spark failed: {'; '.join(what)}") from error
