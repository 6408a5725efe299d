"""AlterConfigs (key 33), versions 0 to 2: replace all settings of topics and brokers (KIP-133). The
controller does it.

Not done: client metrics.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.config.topic_changes import Operation
from mpbroker.errors import ERRORS
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.config_commands import Verdict, changes_of, run_config_command
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: AlterConfigsRequest) -> Outcome:
    wanted = [
        changes_of(
            resource.resource_type,
            resource.resource_name,
            [(setting.name, Operation.SET, setting.value) for setting in resource.configs],
        )
        for resource in message.resources
    ]
    return run_config_command(
        context, request, wanted, lambda found: _response(message, found), True, message.validate_only
    )


def _response(message: AlterConfigsRequest, verdicts: list[Verdict]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=verdict.code,
                error_message=verdict.sentence,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, verdict in zip(message.resources, verdicts, strict=True)
        ]
    )


def failed(message: AlterConfigsRequest, version: int, code: int) -> AlterConfigsResponse:
    return _response(message, [Verdict(code, ERRORS[code].sentence)] * len(message.resources))


API = Api(key=ApiKey.ALTER_CONFIGS, versions=(0, 2), request=AlterConfigsRequest, handle=handle, failed=failed)
