"""DescribeCluster (key 60): the brokers of the cluster, without topics.

Shapes only; any process. 1 brokers or controllers.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int8, Int16, Int32, Struct, since


@request(key=60, versions=(0, 1), flexible=0)
class DescribeClusterRequest(Struct):
    """Ask who is in the cluster."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[Int8, since(1)] = 1


class DescribeClusterBroker(Struct):
    """A broker's address on the listener that was asked."""

    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


@response(key=60, versions=(0, 1), flexible=0)
class DescribeClusterResponse(Struct):
    """Its brokers as the listener that was asked shows them."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: Int32 = -2147483648
