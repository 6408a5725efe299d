"""What the supervisor gives its parts and tells its loop, and what it is before its first step."""

import json
import select
import signal
from collections import deque
from types import SimpleNamespace

import pytest

from mpbroker.errors import ConfigError
from mpbroker.shm.process_table import BrokerState
from mpbroker.supervisor import launch, supervisor
from mpbroker.supervisor.supervisor import STEADY_S, Supervisor
from mpbroker.supervisor.workers import Death
from tests.unit.supervisor.supervisor_world import CODE_1, KILLED, LISTENERS, SEGV, World


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_before_its_first_step_nothing_has_happened(world, monkeypatch):
    made = []
    monkeypatch.setattr(supervisor, "Probes", lambda *how: made.append(how) or "probes")
    monkeypatch.setattr(supervisor, "HealthWatch", lambda *how: made.append(how) or "health")
    world.shared.page_name = "/page"
    fresh = Supervisor(world.config, world.shared, "/ready", None)
    health = ("/page", world.shared.held_requests, fresh._log, fresh._oldest_beat_ns)
    assert made == [(fresh._epoll, LISTENERS), health]
    assert (fresh._probes, fresh._health, fresh._ready_file) == ("probes", "health", "/ready")
    fresh._epoll.close()
    assert (fresh.ready, fresh._resetting, fresh._late_forked, fresh._started_stages) == (False, False, False, 0)
    assert (fresh._handover, fresh._stopping, fresh._exit_code, fresh._short) == (None, None, 0, {})
    assert fresh._resets == deque() and fresh._resets.maxlen == 5
    assert fresh._stored is world.config.dynamic and fresh._log.__class__.__name__ == "EventLog"
    world.broker._step()
    assert ("rebuild",) not in world.done and world.alive()


def test_settings_with_which_it_was_started_are_not_taken_again(world):
    world.started()
    fresh = Supervisor(world.config, world.shared, None, None)
    fresh._epoll.close()
    world.shared.stored_settings = lambda: world.config.dynamic
    fresh._take_stored_settings()
    assert not world.done


def test_the_loop_is_told_of_each_process_and_of_its_end(world):
    """A descriptor that was not taken out would wake it for ever."""
    world.started()
    watched = [entry for entry in world.epoll._done if entry[0] == "register"]
    descriptors = {worker.pidfd for worker in world.all}
    assert {(fd, how) for _, fd, how in watched} == {(fd, select.EPOLLIN) for fd in descriptors}
    handler = world.of("handler")
    for worker in world.all:
        worker.look = lambda: None
    descriptor = handler.pidfd
    handler.look = lambda: Death(handler.plan, handler.pid, CODE_1)
    world.broker._reap()
    assert [entry for entry in world.epoll._done if entry[0] == "unregister"] == [("unregister", descriptor)]


@pytest.mark.parametrize(("age_s", "settles"), [(STEADY_S, True), (STEADY_S - 0.125, False)])
def test_a_process_that_lived_for_five_seconds_has_settled(world, age_s, settles):
    assert STEADY_S == 5.0
    world.started()
    handler, world.looks = world.of("handler"), True
    handler.short_lives, handler._started = 9, world.now_s
    world.now_s += age_s
    world.broker._step()
    assert handler.unsteady is not settles and (("set_unsteady", handler.plan, False) in world.done) is settles


def test_each_process_logs_under_its_name_with_the_settings_of_the_broker(world, monkeypatch):
    made = []
    log = SimpleNamespace(use_config=lambda config: made.append(config) or "its log")
    monkeypatch.setattr(supervisor, "EventLog", lambda name: made.append(name) or log)
    launched = world.broker._launch_of(world.of("log-keeper"))
    assert launched.context.log == "its log" and made == ["log-keeper-0", world.config]
    assert launched.title == "mpbroker: log-keeper 0"


@pytest.mark.parametrize("wanted", [True, False])
def test_when_all_answer_it_is_told_in_the_file_before_the_line(world, monkeypatch, tmp_path, wanted):
    """Whoever waits for the line may read the file; nobody waits for what no client waits for. Pages that only the
    start needed are given back at its end."""
    path, seen = tmp_path / "ready.json", []
    monkeypatch.setattr(supervisor, "release_library_pages", lambda: seen.append("released"))
    monkeypatch.setattr(supervisor, "write_ready_line", lambda line: seen.append(path.exists()))
    world.broker._ready_file = str(path) if wanted else None
    world.shared.admin_url = "http://127.0.0.1:7"
    world.started()
    assert seen == [wanted, "released"]
    if wanted:
        said = json.loads(path.read_text())
        assert (said["node_id"], said["admin"]) == (world.config.node_id, "http://127.0.0.1:7")
        assert [one["name"] for one in said["listeners"]] == ["A", "CTL"]


def test_a_signal_while_others_take_over_ends_it_at_once(world):
    world.started()
    world.broker._handover = SimpleNamespace(is_over=lambda: False, timeout_s=lambda: 1.0)
    world.broker._step()
    assert world.broker._stopping is None
    world.broker._signals.stops = 1
    world.broker._step()
    assert world.broker._exit_code == 0 and ("set_state", BrokerState.DRAINING) in world.done
    world.broker._step()
    assert {number for _, number in world.killed} >= {signal.SIGTERM, signal.SIGKILL}


def test_a_stop_in_the_middle_of_a_reset_is_a_stop(world):
    world.started()
    world.dies(world.of("handler"), SEGV)
    assert world.broker._resetting is True
    world.broker._stop(1)
    assert world.broker._resetting is False
    world.forget()
    world.dies(world.of("controller"), KILLED)
    assert world.events() == ["worker_died"], "it is told again who dies"


def test_the_exit_codes_are_those_that_the_commands_tell():
    """2: the configuration cannot be used, as every command ends then; who starts brokers looks at them."""
    assert (supervisor.EXIT_CLEAN, supervisor.EXIT_FAILED, supervisor.EXIT_CONFIG) == (0, 1, 2)
    assert ConfigError("node.id", "x", problem="no").exit_code == supervisor.EXIT_CONFIG
    assert (launch.EXIT_CLEAN, launch.EXIT_FAILURE) == (0, 1)


@pytest.mark.parametrize(("deaths", "fails"), [(4, False), (5, True)])
def test_a_start_in_which_a_process_fails_five_times_has_failed(world, deaths, fails):
    world.broker._step()
    handler = world.of("handler")
    for _ in range(deaths):
        world.dies(handler, CODE_1)
        world.now_s = max(world.now_s, handler.restart_at)
        world.broker._step()
    assert ("start_failed" in world.events()) is fails


@pytest.mark.parametrize(("resets", "gives_up"), [(4, False), (5, True)])
def test_it_rebuilds_four_times_in_a_minute_and_not_a_fifth_time(world, resets, gives_up):
    world.started()
    for _ in range(resets):
        world.broker._resetting = False
        world.broker._reset()
        world.now_s += 14.0
    assert ("too_many_resets" in world.events()) is gives_up and supervisor.RESET_WINDOW_S == 60.0


def test_how_long_somebody_is_silent_is_asked_of_all_that_live(world):
    world.started()
    world.shared.oldest_beat_ns = set
    all_slots = {worker.plan.slot for worker in world.all if worker.pid}
    world._reap(world.of("acceptor"))
    assert world.broker._oldest_beat_ns() == all_slots - {world.of("acceptor").plan.slot} and len(all_slots) > 5
