"""A request for a session of its own names the one before: that one ends."""

import struct

import pytest

from mpbroker._native import SESSION_HELD, SESSION_UNKNOWN
from mpbroker.shm.layout import core_regions
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.small_core import small_plan
from tests.unit.server.test_produce_fetch import fetch


@pytest.mark.parametrize("number", [1, 2, 1025])
def test_a_full_request_ends_the_session_that_it_names(tmp_path, number):
    """Also the one with the least id of all."""
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    broker.call(fetch(), 11)  # from here on natively
    plan = small_plan(
        arena_handler_bytes=64 << 20, arena_processor_bytes=64 << 20, topics=16, fetch_sessions=1000, session_units=1024
    )
    [region] = [one for one in core_regions(plan)[0] if one.name == "fetch_sessions"]
    table, native = broker.handler.context.fetch_sessions, broker.handler.context.native_topics.fetch
    struct.pack_into("<Q", broker.shared.memory[0], region.offset + number % 1024 * region.stride, number << 32)
    assert table.hold(number) == SESSION_HELD
    table.release()
    before, message = native.served, fetch()
    message.session_id, message.session_epoch = number, 0
    broker.call(message, 11)
    assert native.served == before + 1 and table.hold(number) == SESSION_UNKNOWN
