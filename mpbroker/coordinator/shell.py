"""What the coordinator does with a request. Runs in the coordinator process, from its first request on."""

from __future__ import annotations

from mpbroker.channel.handler_port import HandlerPort, Request
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.errors import ErrorCode
from mpbroker.shm.clock import Clock
from mpbroker.shm.process_context import ProcessContext


class Shell:
    """Refuses: no API is handed over yet."""

    def __init__(self, port: HandlerPort) -> None:
        self._port = port

    def execute(self, request: Request) -> None:
        self._port.answer_close(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def deliver(self, everything: bool, moved: list[int]) -> None:
        pass

    def next_due_ms(self) -> int | None:
        return None

    def rest(self) -> None:
        pass

    def use_config(self, config: BrokerConfig) -> None:
        pass


def open_shell(ctx: ProcessContext, port: HandlerPort, clock: Clock) -> Shell:
    """Everything the coordinator works with."""
    return Shell(port)
