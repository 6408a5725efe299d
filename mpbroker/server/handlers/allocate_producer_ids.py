"""AllocateProducerIds (key 67), version 0: a block of producer ids for another broker (KIP-730). Served between the
brokers of
a cluster only. Brokers of ours take their blocks from the store themselves; any of them answers one that asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import AllocateProducerIds, Answer, ProducerIds, encode_command
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from mpbroker.server.apis import PARKED, Api, Outcome
from mpbroker.server.delayed_command import park_for_controller
from mpbroker.server.server_context import ServerContext

TIMEOUT_MS = 10_000


def handle(context: ServerContext, request: Request, message: AllocateProducerIdsRequest) -> Outcome:
    def build(answers: Sequence[Answer | None]) -> AllocateProducerIdsResponse:
        answer = answers[0]
        if answer is None or answer.error_code or not isinstance(answer, ProducerIds):
            code = ErrorCode.REQUEST_TIMED_OUT if answer is None else answer.error_code
            return failed(message, request.api_version, int(code))
        return AllocateProducerIdsResponse(producer_id_start=answer.first_id, producer_id_len=answer.count)

    command = encode_command(AllocateProducerIds())
    if park_for_controller(context, request, [command], TIMEOUT_MS, build, local=True):
        return PARKED
    return failed(message, request.api_version, ErrorCode.REQUEST_TIMED_OUT)


def failed(message: AllocateProducerIdsRequest, version: int, code: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code, producer_id_start=-1, producer_id_len=0)


API = Api(
    key=ApiKey.ALLOCATE_PRODUCER_IDS,
    versions=(0, 0),
    request=AllocateProducerIdsRequest,
    handle=handle,
    failed=failed,
)
