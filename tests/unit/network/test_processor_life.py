"""The processor's life, part by part: how it begins, when it stops, what it does in which order while it leaves."""

import os
import select
import socket
from types import SimpleNamespace

import pytest

from mpbroker import _native
from mpbroker.config.load_config import load_broker_config
from mpbroker.network import processor as module
from mpbroker.network.connection_notices import ConnectionNotices
from mpbroker.network.fd_passing import address_bytes
from mpbroker.network.listener_acceptor import stamp_arrivals
from mpbroker.network.processor import MAX_ANSWERS_PER_TURN, MAX_NEW_CONNECTIONS_PER_TURN, Processor
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_PROCESSORS
from mpbroker.shm.process_table import BrokerState, ProcessState
from mpbroker.trace import lane
from mpbroker.trace.notice import CloseReason
from tests.unit.network.test_processor_turns import World

CONFIG = load_broker_config(environ={}, cores=2)
LOCAL = address_bytes("127.0.0.1")
MS = 1_000_000


class Life:
    """`done` says what was called. Of what is `given`, each call takes the next; the last one stays."""

    def __init__(self, **given):
        self.done, self.given = [], given

    def call(self, name, otherwise=None):
        """A function that notes its name and arguments."""

        def called(*words):
            self.done.append((name, *words) if words else name)
            return self.take(name, otherwise)

        return called

    def take(self, name, otherwise=None):
        values = self.given.get(name, [otherwise])
        return values.pop(0) if len(values) > 1 else values[0]

    def calls(self, *names, **otherwise):
        return SimpleNamespace(**{name: self.call(name, otherwise.get(name)) for name in (*names, *otherwise)})


class Row:
    """Notes each state in its turn."""

    def __init__(self, life):
        object.__setattr__(self, "life", life)

    def __setattr__(self, _name, value):
        self.life.done.append(value)


@pytest.mark.parametrize("control", [False, True])
def test_it_recovers_serves_leaves_and_drains(monkeypatch, control):
    life = Life(stop_requested=[False, True, True, True], must_go_on=[True, True, False])
    made = life.calls("recover", "leave", "drain", "turn", must_go_on=False)
    monkeypatch.setattr(module, "Processor", lambda ctx: made)
    monkeypatch.setattr(module, "prefer_latency", life.call("prefer"))
    module.main(
        SimpleNamespace(
            process_row=Row(life), serves_control_plane=control, config=CONFIG, running=life.call("running"),
            stop_requested=lambda: life.take("stop_requested"),
        )
    )  # fmt: skip
    turn = ("turn", module.POLL_MS, module.ORDINARY_TURNS)
    assert life.done == [
        ProcessState.RECOVERING,
        *[("prefer", CONFIG.mpbroker_control_plane_scheduling)] * control,
        "recover", "running", turn, "must_go_on", turn, "must_go_on", turn, "must_go_on",
        ProcessState.STOPPING, "leave", ("drain", CONFIG.mpbroker_drain_timeout_ms),
    ]  # fmt: skip


def of_parts(life, **parts):
    made = Processor.__new__(Processor)
    made._row = life.calls("beat")
    made._native_turn = life.calls("end", "poll", answer=0)
    made._port = life.calls("ring", "recover")
    made._reader = life.calls("retry_parked")
    made._handover = SimpleNamespace(leaving=False, receive=life.call("receive", []))
    made._ctx = SimpleNamespace(config=CONFIG)
    made._by_fd = {}
    for name, part in parts.items():
        setattr(made, name, part)
    return made


@pytest.mark.parametrize("passed", [[1, 0, 2], [0, 1, 1], [2, 1, 0]])
def test_while_it_leaves_it_serves_in_the_usual_order(passed):
    life = Life()
    left = list(range(sum(passed)))
    made = of_parts(life, _is_removed=lambda: False, _broker_stops=lambda: False, _by_fd=left)
    steps = "_send_answers", "_take_events", "_serve_waiting", "_take_new_connections", "_read_requests", "_keep_house"
    for name in steps:
        setattr(made, name, life.call(name))
    made._wait = life.call("_wait")
    each = iter(passed)

    def pass_back():
        count = next(each)
        del left[:count]
        life.done.append(("back", count))
        return count

    made._pass_back = pass_back
    made.leave()
    wanted = []
    for at, count in enumerate(passed):
        if any(passed[at:]):
            wanted += [
                "_send_answers", ("end", True), "_take_events", "_serve_waiting", "_take_new_connections",
                ("back", count), "_read_requests", "_keep_house", ("_wait", count > 0, module.LEAVING_POLL_MS, 0),
            ]  # fmt: skip
    assert life.done == [*wanted, ("receive", MAX_NEW_CONNECTIONS_PER_TURN)] and made._handover.leaving


