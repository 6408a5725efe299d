"""A fetcher process: which leaders it has connections to, what it asks over them, when it gives one up, how long it
sleeps."""

import contextlib
import os
import socket
from types import SimpleNamespace

import pytest

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.log.leader_epochs import NOT_KNOWN, EpochEnd
from mpbroker.replication import fetcher as module
from mpbroker.replication.fetcher import BUSY_SCAN_MS, SCAN_MS
from mpbroker.replication.follower import FIRST_PAUSE_MS
from mpbroker.replication.leader_connection import ConnectionEnded
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessState
from tests.unit.replication.fetcher_world import FOLLOWER, LEADER, OWN_EPOCH, FetcherWorld
from tests.unit.replication.scripted_leader import EPOCH, A, B

NAMED = {"follower.replication.throttled.replicas": f"0:{FOLLOWER}"}


@pytest.fixture
def make(tmp_path, monkeypatch):
    with contextlib.ExitStack() as stack:

        def made(*arguments, **settings):
            world = FetcherWorld(tmp_path, monkeypatch, *arguments, **settings)
            stack.callback(world.close)
            return world

        yield made


@pytest.fixture
def world(make):
    """Of topic A two partitions are followed, and the one of B, whose replica is throttled."""
    world = make()
    world.create_topic("a", 2, topic_id=A)
    world.create_topic("b", topic_id=B, **NAMED)
    for ordinal in range(3):
        world.follow(ordinal)
    world.live()
    return world


def ends(world):
    return [world.log.state(ordinal).leo for ordinal in range(3)]


def due(world):
    """The leader's link, which may ask now."""
    world.scan()
    world.clock.advance(FIRST_PAUSE_MS)
    return world.made._links[LEADER]


def test_a_request_names_the_broker_and_its_limits(world):
    world.connect()
    world.take()
    header, request = world.asked()
    assert header.client_id == "broker-1-fetcher-0"
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (FOLLOWER, OWN_EPOCH)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (11, 12, 14000)
    partitions = [(topic.topic_id, one) for topic in request.topics for one in topic.partitions]
    assert [(topic, one.partition) for topic, one in partitions] == [(A, 0), (A, 1), (B, 0)]
    assert {(one.partition_max_bytes, one.current_leader_epoch) for _, one in partitions} == {(13000, EPOCH)}
    link = world.made._links[LEADER]
    assert link.fetch.limits.backoff_ms == 150
    assert world.made._by_fd == {link.connection.fileno(): link}
    near = link.connection._socket
    assert near.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 20480
    assert link.connection._most_bytes == 14000 + (16 << 20)


def test_what_comes_is_written_and_counted(world):
    """Throttled bytes of the partition alone whose replica the topic names."""
    row = world.ctx.process_row
    world.leader.write((A, 1), [b"1", b"2"])
    world.leader.write((B, 0), [b"3"])
    world.connect()
    world.take()
    world.answer()
    assert ends(world) == [0, 2, 1]
    throttled = sum(len(records) for _, records in world.leader.batches[B, 0])
    assert row.counter(Counter.FOLLOWER_THROTTLED_BYTES) == throttled > 0
    assert row.counter(Counter.REPLICA_LAG) == 0


def test_what_was_done_natively_is_known_before_rows_are_looked_at(world):
    world.lead(2)  # it is throttled, and such a one is no native fetch's
    world.connect()
    world.take()
    world.answer()
    link = world.made._links[LEADER]
    world.made._serve(link)
    assert world.made._steady.has(link)
    world.scan()
    assert not world.made._steady.has(link)


def test_how_far_the_last_one_lags_is_shown(world):
    world.connect()
    world.take()

    def committed(answer):
        for topic in answer.responses:
            for data in topic.partitions:
                data.high_watermark = 5 if topic.topic_id == B else 2
        return answer

    world.answer(committed)
    assert world.ctx.process_row.counter(Counter.REPLICA_LAG) == 0, "until the rows are looked at"
    world.scan()
    assert world.ctx.process_row.counter(Counter.REPLICA_LAG) == 5
    world.follow(0, leader=7, epoch=EPOCH + 1)
    world.scan()
    assert world.ctx.process_row.counter(Counter.REPLICA_LAG) == 5, "the other leader's has none"


def test_its_share_of_the_rows(make):
    world = make(1, 2)
    world.create_topic("a", 4, topic_id=A)
    for ordinal in range(4):
        world.follow(ordinal)
    world.live()
    world.connect()
    world.take()
    header, request = world.asked()
    assert header.client_id == "broker-1-fetcher-1"
    assert [one.partition for topic in request.topics for one in topic.partitions] == [1, 3]


def test_a_leader_that_leads_nothing_here_any_more_is_left_without_a_word(world):
    world.connect()
    far = world.take()
    for ordinal in range(3):
        world.lead(ordinal)
    world.scan()
    assert world.made._links == {} and world.made._by_fd == {} and world.lost() == []
    world.asked()
    assert far.recv(1) == b""
    assert world.ctx.process_row.counter(Counter.REPLICA_LAG) == 0


def test_two_leaders_have_a_link_each(world):
    world.follow(2, leader=7, epoch=EPOCH + 1)
    world.scan()
    links = world.made._links
    assert {leader: sorted(link.fetch._partitions) for leader, link in links.items()} == {
        LEADER: [(A, 0), (A, 1)],
        7: [(B, 0)],
    }
    assert [link.leader for link in links.values()] == list(links)
    assert links[7].address is None and not world.made._connect(links[7])
    world.live(broker=7)
    world.scan()
    assert world.made._connect(links[7]), "nothing was lost where nothing was: no pause before the first request"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (5, 6, "it came back"),
        (5, 5, None),
        (5, -1, None),
        (-1, 6, None),
    ],
)
def test_a_leader_that_was_registered_anew_is_asked_over_another_connection(world, before, after, why):
    world.live(epoch=before)
    world.connect()
    world.live(epoch=after)
    world.scan()
    assert world.lost() == ([(LEADER, why)] if why else [])
    link = world.made._links[LEADER]
    assert link.epoch == after and (link.connection is None) == bool(why)


def test_a_leader_that_moved(world):
    world.connect()
    world.live(port=1)
    world.scan()
    assert world.lost() == [(LEADER, "it moved")]
    assert world.made._links[LEADER].address == ("127.0.0.1", 1)
    world.live(broker=9)  # the leader is gone
    world.scan()
    assert world.made._links[LEADER].address is None and world.made._links[LEADER].epoch == -1


def test_it_has_the_epoch_that_its_broker_has_now(world):
    world.scan()
    world._own_epoch(78)
    world.scan()
    assert world.made._links[LEADER].fetch.own_epoch == 78


def test_an_answer_that_does_not_come(world):
    world.connect()
    world.made._steady.take_back(world.made._links[LEADER])
    world.clock.advance(5000)
    world.made._serve(world.made._links[LEADER])
    assert world.lost() == []
    world.clock.advance(1)
    world.made._serve(world.made._links[LEADER])
    assert world.lost() == [(LEADER, "it does not answer")]


def test_a_connection_that_ends(world):
    world.connect()
    world.take().close()
    world.arrived()
    world.made.turn()
    link = world.made._links[LEADER]
    assert [leader for leader, _ in world.lost()] == [LEADER]
    assert link.connection is None and world.made._by_fd == {}
    assert link.fetch.due_ms(world.clock.monotonic_ms()) > world.clock.monotonic_ms(), "after a pause"
    assert not world.made._connect(link)


def test_an_address_that_cannot_be_used(world, monkeypatch):
    link, now_ms, why = due(world), world.clock.monotonic_ms(), []
    monkeypatch.setattr(module, "LeaderConnection", lambda *_: (_ for _ in ()).throw(OSError(101, "unreachable")))
    lose, world.made._lose = world.made._lose, lambda link, told: (why.append(told), lose(link, told))
    assert not world.made._connect(link)
    assert link.connection is None and world.lost() == [], "there was none to lose"
    assert why == ["unreachable"] and link.fetch.due_ms(now_ms) > now_ms


def test_a_name_that_is_looked_up(world, monkeypatch):
    """The loop does not wait for it."""
    link, now_ms = due(world), world.clock.monotonic_ms()
    monkeypatch.setattr(module, "LOOKUP", SimpleNamespace(find=lambda *_: None))
    world.made._serve(link)
    assert link.connection is None and link.fetch.due_ms(now_ms) == now_ms + module.LOOK_UP_MS
    world.clock.advance(module.LOOK_UP_MS)
    assert not world.made._connect(link)


def test_when_rows_are_looked_at(world, monkeypatch):
    """Once a second, soon where one was busy, at once when it is rung."""
    seen, made = [], world.made
    monkeypatch.setattr(made._removed_files, "due_ms", lambda: 1 << 62)
    monkeypatch.setattr(made, "_steady", SimpleNamespace(take_all=lambda *_: None, poll=lambda _: seen.pop(), has=id))
    monkeypatch.setattr(made, "_find_addresses", lambda: None)
    monkeypatch.setattr(made._logs, "rows", lambda *_: (False, []))

    def turn(*happened):
        begun_ms = made._scan_at_ms
        seen.append(happened)
        made.turn()
        return made._scan_at_ms - begun_ms

    with pytest.raises(BlockingIOError):
        os.eventfd_read(made._bell)
    turn()
    assert made._scan_at_ms == world.clock.monotonic_ms() + SCAN_MS and made._wait_s() == SCAN_MS / 1000
    world.clock.advance(SCAN_MS - 1)
    assert turn() == 0 and made._wait_s() == 0.001
    world.clock.advance(1)
    assert made._wait_s() == 0 and turn() == SCAN_MS
    world.clock.advance(2 * SCAN_MS)
    assert made._wait_s() == 0
    monkeypatch.setattr(made._logs, "rows", lambda *_: (True, []))
    with pytest.raises(BlockingIOError):
        os.eventfd_read(made._bell)
    turn()
    assert made._scan_at_ms == world.clock.monotonic_ms() + BUSY_SCAN_MS
    made.ring()
    turn((made._bell, 1))
    assert made._scan_at_ms == 0 and made._wait_s() == 0
    with pytest.raises(BlockingIOError):
        os.eventfd_read(made._bell)


def test_it_is_rung_while_it_sleeps(world):
    world.scan()
    world.made.ring()
    world.made.turn()
    assert world.made._scan_at_ms == 0


def test_a_signal_wakes_it(world):
    drained = []
    world.ctx.drain_wakeups = lambda: drained.append(os.eventfd_read(world.ctx.wakeup_fd))
    os.eventfd_write(world.ctx.wakeup_fd, 1)
    world.made.turn()
    assert drained == [1]


def test_it_sleeps_until_a_link_is_due(world, monkeypatch):
    monkeypatch.setattr(world.made._removed_files, "due_ms", lambda: 1 << 62)
    world.scan()
    link = world.made._links[LEADER]
    assert world.made._wait_s() == 0, "nothing was lost: it is asked at once"
    link.lose()
    now_ms = world.clock.monotonic_ms()
    assert world.made._wait_s() == FIRST_PAUSE_MS / 1000
    world.clock.advance(FIRST_PAUSE_MS)
    assert world.made._wait_s() == 0
    now_ms += FIRST_PAUSE_MS
    link.fetch.not_before(now_ms + 30)
    assert world.made._wait_s() == 0.03
    link.fetch.follow(())
    assert world.made._wait_s() == (SCAN_MS - FIRST_PAUSE_MS) / 1000
    link.connection = SimpleNamespace(is_idle=False, correlation_id=1)
    link.lacks_since_ms = now_ms - 10
    assert world.made._wait_s() == 0.04, "when what was asked is given up"
    link.connection = None


def test_a_socket_is_waited_for_until_it_takes_more(world):
    """Of a request that did not go at once."""
    asked = []
    connection = SimpleNamespace(wants_to_write=True, is_watched_for_room=False, fileno=lambda: 9)
    link = SimpleNamespace(connection=connection)
    world.made._epoll, epoll = SimpleNamespace(modify=lambda *arguments: asked.append(arguments)), world.made._epoll
    for wants in (True, True, False, False):
        connection.wants_to_write = wants
        world.made._watch(link)
        assert connection.is_watched_for_room == wants
    world.made._epoll = epoll
    assert asked == [(9, 1 | 4), (9, 1)]


@pytest.mark.parametrize(
    ("events", "wants", "done"),
    [
        (1, False, ["read"]),
        (4, False, ["write", "watch"]),
        (5, True, ["write", "watch", "read"]),
        (1, True, ["write", "watch", "read"]),
        (16, False, ["read"]),
    ],
)
def test_what_an_event_is_for(world, monkeypatch, events, wants, done):
    """Whatever it is, the link is Python's first."""
    did = []

    def note(what):
        return lambda *_: did.append(what)

    link = SimpleNamespace(wants_to_write=wants, write=note("write"), read=note("read"))
    monkeypatch.setattr(world.made, "_steady", SimpleNamespace(take_back=note("taken back")))
    monkeypatch.setattr(world.made, "_watch", note("watch"))
    world.made._on_event(link, events)
    assert did == ["taken back", *done]


def test_a_request_that_goes_is_watched_and_one_that_cannot_ends_the_connection(world):
    link, watched = due(world), []
    watch, world.made._watch = world.made._watch, lambda link: (watched.append(link), watch(link))
    world.made._serve(link)
    assert watched == [link] and link.connection is not None
    world.made._steady.take_back(link)
    asks, link.ask = link.ask, lambda: (_ for _ in ()).throw(ConnectionEnded("gone"))
    world.made._serve(link)
    link.ask = asks
    assert world.lost() == [(LEADER, "gone")] and link.connection is None


def test_a_throttled_replica_waits_where_more_came_than_the_rate_allows(world):
    world.scan()
    for limit, ordinal, held in ((1000, 2, False), (10, 2, True), (10, 0, False)):
        world.limit(limit)
        world.made._holds_back(2)
        world.ctx.process_row.count(Counter.FOLLOWER_THROTTLED_BYTES, 100)
        assert world.made._holds_back(ordinal) == held


def test_what_it_knows_of_a_row(world):
    logs = world.made._logs
    assert logs.topic_name(0) == "" and not logs.is_throttled(2), "nothing was looked at"
    assert logs.options(7) is None
    logs.refresh()
    assert [logs.topic_name(ordinal) for ordinal in range(4)] == ["a", "a", "b", ""]
    assert [logs.is_throttled(ordinal) for ordinal in range(4)] == [False, False, True, False]
    assert logs.row(1).partition == 1 and logs.row(1).topic_id == A
    world.create_topic("later")
    assert logs.topic_name(3) == ""
    assert logs.options(3) is not None and logs.topic_name(3) == "later"
    world.lead(1)
    assert logs.row(1) is None
    logs.count_throttled(0, 50)
    logs.count_throttled(2, 70)
    assert world.ctx.process_row.counter(Counter.FOLLOWER_THROTTLED_BYTES) == 70


def test_settings_that_change_while_it_runs_hold_for_the_topics_that_have_none_of_their_own(world):
    world.create_topic("own", segment_bytes="7777")
    logs = world.made._logs
    logs.refresh()
    assert logs._topics[0].settings.segment_bytes == world.config.log_segment_bytes != 5555
    changed = DynamicSettings({"log.segment.bytes": "5555"}, {}, {})
    world.made.use_config(build_broker_config(Given(world.config.texts, {}, ()), world.config.cores, changed))
    assert logs.options(0) is not None
    assert [logs._topics[ordinal].settings.segment_bytes for ordinal in (0, 2, 3)] == [5555, 5555, 7777]


def test_a_successor_knows_the_topics_that_there_are(world):
    logs = module.ReplicaLogs(world.ctx)
    logs.refresh()
    assert logs.topic_name(2) == "b"
    logs.log.close()


def test_one_row_that_is_busy_is_looked_at_again_soon(world, monkeypatch):
    for busy in (0, 1, 2):
        log = SimpleNamespace(followed=lambda *_, busy=busy: (busy, []), close=world.made._logs.log.close)
        monkeypatch.setattr(world.made._logs, "log", log)
        assert world.made._logs.rows(0, 1) == (busy > 0, [])


def test_one_replica_of_a_topic_is_throttled(make):
    world = make()
    world.create_topic("a", 2, topic_id=A, **NAMED)
    world.made._logs.refresh()
    assert [world.made._logs.is_throttled(ordinal) for ordinal in range(2)] == [True, False]


def test_at_its_end_it_lets_go_of_all(world):
    world.connect()
    far = world.take()
    world.asked()
    world.made.close()
    assert far.recv(1) == b"" and world.lost() == []
    with pytest.raises(ValueError):
        world.made._logs.log.state(0)


def test_where_an_epoch_ended_here(world):
    world.lead(0)
    logs = world.made._logs
    assert logs.end_of_epoch(0, EPOCH + 1) == EpochEnd(EPOCH + 1, 0)
    assert logs.end_of_epoch(9, EPOCH) == NOT_KNOWN


def test_a_point_to_die_at_is_told(world):
    passed = []
    world.ctx.core = SimpleNamespace(crash_point=passed.append)
    world.made._links.clear()
    link = world.made._new_link(LEADER, OWN_EPOCH)
    link._crash_point("fetcher.truncated")
    world.ctx.core = world.core
    assert passed == ["fetcher.truncated"]
    assert (link.leader, link._rescan, link._say) == (LEADER, world.made.ring, world.ctx.log.info)
    assert link._fetched_bytes == world.made._logs.count_throttled and link.fetch.own_epoch == OWN_EPOCH


def test_the_process_beats_and_takes_settings_until_it_is_to_stop(world, monkeypatch):
    """And is rung by whoever changes a role."""
    done, turns, configs = [], iter(range(2)), iter((None, "changed"))
    rung = iter((False, True))

    class Stepped:
        def __init__(self, ctx, index, fetchers):
            done.append(("made", index, fetchers))

        def use_config(self, config):
            done.append(config)

        def turn(self):
            done.append("turn")

        def close(self):
            done.append("close")

        def ring(self):
            done.append("ring")

    row = SimpleNamespace(beat=lambda: done.append("beat"), set_state=done.append)
    core = SimpleNamespace(wait_service=lambda slot, wait_ms: done.append((slot, wait_ms)) or next(rung))
    ctx = SimpleNamespace(
        index=3,
        slot=120,
        core=core,
        config=SimpleNamespace(mpbroker_replica_fetchers=4),
        process_row=row,
        log=SimpleNamespace(tick=lambda: done.append("tick")),
        running=lambda: done.append("running"),
        take_reload=lambda: next(configs),
        stop_requested=lambda: next(turns, None) is None,
    )
    monkeypatch.setattr(module, "Fetcher", Stepped)
    monkeypatch.setattr(
        module.threading, "Thread", lambda target, args, daemon: SimpleNamespace(start=lambda: done.append(daemon))
    )
    module.main(ctx)
    turn = ["tick", "turn"]
    begin, end = [("made", 3, 4), True, "running"], [ProcessState.STOPPING, "close"]
    assert done == [*begin, "beat", *turn, "beat", "changed", *turn, *end]
    done.clear()
    turns = iter(range(2))
    module._listen(ctx, Stepped(ctx, 3, 4))
    assert done == [("made", 3, 4), (120, module.BELL_WAIT_MS), (120, module.BELL_WAIT_MS), "ring"]
