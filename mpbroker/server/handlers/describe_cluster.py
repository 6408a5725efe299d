"""DescribeCluster (key 60), versions 0 and 1: the broker as the listener that was asked shows it (KIP-700).

Version 1 says whether brokers or controllers are asked about (KIP-919): a broker answers for brokers alone.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from mpbroker.server.apis import Api
from mpbroker.server.handlers.metadata import CLUSTER_OPERATIONS, OPERATIONS_UNKNOWN, brokers_on
from mpbroker.server.server_context import ServerContext

BROKERS, CONTROLLERS = 1, 2


def handle(context: ServerContext, request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    if message.endpoint_type != BROKERS:
        known = message.endpoint_type == CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return failed(message, request.api_version, code)
    if context.cluster is not None:
        context.cluster.refresh()
    wanted = message.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=context.cluster_id,
        controller_id=context.node_id if context.cluster is None else context.cluster.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=id, host=host, port=port, rack=rack)
            for id, host, port, rack in brokers_on(context, request)
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS if wanted else OPERATIONS_UNKNOWN,
    )


def failed(message: DescribeClusterRequest, version: int, code: int) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=ERRORS[code].sentence)


API = Api(key=ApiKey.DESCRIBE_CLUSTER, versions=(0, 1), request=DescribeClusterRequest, handle=handle, failed=failed)