@pytest.mark.parametrize("drain_ms", [100, 299, 300, 301, 9000])
def test_a_listener_that_was_removed_is_drained_and_its_handlers_heard_out(drain_ms):
    life = Life()
    made = of_parts(life, _is_removed=lambda: True, _broker_stops=lambda: False)
    made._ctx.config = SimpleNamespace(mpbroker_drain_timeout_ms=drain_ms)
    made.drain, made._has_entries = life.call("drain"), lambda: life.take("entries")
    made._send_answers, made._take_events = life.call("answers"), life.call("events")
    life.given["entries"] = [True, True, False]
    made.leave()
    one = ["answers", ("end", True), ("poll", module.LEAVING_POLL_MS, 0, 0, 0, 0), "events", "beat"]
    assert life.done == [
        ("drain", min(drain_ms, module.REMOVED_DRAIN_MS)), *one, *one, ("receive", MAX_NEW_CONNECTIONS_PER_TURN)
    ]  # fmt: skip


@pytest.mark.parametrize("removed", [False, True])
def test_when_the_whole_broker_stops_nothing_is_passed_back(removed):
    life = Life()
    made = of_parts(life, _is_removed=lambda: removed, _broker_stops=lambda: True, _by_fd={1: "one"})
    made._has_entries, made.drain = lambda: True, life.call("drain")
    made.leave()
    assert [one[0] for one in life.done] == [*["drain"] * removed, "receive"]


@pytest.mark.parametrize(
    ("state", "gone", "stops"),
    [(BrokerState.RUNNING, False, False), (BrokerState.DRAINING, False, True), (BrokerState.RUNNING, True, True)],
)
def test_the_broker_stops_when_it_says_so_or_nobody_is_there_to_say_it(state, gone, stops):
    made = of_parts(Life())
    made._ctx = SimpleNamespace(core=SimpleNamespace(state=state), supervisor_gone=lambda: gone)
    assert made._broker_stops() is stops


def test_whether_a_listener_was_removed_is_asked_of_the_newest_settings():
    life = Life()
    made = of_parts(life, _listener=SimpleNamespace(index=1))
    made._ctx = SimpleNamespace(listeners=[SimpleNamespace(removed=True), SimpleNamespace(removed=False)])

    def take_reload():
        life.done.append("reload")
        made._ctx.listeners = [SimpleNamespace(removed=False), SimpleNamespace(removed=True)]

    made._ctx.take_reload = take_reload
    assert made._is_removed() is True and life.done == ["reload"]


# ---- drain


def waiting(fd, in_flight=False, out_count=0):
    return SimpleNamespace(fd=fd, in_flight=in_flight, out_count=out_count)


@pytest.mark.parametrize("busy", [{"in_flight": True}, {"out_count": 1}])
@pytest.mark.parametrize("answers", [0, 1])
def test_a_drain_sends_answers_until_none_is_in_flight(monkeypatch, busy, answers):
    life = Life(answer=[answers])
    one, other = waiting(4, **busy), waiting(5)
    made = of_parts(life, _by_fd={4: one, 5: other})
    made._take_events = life.call("events")
    made._close = lambda channel, reason: life.done.append((channel.fd, reason))
    turns = iter([0, 0, 1])

    def beat():
        life.done.append("beat")
        if next(turns):
            one.in_flight, one.out_count = False, 0

    made._row.beat = beat
    monkeypatch.setattr(module, "_now_ns", lambda: 7)
    made.drain(1)
    each = ["retry_parked", ("answer", MAX_ANSWERS_PER_TURN), "events", ("end", True), "ring"]
    each += [*[("poll", 20, 0, 0, 0, 0)] * (answers == 0), "events", "beat"]
    assert life.done == [*each, *each, *each, (4, CloseReason.STOPPING), (5, CloseReason.STOPPING)]


