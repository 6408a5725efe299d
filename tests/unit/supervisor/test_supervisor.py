"""What the supervisor decides: starts, deaths, resets, settings and staff, stepped."""

import signal
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.shm.process_table import BrokerState
from mpbroker.shm.troubles import Trouble
from mpbroker.supervisor import supervisor
from mpbroker.supervisor.staffing import Room
from mpbroker.supervisor.supervisor import EXIT_CONFIG, EXIT_FAILED, HEARTBEAT_S, RESET_WINDOW_S, STEADY_S
from mpbroker.supervisor.workers import Death
from mpbroker.trace.lane import LaneError
from tests.unit.supervisor.supervisor_world import (
    CODE_1,
    CODE_2,
    GIVEN,
    KILLED,
    LISTENERS,
    NOTICES,
    PROBE,
    SEGV,
    SIGNALS,
    World,
    roles,
)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_stage_is_forked_when_the_one_before_serves_and_the_last_when_listeners_answer(world):
    assert world.broker._step() is False
    assert world.alive() == roles(world, late=False) and not world.broker.ready
    world.broker._step()
    assert ("set_state", BrokerState.RUNNING) not in world.done and "probes" not in world.done
    world.serve()
    world.broker._step()
    assert world.done[-2:] == [("set_state", BrokerState.RUNNING), "probes"]
    world.broker._step()
    assert world.alive() == roles(world, late=False) and not world.broker.ready, "no listener has answered"
    world.answered = True
    world.broker._step()
    assert world.alive() == roles(world, late=True) | roles(world, late=False) and world.broker.ready
    forked = len(world.launches)
    world.broker._step()
    assert len(world.launches) == forked == len(world.shared.plans) and world.events().count("ready") == 1
    started = [entry[1].name for entry in world.done if entry[0] == "process_started"]
    assert [launch.title for launch in world.launches] == [
        f"mpbroker: {worker.plan.name}"
        + ("" if worker.plan.listener is None else f" {LISTENERS[worker.plan.listener].name}")
        for worker in sorted(world.all, key=lambda worker: started.index(worker.plan.name))
    ]
    assert started[0] == world.of("controller").plan.name, "for it the others wait"


def test_a_ready_line_that_cannot_be_written_ends_the_broker(world, monkeypatch):
    def fail(_line):
        raise OSError("no reader")

    monkeypatch.setattr(supervisor, "write_ready_line", fail)
    pids = world._next
    world.started()
    assert world.broker._exit_code == EXIT_FAILED and world.broker._stopping is not None
    assert world._next - pids == len(world.all), "each is forked once: the last ones for the stop"


@pytest.mark.parametrize("status", [0, CODE_1, CODE_2, KILLED])
def test_who_dies_has_a_successor_at_once(world, status):
    world.started()
    handler = world.of("handler")
    world.dies(handler, status, at_s=10)
    assert world.events() == ["worker_died"] and handler.restart_at == world.now_s
    assert world.said[-1][2]["successor_in_ms"] == 0
    world.broker._step()
    assert handler.alive and len(world.launches) == 1 and world.broker._stopping is None


def test_who_keeps_dying_young_is_shown_as_unsteady_until_it_has_settled(world):
    world.started()
    handler = world.of("handler")
    for number in range(7):
        world.now_s = max(world.now_s, handler.restart_at)
        world.broker._step()
        assert ("set_unsteady", handler.plan, True) not in world.done, number
        if number == 6:
            break
        world.dies(handler, CODE_1)
        if handler.unsteady:
            assert world.done[-1] == ("set_unsteady", handler.plan, True) and number == 5
            world.done.clear()
    world.looks = True
    world.now_s += STEADY_S - 0.01
    world.broker._step()
    assert handler.unsteady and ("set_unsteady", handler.plan, False) not in world.done
    world.now_s += 0.02
    world.broker._step()
    assert not handler.unsteady and world.done.count(("set_unsteady", handler.plan, False)) == 1
    world.broker._step()
    assert world.done.count(("set_unsteady", handler.plan, False)) == 1


@pytest.mark.parametrize(
    "status, deaths, exit_code",
    [(CODE_2, 1, EXIT_CONFIG), (CODE_1, 4, None), (CODE_1, 5, EXIT_FAILED), (KILLED, 6, None), (0, 6, None)],
)
def test_a_start_fails_by_a_wrong_configuration_at_once_else_after_some_deaths(world, status, deaths, exit_code):
    world.broker._step()
    handler = world.of("handler")
    for _ in range(deaths):
        world.now_s = max(world.now_s, handler.restart_at)
        world.broker._step()
        assert handler.alive
        world.dies(handler, status)
    assert (world.broker._exit_code if world.broker._stopping else None) == exit_code
    assert ("start_failed" in world.events()) is (exit_code is not None)


