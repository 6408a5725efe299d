"""Single steps of the processor: what it closes and why, what it counts once a second, what it takes and lets go."""

import os
import socket
from types import SimpleNamespace

import pytest

from mpbroker import _native
from mpbroker.config.load_config import load_broker_config
from mpbroker.metadata import listener_locks
from mpbroker.network import processor as module
from mpbroker.network.connection_quotas import UNLIMITED
from mpbroker.network.fd_passing import MAX_RECEIVED_BYTES, Peer, address_bytes
from mpbroker.network.processor import MAX_NEW_CONNECTIONS_PER_TURN, Processor, _is_quiet
from mpbroker.shm.counters import Counter
from mpbroker.trace.notice import CloseReason

LOCAL = address_bytes("127.0.0.1")
NOW_NS = 10**12


class World:
    """A processor of parts; `done` says what was called, `counted` what was counted."""

    def __init__(self, monkeypatch):
        self.done, self.counted, self.told = [], [], []
        monkeypatch.setattr(module, "_now_ns", lambda: NOW_NS)
        note = self.done.append
        told = lambda event, about=None, **fields: self.told.append((event, about, fields))  # noqa: E731
        made = self.made = Processor.__new__(Processor)
        made._count = lambda counter, number=1: self.counted.append((counter, number))
        made._listener = SimpleNamespace(name="OUT", index=0)
        made._row = SimpleNamespace(connections=0, counter=lambda _: 17)
        made._ctx = SimpleNamespace(
            log=SimpleNamespace(warning=told, info=told, error=told, exception=told, tick=lambda: note("tick")),
            wakeup_fd=50, drain_wakeups=lambda: note("drained"), config=load_broker_config(environ={}, cores=2),
            take_reload=lambda: None, serves_control_plane=False, reloading=False,
        )  # fmt: skip
        made._handover = SimpleNamespace(
            channel=SimpleNamespace(fileno=lambda: 60), closed=lambda address: note(("closed", address)),
            truncated=0, stale=0, flush=lambda: note("flush"),
        )  # fmt: skip
        made._by_fd, made._rows = {}, []
        made._new_connections, made._is_protected, made._lane = False, False, None
        made._notices = SimpleNamespace(closed=lambda *words: note(("notice", *words)))


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def channel(**fields):
    usual = {
        "address": LOCAL, "closed": False, "out_count": 0, "in_flight": False, "large": False, "waits": False,
        "large_view": None, "last_active_ns": NOW_NS, "buffered": lambda: 0, "fd": 9, "frame_started_ns": 0,
    }  # fmt: skip
    return SimpleNamespace(**usual | fields)


@pytest.mark.parametrize(
    ("busy", "quiet"),
    [
        ({}, True),
        ({"in_flight": True}, False),
        ({"out_count": 1}, False),
        ({"large": True}, False),
        ({"waits": True}, False),
        ({"large_view": b""}, False),
        ({"buffered": lambda: MAX_RECEIVED_BYTES}, True),
        ({"buffered": lambda: MAX_RECEIVED_BYTES + 1}, False),
    ],
)
def test_a_connection_is_passed_on_when_it_is_its_socket_and_little_more(busy, quiet):
    assert _is_quiet(channel(**busy)) is quiet


def test_an_event_that_is_nobodys_connection(world):
    made = world.made
    made._on_own_event(_native.EVENT_STRAY, 0)
    assert world.counted == [(Counter.ANSWERS_WITHOUT_CONNECTION, 1)] and world.done == []
    made._on_own_event(_native.EVENT_STRAY + 1, 50)
    assert world.done == ["drained"] and not made._new_connections
    made._on_own_event(_native.EVENT_STRAY + 1, 60)
    assert made._new_connections and len(world.done) == 1


@pytest.mark.parametrize("several", [False, True])
def test_it_looks_for_more_where_a_turn_took_all_that_it_may(world, several):
    assert MAX_NEW_CONNECTIONS_PER_TURN == 20, "as Kafka's processors"
    made, count = world.made, MAX_NEW_CONNECTIONS_PER_TURN - (not several)
    made._handover.receive = lambda most: list(range(most))[:count]
    made._register = lambda new: None if new == 1 else f"socket {new}"
    made._connections = ["some"] * 3
    added = []
    made._add = lambda connection, new, now_ns: added.append((connection, new, now_ns))
    made._configure_new_connections()
    assert made._new_connections is several and made._row.connections == 3
    assert added == [(f"socket {new}", new, NOW_NS) for new in range(count) if new != 1]


