"""What one broker can have: the numbers that operators read in sentences, and how much of an answer is records."""

import pytest

from mpbroker.config import limits

MIB = 1 << 20


def test_the_numbers():
    assert {name: value for name, value in vars(limits).items() if name.isupper()} == {
        "MAX_PROCESSORS": 32,
        "MAX_HANDLERS": 64,
        "MAX_LOG_DIRS": 32,
        "COORDINATORS": 1,
        "MAX_ENTRIES": 131072,
        "DEFAULT_ENTRIES": 8192,
        "PROCESSOR_ARENA_BYTES": 256 * MIB,
        "LEAST_PROCESSOR_ARENA_BYTES": MIB,
        "HANDLER_ARENA_BYTES": 256 * MIB,
        "MIN_HANDLER_ARENA_BYTES": 2 * MIB,
        "LARGEST_ANSWER_BYTES": 255 * MIB,
        "LEAST_DASHCAM_BYTES": 8 * MIB,
    }


@pytest.mark.parametrize(
    ("arena_bytes", "records_bytes"),
    [
        (256 * MIB, 255 * MIB),
        (4 * MIB, 3 * MIB),
        (4 * MIB - 4, 3 * MIB - 3),
        (2 * MIB, 3 * MIB // 2),
        (7, 6),
    ],
)
def test_a_quarter_of_an_answer_and_at_most_a_mebibyte_is_for_the_fields_around_records(arena_bytes, records_bytes):
    assert limits.largest_batch_bytes(arena_bytes) == records_bytes
