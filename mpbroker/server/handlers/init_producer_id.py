"""InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer, or for a transactional one (KIP-98).

Ids come from blocks the controller hands out; each handler process uses up its own block. A request with a
transactional id is handed over to the coordinator; an empty one is answered with INVALID_REQUEST.
From version 3 on a producer may name the id and epoch it has (KIP-360): both or neither, else INVALID_REQUEST. Without
a transactional id they count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import Answer, ProducerIds
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mpbroker.server.apis import HANDED_OVER, PARKED, Api, Outcome
from mpbroker.server.delayed_command import park_for_controller
from mpbroker.server.server_context import ServerContext

BLOCK_TIMEOUT_MS = 10_000
NO_ID = NO_EPOCH = -1


def handle(context: ServerContext, request: Request, message: InitProducerIdRequest) -> Outcome:
    if (message.producer_id == NO_ID) != (message.producer_epoch == NO_EPOCH):
        return failed(message, request.api_version, ErrorCode.INVALID_REQUEST)
    if message.transactional_id is not None:
        if message.transactional_id == "":
            return failed(message, request.api_version, ErrorCode.INVALID_REQUEST)
        context.port.give_to_coordinator(request)
        return HANDED_OVER
    ids = context.producer_ids
    producer_id = ids.take()
    if producer_id is not None:
        return _granted(producer_id)

    def build(answers: Sequence[Answer | None]) -> InitProducerIdResponse:
        answer = answers[0]
        if isinstance(answer, ProducerIds) and not answer.error_code:
            ids.add_block(answer.first_id, answer.count)
            granted = ids.take()
            if granted is not None:
                return _granted(granted)
        code = answer.error_code if answer is not None else ErrorCode.NONE
        return failed(message, request.api_version, code or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    if park_for_controller(context, request, [ids.command()], BLOCK_TIMEOUT_MS, build, local=True):
        return PARKED
    return failed(message, request.api_version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _granted(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def failed(message: InitProducerIdRequest, version: int, code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


API = Api(key=ApiKey.INIT_PRODUCER_ID, versions=(0, 5), request=InitProducerIdRequest, handle=handle, failed=failed)