@pytest.mark.parametrize("timeout_ms", [0, 1, 3])
def test_a_drain_ends_in_time_whatever_is_in_flight(monkeypatch, timeout_ms):
    life, now = Life(), iter(range(100, 100 + 99 * MS, MS))
    made = of_parts(life, _by_fd={4: waiting(4, in_flight=True)})
    made._take_events, made._close = life.call("events"), lambda channel, _: life.done.append(channel.fd)
    monkeypatch.setattr(module, "_now_ns", lambda: next(now))
    made.drain(timeout_ms)
    assert life.done.count("beat") == max(timeout_ms - 1, 0) and life.done[-1] == 4


# ---- connections


def test_only_quiet_connections_are_passed_back_and_only_while_there_is_room():
    """With at most 64 KiB of what was received, as ADR 19 says."""
    life, let_go, counted = Life(pass_back=[True, False]), [], []
    usual = {"in_flight": False, "out_count": 0, "large": False, "waits": False, "large_view": None, "address": LOCAL}
    channels = {
        fd: SimpleNamespace(fd=fd, port=70 + fd, buffered=lambda: 0, peek=lambda most, fd=fd: (fd, most), **usual)
        for fd in (2, 3, 4, 5, 6)
    }
    channels[2].buffered = lambda: (64 << 10) + 1
    channels[3].waits = True
    channels[4].buffered = lambda: 64 << 10
    made = of_parts(life, _by_fd=channels, _let_go=lambda one, reason: let_go.append((one.fd, reason)))
    made._handover.pass_back, made._count = life.call("pass_back"), counted.append
    assert made._pass_back() == 1
    assert [(words[1], words[2][1], words[3]) for words in life.done] == [
        (fd, 70 + fd, (fd, 64 << 10)) for fd in (4, 5)
    ]
    assert life.done[0][2][:1] == (LOCAL,) and let_go == [(4, CloseReason.STOPPING)]
    assert counted == [Counter.CONNECTIONS_PASSED_BACK]


@pytest.mark.parametrize(("closes", "times"), [(True, 1), (False, 2)])
def test_what_serving_raises_is_told_and_so_is_what_closing_raises(closes, times):
    told, counted, closed = [], [], []
    made = of_parts(Life(), _listener=SimpleNamespace(name="OUT"))
    made._ctx.log = SimpleNamespace(exception=lambda event, error, about, **named: told.append((event, about, named)))
    made._count = counted.append

    def close(_channel, *reason):
        closed.append(reason)
        if not closes:
            raise ValueError

    def act(channel, first):
        raise RuntimeError(first)

    made._close = close
    made._guard(SimpleNamespace(address=LOCAL), act, 1)
    names = ["RuntimeError", "ValueError"][:times]
    named = {"listener": "OUT", "peer": "127.0.0.1"}
    assert told == [("connection_failed", f"127.0.0.1 {name}", named) for name in names]
    assert counted == [Counter.CONNECTIONS_FAILED] and closed == [(CloseReason.FAILED,)]


def test_a_connection_that_is_lost_is_closed_in_silence():
    closed = []
    made = of_parts(Life(), _close=lambda *words: closed.append(words))

    def act(_channel):
        raise module.ConnectionLost

    made._guard("channel", act)
    assert closed == [("channel",)]


def test_events_go_to_their_connection_unless_it_is_closed():
    life = Life()
    made = of_parts(life, _guard=life.call("guard"), _on_own_event=life.call("own"), _on_event={1: "close", 2: "new"})
    here, closed = SimpleNamespace(closed=False), SimpleNamespace(closed=True)
    made._native_turn.events = lambda: [(2, here, 5, 6), (1, closed, 7, 8), (3, None, 9, 0), (1, here, 0, 0)]
    made._take_events()
    assert life.done == [("guard", here, "new", 5, 6), ("own", 3, 9), ("guard", here, "close", 0, 0)]


