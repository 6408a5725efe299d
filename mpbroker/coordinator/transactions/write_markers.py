"""WriteTxnMarkers: an administrator ends a transaction in partitions, whatever its coordinator thinks (KIP-664).

Runs in the coordinator process, because offsets in `__consumer_offsets` hang on the same markers.
"""

from __future__ import annotations

from mpbroker.coordinator.effects import GroupRequest, Now, SendMarkers
from mpbroker.coordinator.transactions.transaction_answers import markers_answer
from mpbroker.coordinator.transactions.transaction_environment import TransactionEnvironment
from mpbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

NO_SHARD = -1


class AskedMarkers:
    """One request: its markers, one after the other, and the answer after the last."""

    def __init__(self, env: TransactionEnvironment, request: GroupRequest, message: WriteTxnMarkersRequest) -> None:
        self._env = env
        self._token = request.token
        self._message = message
        self._codes: list[dict[tuple[str, int], int]] = []

    def go_on(self, now: Now) -> None:
        """Send the next one, or answer."""
        if len(self._codes) == len(self._message.markers):
            self._env.answer(self._token, markers_answer(self._message, self._codes))
            return
        one = self._message.markers[len(self._codes)]
        number = self._env.next_number()
        self._env.asked_markers[number] = self
        partitions = frozenset((topic.name, index) for topic in one.topics for index in topic.partition_indexes)
        self._env.ask(
            SendMarkers(
                NO_SHARD,
                number,
                one.producer_id,
                one.producer_epoch,
                one.transaction_result,
                one.coordinator_epoch,
                partitions,
            )
        )

    def written(self, codes: dict[tuple[str, int], int], now: Now) -> None:
        """What became of the one that was sent."""
        self._codes.append(codes)
        self.go_on(now)
