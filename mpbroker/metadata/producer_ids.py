"""The producer ids that this process may hand out. A block lost with its process is never used again (KIP-98)."""

from __future__ import annotations

from collections import deque

from mpbroker.metadata.commands import AllocateProducerIds, encode_command


class ProducerIds:
    """Blocks in the order they came; `take` returns the next id, or None when a new block is needed."""

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()

    def take(self) -> int | None:
        while self._blocks:
            block = self._blocks.popleft()
            if len(block) > 1:
                self._blocks.appendleft(block[1:])
            if block:
                return block[0]
        return None

    def add_block(self, first_id: int, count: int) -> None:
        self._blocks.append(range(first_id, first_id + count))

    def command(self) -> bytes:
        """The encoded command that asks for a block."""
        return encode_command(AllocateProducerIds())
