"""How a compaction cuts what it reads of a segment into batches: by their lengths, the last one wherever it ends."""

import pytest

from mpbroker.log.compaction import HEADER_BYTES, _whole_batches
from mpbroker.record.batch_builder import encode_batch

EMPTY = bytearray(HEADER_BYTES)  # as a compaction leaves one for its producer's sequence
EMPTY[8:12] = (HEADER_BYTES - 12).to_bytes(4, "big")
BATCH = encode_batch([(b"key", b"value", 5)])
WRONG = bytearray(EMPTY)
WRONG[8:12] = (HEADER_BYTES - 13).to_bytes(4, "big")
NEGATIVE = bytearray(EMPTY)
NEGATIVE[8:12] = b"\xff" * 4


@pytest.mark.parametrize(
    "piece, whole, need",
    [
        (b"", 0, 0),
        (EMPTY, HEADER_BYTES, 0),
        (EMPTY + EMPTY, 2 * HEADER_BYTES, 0),
        (BATCH, len(BATCH), 0),
        (BATCH + EMPTY, len(BATCH) + HEADER_BYTES, 0),
        (EMPTY[:-1], 0, HEADER_BYTES),
        (EMPTY + b"x", HEADER_BYTES, HEADER_BYTES),
        (BATCH[:-1], 0, len(BATCH)),
        (EMPTY + BATCH[:-1], HEADER_BYTES, len(BATCH)),
        (EMPTY + BATCH[:HEADER_BYTES], HEADER_BYTES, len(BATCH)),
        (WRONG, 0, HEADER_BYTES - 1),
        (EMPTY + NEGATIVE, HEADER_BYTES, 11),
    ],
)
def test_whole_batches_and_what_the_next_one_needs(piece, whole, need):
    assert _whole_batches(bytes(piece)) == (whole, need)
