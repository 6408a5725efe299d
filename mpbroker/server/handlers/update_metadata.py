"""UpdateMetadata (key 6), versions 0 to 8: the elected controller says which brokers live and who leads what; Metadata
is
answered from it. Served between the brokers of a cluster only; the agent (controller process) carries it out.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.control_request import tell_agent
from mpbroker.server.request_trace import describe_control
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: UpdateMetadataRequest) -> Outcome:
    named = [(state.topic_name, state.partition_index) for state in message.ungrouped_partition_states]
    named += [
        (topic.topic_name, state.partition_index) for topic in message.topic_states for state in topic.partition_states
    ]
    describe_control(request, message.controller_epoch, named)
    return tell_agent(context, request, 0, lambda code, codes: UpdateMetadataResponse(error_code=code))


def failed(message: UpdateMetadataRequest, version: int, code: int) -> UpdateMetadataResponse:
    return UpdateMetadataResponse(error_code=code)


API = Api(
    key=ApiKey.UPDATE_METADATA,
    versions=(0, 8),
    request=UpdateMetadataRequest,
    handle=handle,
    failed=failed,
)