@pytest.mark.parametrize(("answers", "answered"), [(0, False), (1, True), (9, True)])
def test_answers_are_sent_and_what_that_finds_is_heard(answers, answered):
    life = Life(answer=[answers])
    made = of_parts(life, _take_events=life.call("events"))
    assert made._send_answers() is answered
    assert life.done == [("answer", MAX_ANSWERS_PER_TURN), "events"]


@pytest.mark.parametrize("waits", [False, True])
def test_what_waits_is_served_before_anything_new(waits):
    life = Life(waits_for_room=[waits], may_read=["may"])
    made = of_parts(life, _reader=life.calls("retry_parked", "waits_for_room", "admit_waiting", "may_read"))
    made._serve_waiting()
    assert life.done == ["retry_parked", "waits_for_room", *["admit_waiting"] * waits]
    made._native_turn.receive, made._take_events = life.call("receive"), life.call("events")
    del life.done[:]
    made._read_requests()
    assert life.done == ["may_read", ("receive", "may"), "events"]


def test_a_predecessors_entries_are_repaired_and_its_bell_emptied():
    bell = os.eventfd(3, os.EFD_NONBLOCK)
    life = Life()
    made = of_parts(life, _eventfd=bell)
    made.recover()
    assert life.done == ["recover"]
    with pytest.raises(BlockingIOError):
        os.eventfd_read(bell)
    made.recover()  # an empty one, too
    os.close(bell)


@pytest.mark.parametrize("control", [False, True])
def test_once_a_second_settings_are_taken_and_what_takes_too_long_is_closed(monkeypatch, control):
    life, told = Life(), []
    monkeypatch.setattr(module, "prefer_latency", life.call("prefer"))
    monkeypatch.setattr(module, "listener_discipline", lambda config, name: (config, name))
    settings = load_broker_config(overrides=["connections.max.idle.ms=900"], environ={}, cores=2)
    made = of_parts(life, _listener=SimpleNamespace(name="OUT"), _guard=life.call("guard"), _close="close")
    for name in ("_sample", "_close_stuck", "_close_excess", "_count"):
        setattr(made, name, life.call(name))
    made._slow_readers = SimpleNamespace(overdue=lambda *_: [])
    made._reader = SimpleNamespace(held_up=lambda _: [], waits_for_room=lambda: False)
    made._port = life.calls("idle")
    made._handover.stale = 0
    idle, slow = (SimpleNamespace(address=LOCAL, name=name) for name in ("idle", "slow"))
    made._connections = SimpleNamespace(overdue=lambda *_: [(idle, "idle"), (slow, "frame_timeout")])
    made._ctx = SimpleNamespace(
        take_reload=lambda: settings, config=CONFIG, serves_control_plane=control,
        log=SimpleNamespace(tick=life.call("tick"), info=lambda event, about, **named: told.append((about, named))),
    )  # fmt: skip
    made._housekeeping(5)
    assert life.done == [
        ("_sample", settings), "tick", *[("prefer", settings.mpbroker_control_plane_scheduling)] * control, "idle",
        ("_count", Counter.CONNECTIONS_IDLE), ("guard", idle, "close", CloseReason.IDLE),
        ("_count", Counter.FRAMES_TIMED_OUT), ("guard", slow, "close", CloseReason.FRAME_TIMEOUT),
        ("_close_excess", settings),
    ]  # fmt: skip
    assert made._port.discipline == (settings, "OUT")
    assert told == [("127.0.0.1", {"peer": "127.0.0.1", "reason": one}) for one in ("idle", "frame_timeout")]


