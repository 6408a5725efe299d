"""What CreateTopics, DeleteTopics and CreatePartitions share. Request handlers; nothing is kept here.

Names given twice are refused, the rest goes to the controller in as many commands as needed, results come in Kafka's
order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import Answer, Command, CommandTooLarge, ProducerIds
from mpbroker.protocol.types import Struct
from mpbroker.server.apis import PARKED, Outcome
from mpbroker.server.controller_commands import encode_in_parts
from mpbroker.server.delayed_command import park_for_controller
from mpbroker.server.server_context import ServerContext

#: (name, error code, sentence for the client or None)
Result: TypeAlias = tuple[str, int, str | None]
T = TypeVar("T")
TWICE = "Duplicate topic name."  # Kafka's words


def run_topic_command(
    context: ServerContext,
    request: Request,
    items: Sequence[T],
    name_of: Callable[[T], str],
    make: Callable[[Sequence[T]], Command],
    timeout_ms: int,
    build: Callable[[list[Result]], Struct],
) -> Outcome:
    """Sends the items to the controller in as few commands as they need; returns PARKED or the response.

    `make(items)` builds a command, `build(results)` a response. A name given twice is refused once, at the end.
    """
    if timeout_ms <= 0:  # Kafka gives up before it begins
        return build([(name_of(item), ErrorCode.REQUEST_TIMED_OUT, None) for item in items])
    counts = Counter(name_of(item) for item in items)
    twice: list[Result] = [(name, ErrorCode.INVALID_REQUEST, TWICE) for name, count in counts.items() if count > 1]
    wanted = [item for item in items if counts[name_of(item)] == 1]
    if not wanted:
        return build(twice)
    try:
        parts = encode_in_parts(wanted, make)
    except CommandTooLarge as error:
        return build([(name_of(item), ErrorCode.INVALID_REQUEST, str(error)) for item in wanted] + twice)

    def on_answers(answers: Sequence[Answer | None]) -> Struct:
        results: list[Result] = []
        for (part, _), answer in zip(parts, answers, strict=True):
            results += _results([name_of(item) for item in part], answer)
        return build(results + twice)

    if park_for_controller(context, request, [encoded for _, encoded in parts], timeout_ms, on_answers):
        return PARKED
    return on_answers([None] * len(parts))


def _results(names: list[str], answer: Answer | None) -> list[Result]:
    """One result per name; a command that failed as a whole, or was not answered in time, fails each."""
    if answer is None or isinstance(answer, ProducerIds):  # the latter never answers such a command
        return [(name, ErrorCode.REQUEST_TIMED_OUT, None) for name in names]
    if answer.error_code:
        return [(name, answer.error_code, getattr(answer, "error_message", None) or None) for name in names]
    return [(result.name, result.error_code, result.error_message) for result in answer.results]
