"""DeleteTopics (key 20): delete topics by name, from version 6 also by id.

Shapes only; any process. 1 throttle time · 4 flexible · 5 error text · 6 topic ids.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int16, Int32, Struct, Uuid, nullable_since, since, until


class DeleteTopicState(Struct):
    """A topic by name (id zero) or by id (name null)."""

    name: str | None = None
    topic_id: Uuid = ZERO_UUID


@request(key=20, versions=(0, 6), flexible=4)
class DeleteTopicsRequest(Struct):
    """Delete topics."""

    topics: Annotated[list[DeleteTopicState], since(6)] = []
    topic_names: Annotated[list[str], until(5)] = []
    timeout_ms: Int32 = 0


class DeletableTopicResult(Struct):
    """One topic: deleted, or why not."""

    name: Annotated[str | None, nullable_since(6)] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, since(5)] = None


@response(key=20, versions=(0, 6), flexible=4)
class DeleteTopicsResponse(Struct):
    """What became of each topic."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    responses: list[DeletableTopicResult] = []
