"""How the supervisor ends the broker: signals, patience, what the exit code says, stepped."""

import signal
from types import SimpleNamespace

import pytest

from mpbroker.shm.process_table import BrokerState
from mpbroker.supervisor import supervisor
from mpbroker.supervisor.supervisor import EXIT_FAILED
from tests.unit.supervisor.supervisor_world import (
    CODE_1,
    KILLED,
    SEGV,
    World,
    roles,
)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


@pytest.mark.parametrize(
    "role, status, exit_code",
    [
        ("log-keeper", 0, 0),
        ("log-keeper", CODE_1, 1),
        ("controller", KILLED, 1),
        ("handler", KILLED, 0),
        ("tracer", 9, 0),
    ],
)
def test_data_that_was_not_stopped_cleanly_is_told_by_the_exit_code(world, role, status, exit_code):
    world.started()
    world.broker._stop(0)
    world.broker._stopping.stage = 3
    worker = world.of(role)
    world.dies(worker, status)
    assert world.broker._exit_code == exit_code and not worker.restart_at
    assert world.events() == ["data_not_stopped_cleanly"] * exit_code


@pytest.mark.parametrize(
    "killed, exit_code", [([], 0), (["handler 1"], 0), (["log-keeper"], 1), (["handler 1", "controller"], 1)]
)
def test_whoever_had_to_be_killed_is_named(world, killed, exit_code):
    world.broker._end(SimpleNamespace(killed=killed))
    assert world.broker._exit_code == exit_code
    assert world.events() == ["killed_at_stop"] * bool(killed) + ["stopped"]
    assert world.said[-1][2] == {"exit_code": exit_code}


def test_while_processors_drain_a_handler_has_a_successor_and_a_processor_none(world):
    world.started()
    world.broker._stop(0)
    world.broker._step()
    assert {name for name, number in world.killed if number == signal.SIGTERM} == {
        worker.plan.name for worker in world.all if worker.plan.type.stop_stage == 0
    }
    handler, processor = world.of("handler"), world.of("processor")
    world.dies(handler, KILLED, at_s=1)
    world.dies(processor, KILLED)
    assert world.broker._step() is False
    assert handler.alive and not processor.alive and not handler.restart_at


def test_the_first_signal_stops_and_the_second_hurries(world):
    world.started()
    world.broker._signals.stops = 1
    world.broker._step()
    assert world.broker._signals.stops == 0 and world.events() == ["stopping"]
    assert world.done[:3] == [("set_state", BrokerState.DRAINING), ("close_listeners",), "no probes"]
    world.killed.clear()
    world.broker._step()
    assert not world.killed, "they have time"
    world.broker._signals.stops = 1
    world.broker._step()
    assert {number for _, number in world.killed} == {signal.SIGKILL}
    for worker in world.broker._workers.alive():
        world._reap(worker)
    assert world.broker._step() is True and world.events()[-1] == "stopped"


@pytest.mark.parametrize("exit_code, started, drains", [(0, True, True), (EXIT_FAILED, True, False), (0, False, False)])
def test_requests_in_flight_are_waited_for_when_all_is_well(world, exit_code, started, drains):
    if started:
        world.started()
    else:
        world.broker._step()
    world.broker._stop(exit_code)
    world.broker._step()
    world.killed.clear()
    world.now_s += world.config.mpbroker_stop_timeout_ms * 0.3 / 1000 + 0.01
    world.broker._step()
    assert (not world.killed) is drains
    world.now_s += world.config.mpbroker_drain_timeout_ms / 1000
    world.broker._step()
    assert {number for _, number in world.killed} == {signal.SIGKILL}


def test_what_clients_have_written_before_the_last_ones_were_forked_is_stopped_cleanly(world):
    world.broker._step()
    world.serve()
    world.broker._step()
    assert not world.alive() & roles(world, late=True)
    world.broker._stop(0)
    assert world.alive() >= roles(world, late=True)
    forked = len(world.launches)
    world.broker._stop(EXIT_FAILED)
    assert world.broker._exit_code == 0 and len(world.launches) == forked, "it stops already"


def test_what_was_never_served_needs_nobody_to_stop_it(world):
    world.broker._step()
    world.broker._stop(0)
    assert world.alive() == roles(world, late=False)


def test_others_lead_before_it_stops(world, monkeypatch):
    over = []
    leaves = SimpleNamespace(is_over=lambda: bool(over), timeout_s=lambda: 0.25)
    monkeypatch.setattr(supervisor.Handover, "wanted", lambda *_given: leaves)
    world.started()
    world.broker._signals.stops = 1
    world.broker._step()
    assert world.done == [("set_state", BrokerState.HANDING_OVER)] and world.broker._stopping is None
    assert world.broker._timeout_s() == 0.25
    over.append(1)
    world.broker._step()
    assert world.broker._stopping is not None and world.done[1] == ("set_state", BrokerState.DRAINING)


@pytest.mark.parametrize("ready, resetting", [(False, False), (True, True)])
def test_who_does_not_serve_has_nothing_to_hand_over(world, monkeypatch, ready, resetting):
    monkeypatch.setattr(supervisor.Handover, "wanted", lambda *_given: pytest.fail("asked"))
    world.broker._ready, world.broker._resetting = ready, resetting
    world.broker._begin_stop()
    assert world.broker._stopping is not None


def test_a_fault_while_others_take_over_stops_the_broker(world, monkeypatch):
    leaves = SimpleNamespace(is_over=lambda: False, timeout_s=lambda: 9.0)
    monkeypatch.setattr(supervisor.Handover, "wanted", lambda *_given: leaves)
    world.started()
    world.broker._begin_stop()
    world.dies(world.of("handler"), SEGV)
    assert world.broker._stopping is not None and not world.broker._resetting
