"""ListConfigResources (key 74), in version 0 ListClientMetricsResources: subscriptions of client metrics (KIP-714).

Shapes only; any process.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Struct


@request(key=74, versions=(0, 0), flexible=0)
class ListConfigResourcesRequest(Struct):
    """Ask for all of them."""


class ConfigResource(Struct):
    """One resource: in version 0 a subscription."""

    resource_name: str = ""


@response(key=74, versions=(0, 0), flexible=0)
class ListConfigResourcesResponse(Struct):
    """Their names."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = []
