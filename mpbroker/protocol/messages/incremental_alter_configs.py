"""IncrementalAlterConfigs (key 44): change single settings of topics (resource type 2) and brokers (4) (KIP-339).

Shapes only; any process. 1 flexible.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct


class IncrementalAlterableConfig(Struct):
    """One setting; operation 0 SET, 1 DELETE, 2 APPEND to a list, 3 SUBTRACT from a list."""

    name: str = ""
    config_operation: Int8 = 0
    value: str | None = ""


class IncrementalAlterConfigsResource(Struct):
    """One topic or broker, and the changes of its settings."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[IncrementalAlterableConfig] = []


@request(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest(Struct):
    """Change settings, or with validate_only just check."""

    resources: list[IncrementalAlterConfigsResource] = []
    validate_only: bool = False


class IncrementalAlterConfigsResourceResponse(Struct):
    """One resource: changed, or why not."""

    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""


@response(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse(Struct):
    """What became of each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[IncrementalAlterConfigsResourceResponse] = []