def test_nothing_new_changes_nothing(world):
    world.made._handover.receive = lambda most: []
    world.made._connections, world.made._row.connections = [], 5
    world.made._configure_new_connections()
    assert world.made._row.connections == 5 and not world.made._new_connections


@pytest.mark.parametrize(("counter", "reason"), [(Counter.ANSWERS_STUCK, "STUCK"), (Counter.BAD_FRAMES, "REFUSED")])
def test_who_is_refused_is_counted_told_and_closed(world, counter, reason):
    closed = []
    world.made._close = lambda one, why: closed.append(why)
    world.made._refuse(channel(), counter, "invalid_frame", "too long")
    assert world.counted == [(counter, 1)] and closed == [CloseReason[reason]]
    assert world.told == [
        ("invalid_frame", "127.0.0.1", {"listener": "OUT", "peer": "127.0.0.1", "reason": "too long"})
    ]
    world.made._refuse(channel(), counter, "unsupported_request", "no", api="Fetch", version=99)
    assert world.told[1][1] == "127.0.0.1 Fetch" and world.told[1][2]["version"] == 99


def test_a_close_is_reported_to_the_acceptor_whatever_fails(world):
    def fail(*_):
        raise RuntimeError

    made = world.made
    made._let_go = lambda one, reason: world.done.append(reason)
    made._close(channel(closed=True))
    assert world.done == [] and world.counted == []
    made._close(channel())
    assert world.done == [CloseReason.CLIENT, ("closed", LOCAL)]
    assert world.counted == [(Counter.CONNECTIONS_CLOSED, 1)]
    made._let_go = fail
    with pytest.raises(RuntimeError):
        made._close(channel())
    assert world.done[2:] == [("closed", LOCAL)]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_what_is_let_go_leaves_neither_socket_nor_memory(world, is_large, fails):
    made, note = world.made, world.done.append
    ours, theirs = socket.socketpair()
    one = channel(socket=ours, large_view=b"" if is_large else None, end_large=lambda: 4096)

    def forget(_):
        note("forgotten")
        if fails:
            raise RuntimeError

    made._connections = type("Table", (), {"remove": lambda self, _: note("removed"), "__len__": lambda self: 4})()
    made._native_turn = SimpleNamespace(forget=forget)
    made._port = SimpleNamespace(release_reserved=lambda offset: note(offset))
    made._epoll = SimpleNamespace(unregister=lambda fd: note(("unregistered", fd)))
    if fails:
        with pytest.raises(RuntimeError):
            made._let_go(one, CloseReason.IDLE)
    else:
        made._let_go(one, CloseReason.IDLE)
    memory = [4096] if is_large and not fails else []
    notice = [] if fails else [("notice", one, CloseReason.IDLE, NOW_NS)]
    assert world.done == ["removed", "forgotten", *memory, ("unregistered", 9), *notice]
    assert theirs.recv(1) == b"" and made._row.connections == 4
    theirs.close()


@pytest.mark.parametrize(
    ("most", "protected", "connections", "closes"),
    [(5, False, (3, 3), True), (5, False, (3, 2), False), (5, True, (3, 3), False), (UNLIMITED, False, (9, 9), False)],
)
def test_above_the_brokers_limit_the_one_unused_for_longest_goes(world, most, protected, connections, closes):
    made, closed = world.made, []
    made._is_protected = protected
    made._rows = [SimpleNamespace(connections=count) for count in connections]
    made._close = lambda one, reason: closed.append((one, reason))
    made._connections = SimpleNamespace(least_recently_used=lambda: "oldest")
    made._close_excess(SimpleNamespace(max_connections=most))
    assert closed == ([("oldest", CloseReason.EXCESS)] if closes else [])
    assert world.counted == ([(Counter.CONNECTIONS_EXCESS, 1)] if closes else [])
    made._connections.least_recently_used = lambda: None
    made._close_excess(SimpleNamespace(max_connections=most))
    assert len(closed) == closes


def test_answers_that_nobody_takes_are_let_go_after_a_while(world):
    made, refused = world.made, []
    made._refuse = lambda one, *words: refused.append((one.name, *words))
    for name, out, age_ns in (("a", 1, 51), ("b", 1, 50), ("c", 0, 99), ("d", 2, 60)):
        made._by_fd[name] = channel(name=name, out_count=out, last_active_ns=NOW_NS - age_ns)
    made._close_stuck(NOW_NS, 50)
    words = (Counter.ANSWERS_STUCK, "answer_not_taken", "the client does not read")
    assert refused == [("a", *words), ("d", *words)]


@pytest.mark.parametrize("no_room", [False, True])
@pytest.mark.parametrize("slow", [0, 2])
def test_the_house_is_kept_once_a_second(world, no_room, slow):
    made, stuck = world.made, []
    begun, waiting = channel(frame_started_ns=5), channel()
    made._by_fd = {9: begun, 10: waiting}
    readers = [("a", "does not read"), ("b", "reads too slowly")][:slow]
    made._slow_readers = SimpleNamespace(
        overdue=lambda channels, now_ns: world.done.append(([*channels] == [begun, waiting], now_ns)) or readers
    )
    made._refuse = lambda *words: world.done.append(words)
    made._reader = SimpleNamespace(held_up=lambda channels: [begun, waiting], waits_for_room=lambda: no_room)
    made._connections = SimpleNamespace(overdue=lambda *words: world.done.append(("overdue", *words)) or [])
    made._port = SimpleNamespace(idle=lambda: world.done.append("idle"), discipline=None)
    made._close_stuck = lambda now_ns, patience_ns: stuck.append((now_ns, patience_ns))
    made._close_excess = lambda config: world.done.append("excess")
    config = load_broker_config(
        overrides=["connections.max.idle.ms=700", "mpbroker.frame.timeout.ms=3"], environ={}, cores=2
    )
    made._ctx.take_reload, made._handover.stale = lambda: config, 4
    made._housekeeping(NOW_NS)
    assert made._housekeeping_ns == NOW_NS + module.HOUSEKEEPING_NS
    closed = [(one, Counter.ANSWERS_STUCK, "answer_not_taken", reason) for one, reason in readers]
    assert world.done == [
        "tick", "idle", ("overdue", NOW_NS, 700_000_000, 3_000_000), (True, NOW_NS), *closed, "excess"
    ]  # fmt: skip
    assert (begun.frame_started_ns, waiting.frame_started_ns) == (NOW_NS, 0)
    assert world.counted == [(Counter.HANDOVERS_STALE, 4)] and made._handover.stale == 0
    assert stuck == [(NOW_NS, module.STUCK_ANSWER_NS)] * no_room


@pytest.mark.parametrize(("due_ns", "reloading", "keeps"), [(NOW_NS, 0, 1), (NOW_NS + 1, 0, 0), (NOW_NS + 1, 1, 1)])
def test_it_beats_every_turn_and_keeps_house_when_it_is_time(world, due_ns, reloading, keeps):
    made = world.made
    made._row.beat = lambda: world.done.append("beat")
    made._housekeeping = lambda now_ns: world.done.append(("house", now_ns))
    made._housekeeping_ns, made._ctx.reloading = due_ns, bool(reloading)
    made._keep_house()
    assert world.done == ["beat", *[("house", NOW_NS)] * keeps, "flush"]


@pytest.mark.parametrize(("slow_ms", "slow_ns"), [(-1, -1), (0, 0), (5, 5_000_000)])
def test_which_requests_are_traced(world, slow_ms, slow_ns):
    settings = SimpleNamespace(mpbroker_trace_sample_shift=3, mpbroker_trace_slow_ms=slow_ms)
    world.made._sample(settings)
    world.made._lane = SimpleNamespace()
    world.made._sample(settings)
    assert (world.made._lane.sample_shift, world.made._lane.slow_ns) == (3, slow_ns)


