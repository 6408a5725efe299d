"""Fetch requests that wait for records without Python, and when Python has to go on with one."""

import pytest

from mpbroker._native import NO_REQUEST, LogOptions
from mpbroker.errors import ErrorCode
from mpbroker.record.record_batch import iterate_records
from mpbroker.server.request_handler import RequestHandler
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import DIRTY_BITS, SLOT_HANDLERS
from mpbroker.shm.process_table import BrokerState
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, fetch, part, produce

VERSION = 11


@pytest.fixture
def broker(tmp_path):
    """Its handler knows the topic, which has a record in one partition."""
    broker = InProcessBroker(tmp_path, is_traced=True)
    broker.create_topic("t", 3)
    know(broker)
    assert part(broker.call(produce(records=batch(b"a")), 7)).error_code == 0
    return broker


def know(broker) -> None:
    context = broker.handler.context
    context.metadata.refresh()
    context.native_topics.learn(context.metadata.topic("t"))


def native(broker):
    return broker.handler.context.native_topics.fetch


def counted(broker, counter: Counter) -> int:
    return broker.core.row(SLOT_HANDLERS).counter(counter)


def parked(broker, **fields) -> int:
    """A request that waits now: its entry."""
    waiting, fields = native(broker).waiting, {"offset": 1, "max_wait_ms": 500} | fields
    entry = broker.send(fetch(**fields), VERSION)
    broker.step()
    assert broker.collect() == [] and native(broker).waiting == waiting + 1
    return entry


def append(broker, value: bytes, partition: int = 0) -> None:
    """As another handler does it."""
    assert broker.log.append(partition, NO_REQUEST, 0, batch(value), LogOptions(), broker.clock.wall_ms()).error == 0


def values(broker, frame: bytes) -> list[bytes]:
    return [record.value for record in iterate_records(part(broker.decode(fetch(), VERSION, frame)).records)]


def moved(broker) -> dict[int, bytes]:
    """The handler hears of it: entries and answers."""
    broker.step()
    return {entry: frame for entry, _, frame in broker.collect()}


def test_it_is_answered_without_python_when_there_is_enough(broker):
    first, second = parked(broker), parked(broker, min_bytes=150)
    append(broker, b"b")
    answers = moved(broker)
    assert values(broker, answers.pop(first)) == [b"b"] and answers == {}
    assert (native(broker).waiting, native(broker).served) == (1, 1)
    append(broker, b"c" * 100)
    assert values(broker, moved(broker)[second]) == [b"b", b"c" * 100]
    assert (native(broker).waiting, native(broker).served) == (0, 2)


def test_only_those_that_read_what_moved_are_looked_at(broker):
    here, there = parked(broker), parked(broker, offset=0, partition=1)
    append(broker, b"b", partition=1)
    answers = moved(broker)
    assert values(broker, answers.pop(there)) == [b"b"] and answers == {}
    append(broker, b"c")
    assert values(broker, moved(broker)[here]) == [b"c"]


