"""What the supervisor holds besides the rows of processes: names, lanes, sockets under way, what it publishes, what it
lets go of at the end."""

import json
import os
import socket
from types import SimpleNamespace

import pytest

from mpbroker import __version__
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.network.fd_passing import HANDOVER, Message, Peer, handover_pair, receive_message, send_message
from mpbroker.shm.layout import MAX_SLOTS
from mpbroker.shm.process_context import BoundListener
from mpbroker.shm.process_table import BrokerState
from mpbroker.shm.troubles import Trouble
from mpbroker.shm.waits import WaitName
from mpbroker.supervisor import shared_state
from mpbroker.supervisor.process_types import SUPERVISOR_SLOT, ProcessPlan, process_type
from mpbroker.supervisor.shared_state import SharedState
from mpbroker.supervisor.status_file import StatusFile

LISTENER = BoundListener(2, "A", "PLAINTEXT", "", 9092, "h", 9092, False)


def config(**changes):
    usual = {"mpbroker_trace_enabled": True, "mpbroker_trace_dashcam_bytes": 0, "data_dir": "/data", "node_id": 3}
    return SimpleNamespace(**usual | {"trace_dir": "/traces"} | changes)


class Recorder(list):
    """Every call of any method, with its arguments."""

    def __getattr__(self, name):
        return lambda *arguments: self.append((name, *arguments))


@pytest.fixture
def shared():
    """One without memory, that has lanes for three processors, two of them made."""
    made = object.__new__(SharedState)
    made._data_dir, made.boot_id, made._cluster_id = "/data", 0x1234, "cluster"
    made._admin_socket, made.passed, made.done = None, Recorder(), Recorder()
    made.listening = SimpleNamespace(present=(LISTENER,), all=(LISTENER,), close=lambda: made.done.append("closed"))
    made._memory = SimpleNamespace(name="/page", set_state=lambda state: made.done.append(state), core=made.done)
    made._lanes, made._made_lanes = ("/lane-0", "/lane-1", "/lane-2"), {0, 2}
    made._directories, made._handovers, made._eventfds = (), [], ()
    return made


@pytest.mark.parametrize("has_admin", [True, False])
def test_at_the_end_everything_is_let_go_of(shared, monkeypatch, has_admin):
    monkeypatch.setattr(shared_state.segment, "sweep", lambda path: shared.done.append(("swept", path)))
    admin = Recorder()
    shared._admin_socket = admin if has_admin else None
    shared.close()
    assert shared.done == ["closed", ("swept", "/data")]
    assert shared.passed == [("close",)] and admin == ([("close",)] if has_admin else [])


def plan(role, index=0):
    return ProcessPlan(process_type(role), index)


def test_a_lane_is_made_once_for_each_processor_that_comes(shared, monkeypatch):
    made = []
    monkeypatch.setattr(shared_state.lane, "create", lambda *how: made.append(how))
    for index in (1, 1, 2):
        shared.make_lane(plan("processor", index))
    assert made == [("/lane-1", 1, 0x1234)] and shared.names == ("/page", "/lane-0", "/lane-1", "/lane-2")
    shared._lanes = ()
    shared.make_lane(plan("processor", 7))
    assert len(made) == 1 and shared.names == ("/page",)


def test_who_is_told_of_which_lanes(shared):
    """The tracer looks for those that may come."""
    assert shared._lanes_for(plan("tracer")) == ("/lane-0", "/lane-1", "/lane-2")
    assert shared._lanes_for(plan("processor", 1)) == ("/lane-0", "", "/lane-2")
    assert shared.names == ("/page", "/lane-0", "/lane-2")


