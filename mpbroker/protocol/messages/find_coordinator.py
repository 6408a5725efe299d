"""FindCoordinator (key 10): which broker coordinates a group (key type 0) or a transaction (1).

Shapes only; any process. 1 key type and error text · 3 flexible · 4 several keys at once.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct, since, until


@request(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest(Struct):
    """Ask for the coordinator of one key, from version 4 of several."""

    key: Annotated[str, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[list[str], since(4)] = []


class Coordinator(Struct):
    """The coordinator of one key."""

    key: str = ""
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


@response(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorResponse(Struct):
    """The coordinator's address."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[str | None, since(1), until(3)] = None
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[str, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[list[Coordinator], since(4)] = []
