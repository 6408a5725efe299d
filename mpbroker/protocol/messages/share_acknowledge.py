"""ShareAcknowledge (key 79): what became of records that a member of a share group got (KIP-932).

Shapes only; any process. 2 renewed locks. Answers here are refusals, without partitions.
"""

from typing import Annotated

from mpbroker.protocol.messages.share_fetch import ShareFetchTopic, ShareNodeEndpoint, ShareRefusedTopic
from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct, since


@request(key=79, versions=(1, 2), flexible=0)
class ShareAcknowledgeRequest(Struct):
    """By topic and partition."""

    group_id: str | None = None
    member_id: str | None = None
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[bool, since(2)] = False
    topics: list[ShareFetchTopic] = []


@response(key=79, versions=(1, 2), flexible=0)
class ShareAcknowledgeResponse(Struct):
    """Why nothing was taken."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(2)] = 0
    responses: list[ShareRefusedTopic] = []
    node_endpoints: list[ShareNodeEndpoint] = []
