"""DescribeClientQuotas (key 48): what users, client ids and addresses are held to (KIP-546).

Shapes only; any process. 1 flexible.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Float64, Int8, Int16, Int32, Struct


class ComponentData(Struct):
    """A kind of entity, and which of it. `match_type`: 0 that name, 1 the default, 2 any."""

    entity_type: str = ""
    match_type: Int8 = 0
    match: str | None = ""


@request(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest(Struct):
    """`strict`: entities of these kinds and no further ones."""

    components: list[ComponentData] = []
    strict: bool = False


class EntityData(Struct):
    """One part of an entity; null is the default."""

    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(Struct):
    """One limit."""

    key: str = ""
    value: Float64 = 0.0


class EntryData(Struct):
    """An entity with its limits."""

    entity: list[EntityData] = []
    values: list[ValueData] = []


@response(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse(Struct):
    """Those that match; null after an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    entries: list[EntryData] | None = []
