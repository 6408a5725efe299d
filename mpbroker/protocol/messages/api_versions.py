"""ApiVersions (key 18): which APIs and versions the broker answers.

Shapes only; any process. 1 throttle time · 3 flexible, client software (KIP-511), features in tagged fields. The
response header never has tagged fields, so that a client of any age can read it.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since, tagged


@request(key=18, versions=(0, 4), flexible=3)
class ApiVersionsRequest(Struct):
    """Ask what the broker can do."""

    client_software_name: Annotated[str, since(3)] = ""
    client_software_version: Annotated[str, since(3)] = ""


class ApiVersion(Struct):
    """The range of versions of one API."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    """A feature and the levels this broker could run."""

    name: str = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Struct):
    """A feature and the levels the cluster has agreed on."""

    name: str = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@response(key=18, versions=(0, 4), flexible=3)
class ApiVersionsResponse(Struct):
    """Every API with its version range, and the cluster's features."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], since(3), tagged(0)] = []
    finalized_features_epoch: Annotated[Int64, since(3), tagged(1)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], since(3), tagged(2)] = []
    zk_migration_ready: Annotated[bool, since(3), tagged(3)] = False