@pytest.mark.parametrize(
    ("settings", "lanes", "made"),
    [
        ({"mpbroker_trace_enabled": False}, 0, []),
        ({}, 3, ["room", 0, 1]),
        ({"mpbroker_trace_dashcam_bytes": 99}, 3, ["room for 99", "room", 0, 1]),
    ],
)
def test_the_lanes_of_the_start(shared, monkeypatch, settings, lanes, made):
    did = []
    shared.room, shared._made_lanes = SimpleNamespace(processors=3), set()
    shared.plans = (plan("acceptor"), plan("processor", 0), plan("processor", 1), plan("handler", 2))
    monkeypatch.setattr(shared_state.lane, "create", lambda name, index, boot_id: did.append(index))
    monkeypatch.setattr(shared_state.segment, "check_room", lambda size: did.append(f"room for {size}"))
    monkeypatch.setattr(shared_state.segment, "name_prefix", lambda path: "/mp-x-")
    found = shared._create_lanes(config(**settings))
    assert found == tuple(f"/mp-x-{0x1234:016x}-lane-{index}" for index in range(lanes))
    assert did == [one for one in made if one != "room"] and shared._made_lanes == {one for one in did if one in (0, 1)}


def test_a_lane_that_cannot_be_made_leaves_no_name(shared, monkeypatch):
    swept = []
    shared.room, shared._made_lanes, shared.plans = SimpleNamespace(processors=1), set(), (plan("processor"),)
    monkeypatch.setattr(shared_state.lane, "create", lambda *_: (_ for _ in ()).throw(OSError))
    monkeypatch.setattr(shared_state.segment, "sweep", swept.append)
    with pytest.raises(OSError):
        shared._create_lanes(config())
    assert swept == ["/data"]


@pytest.mark.parametrize(
    ("settings", "trace_dir", "dump_dir"),
    [
        ({}, "/traces", ""),
        ({"mpbroker_trace_enabled": False, "mpbroker_trace_dashcam_bytes": 9}, "", ""),
        ({"mpbroker_trace_dashcam_bytes": 9}, "/memory/4660", "/traces"),
    ],
)
def test_what_status_and_stop_are_told(shared, monkeypatch, settings, trace_dir, dump_dir):
    clock = SimpleNamespace(time_ns=lambda: 6_000_000_999_999, monotonic_ns=lambda: 77)
    monkeypatch.setattr(shared_state, "time", clock)
    monkeypatch.setattr(shared_state.segment, "dashcam_directory", lambda path, boot_id: f"/memory/{boot_id}")
    assert shared.status_file(config(**settings)) == StatusFile(
        pid=os.getpid(),
        version=__version__,
        node_id=3,
        cluster_id="cluster",
        boot_id=0x1234,
        started_ms=6_000_000,
        started_ns=77,
        page="/page",
        names=("/page", "/lane-0", "/lane-2"),
        listeners=(shared_state.listener_document(LISTENER) | {"index": 2},),
        trace_dir=trace_dir,
        admin=None,
        dump_dir=dump_dir,
    )


