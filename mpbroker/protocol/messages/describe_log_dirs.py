"""DescribeLogDirs (key 35): what lies in each log directory, and how full it is.

Shapes only; any process. 2 flexible · 3 error for the whole answer · 4 size of the file system.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since


class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic: str = ""
    partitions: list[Int32] = []


@request(key=35, versions=(0, 4), flexible=2)
class DescribeLogDirsRequest(Struct):
    """Ask for some partitions, or with null for all."""

    topics: list[DescribableLogDirTopic] | None = []


class DescribeLogDirsPartition(Struct):
    """One partition; `offset_lag` is how far behind the high watermark its end is."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Struct):
    """The partitions of one topic that lie there."""

    name: str = ""
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(Struct):
    """One directory; sizes in bytes, -1: not known."""

    error_code: Int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: Annotated[Int64, since(4)] = -1
    usable_bytes: Annotated[Int64, since(4)] = -1


@response(key=35, versions=(0, 4), flexible=2)
class DescribeLogDirsResponse(Struct):
    """The directories of this broker."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3)] = 0
    results: list[DescribeLogDirsResult] = []
