"""WriteTxnMarkers (key 27): end transactions in partitions, as a coordinator or an administrator decided.

Shapes only; any process. 1 flexible.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct


class WritableTxnMarkerTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partition_indexes: list[Int32] = []


class WritableTxnMarker(Struct):
    """One producer's transaction; a result of true commits it."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = []
    coordinator_epoch: Int32 = 0


@request(key=27, versions=(0, 1), flexible=1)
class WriteTxnMarkersRequest(Struct):
    """Markers to write."""

    markers: list[WritableTxnMarker] = []


class WritableTxnMarkerPartitionResult(Struct):
    """What became of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerResult(Struct):
    """One producer."""

    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = []


@response(key=27, versions=(0, 1), flexible=1)
class WriteTxnMarkersResponse(Struct):
    """One code for each partition."""

    markers: list[WritableTxnMarkerResult] = []
