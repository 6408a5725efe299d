"""The two ports: APIs that are handed over, memory that was reserved for a frame, a sleep that is given up."""

import os
import select

import pytest

from mpbroker.channel.planes import DATA
from tests.unit.channel.test_request_path import Pair, frame


@pytest.fixture
def pair():
    made = Pair()
    yield made
    made.close()


@pytest.mark.parametrize("keys", [(11,), (70, 11), (0, 63, 64, 127)])
def test_every_named_api_is_handed_over_and_no_other(pair, keys):
    handler = pair.handlers[0]
    handler.hand_over(keys)
    for key in keys:
        pair.submit(frame(key))
        assert handler.serve_or_claim() is None
    pair.submit(frame(12))
    assert handler.serve_or_claim().api_key == 12
    with pytest.raises(IndexError):
        handler.hand_over([128])


def test_of_a_reservation_exactly_what_is_not_needed_is_free_again(pair):
    """The memory in front of it stays taken, that behind it can be had in one piece."""
    mib, unit = 1 << 20, 4096
    before, _ = pair.processor.reserve(mib // 4)
    offset, view = pair.processor.reserve(mib // 2)
    data = frame(body=bytes(unit - len(frame())))
    view[: len(data)] = data
    assert pair.processor.submit_reserved(DATA, 1, 1, 0, offset, len(data), 1) >= 0
    rest, _ = pair.processor.reserve(mib - (offset - before) - 2 * unit)
    assert offset < rest <= offset + 2 * unit
    assert pair.processor.reserve(mib // 8) is None, "what is in front of it is still taken"


def test_a_processor_that_does_not_sleep_after_all_is_not_rung(pair):
    for sleeps in (True, False):
        pair.submit(frame())
        assert pair.processor.prepare_sleep()
        if not sleeps:
            pair.processor.cancel_sleep()
        pair.handlers[0].answer(pair.handlers[0].serve_or_claim(), b"1234")
        assert bool(select.select([pair.eventfd], [], [], 0)[0]) is sleeps
        if sleeps:
            os.eventfd_read(pair.eventfd)
        [(entry, *_)] = pair.processor.collect(9)
        pair.processor.sent(entry)