@pytest.mark.parametrize("status, delay_ms", [(KILLED, 50), (signal.SIGTERM, 50), (CODE_1, 1600)])
def test_whoever_is_killed_young_again_and_again_waits_less_than_who_fails(world, status, delay_ms):
    world.started()
    handler = world.of("handler")
    handler.short_lives = 8
    world.dies(handler, status)
    assert world.said[-1][2]["successor_in_ms"] == delay_ms
    assert handler.restart_at == pytest.approx(world.now_s + delay_ms / 1000)


def test_no_successor_comes_before_all_is_rebuilt(world):
    world.started()
    waiting, handler = world.of("admin"), world.of("handler")
    world.dies(waiting, CODE_1)
    assert waiting.restart_at
    world.dies(handler, SEGV)
    assert not waiting.restart_at and not handler.restart_at


@pytest.mark.parametrize("status, goes", [(0, True), (CODE_1, False), (KILLED, False)])
def test_who_was_told_to_go_goes_for_good_when_it_ends_well(world, status, goes):
    world.started()
    handler = world.of("handler")
    handler.leaving = True
    world.dies(handler, status, at_s=10)
    assert world.events() == ["worker_left" if goes else "worker_died"]
    assert (handler in world.all) is not goes and (("left", handler.plan) in world.done) is goes


def test_after_a_fault_all_are_killed_and_begin_anew(world):
    world.started()
    handler, processor = world.of("handler"), world.of("processor")
    processor.leaving = True
    names = {worker.plan.name for worker in world.all if worker is not handler}
    world.dies(handler, SEGV)
    assert world.events() == ["worker_fault"] and ("remember_killer", handler.plan) in world.done
    assert world.done[-1] == ("set_state", BrokerState.RESETTING)
    assert {name for name, number in world.killed if number == signal.SIGKILL} >= names
    world.broker._step()
    assert ("rebuild",) not in world.done, "somebody lives"
    world.forget()
    for worker in world.broker._workers.alive():
        world.dies(worker, KILLED)
    assert not world.said, "of those nothing is said"
    world.broker._step()
    assert ("rebuild",) in world.done and processor not in world.all and ("left", processor.plan) in world.done
    assert world.events() == ["reset"] and world.alive() == roles(world, late=False)
    world.serve()
    world.broker._step()
    world.broker._step()
    assert world.alive() >= roles(world, late=True) and world.events() == ["reset"], "it is ready since long"


@pytest.mark.parametrize("apart_s, gives_up", [(1.0, True), (14.9, True), (15.0, False), (100.0, False)])
def test_five_resets_in_a_minute_are_too_many(world, apart_s, gives_up):
    """Four intervals lie between five resets."""
    world.started()
    for number in range(5):
        assert world.broker._stopping is None, number
        world.broker._resetting = False
        world.broker._reset()
        world.now_s += apart_s
    assert (world.broker._stopping is not None) is gives_up and ("too_many_resets" in world.events()) is gives_up
    assert world.broker._exit_code == (EXIT_FAILED if gives_up else 0)


@pytest.mark.parametrize("resets, trouble", [(2, False), (3, True), (4, True)])
def test_three_resets_in_a_minute_are_a_trouble(world, resets, trouble):
    world.started()
    world.looks = True
    world.broker._resets.extend([world.now_s] * resets)
    world.now_s += RESET_WINDOW_S - 0.1
    world.broker._step()
    assert world.done[-1] == ("set_trouble", Trouble.MANY_RESETS, trouble)
    world.now_s += 0.1
    world.broker._step()
    assert world.done[-1] == ("set_trouble", Trouble.MANY_RESETS, False)


def test_a_fault_while_the_broker_stops_ends_patience(world):
    world.started()
    world.broker._stop(0)
    world.dies(world.of("processor"), 0)
    world.broker._step()
    world.killed.clear()
    world.dies(world.of("controller"), SEGV)
    assert world.broker._resetting is False and "reset" not in world.events()
    world.broker._step()
    assert signal.SIGKILL in {number for _, number in world.killed}


def test_it_wakes_for_whatever_is_due_first(world):
    world.started()
    broker = world.broker
    assert broker._timeout_s() == HEARTBEAT_S
    broker._probes.timeout_s = lambda: 0.5
    assert broker._timeout_s() == 0.5
    handler = world.of("handler")
    world._reap(handler)
    handler.restart_at = world.now_s + 0.25
    assert broker._timeout_s() == 0.25
    broker._handover = SimpleNamespace(timeout_s=lambda: 0.125)
    assert broker._timeout_s() == 0.125
    broker._stopping = SimpleNamespace(timeout_s=lambda: 0.0625)
    assert broker._timeout_s() == 0.0625


