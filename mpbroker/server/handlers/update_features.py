"""UpdateFeatures (key 57), versions 0 and 1: other finalized levels of the cluster's features (KIP-584, KIP-778).

The controller judges and stores them. Version 0 asks for upgrades only: Kafka 3.9 does not look at its flag for others.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import (
    Answer,
    CommandTooLarge,
    FeatureUpdate,
    ProducerIds,
    UpdateFeatures,
    encode_command,
)
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from mpbroker.server.apis import PARKED, Api, Outcome
from mpbroker.server.delayed_command import park_for_controller
from mpbroker.server.server_context import ServerContext
from mpbroker.server.waiting_for_locks import LEAST_PATIENCE_MS

NO_ERROR = ""  # where Kafka leaves null only with an error


def handle(context: ServerContext, request: Request, message: UpdateFeaturesRequest) -> Outcome:
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, update.upgrade_type)
        for update in message.feature_updates
    ]
    try:
        encoded = encode_command(UpdateFeatures(updates, message.validate_only))
    except CommandTooLarge as error:
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=str(error))
    if park_for_controller(
        context, request, [encoded], max(message.timeout_ms, LEAST_PATIENCE_MS), _response, local=True
    ):
        return PARKED
    return _response([None])


def _response(answers: Sequence[Answer | None]) -> UpdateFeaturesResponse:
    [answer] = answers
    if answer is None or isinstance(answer, ProducerIds):  # the latter never answers such a command
        return UpdateFeaturesResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)
    if answer.error_code:
        return UpdateFeaturesResponse(error_code=answer.error_code)
    results = [
        UpdatableFeatureResult(feature=result.name, error_code=result.error_code, error_message=result.error_message)
        for result in answer.results
    ]
    return UpdateFeaturesResponse(error_message=NO_ERROR, results=results)


def failed(message: UpdateFeaturesRequest, version: int, code: int) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code)


API = Api(key=ApiKey.UPDATE_FEATURES, versions=(0, 1), request=UpdateFeaturesRequest, handle=handle, failed=failed)
