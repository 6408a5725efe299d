"""How long a handler waits: as long as it was told, and no longer than until a request that waits natively is due."""

import time

import pytest

from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import fetch

LONG_MS, SOON_S = 20_000.0, 8.0


@pytest.fixture
def broker(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    context = broker.handler.context
    context.metadata.refresh()
    context.native_topics.learn(context.metadata.topic("t"))
    context.native_topics.fetch.now_ms = -1  # the system's clock
    return broker


def parked(broker, max_wait_ms):
    """A Fetch that finds nothing; when it is due, by the clock of the system."""
    native = broker.handler.context.native_topics.fetch
    broker.send(fetch(offset=0, max_wait_ms=max_wait_ms), 11)
    assert broker.handler.context.port.serve_or_claim() is None and native.waiting == 1
    return native.due_ms


def now_ms():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000


@pytest.mark.parametrize("wait_ms", [LONG_MS, -1])
@pytest.mark.parametrize("max_wait_ms", [1, 30, 80])
def test_a_wait_ends_when_a_fetch_is_due(broker, wait_ms, max_wait_ms):
    due_ms = parked(broker, max_wait_ms)
    assert broker.handler.context.port.serve_or_claim(wait_ms) is None
    assert due_ms <= now_ms() < due_ms + SOON_S * 1000


def test_a_wait_ends_before_a_fetch_is_due(broker):
    due_ms = parked(broker, 2_000_000_000)
    begun_ns = time.monotonic_ns()
    assert broker.handler.context.port.serve_or_claim(3.0) is None
    assert 3_000_000 <= time.monotonic_ns() - begun_ns < SOON_S * 1e9
    assert now_ms() < due_ms


def test_what_is_due_is_not_waited_for(broker):
    """It is looked at once more, and that is all, however often."""
    due_ms = parked(broker, 1)
    while now_ms() < due_ms:
        pass
    begun_ns = time.monotonic_ns()
    for _ in range(20):
        assert broker.handler.context.port.serve_or_claim(LONG_MS) is None
    assert time.monotonic_ns() - begun_ns < LONG_MS * 1e6


@pytest.mark.parametrize("wait_ms", [0, 0.2, 0.9])
def test_a_short_wait_is_short(broker, wait_ms):
    """The least of many: the machine may be busy, but not every time."""
    port = broker.handler.context.port
    spent_ns = []
    for _ in range(100):
        begun_ns = time.monotonic_ns()
        assert port.serve_or_claim(wait_ms) is None
        spent_ns.append(time.monotonic_ns() - begun_ns)
    assert wait_ms * 1e6 <= min(spent_ns) < 4_000_000


def test_what_python_has_to_take_over_is_not_waited_for(broker):
    """A partition moves whose topic is not known any more: the one that waits for it is due at once, until it is
    taken."""
    context = broker.handler.context
    parked(broker, 15_000)
    context.native_topics.forget()
    broker.core.notify_partition(0)
    context.port.take_dirty()
    begun_ns = time.monotonic_ns()
    for _ in range(3):
        assert context.port.serve_or_claim(LONG_MS) is None
    assert context.native_topics.fetch.due_ms == -(1 << 63)
    assert time.monotonic_ns() - begun_ns < SOON_S * 1e9
    request, _ = context.native_topics.fetch.take_over(now_ms())
    assert request.api_key == 1 and context.native_topics.fetch.waiting == 0
    assert context.native_topics.fetch.take_over(now_ms()) is None
