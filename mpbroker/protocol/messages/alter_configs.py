"""AlterConfigs (key 33): replace all settings of topics (resource type 2) and brokers (4) by those given.

Shapes only; any process. 1 error when throttled · 2 flexible.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct


class AlterableConfig(Struct):
    """One setting and its value."""

    name: str = ""
    value: str | None = ""


class AlterConfigsResource(Struct):
    """One topic or broker, and all settings it is to have; what is left out gets its default again."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


@request(key=33, versions=(0, 2), flexible=2)
class AlterConfigsRequest(Struct):
    """Replace settings, or with validate_only just check."""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct):
    """One resource: changed, or why not."""

    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""


@response(key=33, versions=(0, 2), flexible=2)
class AlterConfigsResponse(Struct):
    """What became of each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []
