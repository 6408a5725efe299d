"""Fetch sessions: who may have one, who loses it, and what a death leaves of it. What an answer holds, Kafka says:
tests/conformance/corpus/fetch_session_cases.py."""

from types import SimpleNamespace

import pytest

from mpbroker.channel.fetch_session_table import EVICTION_MS, NAME_BYTES, FetchSessionTable
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.server import fetch_session
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_HANDLERS
from tests.harness.fetch_session_client import SessionClient, fetch_of
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, produce
from tests.unit.server.test_result_cells import Died, succeed

VERSION = 11
LARGEST_EPOCH = 2**31 - 1


@pytest.fixture(params=["native", "python"])
def broker(request, tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.handler.context.native_topics.fetch.off = request.param == "python"
    broker.create_topic("t", 4)
    return broker


def begun(broker, partitions=(0,), version=VERSION) -> SessionClient:
    """A client with a session."""
    client = SessionClient(version)
    client.reads = {("t", number): 0 for number in partitions}
    asked(broker, client)
    assert client.session_id > 0
    return client


def asked(broker, client, **fields):
    """The next request of a client, and its answer."""
    answer = broker.call(client.request(**fields), client.version)
    client.take(answer)
    return answer


def count(broker, counter: Counter) -> int:
    return broker.core.row(SLOT_HANDLERS).counter(counter)


def sessions(broker) -> FetchSessionTable:
    return broker.handler.context.fetch_sessions


def alter(broker, session_id, **changes) -> None:
    table = sessions(broker)
    assert table.hold(session_id) == 0
    table.put(table.row()._replace(**changes))


def woken_by(broker, message, partition=0):
    """The answer to `message`, which waits, when a record comes."""
    appended = broker.send(produce(records=batch(b"a"), partition=partition), 7)
    found = []
    for _ in range(3):
        broker.step()
        found += [frame for entry, _, frame in broker.collect() if entry != appended]
    [frame] = found
    return broker.decode(message, VERSION, frame)


def test_the_last_epoch_is_followed_by_the_first(broker):
    client = begun(broker)
    alter(broker, client.session_id, epoch=LARGEST_EPOCH)
    client.epoch = LARGEST_EPOCH
    assert asked(broker, client).error_code == 0
    assert client.epoch == 1 and asked(broker, client).error_code == 0


def test_a_request_that_was_overtaken_gets_error_71_and_the_session_goes_on(broker):
    """Two connections of one session: the first waits, the second goes on with it."""
    client = begun(broker)
    broker.send(client.request(max_wait_ms=500, min_bytes=1), VERSION)
    broker.step()
    assert not broker.collect()
    second = fetch_of(VERSION, {}, {}, session_id=client.session_id, session_epoch=2)
    assert broker.call(second, VERSION).error_code == 0
    overtaken = woken_by(broker, second)
    assert (overtaken.error_code, overtaken.session_id) == (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        client.session_id,
    )
    third = fetch_of(VERSION, {}, {}, session_id=client.session_id, session_epoch=3)
    [topic] = broker.call(third, VERSION).responses
    assert topic.partitions[0].high_watermark == 1, "what the overtaken one did not say is told now"


def test_a_wait_ends_with_what_came(broker):
    client = begun(broker, (0, 1))
    broker.send(client.request(max_wait_ms=500, min_bytes=1), VERSION)
    broker.step()
    found = client.take(woken_by(broker, fetch_of(VERSION, {}, {}), 1))
    assert list(found) == [("t", 1)] and found["t", 1].records


def test_a_session_that_is_held_is_error_71_and_one_that_nobody_lets_go_of_is_dropped_by_a_successor(broker):
    client = begun(broker)
    other = FetchSessionTable(broker.core, SLOT_HANDLERS + 1)
    assert other.hold(client.session_id) == 0
    before = client.session_id, client.epoch
    assert asked(broker, client).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert FetchSessionTable(broker.core, SLOT_HANDLERS + 1).recover() == 1
    client.session_id, client.epoch = before
    assert asked(broker, client).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert count(broker, Counter.FETCH_SESSIONS_WRONG) == 2


def test_a_waiting_request_is_run_again_in_its_session_by_another_handler(broker):
    client = begun(broker)
    broker.send(client.request(max_wait_ms=500, min_bytes=1), VERSION)
    broker.step()
    succeed(broker)
    broker.step()
    assert not broker.collect()
    answer = woken_by(broker, fetch_of(VERSION, {}, {}))
    assert (answer.error_code, answer.session_id) == (0, client.session_id)
    assert client.take(answer)["t", 0].records
    assert asked(broker, client).error_code == 0


def test_an_answer_that_died_on_its_way_costs_the_session(broker):
    """Its client does not know what the session says it knows."""
    client = begun(broker)
    broker.call(produce(records=batch(b"a")), 7)
    client.reads["t", 0] = 1  # news without records
    message = client.request()
    die_before_answering_fetch(broker, message)
    succeed(broker)
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert broker.decode(message, VERSION, frame).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def die_before_answering_fetch(broker, message) -> None:
    broker.handler.context.native_topics.forget()
    port = broker.handler.context.port

    def never(request, frame):
        raise Died

    port.answer = never
    broker.send(message, VERSION)
    with pytest.raises(Died):
        broker.step()


def test_a_handler_that_raises_in_the_middle_of_a_session_drops_it(broker):
    client = begun(broker)
    broker.handler.context.metadata.topic_by_id = None
    alter(broker, client.session_id, partitions=[])  # nothing is wrong with that
    table = sessions(broker)
    row, table.row = table.row, lambda: 1 / 0
    assert broker.call(client.request(), VERSION).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    table.row = row
    answer = broker.call(fetch_of(VERSION, {}, {}, session_id=client.session_id, session_epoch=1), VERSION)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def full(tmp_path, slots) -> InProcessBroker:
    broker = InProcessBroker(tmp_path, fetch_sessions=slots)
    broker.create_topic("t", 4)
    return broker


def test_a_full_table_refuses_and_clients_go_on_without_a_session(tmp_path):
    broker = full(tmp_path, 2)
    first, second = begun(broker), begun(broker)
    third = SessionClient(VERSION)
    third.reads = {("t", number): 0 for number in range(4)}
    for _ in range(2):
        assert asked(broker, third).session_id == 0 and len(third.knows) == 4
    assert count(broker, Counter.FETCH_SESSIONS_REFUSED) == 2
    assert asked(broker, first).error_code == asked(broker, second).error_code == 0


def test_no_slots_mean_no_sessions(tmp_path):
    broker = full(tmp_path, 0)
    client = SessionClient(VERSION)
    client.reads = {("t", 0): 0}
    assert asked(broker, client).session_id == 0


def test_an_old_session_gives_way_to_one_of_more_partitions_only(tmp_path):
    broker = full(tmp_path, 2)
    one, two = begun(broker, (0,)), begun(broker, (0, 1))
    broker.clock.advance(EVICTION_MS + 1)
    asked(broker, one)
    asked(broker, two)  # both were used just now, and are older than the time they are safe
    same = SessionClient(VERSION)
    same.reads = {("t", 3): 0}
    assert asked(broker, same).session_id == 0, "as many partitions are not more"
    begun(broker, (1, 2))
    assert asked(broker, one).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert asked(broker, two).error_code == 0
    assert count(broker, Counter.FETCH_SESSIONS_EVICTED) == 1


def test_a_session_that_nobody_used_for_long_gives_way_to_any(tmp_path):
    broker = full(tmp_path, 2)
    large, small = begun(broker, (0, 1, 2)), begun(broker)
    broker.clock.advance(EVICTION_MS)
    asked(broker, small)
    broker.clock.advance(1)
    newest = begun(broker)
    assert asked(broker, large).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert asked(broker, small).error_code == asked(broker, newest).error_code == 0


def test_a_followers_session_beats_all_others_and_none_beats_it(tmp_path):
    broker = full(tmp_path, 1)
    consumer = begun(broker, (0, 1, 2))
    follower = fetch_of(VERSION, {}, {("t", 0): 0}, replica_id=3, session_epoch=0)
    assert broker.call(follower, VERSION).session_id > 0
    assert asked(broker, consumer).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert asked(broker, consumer).session_id == 0
    broker.clock.advance(EVICTION_MS)
    assert asked(broker, consumer).session_id == 0


def test_a_session_of_too_many_partitions_is_not_made_and_one_that_grows_so_far_is_dropped(tmp_path):
    broker = InProcessBroker(tmp_path, session_units=64)  # a session gets eight: 123 partitions of a topic
    broker.create_topic("t", 4)
    client = SessionClient(VERSION)
    client.reads = {("t", number): 0 for number in range(200)}
    assert asked(broker, client).session_id == 0
    client.reads = {("t", number): 0 for number in range(100)}
    assert asked(broker, client).session_id > 0
    client.reads = {("t", number): 0 for number in range(200)}
    assert asked(broker, client).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert count(broker, Counter.FETCH_SESSIONS_REFUSED) == 2
    for _ in range(20):  # what was dropped is free again
        client = SessionClient(VERSION)
        client.reads = {("t", number): 0 for number in range(100)}
        assert asked(broker, client).session_id > 0
        assert (
            broker.call(fetch_of(VERSION, {}, {}, session_id=client.session_id, session_epoch=-1), VERSION).error_code
            == 0
        )


def test_a_name_too_long_for_a_topic_gets_no_session(broker):
    client = SessionClient(VERSION)
    client.reads = {("x" * (NAME_BYTES + 1), 0): 0}
    assert asked(broker, client).session_id == 0
    client = begun(broker)
    client.reads["x" * (NAME_BYTES + 1), 0] = 0
    assert asked(broker, client).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_ids_of_no_session_are_unknown(broker):
    begun(broker)
    for session_id in (0, -1, 1, 2**31 - 1, -(2**31)):
        request = fetch_of(VERSION, {}, {}, session_id=session_id, session_epoch=1)
        assert broker.call(request, VERSION).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        request = fetch_of(VERSION, {}, {("t", 0): 0}, session_id=session_id, session_epoch=-1)
        assert broker.call(request, VERSION).error_code == 0


def test_an_answer_without_memory_tells_nothing_to_the_session(broker):
    """It waits and is tried again, from what was known before."""
    broker.handler.context.native_topics.fetch.off = True  # which leaves that to Python
    broker.call(produce(records=batch(b"a" * 1000)), 7)
    client = SessionClient(VERSION)
    client.reads = {("t", 0): 0}
    port = broker.handler.context.port
    allocate, port.allocate = port.allocate, lambda size: None
    broker.send(client.request(), VERSION)
    broker.step()
    assert not broker.collect()
    port.allocate = allocate
    broker.clock.advance(25)
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert client.take(broker.decode(fetch_of(VERSION, {}, {}), VERSION, frame))["t", 0].records
    assert client.session_id > 0 and count(broker, Counter.FETCH_SESSIONS_MADE) == 1


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_request_that_runs_again_goes_on_with_its_session_unless_that_was_answered(is_answered):
    """Then nobody knows what the client has heard: it begins anew, and the session's room is free."""
    done = []
    table = SimpleNamespace(drop=lambda: done.append("dropped"), release=lambda: done.append("released"))
    row, message = SimpleNamespace(is_answered=is_answered, partitions=[]), FetchRequest()
    if is_answered:
        with pytest.raises(fetch_session.SessionError) as refused:
            fetch_session._run_again(table, message, row)
        assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    else:
        assert isinstance(fetch_session._run_again(table, message, row), fetch_session.IncrementalFetchContext)
    assert done == ["dropped" if is_answered else "released"]