def test_a_new_processor_is_set_up_as_its_listener_wants(monkeypatch):
    made, listeners = [], [("OUT", "IN"), ("OUT",), ("IN", "OUT")]
    for name in ("ProcessorPort", "RequestReader", "HandoverReceiver", "ConnectionNotices", "SlowReaders"):
        monkeypatch.setattr(module, name, lambda *words, name=name: made.append((name, words)) or _Part(name))
    monkeypatch.setattr(module, "ProcessRow", lambda core, slot: slot)
    monkeypatch.setattr(module, "listener_discipline", lambda config, name: f"discipline of {name}")
    monkeypatch.setattr(module, "attach_lane", lambda ctx: SimpleNamespace())
    turn = _Part("turn")
    monkeypatch.setattr(module._native, "NetworkTurn", lambda *words: made.append(("NetworkTurn", words)) or turn)
    bells = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(4)]
    for names in listeners:
        of_all = [SimpleNamespace(name=name, control=name == "IN") for name in names]
        config = SimpleNamespace(
            end_points=SimpleNamespace(inter_broker="OUT"), socket_request_max_bytes=100, queued_max_request_bytes=200,
            mpbroker_control_classify="classify", mpbroker_trace_sample_shift=3, mpbroker_trace_slow_ms=4,
        )  # fmt: skip
        ctx = SimpleNamespace(
            listener=len(names) - 1, listeners=of_all, config=config, index=1, eventfds=(bells[0], bells[1], bells[2]),
            core=SimpleNamespace(handler_slot=lambda handler: 100 + handler, handler_count=2), incarnation=6,
            process_row=SimpleNamespace(count="count"), handovers={0: "channel"}, wakeup_fd=bells[3],
            api_versions="apis", trace_notices_fd=9,
        )  # fmt: skip
        del made[:]
        one = Processor(ctx)
        parts = dict(made)
        assert one._rows == [SLOT_PROCESSORS, SLOT_PROCESSORS + 1, SLOT_PROCESSORS + 2]
        assert parts["SlowReaders"] == ([100, 101], "untaken")
        assert one._is_protected is (len(names) > 1 and names[-1] == "OUT")
        assert (one._lane.sample_shift, one._lane.slow_ns) == (3, 4 * MS)
        assert one._port.batching is True and one._port.discipline == f"discipline of {names[-1]}"
        assert parts["ProcessorPort"] == (ctx.core, 1, bells[1], one._lane)
        plane = module.PLANE_CONTROL if names[-1] == "IN" else module.PLANE_DATA
        assert parts["NetworkTurn"][0] is one._port and parts["NetworkTurn"][2:] == (
            plane, len(names) - 1, 100, 200, "apis", "classify"
        )  # fmt: skip
        assert parts["HandoverReceiver"] == ("channel", 6) and one._new_connections is True
        assert parts["ConnectionNotices"] == (9, 1, len(names) - 1, ctx.process_row)
        for bell in (bells[1], bells[3], one._handover.channel.fileno()):
            one._epoll.modify(bell, select.EPOLLIN)  # each is there
        with pytest.raises(FileNotFoundError):
            one._epoll.modify(bells[0], select.EPOLLIN)
        one._epoll.close()
        one._handover.channel.close()
    for bell in bells:
        os.close(bell)


class _Part:
    """Of a processor: has a channel, and begins."""

    untaken = "untaken"

    def __init__(self, name):
        if name == "HandoverReceiver":
            self.channel = socket.socket()

    def began(self):
        """Nobody is told."""


def test_a_new_processor_says_that_it_began(monkeypatch):

    began = []
    monkeypatch.setattr(ConnectionNotices, "began", lambda self: began.append(self))
    world = World()
    try:
        assert began == [world.processor._notices]
    finally:
        world.close()


def test_arrivals_are_stamped_where_the_platform_can():
    with socket.socket() as listening:
        assert listening.getsockopt(socket.SOL_SOCKET, _native.SO_TIMESTAMPNS) == 0
        stamp_arrivals(listening)
        assert listening.getsockopt(socket.SOL_SOCKET, _native.SO_TIMESTAMPNS) == 1
    stamp_arrivals(listening)  # one that cannot: nothing is raised


def test_its_lane_rings_the_tracer():
    name = f"/mpbroker-test-{os.getpid()}-attached"
    of_broker = lane.create(name, 1, boot_id=5, capacity_records=8)
    bell = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        ctx = SimpleNamespace(lanes=("", name), index=1, trace_bell_fd=bell)
        assert module.attach_lane(ctx).bell_fd == bell and of_broker.native.bell_fd == -1
        for lanes in ((), ("",), ("", "")):
            assert module.attach_lane(SimpleNamespace(lanes=lanes, index=len(lanes) - 1, trace_bell_fd=bell)) is None
    finally:
        lane.unlink(name)
        os.close(bell)
