"""How the supervisor ends the broker: signals, patience, what the exit code says, stepped."""

import select
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from mpbroker.shm.process_table import BrokerState
from mpbroker.supervisor import supervisor
from mpbroker.supervisor.supervisor import EXIT_FAILED
from tests.unit.supervisor.supervisor_world import CODE_1, KILLED, NOTICES, SEGV, SIGNALS, World, roles


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
    processor.restart_at = world.now_s
    world.broker._step()
    assert not processor.alive and not processor.restart_at, "nobody waits for its successor"


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


@pytest.mark.parametrize("exit_code, started, drain_ms", [(0, True, 1500), (EXIT_FAILED, True, 0), (0, False, 0)])
def test_how_long_each_part_of_the_stop_may_take(world, monkeypatch, exit_code, started, drain_ms):
    if started:
        world.started()
    times = {"mpbroker_drain_timeout_ms": 1500, "mpbroker_stop_timeout_ms": 700, "mpbroker_stop_flush_timeout_ms": 90}
    monkeypatch.setattr(world.broker, "_config", SimpleNamespace(**times))
    made = []
    monkeypatch.setattr(supervisor, "Stopping", lambda *given: made.append(given) or SimpleNamespace())
    world.broker._stop(exit_code)
    world.broker._stop(exit_code + 1)
    assert made == [(world.broker._workers, drain_ms / 1000, 0.7, 0.09)] and world.broker._exit_code == exit_code


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


class Stop(Exception):
    """What a bug of the loop would raise."""


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_hears_signals_and_notices_and_leaves_nobody_behind(world, monkeypatch, fails):
    order, steps = [], iter([False, False, True])
    note = lambda name, result=None: lambda *given, **how: order.append((name, *given, *how.values())) or result  # noqa: E731
    monkeypatch.setattr(supervisor, "SupervisorSignals", note("signals", SimpleNamespace(fd=SIGNALS)))
    monkeypatch.setattr(supervisor.process_limits, "outlive_workers", note("oom", 300))
    monkeypatch.setattr(supervisor.stacks, "register", note("stacks"))
    monkeypatch.setattr(world.broker, "_import", note("import"))
    monkeypatch.setattr(world.broker, "_step", lambda: next(steps))

    def wait():
        order.append(("wait",))
        if fails:
            raise Stop

    monkeypatch.setattr(world.broker, "_wait", wait)
    monkeypatch.setattr(world.broker, "_epoll", SimpleNamespace(register=note("watch")))
    monkeypatch.setattr(world.broker._workers, "kill", note("kill"))
    world.broker._exit_code = 3
    if fails:
        with pytest.raises(Stop):
            world.broker.run()
    else:
        assert world.broker.run() == 3
    begun = [("signals",), ("oom",), ("stacks",), ("import", False)]
    watched = [("watch", SIGNALS, select.EPOLLIN), ("watch", NOTICES, select.EPOLLIN)]
    waits = [("wait",)] * (1 if fails else 2)
    assert order == [*begun, *watched, *waits, ("kill", signal.SIGKILL)]
    assert world.broker._oom_score == 300
    assert world.done == [("status_file", world.config), "status file", "no probes"]


@pytest.mark.parametrize("ready_file", [None, "ready.json"])
def test_a_broker_gives_back_all_that_it_took(monkeypatch, ready_file):
    order = []
    note = lambda name, result=None: lambda *_given: order.append(name) or result  # noqa: E731
    claim = SimpleNamespace(cluster_id="c", served=None)
    config = SimpleNamespace(data_dir="d", dynamic=None)
    loop = SimpleNamespace(run=note("run", 7), ready=True)
    monkeypatch.setattr(supervisor.process_limits, "raise_descriptor_limit", note("descriptors"))
    monkeypatch.setattr(supervisor.gc, "disable", note("no gc"))
    monkeypatch.setattr(supervisor, "cluster_lock", lambda _config: nullcontext())
    monkeypatch.setattr(supervisor, "claim_data_dir", lambda _config: nullcontext(claim))
    monkeypatch.setattr(supervisor, "clear_ready_file", lambda name: order.append(name))
    monkeypatch.setattr(supervisor, "EventLog", lambda _name: SimpleNamespace(use_config=lambda _config: None))
    monkeypatch.setattr(supervisor.reload, "with_stored_settings", note("settings", config))
    monkeypatch.setattr(supervisor.reload, "open_as_stored", note("listeners", (config, SimpleNamespace(all=()))))
    monkeypatch.setattr(supervisor, "warn_of_unset_address", note("address"))
    monkeypatch.setattr(supervisor, "plan_processes", note("plans", ()))
    monkeypatch.setattr(supervisor, "open_admin_listener", note("admin"))
    monkeypatch.setattr(supervisor, "SharedState", note("shared", SimpleNamespace(close=note("close"))))
    monkeypatch.setattr(supervisor, "Supervisor", note("supervisor", loop))
    monkeypatch.setattr(supervisor, "remove_status_file", note("no status file"))
    assert supervisor.run(config, ready_file) == 7
    before = ["descriptors", "no gc", *([ready_file] if ready_file else []), "settings", "listeners", "address"]
    assert order == [*before, "plans", "admin", "shared", "supervisor", "run", "close", "no status file"]
    assert claim.served is True, "a directory that has been served is no new one"
