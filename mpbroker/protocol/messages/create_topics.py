"""CreateTopics (key 19): create topics with partitions, assignments and settings.

Shapes only; any process. 1 error text and validate-only · 2 throttle time · 4 defaults by -1 (KIP-464) · 5 flexible,
the settings in force (KIP-525; clients need a list, not null, on success) · 7 topic ids.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int8, Int16, Int32, Struct, Uuid, since, tagged


class CreatableReplicaAssignment(Struct):
    """The brokers that hold one partition."""

    partition_index: Int32 = 0
    broker_ids: list[Int32] = []


class CreatableTopicConfig(Struct):
    """One setting of the new topic."""

    name: str = ""
    value: str | None = ""


class CreatableTopic(Struct):
    """One topic; -1 for counts means the broker's default, or that assignments are given."""

    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


@request(key=19, versions=(0, 7), flexible=5)
class CreateTopicsRequest(Struct):
    """Create topics, or with validate_only just check."""

    topics: list[CreatableTopic] = []
    timeout_ms: Int32 = 60000
    validate_only: Annotated[bool, since(1)] = False


class CreatableTopicConfigs(Struct):
    """One setting in force and where it comes from."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(Struct):
    """The topic as it was created, or why not."""

    name: str = ""
    topic_id: Annotated[Uuid, since(7)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, since(1)] = None
    topic_config_error_code: Annotated[Int16, since(5), tagged(0)] = 0
    num_partitions: Annotated[Int32, since(5)] = -1
    replication_factor: Annotated[Int16, since(5)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since(5)] = []


@response(key=19, versions=(0, 7), flexible=5)
class CreateTopicsResponse(Struct):
    """What became of each topic."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: list[CreatableTopicResult] = []
