"""What AlterConfigs and IncrementalAlterConfigs share. Request handlers; nothing is kept here.

What Kafka's broker refuses before its controller sees it is refused here, resource by resource; the rest goes to the
controller in as many commands as needed. Results come in the request's order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from mpbroker.channel.handler_port import Request
from mpbroker.config.topic_changes import Operation
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import (
    AlterConfigs,
    Answer,
    CommandTooLarge,
    ConfigChange,
    ConfigChanges,
    ProducerIds,
)
from mpbroker.protocol.types import Struct
from mpbroker.server.apis import PARKED, Outcome
from mpbroker.server.controller_commands import encode_in_parts
from mpbroker.server.delayed_command import park_for_controller
from mpbroker.server.server_context import ServerContext

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
TIMEOUT_MS: Final = 30_000  # the requests carry none
INT_MAX: Final = 2**31 - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")


class Verdict(NamedTuple):
    """What became of one resource: Kafka error code and the sentence for the client."""

    code: int
    sentence: str | None


#: Makes the response out of one verdict for each resource, in the request's order.
Build: TypeAlias = Callable[[list[Verdict]], Struct]
DONE: Final = Verdict(ErrorCode.NONE, None)


def run_config_command(
    context: ServerContext,
    request: Request,
    wanted: Sequence[ConfigChanges],
    build: Build,
    replace: bool,
    validate_only: bool,
) -> Outcome:
    """Checks the resources, sends what is kept to the controller; returns PARKED or the response."""
    verdicts = [_verdict(context, resource, replace) for resource in wanted]
    counts = Counter((resource.resource_type, resource.name) for resource in wanted)
    for number, resource in enumerate(wanted):
        if counts[resource.resource_type, resource.name] > 1:
            verdicts[number] = Verdict(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    waiting = [number for number, verdict in enumerate(verdicts) if verdict is None]

    def finish(found: Sequence[Verdict]) -> Struct:
        for number, verdict in zip(waiting, found, strict=True):
            verdicts[number] = verdict
        return build([verdict or DONE for verdict in verdicts])

    if not waiting:
        return finish([])
    kinds = {wanted[number].resource_type == TOPIC for number in waiting}
    if context.cluster is not None and len(kinds) > 1:
        sentence = "In a cluster, settings of topics and of others are changed by requests of their own."
        return finish([Verdict(ErrorCode.INVALID_REQUEST, sentence)] * len(waiting))
    return _ask_controller(context, request, [wanted[number] for number in waiting], finish, replace, validate_only)


def _ask_controller(
    context: ServerContext,
    request: Request,
    asked: Sequence[ConfigChanges],
    finish: Callable[[Sequence[Verdict]], Struct],
    replace: bool,
    validate_only: bool,
) -> Outcome:
    try:
        parts = encode_in_parts(
            asked, lambda some: AlterConfigs(list(some), replace=replace, validate_only=validate_only)
        )
    except CommandTooLarge as error:
        return finish([Verdict(ErrorCode.INVALID_REQUEST, str(error))] * len(asked))

    def on_answers(answers: Sequence[Answer | None]) -> Struct:
        found: list[Verdict] = []
        for (part, _), answer in zip(parts, answers, strict=True):
            found += _verdicts(len(part), answer)
        return finish(found)

    local = asked[0].resource_type != TOPIC
    if park_for_controller(context, request, [encoded for _, encoded in parts], TIMEOUT_MS, on_answers, local):
        return PARKED
    return on_answers([None] * len(parts))


def _verdicts(count: int, answer: Answer | None) -> list[Verdict]:
    """One for each resource of a command; one that failed as a whole, or was not answered in time, fails each."""
    if answer is None or isinstance(answer, ProducerIds):  # the latter never answers such a command
        return [Verdict(ErrorCode.REQUEST_TIMED_OUT, None)] * count
    if answer.error_code:
        return [Verdict(answer.error_code, getattr(answer, "error_message", None) or None)] * count
    return [Verdict(result.error_code, result.error_message) for result in answer.results]


def _verdict(context: ServerContext, resource: ConfigChanges, replace: bool) -> Verdict | None:
    """What can be said without the controller; None: it is to be asked."""
    fault = _fault(resource)
    if fault is not None:
        return Verdict(ErrorCode.INVALID_REQUEST, fault)
    if resource.resource_type == GROUP and not resource.name:
        return Verdict(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if resource.resource_type in (TOPIC, GROUP):
        known = {change.operation for change in resource.changes} <= set(Operation)
        return None if known else Verdict(ErrorCode.UNKNOWN_SERVER_ERROR, None)  # Kafka's own words
    if resource.resource_type == BROKER:
        return _not_this_broker(context, resource.name) if resource.name else None
    if resource.resource_type == BROKER_LOGGER and not replace:
        return _loggers(context, resource)
    if resource.resource_type == CLIENT_METRICS:
        return _client_metrics(resource)
    return Verdict(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")


def _fault(resource: ConfigChanges) -> str | None:
    """What is wrong with a resource whatever it is."""
    names = [change.name for change in resource.changes]
    if len(set(names)) != len(names):
        return "Error due to duplicate config keys"
    nulls = [c.name for c in resource.changes if c.value is None and c.operation != Operation.DELETE]
    return f"Null value not supported for : {', '.join(nulls)}" if nulls else None


def _loggers(context: ServerContext, resource: ConfigChanges) -> Verdict:
    """Loggers of a broker: there are none."""
    wrong = _not_this_broker(context, resource.name)
    if wrong is not None or not resource.changes:
        return wrong or DONE
    return Verdict(ErrorCode.INVALID_CONFIG, f"Logger {resource.changes[0].name} does not exist!")


def _client_metrics(resource: ConfigChanges) -> Verdict:
    """Subscriptions of client metrics (KIP-714): not kept."""
    if not resource.name:
        return Verdict(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    if not resource.changes:
        return DONE
    return Verdict(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {resource.changes[0].name}")


def _not_this_broker(context: ServerContext, name: str) -> Verdict | None:
    """Why a name is not this broker's id; None when it is."""
    number = int(name) if _INTEGER.fullmatch(name) else INT_MAX + 1
    if not -INT_MAX - 1 <= number <= INT_MAX:
        return Verdict(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if number != context.node_id:
        sentence = f"Unexpected broker id, expected {context.node_id}, but received {name}"
        return Verdict(ErrorCode.INVALID_REQUEST, sentence)
    return None


def changes_of(resource_type: int, name: str, changes: Sequence[tuple[str, int, str | None]]) -> ConfigChanges:
    """A resource of a request, with (setting, operation, value) of each change."""
    return ConfigChanges(resource_type, name, [ConfigChange(*change) for change in changes])
