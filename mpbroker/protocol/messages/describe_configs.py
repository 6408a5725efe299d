"""DescribeConfigs (key 32): settings of topics (resource type 2) and brokers (4) with their sources.

Shapes only; any process. 0 says only whether a value is the default · 1 source and synonyms · 3 type and documentation
· 4 flexible.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct, since, until


class DescribeConfigsResource(Struct):
    """One topic or broker, and which settings of it; null means all."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = []


@request(key=32, versions=(0, 4), flexible=4)
class DescribeConfigsRequest(Struct):
    """Ask for settings."""

    resources: list[DescribeConfigsResource] = []
    include_synonyms: Annotated[bool, since(1)] = False
    include_documentation: Annotated[bool, since(3)] = False


class DescribeConfigsSynonym(Struct):
    """One place the setting was looked for, the winning one first."""

    name: str = ""
    value: str | None = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(Struct):
    """One setting: value, where it comes from, whether it may be changed."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Annotated[Int8, since(1)] = -1
    is_default: Annotated[bool, until(0)] = False
    is_sensitive: bool = False
    synonyms: Annotated[list[DescribeConfigsSynonym], since(1)] = []
    config_type: Annotated[Int8, since(3)] = 0
    documentation: Annotated[str | None, since(3)] = ""


class DescribeConfigsResult(Struct):
    """One resource's settings."""

    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


@response(key=32, versions=(0, 4), flexible=4)
class DescribeConfigsResponse(Struct):
    """The settings of each resource."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = []
