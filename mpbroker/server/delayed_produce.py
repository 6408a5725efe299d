"""DelayedProduce: an append that waits until it may be acknowledged. Lives in the handler that claimed the request.

"Appended" is not "may be acknowledged": acks=all waits for the high watermark, `mpbroker.log.flush=commit` for the
log keeper's sync. The required offsets are also in the request's result cells: after this handler's death another one
parks the request again with the same offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.log.leadership import is_led_since, is_under_min_isr
from mpbroker.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from mpbroker.server.current_leader import current_leader, places_of
from mpbroker.server.server_context import ParkedRequest, ServerContext
from mpbroker.shm.layout import ParkedKind

ACKS_ALL = -1
LEADERS_SINCE = 10  # the version of Produce whose answers name them


class _Pending:
    """One partition that is not acknowledged yet."""

    __slots__ = ("leader_epoch", "ordinal", "required_offset", "result")

    def __init__(self, ordinal: int, required_offset: int, result: PartitionProduceResponse, leader_epoch: int) -> None:
        self.ordinal = ordinal
        self.required_offset = required_offset
        self.result = result
        self.leader_epoch = leader_epoch


class DelayedProduce(ParkedRequest):
    """Completes when every pending partition is acknowledged or failed; at the deadline the rest is timed out."""

    PARKED_KIND = ParkedKind.PRODUCE
    __slots__ = ("acks", "appended", "pending", "response")

    def __init__(
        self,
        context: ServerContext,
        request: Request,
        deadline_ms: int,
        acks: int,
        pending: list[_Pending],
        response: ProduceResponse,
    ) -> None:
        super().__init__(context, request, deadline_ms, {entry.ordinal for entry in pending})
        self.response = response
        self.appended = pending
        self.pending = pending
        self.acks = acks

    @classmethod
    def of(
        cls,
        context: ServerContext,
        request: Request,
        message: ProduceRequest,
        results: Sequence[PartitionProduceResponse],
        response: ProduceResponse,
    ) -> DelayedProduce | None:
        """The operation for the partitions still waiting; None when all may be acknowledged now."""
        pending = []
        for number, result in enumerate(results):
            cell = None if result.error_code else context.port.cell(request, number)
            if cell is not None:
                pending.append(_Pending(cell.ordinal, cell.end_offset, result, cell.leader_epoch))
        deadline_ms = context.produce_deadline_ms
        if deadline_ms is None:
            deadline_ms = context.clock.monotonic_ms() + max(message.timeout_ms, 0)
        operation = cls(context, request, deadline_ms, message.acks, pending, response)
        if operation.try_complete():
            operation.count_errors()
            operation.name_leaders()
            return None
        if context.log_manager.flush_on_commit:
            context.log_manager.request_flush()
        return operation

    def try_complete(self) -> bool:
        self.pending = [entry for entry in self.pending if not self._settled(entry)]
        return not self.pending

    def _settled(self, entry: _Pending) -> bool:
        state = self.context.log_manager.state(entry.ordinal)
        if state is None:
            entry.result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return True
        if not is_led_since(state, entry.leader_epoch):
            if self.context.config.mpbroker_experiment_keep_produces_at_demotion:
                return False  # KAFKA-4453 as it was: it times out
            entry.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        if self.acks == ACKS_ALL and state.hw < entry.required_offset:
            return False
        if self.acks == ACKS_ALL and is_under_min_isr(state):
            entry.result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return True
        return not self.context.log_manager.flush_on_commit or state.flushed_offset >= entry.required_offset

    def on_expiration(self) -> None:
        self.request.flag_timed_out()
        self.context.count("purgatory_expired")
        for entry in self.pending:
            entry.result.error_code = ErrorCode.REQUEST_TIMED_OUT
            entry.result.base_offset = -1

    def count_errors(self) -> None:
        """Partitions that were appended, and are in error all the same."""
        errors = sum(1 for entry in self.appended if entry.result.error_code)
        if errors:
            self.context.count("produce_partition_errors", errors)

    def name_leaders(self) -> None:
        """KIP-951: with NOT_LEADER_OR_FOLLOWER an answer says who leads, so that the client need not ask first."""
        moved = [entry for entry in self.appended if entry.result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER]
        if not moved or self.request.api_version < LEADERS_SINCE:
            return
        leaders = [current_leader(self.context, entry.ordinal) for entry in moved]
        for entry, leader in zip(moved, leaders, strict=True):
            entry.result.current_leader = LeaderIdAndEpoch(*leader)
        places = places_of(self.context, self.request, leaders)
        self.response.node_endpoints = [NodeEndpoint(*place) for place in places]

    def on_complete(self) -> None:
        self.context.resume(self.request)
        self.count_errors()
        self.name_leaders()
        self.context.answer(self.request, self.response)
