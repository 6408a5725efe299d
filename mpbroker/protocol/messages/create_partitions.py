"""CreatePartitions (key 37): raise the number of partitions of topics.

Shapes only; any process. 2 flexible · 3 error 89 when throttled.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct


class CreatePartitionsAssignment(Struct):
    """The brokers that hold one new partition."""

    broker_ids: list[Int32] = []


class CreatePartitionsTopic(Struct):
    """One topic, its new total count, and optionally where the new partitions go."""

    name: str = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = []


@request(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest(Struct):
    """Raise partition counts, or with validate_only just check."""

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(Struct):
    """One topic: grown, or why not."""

    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = None


@response(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse(Struct):
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []
