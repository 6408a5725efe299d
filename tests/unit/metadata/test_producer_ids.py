"""Producer ids are handed out one by one, block after block, and none of them twice."""

from mpbroker.metadata.commands import AllocateProducerIds, decode_command
from mpbroker.metadata.producer_ids import ProducerIds


def test_blocks_are_used_up_in_the_order_they_came():
    ids = ProducerIds()
    assert ids.take() is None
    for first, count in ((1000, 2), (5, 0), (2000, 1), (0, 3)):
        ids.add_block(first, count)
    assert [ids.take() for _ in range(7)] == [1000, 1001, 2000, 0, 1, 2, None]
    ids.add_block(7, 1)
    assert [ids.take(), ids.take()] == [7, None]
    assert decode_command(ids.command()) == AllocateProducerIds()