def test_a_dump_is_asked_for_where_there_is_something_to_dump(shared, monkeypatch, tmp_path):
    from mpbroker.trace import mark_spool

    log, put = Recorder(), []
    log_of = SimpleNamespace(
        info=lambda event, **about: log.append(event), error=lambda event, **about: log.append((event, about))
    )
    monkeypatch.setattr(mark_spool, "put", lambda *how, **more: put.append((*how, more)))
    monkeypatch.setattr(shared_state.segment, "dashcam_directory", lambda *_: str(tmp_path))
    shared.ask_for_dump(config(), log_of)
    assert log == ["no_dashcam"] and put == []
    with_one = config(mpbroker_trace_dashcam_bytes=9)
    shared.ask_for_dump(with_one, log_of)
    assert put == [(tmp_path, "SIGUSR1", {"dump_after_ms": 0})] and len(log) == 1
    monkeypatch.setattr(mark_spool, "put", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
    shared.ask_for_dump(with_one, log_of)
    assert log[1:] == [("trace_dump_failed", {"directory": str(tmp_path), "reason": "full"})]


def test_what_is_published_is_read_as_a_whole_when_it_was_longer_before(shared):
    shared._config_fd = os.memfd_create("test")
    try:
        for texts in ({"a": "x" * 500}, {"a": "1"}):
            dynamic = DynamicSettings({"c": "2"}, {"b": "3"}, {"g": {"k": "v"}})
            shared.publish_config(SimpleNamespace(texts=texts, cores=4, dynamic=dynamic), {0: (1, 2)})
            assert json.loads(os.pread(shared._config_fd, 1 << 16, 0)) == {
                "texts": texts,
                "cores": 4,
                "processors": {"0": [1, 2]},
                "listeners": [list(LISTENER)],
                "cluster": {"c": "2"},
                "broker": {"b": "3"},
                "groups": {"g": {"k": "v"}},
            }
    finally:
        os.close(shared._config_fd)


@pytest.fixture
def under_way(shared):
    """Two processors, and on each way of each two messages, the second with a socket."""
    shared._handovers = [handover_pair() for _ in range(2)]
    ends = []
    for pair in shared._handovers:
        for way in pair:
            near, far = socket.socketpair()
            assert send_message(way, Message(HANDOVER, 1, 1, 1))
            assert send_message(way, Message(HANDOVER, 1, 1, 2, (Peer(bytes(16), 1),), (near.fileno(),)))
            near.close()
            far.settimeout(5)
            ends.append(far)
    yield ends
    for each in (*ends, *(way for pair in shared._handovers for way in pair)):
        each.close()


def is_closed(far):
    far.setblocking(False)
    try:
        return far.recv(1) == b""
    except BlockingIOError:
        return False


def test_sockets_on_their_way_to_processors_that_are_not_there_are_closed(shared, under_way):
    """The first end of a pair is the acceptor's: what it sent is with the second."""
    shared.close_strays([1])
    assert [is_closed(far) for far in under_way] == [False, False, True, False]
    shared.empty_places([0])
    assert [is_closed(far) for far in under_way] == [True, True, True, False]
    assert receive_message(shared._handovers[0][1]) is None


def test_after_a_reset_nothing_of_before_is_left(shared, under_way):
    bell, quiet = os.eventfd(3, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK)
    shared._eventfds, reset, failed = (bell, quiet), [], []
    shared._directories = [SimpleNamespace(problem=problem) for problem in ("", "it is gone", "")]
    core = SimpleNamespace(fail_log_dir=failed.append)
    shared._memory = SimpleNamespace(reset=reset.append, core=core, row=lambda slot: f"row {slot}")
    shared.rebuild()
    assert all(is_closed(far) for far in under_way)
    with pytest.raises(BlockingIOError):
        os.eventfd_read(bell)
    assert reset == [(bell, quiet)] and failed == [1]
    assert shared._rows == [f"row {slot}" for slot in range(MAX_SLOTS)]
    os.close(bell), os.close(quiet)


@pytest.mark.parametrize(("role", "remembered"), [("handler", [4]), ("coordinator", [9]), ("processor", [])])
def test_whose_frame_is_remembered_over_a_reset(shared, role, remembered):
    found = []
    shared._memory = SimpleNamespace(remember_killer=found.append, core=SimpleNamespace(coordinator=9))
    shared.remember_killer(plan(role, 4 if role == "handler" else 0))
    assert found == remembered


def test_everybody_is_rung_when_the_broker_is_to_stop(shared):
    shared.set_state(BrokerState.RUNNING)
    assert shared.done == [BrokerState.RUNNING]
    shared.set_state(BrokerState.DRAINING)
    assert shared.done == [BrokerState.RUNNING, BrokerState.DRAINING, ("ring_everybody",)]


def test_the_supervisors_own_row(shared):
    row = Recorder()
    shared._rows = {SUPERVISOR_SLOT: row}
    shared.heartbeat(True)
    shared.heartbeat(False)
    shared.set_trouble(Trouble(1), False)
    assert row == [("set_wait", WaitName.SUPERVISE), ("set_wait", WaitName.NONE), ("set_trouble", Trouble(1), False)]


def test_notices_are_taken_whether_there_are_any_or_not(shared):
    shared.notice_fd = os.eventfd(2, os.EFD_NONBLOCK)
    for _ in range(2):
        shared.drain_notices()
        with pytest.raises(BlockingIOError):
            os.eventfd_read(shared.notice_fd)
    os.close(shared.notice_fd)


@pytest.fixture
def giving(shared, monkeypatch):
    """What a process is given: everything has a number."""
    shared._rows = {index: SimpleNamespace(begin=Recorder(), incarnation=6) for index in range(MAX_SLOTS)}
    for row in shared._rows.values():
        row.told, row.begin = row.begin, lambda *how, row=row: row.told.append(how)
    shared._began, shared._boot_secret = "began", b"secret"
    shared._directories = [SimpleNamespace(path="/data", id="d1"), SimpleNamespace(path="/more", id="d2")]
    shared._eventfds, shared.notice_fd, shared._config_fd, shared._settings_fd = (41, 42), 43, 44, 45
    shared._controller_fd, shared._handovers, shared._trace_notices = 46, [(50, 51), (52, 53)], (60, 61)
    shared._admin_socket, shared._trace_bell_fd = "admin socket", 62
    shared.passed = SimpleNamespace(begin=lambda listening: ("sockets of", listening), acceptors_end="acceptor's end")
    monkeypatch.setattr(shared_state.reserve_file, "is_spent_by", lambda *where: shared.done.append(where) or True)
    return shared


COMMON = {
    "incarnation": 6, "boot_id": 0x1234, "began": "began", "boot_secret": b"secret", "cluster_id": "cluster",
    "listeners": (LISTENER,), "eventfds": (41, 42), "names": ("/page", "/lane-0", "/lane-1", "/lane-2"),
    "data_dirs": ("/data", "/more"), "directory_ids": ("d1", "d2"), "notice_fd": 43,
    "config_fd": 44, "settings_fd": 45, "controller_fd": 46,
}  # fmt: skip
NOTHING = {"listen_sockets": {}, "listener_channel": None, "processors": {}, "handovers": {}, "trace_notices_fd": -1}
NOTHING |= {"listen_socket": None, "roles": {}, "trace_bell_fd": -1}


@pytest.mark.parametrize(
    ("role", "own"),
    [
        ("handler", {}),
        ("processor", {"handovers": {1: 53}, "trace_notices_fd": 61, "trace_bell_fd": 62}),
        ("tracer", {"trace_notices_fd": 60, "trace_bell_fd": 62}),
        ("controller", {"trace_notices_fd": 61}),
        ("admin", {"listen_socket": "admin socket", "roles": shared_state.health.ROLES}),
        ("acceptor", {"listener_channel": "acceptor's end", "processors": {0: (1, 2)}, "handovers": {0: 50, 1: 52}}),
    ],
)
def test_what_the_next_process_of_a_slot_is_given(giving, role, own):
    index, listener = (1, 0) if role == "processor" else (0, None)
    asked = ProcessPlan(process_type(role), index, listener)
    found = giving.context_for(asked, config(), {0: [1, 2]})
    if role == "acceptor":
        own = {**own, "listen_sockets": ("sockets of", giving.listening)}
    for name, value in {**COMMON, **NOTHING, **own}.items():
        assert getattr(found, name) == value, name
    row = giving._rows[asked.slot]
    assert row.told == [(0, asked.type.number, index, shared_state.NO_LISTENER if listener is None else listener)]
    assert (found.role, found.index, found.slot, found.process_row) == (role, index, asked.slot, row)
    assert found.supervisor_pid == os.getpid()
    assert found.lanes == giving._lanes_for(asked) and found.listener == listener
    assert found.may_trace() == (role != "tracer")
    assert giving.done == ([("/traces", "/data")] if role == "tracer" else [])
    assert (found.judge == giving._judge) == (role == "admin")
