"""UpdateFeatures (key 57): raise or lower the finalized levels of the cluster's features (KIP-584, KIP-778).

Shapes only; any process. 1 the kind of change in place of a flag, validate_only.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct, since, until


class FeatureUpdateKey(Struct):
    """One feature and its new level; 0 takes it away. `upgrade_type`: 1 up, 2 down without loss, 3 down with loss."""

    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[bool, until(0)] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@request(key=57, versions=(0, 1), flexible=0)
class UpdateFeaturesRequest(Struct):
    """Change levels, or with validate_only just check."""

    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = []
    validate_only: Annotated[bool, since(1)] = False


class UpdatableFeatureResult(Struct):
    """One feature: changed, or why not."""

    feature: str = ""
    error_code: Int16 = 0
    error_message: str | None = None


@response(key=57, versions=(0, 1), flexible=0)
class UpdateFeaturesResponse(Struct):
    """What became of all of it, and of each feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    results: list[UpdatableFeatureResult] = []
