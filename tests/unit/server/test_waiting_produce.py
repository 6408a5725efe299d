"""Produce requests with acks=all that wait for their replicas without Python, and when Python has to go on with one."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.server.request_handler import RequestHandler
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_delayed_produce import fetched, follow, lead
from tests.unit.server.test_produce_fetch import batch, part, produce

VERSION = 10


@pytest.fixture
def broker(tmp_path):
    """Broker 0 of a cluster, which leads a partition that broker 1 follows; its handler knows the topic."""
    broker = InProcessBroker(tmp_path, replicated=True)
    broker.create_topic("t")
    lead(broker, 0, isr=[0, 1])
    know(broker)
    return broker


def know(broker) -> None:
    context = broker.handler.context
    context.metadata.refresh()
    context.native_topics.learn(context.metadata.topic("t"))
    context.native_topics.native.parks = True
    context.native_topics.native.monotonic_ms = broker.clock.monotonic_ms()


def native(broker):
    return broker.handler.context.native_topics.native


def sent(broker, *records: bytes, timeout_ms: int = 1500):
    message = produce(records=batch(*records), acks=-1)
    message.timeout_ms = timeout_ms
    broker.send(message, VERSION)
    broker.step()
    return message


def parked(broker, *records: bytes):
    waiting = native(broker).waiting
    message = sent(broker, *records)
    assert broker.collect() == [] and native(broker).waiting == waiting + 1
    return message


def result(broker, message):
    [(_, _, frame)] = broker.collect()
    return part(broker.decode(message, VERSION, frame))


def moved(broker) -> None:
    """The handler hears of what became of the partition."""
    broker.core.ring_handler(0)
    broker.step()
    broker.step()


def test_it_is_acknowledged_without_python_when_the_replica_has_it(broker):
    message = parked(broker, b"a", b"b")
    fetched(broker, 1, 0, 1)
    assert broker.collect() == [] and native(broker).waiting == 1
    fetched(broker, 1, 0, 2)
    found = result(broker, message)
    assert (found.error_code, found.base_offset, found.log_append_time_ms, found.log_start_offset) == (0, 0, -1, 0)
    assert (native(broker).waiting, native(broker).served) == (0, 1)


def test_of_several_those_are_acknowledged_that_are_replicated(broker):
    first, second = parked(broker, b"a"), parked(broker, b"b", b"c")
    fetched(broker, 1, 0, 1)
    assert result(broker, first).base_offset == 0
    assert native(broker).waiting == 1
    fetched(broker, 1, 0, 3)
    assert result(broker, second).base_offset == 1


def test_an_append_that_replicas_do_not_have_yet_rings_nobody_who_waits_for_them(broker):
    parked(broker, b"a")
    parked(broker, b"b")
    assert broker.handler.port.take_dirty() == (False, [])


def test_who_moves_the_high_watermark_rings(broker):
    message = parked(broker, b"a")
    assert broker.log.follower_fetched(0, 1, -1, 0, 1, -1, 0, 0)[0] == 0
    broker.step()
    assert (result(broker, message).error_code, native(broker).served) == (0, 1)


@pytest.mark.parametrize("how", ["deposed", "deposed and leader again", "too few"])
def test_what_is_not_to_be_acknowledged_python_answers_with_an_error(broker, how):
    message = parked(broker, b"a")
    if how == "too few":
        assert broker.log.follower_fetched(0, 1, -1, 0, 1, -1, 0, 0)[0] == 0
        lead(broker, 1, isr=[0], min_isr=2)
    else:
        follow(broker, 1)
    if how == "deposed and leader again":
        lead(broker, 2, isr=[0])
        assert broker.log.state(0).hw == 1
    moved(broker)
    under = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert result(broker, message).error_code == (under if how == "too few" else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (native(broker).waiting, native(broker).served, broker.log.state(0).leo) == (0, 0, 1)


def test_an_epoch_that_is_raised_for_the_isr_alone_fails_nobody(broker):
    message = parked(broker, b"a")
    lead(broker, 1, isr=[0, 1])
    moved(broker)
    assert broker.collect() == [] and native(broker).waiting == 1
    fetched(broker, 1, 1, 1)
    assert result(broker, message).error_code == 0


def test_at_its_own_time_it_is_told_that_it_timed_out(broker):
    early, late = sent(broker, b"a"), sent(broker, b"b", timeout_ms=2_000_000_000)
    broker.clock.now_ms = native(broker).due_ms - 1
    broker.step()
    assert broker.collect() == [] and native(broker).waiting == 2
    broker.clock.advance(1)
    for _ in range(3):
        broker.step()
    assert result(broker, early).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert native(broker).waiting == 1 and native(broker).due_ms > broker.clock.now_ms
    fetched(broker, 1, 0, 2)
    assert result(broker, late).error_code == 0


def test_a_clock_that_begins_at_nothing_is_one(broker):
    broker.clock.now_ms = native(broker).monotonic_ms = 0
    sent(broker, b"a", timeout_ms=1000)
    assert (native(broker).monotonic_ms, native(broker).due_ms) == (0, 1000)


def test_python_gets_each_at_its_deadline_and_no_other_before(broker):
    """Deadlines 1,000, 1,005 and 1,010 ms after now, asked for out of order, and how many of them are due when."""
    now_ms, produces = native(broker).monotonic_ms, native(broker)
    for timeout_ms in (1005, 1000, 1010):
        sent(broker, b"a", timeout_ms=timeout_ms)
    assert (produces.waiting, produces.due_ms) == (3, now_ms + 1000)
    for asked_ms, deadline_ms, due_ms in (
        (999, None, 1000),
        (1000, 1000, 1000),
        (1000, None, 1005),
        (1004, None, 1005),
        (1011, 1005, 1005),
        (1011, 1010, None),
        (9999, None, None),
    ):
        taken = produces.take_over(now_ms + asked_ms)
        assert (None if taken is None else taken[1] - now_ms) == deadline_ms
        assert due_ms is None or produces.due_ms == now_ms + due_ms
        if taken is not None:
            assert broker.handler.port.answer(taken[0], bytes(8))
    assert produces.waiting == 0 and len(broker.collect()) == 3
    sent(broker, b"late", timeout_ms=2000)
    assert (produces.waiting, produces.due_ms) == (1, now_ms + 2000)


def test_after_a_change_of_metadata_python_answers_and_appends_nothing_again(broker):
    message = parked(broker, b"a")
    broker.create_topic("other")
    fetched(broker, 1, 0, 1)
    broker.step()
    assert (result(broker, message).error_code, native(broker).served, broker.log.state(0).leo) == (0, 0, 1)


def test_a_successor_waits_on_natively_and_appends_nothing_again(broker):
    message = parked(broker, b"a")
    broker.handler = RequestHandler(broker._context())
    know(broker)
    broker.handler.port.recover()
    broker.step()
    broker.step()
    assert broker.collect() == [] and native(broker).waiting == 1
    fetched(broker, 1, 0, 1)
    assert (result(broker, message).base_offset, broker.log.state(0).leo) == (0, 1)


def test_one_that_gives_up_what_it_had_answers_none_of_it(broker):
    """A handler that leaves puts its requests back for the others."""
    message = parked(broker, b"a")
    broker.handler.port.recover()
    fetched(broker, 1, 0, 1)
    for _ in range(3):
        broker.step()
    assert result(broker, message).error_code == 0
    assert native(broker).waiting == 0


def test_more_wait_than_there_was_room_for_at_first(broker):
    messages = [parked(broker, b"%d" % number) for number in range(20)]
    fetched(broker, 1, 0, 20)
    assert len(broker.collect()) == len(messages)