def test_rows_that_are_told_apart_modulo_a_number_are_both_looked_at(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t", 2)
    know(broker)
    assert DIRTY_BITS % 64 == 0
    entry = parked(broker, offset=0, partition=1)
    broker.core.notify_partition(1)
    broker.step()
    assert broker.collect() == [] and native(broker).waiting == 1
    append(broker, b"b", partition=1)
    assert values(broker, moved(broker)[entry]) == [b"b"]


def test_at_its_time_it_is_answered_with_what_there_is(broker):
    early, late = parked(broker, min_bytes=10_000), parked(broker, max_wait_ms=60_000, min_bytes=10_000)
    append(broker, b"b")
    assert moved(broker) == {}
    due_ms = native(broker).due_ms
    assert due_ms == broker.clock.monotonic_ms() + 500
    broker.clock.advance(499)
    broker.step()
    assert broker.collect() == [] and native(broker).waiting == 2
    broker.clock.advance(1)
    broker.step()
    [(entry, _, frame)] = broker.collect()
    assert entry == early and values(broker, frame) == [b"b"]
    assert counted(broker, Counter.PURGATORY_EXPIRED) == 1 and native(broker).served == 1
    assert native(broker).due_ms == due_ms - 500 + 60_000
    broker.clock.advance(59_500)
    broker.step()
    [(entry, _, frame)] = broker.collect()
    assert entry == late and native(broker).waiting == 0
    assert counted(broker, Counter.PURGATORY_EXPIRED) == 2


def test_the_earliest_of_those_that_wait_is_due_first(broker):
    late = parked(broker, max_wait_ms=900)
    early = parked(broker, max_wait_ms=300)
    assert native(broker).due_ms == broker.clock.monotonic_ms() + 300
    broker.clock.advance(300)
    assert moved(broker).keys() == {early}
    broker.clock.advance(600)
    assert moved(broker).keys() == {late}


def test_what_cannot_be_answered_natively_waits_on_in_python(broker):
    """Another topic is made: the table of topics is out of date, and Python takes the request over."""
    entry = parked(broker)
    broker.create_topic("other")
    broker.clock.advance(200)
    append(broker, b"b")
    answers = moved(broker)
    assert values(broker, answers[entry]) == [b"b"] and native(broker).waiting == 0
    assert (native(broker).served, counted(broker, Counter.FETCH_LEFT_TOPIC)) == (0, 1)


def test_one_that_python_took_over_ends_at_its_own_time(broker):
    entry = parked(broker, min_bytes=10_000)
    broker.create_topic("other")
    broker.core.notify_partition(0)
    broker.clock.advance(200)
    for _ in range(3):
        broker.step()
    assert broker.collect() == [] and native(broker).waiting == 0
    broker.clock.advance(299)
    broker.step()
    assert broker.collect() == []
    broker.clock.advance(1)
    broker.step()
    assert [each[0] for each in broker.collect()] == [entry]


def test_an_error_is_told_at_once(broker):
    append(broker, b"b")
    entry = parked(broker, offset=2)
    assert broker.log.truncate(0, 1) == 0
    broker.core.notify_partition(0)
    broker.step()
    [(answered, _, frame)] = broker.collect()
    assert answered == entry and native(broker).waiting == 0
    assert part(broker.decode(fetch(), VERSION, frame)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_broker_that_is_about_to_stop_answers_all_with_what_there_is(broker):
    entries = {parked(broker), parked(broker, offset=0, partition=2)}
    broker.core.state = BrokerState.DRAINING
    broker.core.ring_handler(0)
    for _ in range(2):
        broker.step()
    assert {each[0] for each in broker.collect()} == entries
    assert counted(broker, Counter.PURGATORY_EXPIRED) == 0


def test_a_successor_waits_on(broker):
    entry = parked(broker)
    broker.handler = RequestHandler(broker._context())
    know(broker)
    broker.handler.port.recover()
    for _ in range(2):
        broker.step()
    assert broker.collect() == []
    append(broker, b"b")
    assert values(broker, moved(broker)[entry]) == [b"b"]


def test_one_that_gives_up_what_it_had_answers_it_once(broker):
    """A handler that leaves puts its requests back for the others: here for itself."""
    entry = parked(broker)
    broker.handler.port.recover()
    for _ in range(3):
        broker.step()
    append(broker, b"b")
    assert values(broker, moved(broker)[entry]) == [b"b"] and moved(broker) == {}
    assert (native(broker).waiting, native(broker).served) == (0, 1)


def test_more_wait_than_there_was_room_for_at_first(broker):
    entries = {parked(broker) for _ in range(40)}
    append(broker, b"b")
    assert moved(broker).keys() == entries and native(broker).waiting == 0


def test_where_something_waits_in_python_too_both_hear_of_what_moved(broker):
    natively = parked(broker)
    native(broker).parks = False
    in_python = broker.send(fetch(offset=1, max_wait_ms=500), VERSION)
    broker.step()
    assert broker.collect() == [] and native(broker).waiting == 1
    append(broker, b"b")
    answers = moved(broker)
    assert values(broker, answers[natively]) == values(broker, answers[in_python]) == [b"b"]


def test_nothing_is_left_to_python_where_nothing_waits_there(broker, monkeypatch):
    """Not one look of its own: what moved is looked at between two requests."""
    entry = parked(broker)
    looks = []
    take = broker.handler.port.take_dirty
    monkeypatch.setattr(type(broker.handler.port), "take_dirty", lambda port: looks.append(take()) or looks[-1])
    append(broker, b"b")
    answers = moved(broker)
    assert values(broker, answers[entry]) == [b"b"]
    assert looks and all(keys == [] and not everything for everything, keys in looks)
