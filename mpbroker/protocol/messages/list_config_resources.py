"""ListConfigResources (key 74): which resources have settings of their own (KIP-1142). In version 0
ListClientMetricsResources: subscriptions of client metrics (KIP-714).

Shapes only; any process. 1 types of resources.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct, since


@request(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest(Struct):
    """Ask for those of some types; none: of all."""

    resource_types: Annotated[list[Int8], since(1)] = []


class ConfigResource(Struct):
    """One resource: in version 0 a subscription."""

    resource_name: str = ""
    resource_type: Annotated[Int8, since(1)] = 16


@response(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesResponse(Struct):
    """Their names."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = []
