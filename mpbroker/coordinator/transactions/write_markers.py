"""WriteTxnMarkers: a transaction ends in partitions, whatever their own broker thinks of it. Its coordinator on another
broker says so, or an administrator (KIP-664).

Runs in the coordinator process, because offsets in `__consumer_offsets` hang on the same markers.
"""

from __future__ import annotations

from functools import partial

from mpbroker.coordinator.effects import GroupRequest, Now, SendMarkers
from mpbroker.coordinator.transactions.transaction_answers import markers_answer
from mpbroker.coordinator.transactions.transaction_environment import TransactionEnvironment
from mpbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

NO_SHARD = -1


class AskedMarkers:
    """One request: its markers, all at once, and the answer after the last. One marker may wait for its followers; the
    others do not wait for it."""

    def __init__(self, env: TransactionEnvironment, request: GroupRequest, message: WriteTxnMarkersRequest) -> None:
        self._env = env
        self._token = request.token
        self._message = message
        self._codes: list[dict[tuple[str, int], int]] = [{} for _ in message.markers]
        self._left = len(message.markers)

    def begin(self) -> None:
        """Send them."""
        if not self._left:
            self._env.answer(self._token, markers_answer(self._message, self._codes))
        for place, one in enumerate(self._message.markers):
            number = self._env.next_number()
            self._env.asked_markers[number] = partial(self._written, place)
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

    def _written(self, place: int, codes: dict[tuple[str, int], int], now: Now) -> None:
        """What became of one."""
        self._codes[place] = codes
        self._left -= 1
        if not self._left:
            self._env.answer(self._token, markers_answer(self._message, self._codes))