@pytest.mark.parametrize("received", [b"", b"half a frame"])
def test_a_connection_that_was_passed_on_is_read_at_once(world, received):
    made, note = world.made, world.done.append
    made._port = SimpleNamespace(set_address=lambda *words: note(("address", *words)))
    made._native_turn = SimpleNamespace(add=lambda one: note("added"), schedule=lambda one: note("scheduled"))
    made._notices.opened = lambda one, port, at_ns: note(("opened", port, at_ns))
    one = channel(number=3, generation=4, preload=lambda *words: note(words))
    made._begin(one, SimpleNamespace(received=received, port=77, accepted=0), NOW_NS)
    scheduled = ["scheduled"] if received else []
    assert world.done == [
        (received, NOW_NS), ("address", 3, 4, LOCAL), "added", *scheduled, ("opened", 77, NOW_NS)
    ]  # fmt: skip


def test_frames_that_kill_or_are_none_are_refused(world):
    refused = []
    made = world.made
    made._max_request_bytes = 100
    made._refuse = lambda one, counter, event, reason, **named: refused.append((counter, event, str(reason), named))
    made._on_poison(channel(), 0, 0)
    made._on_invalid(channel(), 101, 0)
    made._ctx.api_versions = {3: (0, 9)}
    made._on_unsupported(channel(beginning=lambda most: b"\0\3\0\x63\0\0\0\1\0\2cl"), 3, 99)
    [poison, invalid, unsupported] = refused
    assert poison[:2] == (Counter.POISON_REQUESTS, "frame_refused")
    assert invalid[:2] == (Counter.BAD_FRAMES, "invalid_frame") and "101" in invalid[2]
    assert unsupported[:2] == (Counter.REQUESTS_UNSUPPORTED, "unsupported_request")
    assert unsupported[3] == {"api": "Metadata", "version": 99, "client_id": "cl"}


@pytest.mark.parametrize(("answered", "reason"), [(0, "CLIENT"), (1, "ANSWERED")])
def test_why_a_connection_ended(world, answered, reason):
    closed = []
    world.made._close = lambda one, why: closed.append(why)
    world.made._on_close(channel(), answered, 0)
    assert closed == [CloseReason[reason]]


@pytest.mark.parametrize(
    ("place", "listener", "held"),
    [
        (None, 1, False),
        (SimpleNamespace(sqlite_path=""), 1, False),
        (SimpleNamespace(sqlite_path="store"), None, False),
        (SimpleNamespace(sqlite_path="store"), 1, True),
    ],
)
def test_a_listeners_lock_is_held_where_brokers_of_a_cluster_share_a_file(monkeypatch, place, listener, held):
    monkeypatch.setattr(listener_locks, "ListenerLock", lambda *words: words)
    ctx = SimpleNamespace(
        config=SimpleNamespace(cluster_store=place, node_id=5),
        listener=listener,
        listeners=[SimpleNamespace(name="IN"), SimpleNamespace(name="OUT")],
    )
    assert module._listener_lock(ctx) == ((place, 5, "OUT") if held else None)


def test_of_a_connection_that_goes_back_nobody_knows_when_it_was_accepted(world):
    made, passed = world.made, []
    made._handover.pass_back = lambda *words: passed.append(words) or True
    made._let_go = lambda one, reason: world.done.append((one.fd, reason))
    for fd, busy in ((9, False), (10, True), (11, False)):
        made._by_fd[fd] = channel(fd=fd, port=fd + 1, in_flight=busy, peek=lambda most: b"x" * min(most, 5))
    assert made._pass_back() == 2
    assert passed == [(fd, Peer(LOCAL, fd + 1, 0), b"xxxxx") for fd in (9, 11)]
    assert world.done == [(9, CloseReason.STOPPING), (11, CloseReason.STOPPING)]
    assert world.counted == [(Counter.CONNECTIONS_PASSED_BACK, 1)] * 2
    made._handover.pass_back = lambda *words: False
    assert made._pass_back() == 0 and len(world.done) == 2, "there is no room: it is served on"


def test_what_is_no_socket_is_closed_and_its_listener_told_of(world):
    read, write = os.pipe2(os.O_NONBLOCK)
    assert world.made._register(SimpleNamespace(fd=write, address=LOCAL)) is None
    assert os.read(read, 1) == b"", "nobody else has it"
    assert world.done == [("closed", LOCAL)] and world.told[0][:2] == ("connection_not_registered", "OUT")
    os.close(read)
