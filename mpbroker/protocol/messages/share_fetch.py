"""ShareFetch (key 78): records for a member of a share group, and what became of earlier ones (KIP-932).

Shapes only; any process. 2 how records are acquired, renewed locks. Answers here are refusals, without partitions.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int8, Int16, Int32, Int64, Struct, Uuid, since


class ShareAcknowledgementBatch(Struct):
    """What became of records from one offset to another: of each, or of all if there is one type."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = []


class ShareFetchPartition(Struct):
    """One partition."""

    partition_index: Int32 = 0
    acknowledgement_batches: list[ShareAcknowledgementBatch] = []


class ShareFetchTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[ShareFetchPartition] = []


class ShareForgottenTopic(Struct):
    """Partitions to take out of the session."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = []


@request(key=78, versions=(1, 2), flexible=0)
class ShareFetchRequest(Struct):
    """Ask for records."""

    group_id: str | None = None
    member_id: str | None = None
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, since(2)] = 0
    is_renew_ack: Annotated[bool, since(2)] = False
    topics: list[ShareFetchTopic] = []
    forgotten_topics_data: list[ShareForgottenTopic] = []


class ShareNodeEndpoint(Struct):
    """Where a leader is."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class ShareRefusedPartition(Struct):
    """One partition of a refused request: there is none."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class ShareRefusedTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[ShareRefusedPartition] = []


@response(key=78, versions=(1, 2), flexible=0)
class ShareFetchResponse(Struct):
    """Why there are none."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareRefusedTopic] = []
    node_endpoints: list[ShareNodeEndpoint] = []