def test_a_wait_hears_signals_notices_probes_and_deaths(world):
    world.started()
    handler = world.of("handler")
    for worker in world.all:
        worker.look = lambda: None
    handler.look = lambda: Death(handler.plan, handler.pid, KILLED)
    world.poll = [(SIGNALS, 1), (NOTICES, 1), (PROBE, 1)]
    world.broker._signals.drain = lambda: world.done.append("signals")
    world.broker._wait()
    assert world.done == [
        ("heartbeat", {"waiting": True}),
        ("heartbeat", {"waiting": False}),
        "signals",
        ("drain_notices",),
        ("readable", PROBE),
        ("process_died", handler.plan, KILLED),
        ("reaped", handler.plan.name),
    ]
    assert handler.restart_at and world.events() == ["worker_died"]


@pytest.mark.parametrize("stored, begins", [(None, False), ({}, False), ({"a": "b"}, True)])
def test_settings_that_were_stored_are_taken_once(world, monkeypatch, stored, begins):
    monkeypatch.setattr(supervisor.reload, "with_settings", lambda config, _stored, _log: config)
    world.started()
    world.broker._stored = {}
    world.shared.stored_settings = lambda: stored
    for _ in range(2):
        world.broker._take_stored_settings()
    published = [entry for entry in world.done if entry[0] == "publish_config"]
    assert len(published) == begins and ({number for _, number in world.killed} == {signal.SIGHUP}) is begins


def test_more_and_fewer_workers_while_it_runs(world):
    world.started()
    more = load_broker_config(overrides=[*GIVEN, "num.network.threads=2", "num.io.threads=2"], environ={}, cores=2)
    before = len(world.all)
    world.broker._staffing._room = Room(3, 3)
    world.broker._use_config(more)
    assert world.events() == ["worker_added"] * 2 and len(world.all) == before + 2 == len(world.broker._workers.alive())
    assert [entry[0] for entry in world.done].count("make_lane") == 1, "of the processor"
    assert [entry[0] for entry in world.done].count("publish_config") == 2, "the acceptor is to know the new ones"
    world.forget()
    world.broker._use_config(world.config)
    leaving = [worker for worker in world.all if worker.leaving]
    assert {worker.plan.type.role for worker in leaving} == {"processor", "handler"} and len(leaving) == 2
    assert {(worker.plan.name, signal.SIGTERM) for worker in leaving} <= set(world.killed)
    world.broker._use_config(more)
    assert not any(worker.leaving for worker in world.all), "they are wanted again, and there is room for nobody else"


@pytest.mark.parametrize("why", ["not ready", "resetting", "stopping"])
def test_nobody_comes_or_goes_while_it_does_not_serve(world, why):
    world.started()
    broker = world.broker
    broker._ready, broker._resetting = why != "not ready", why == "resetting"
    if why == "stopping":
        broker._stop(0)
        world.forget()
    more = load_broker_config(overrides=[*GIVEN, "num.network.threads=2", "num.io.threads=2"], environ={}, cores=2)
    broker._use_config(more)
    assert not world.launches and not world.events()


def test_too_few_places_are_said_once(world):
    world.started()
    broker = world.broker
    broker._staffing._room = Room(2, 2)
    more = load_broker_config(overrides=[*GIVEN, "num.io.threads=9", "num.network.threads=1"], environ={}, cores=2)
    for _ in range(2):
        broker._use_config(more)
    assert world.events().count("no_room_for_workers") == 1


def test_listeners_come_and_go_with_all_that_is_theirs(world):
    world.started()
    asked, listening = [], world.shared.listening
    listening.removed = (0, 7)
    world.shared.passed.held = {9}

    def follow(config, busy):
        asked.append(busy)
        return True, ["B: in use"]

    listening.follow = follow
    forgotten, world.broker._staffing.forget = [], lambda index: forgotten.append(index) or [index]
    world.broker._follow_listeners()
    assert asked == [{0, 1, 9}] and forgotten == [7], "of 0 there are processes"
    noted = [entry if isinstance(entry, str) else entry[0] for entry in world.done]
    assert noted == ["empty_places", "publish_config", "status_file", "status file"]
    assert ("follow", listening) in world.shared.passed._done, "the acceptor gets them when all is published"
    assert world.events() == ["listener_not_opened", "listeners_changed"]


def test_signals_to_read_and_to_dump_are_heard_once(world, monkeypatch):
    world.started()
    read = []
    monkeypatch.setattr(world.broker, "_reload", lambda: read.append(1))
    world.broker._signals.reload = world.broker._signals.dump = True
    for _ in range(2):
        world.broker._step()
    assert read == [1] and [entry[0] for entry in world.done].count("ask_for_dump") == 1


@pytest.mark.parametrize("given, is_stopping, read", [(True, False, True), (False, False, False), (True, True, False)])
def test_a_configuration_is_read_again_where_there_is_one(world, monkeypatch, given, is_stopping, read):
    asked = []
    monkeypatch.setattr(supervisor.reload, "read_again", lambda *_given: asked.append(1))
    world.broker._read_config = (lambda: None) if given else None
    world.broker._stopping = object() if is_stopping else None
    world.broker._reload()
    assert bool(asked) is read and not world.done, "nothing of it can be used"


def test_a_configuration_that_was_read_again_is_used(world, monkeypatch):
    """Also by who is there, and for the listeners."""
    world.started()
    reader, followed = object(), []
    given = supervisor.Supervisor(world.config, world.shared, None, reader)
    given._epoll.close()
    assert given._read_config is reader
    changed = load_broker_config(overrides=[*GIVEN, "num.network.threads=1", "num.io.threads=1"], environ={}, cores=3)
    monkeypatch.setattr(world.broker, "_follow_listeners", lambda: followed.append(world.broker._config))
    monkeypatch.setattr(supervisor.reload, "read_again", lambda old, read, log: changed if read is reader else None)
    world.broker._read_config = reader
    world.broker._reload()
    assert world.broker._config is changed and followed == [changed]
    assert [entry[:2] for entry in world.done] == [("publish_config", changed)]
    assert {number for _, number in world.killed} == {signal.SIGHUP} and ("use_config", changed) in world.said


def test_what_the_last_stage_runs_is_imported_with_it_and_once(world, monkeypatch):
    order = []

    def resolve(late, in_cluster):
        order.append((late, in_cluster))
        return dict.fromkeys(roles(world, late))

    monkeypatch.setattr(supervisor, "resolve_mains", resolve)
    monkeypatch.setattr(supervisor, "served_versions", lambda between_brokers: {3: (0, 9 + between_brokers)})
    monkeypatch.setattr(supervisor, "prepare_for_workers", lambda: order.append("prepared"))
    monkeypatch.setattr(supervisor.launch, "freeze", lambda: order.append("frozen"))
    world.broker._mains = {}
    world.broker._import(late=False)
    assert order == [(False, False), "prepared", "frozen"]
    assert world.broker._api_versions == {False: {3: (0, 9)}, True: {3: (0, 10)}}
    world.started()
    assert order[3:] == [(True, False), "prepared", "frozen"]
    world.broker._import(late=True)
    assert len(order) == 6, "all of it is here since the first start"


@pytest.mark.parametrize(
    "in_cluster, listener, between_brokers",
    [(True, 0, True), (True, 1, True), (True, 2, False), (True, None, False), (False, 0, False), (False, 1, False)],
)
def test_on_which_listeners_the_brokers_of_a_cluster_talk(world, in_cluster, listener, between_brokers):
    """Listener 0 is the brokers', 1 the control plane's, 2 the clients'."""
    world.broker._config = SimpleNamespace(
        cluster_store="store" if in_cluster else None, end_points=SimpleNamespace(inter_broker="A")
    )
    clients = SimpleNamespace(control=False, name="C")
    world.shared.listening.all = (*LISTENERS, clients)
    assert world.broker._is_between_brokers(SimpleNamespace(listener=listener)) is between_brokers


def test_once_a_second_staff_and_places_are_looked_at(world, monkeypatch):
    staffed = []
    monkeypatch.setattr(world.broker, "_staff", lambda: staffed.append(1))
    monkeypatch.setattr(world.broker._staffing, "left_places", lambda: [4, 7])
    world.started()
    staffed.clear()
    world.broker._step()
    assert not staffed and ("close_strays", [4, 7]) not in world.done
    world.looks = True
    world.broker._step()
    assert staffed == [1] and ("close_strays", [4, 7]) in world.done


def test_a_notice_is_followed_by_a_look_at_stored_settings(world, monkeypatch):
    looked = []
    monkeypatch.setattr(world.broker, "_take_stored_settings", lambda: looked.append(1))
    world.poll = [(SIGNALS, 1)]
    world.broker._wait()
    assert not looked
    world.poll = [(NOTICES, 1)]
    world.broker._wait()
    assert looked == [1]


def test_a_processor_without_a_trace_lane_serves_all_the_same(world):
    def fail(_plan):
        raise LaneError("no room")

    world.shared.make_lane = fail
    for role, said in (("handler", []), ("processor", ["requests_not_traced"])):
        world.broker._make_lane(world.of(role).plan)
        assert world.events() == said


def test_a_process_is_told_who_it_is(world):
    """In its context, its title, and what becomes of it when the supervisor dies."""
    world.started()
    processor = world.of("processor")
    processor.leaving = True
    made = world.broker._launch_of(processor)
    assert made.context.stopping is True and made.context.api_versions == {}
    assert made.title == f"mpbroker: {processor.plan.name} {LISTENERS[processor.plan.listener].name}"
    assert made.parent_death == processor.plan.type.parent_death
