"""IncrementalAlterConfigs (key 44), versions 0 and 1: change single settings of topics, brokers (KIP-339)
and groups (KIP-848). The controller does it.

Not done: loggers, client metrics.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.config_commands import Verdict, changes_of, run_config_command
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: IncrementalAlterConfigsRequest) -> Outcome:
    wanted = [
        changes_of(
            resource.resource_type,
            resource.resource_name,
            [(change.name, change.config_operation, change.value) for change in resource.configs],
        )
        for resource in message.resources
    ]
    return run_config_command(
        context, request, wanted, lambda found: _response(message, found), False, message.validate_only
    )


def _response(message: IncrementalAlterConfigsRequest, verdicts: list[Verdict]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResourceResponse(
                error_code=verdict.code,
                error_message=verdict.sentence,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, verdict in zip(message.resources, verdicts, strict=True)
        ]
    )


def failed(message: IncrementalAlterConfigsRequest, version: int, code: int) -> IncrementalAlterConfigsResponse:
    return _response(message, [Verdict(code, ERRORS[code].sentence)] * len(message.resources))


API = Api(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions=(0, 1),
    request=IncrementalAlterConfigsRequest,
    handle=handle,
    failed=failed,
)
