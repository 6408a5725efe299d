"""DeleteTopics (key 20), versions 0 to 3: the controller deletes; the answer waits until the topics are gone.

With delete.topic.enable=false every name is refused, also one given twice: with error 73, before version 3 with 42.
Files are renamed at once and removed by the log keeper later; a topic created again under the name is empty.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import DeleteTopics
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.server_context import ServerContext
from mpbroker.server.topic_commands import Result, run_topic_command

DISABLED_SINCE = 3  # the version that knows TOPIC_DELETION_DISABLED


def handle(context: ServerContext, request: Request, message: DeleteTopicsRequest) -> Outcome:
    if not context.config.delete_topic_enable:
        known = request.api_version >= DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        return failed(message, request.api_version, code)
    return run_topic_command(
        context,
        request,
        message.topic_names,
        lambda name: name,
        lambda names: DeleteTopics(names=list(names)),
        message.timeout_ms,
        _response,
    )


def _response(results: list[Result]) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(name=name, error_code=code) for name, code, _ in results]
    )


def failed(message: DeleteTopicsRequest, version: int, code: int) -> DeleteTopicsResponse:
    return _response([(name, code, None) for name in message.topic_names])


API = Api(key=ApiKey.DELETE_TOPICS, versions=(0, 3), request=DeleteTopicsRequest, handle=handle, failed=failed)
