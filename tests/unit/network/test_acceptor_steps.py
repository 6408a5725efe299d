"""Single steps of the acceptor: when it begins, what a turn does in which order, how long it waits, its rank."""

from types import SimpleNamespace

import pytest

from mpbroker.network import acceptor as module
from mpbroker.network.acceptor import MAX_START_POLL_S, POLL_MS, RANK_EVERY_S, SHORT_POLL_MS, START_POLL_S, Acceptor
from mpbroker.shm.process_table import BrokerState, ProcessState
from mpbroker.shm.waits import WaitName


class World:
    """An acceptor of parts; `done` says in order what was called."""

    def __init__(self, monkeypatch):
        self.done, self.now, self.ready = [], 100.0, []
        note = self.done.append
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=lambda seconds: note(("sleep", seconds)))
        monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(module, "prefer_latency", lambda scheduling: note(("rank", scheduling)))
        made = self.made = Acceptor.__new__(Acceptor)
        made._ctx = SimpleNamespace(
            process_row=SimpleNamespace(set_wait=lambda name: note(name), set_state=note),
            drain_wakeups=lambda: note("drained"), log=SimpleNamespace(tick=lambda: note("tick")),
            serves_control_plane=False, take_reload=lambda: None,
            config=SimpleNamespace(mpbroker_control_plane_scheduling="nice"),
        )  # fmt: skip
        made._channel = SimpleNamespace(fileno=lambda: 60)
        made._epoll = SimpleNamespace(poll=lambda seconds: note(("poll", seconds)) or self.ready)
        made.listeners, made._rank_due, made._let_go = {}, 0.0, []

    def listener(self, index, control=False, waits=False):
        note = self.done.append
        self.made.listeners[index] = SimpleNamespace(
            is_control=control, awaits_others=waits, hear=lambda ready: note(("hear", index, ready)),
            serve=lambda: note(("serve", index)), close=lambda: note(("close", index)),
            use_config=lambda config: note(("config", index, config)),
        )  # fmt: skip


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


@pytest.mark.parametrize("passed", [False, True])
def test_a_turn_hears_of_listeners_before_it_serves(world, passed):
    made, note = world.made, world.done.append
    world.ready = [(60, 1), (7, 1)] if passed else [(7, 1)]
    made._keep_rank, made._reload = lambda: note("rank"), lambda: note("reload")
    made._take_listeners, made._serve = lambda: note("listeners"), lambda ready: note(sorted(ready))
    made.turn(400)
    taken = ["listeners"] if passed else []
    ready = sorted(fd for fd, _ in world.ready)
    begun = [WaitName.ACCEPT, ("poll", 0.4), WaitName.NONE, "drained", "tick", "rank", "reload"]
    assert world.done == [*begun, *taken, ready]


def test_listeners_that_were_let_go_are_told_until_the_supervisor_has_heard(world, monkeypatch):
    made = world.made
    made._serve = lambda ready: None
    heard = {3: [False, True], 4: [True]}
    monkeypatch.setattr(module.listener_passing, "let_go", lambda channel, index: heard[index].pop(0))
    made._let_go = [3, 4]
    made.turn(400)
    assert made._let_go == [3] and ("poll", SHORT_POLL_MS / 1000) in world.done
    made.turn(400)
    assert made._let_go == []


@pytest.mark.parametrize(
    ("waits", "let_go", "asked", "timeout_ms"),
    [(False, [], 400, 400), (True, [], 400, SHORT_POLL_MS), (False, [1], 400, SHORT_POLL_MS), (True, [], 3, 3)],
)
def test_it_waits_shortly_for_what_rings_no_bell(world, waits, let_go, asked, timeout_ms):
    world.listener(0)
    world.listener(1, waits=waits)
    world.made._let_go = let_go
    assert world.made._timeout_ms(asked) == timeout_ms


def test_the_rank_is_asked_for_once_a_second_with_a_control_plane(world):
    made = world.made
    made._keep_rank()
    assert world.done == []
    made._ctx.serves_control_plane = True
    for now, asked in ((100.0, 1), (100.5, 1), (100.0 + RANK_EVERY_S, 2), (101.5, 2)):
        world.now = now
        made._keep_rank()
        assert world.done == [("rank", "nice")] * asked


def test_all_are_heard_before_any_is_served(world):
    world.listener(1, control=True)
    world.listener(0)
    world.listener(2)
    world.made._serve({7})
    assert world.done[:3] == [("hear", 1, {7}), ("hear", 0, {7}), ("hear", 2, {7})]
    assert [index for _, index in world.done[3:]] == [1, 0, 1, 2, 1]


@pytest.mark.parametrize("config", [None, "settings"])
def test_settings_are_taken_by_the_listeners_that_are_left(world, config):
    made = world.made
    world.listener(0)
    world.listener(1)
    made._ctx.listeners = (SimpleNamespace(index=0, removed=True), SimpleNamespace(index=1, removed=False))
    made._ctx.take_reload = lambda: config
    made._reload()
    if config is None:
        assert world.done == [] and made._let_go == []
        return
    assert world.done == [("close", 0), ("config", 1, config)] and made._let_go == [0]
    assert made.listeners[1].listener is made._ctx.listeners[1]


def test_at_the_end_every_listener_is_closed(world):
    world.listener(0)
    world.listener(1)
    world.made.close()
    assert world.done == [("close", 0), ("close", 1)] and not world.made.listeners


def test_nobody_is_accepted_before_all_serve_and_a_process_ends_when_asked(world, monkeypatch):
    ctx = world.made._ctx
    states = [BrokerState.STARTING, BrokerState.RESETTING, BrokerState.STARTING, BrokerState.RUNNING]
    stops = [False] * 5 + [True]

    class Core:
        @property
        def state(self):
            return states.pop(0)

    ctx.core, ctx.running = Core(), lambda: world.done.append("running")
    ctx.stop_requested = lambda: stops.pop(0)
    turns = SimpleNamespace(turn=lambda ms: world.done.append(("turn", ms)), close=lambda: world.done.append("close"))
    monkeypatch.setattr(module, "Acceptor", lambda given: turns)
    module.main(ctx)
    waits = [one for one in world.done if isinstance(one, tuple) and one[0] == "sleep"]
    assert len(waits) == 3 and waits[0] == ("sleep", START_POLL_S) and waits[0] < waits[1] < waits[2]
    assert waits[2][1] <= MAX_START_POLL_S and world.done[0] == "running"
    assert world.done[-4:] == [("turn", POLL_MS), ("turn", POLL_MS), ProcessState.STOPPING, "close"]
    assert POLL_MS == 500, "Kafka's"


def test_who_waits_for_long_looks_less_often(world):
    left = [500]

    def stops():
        left[0] -= 1
        return left[0] == 0

    ctx = world.made._ctx
    ctx.core, ctx.stop_requested = SimpleNamespace(state=BrokerState.STARTING), stops
    module.wait_for_start(ctx)
    waits = [one[1] for one in world.done if isinstance(one, tuple)]
    assert len(waits) == 499 and waits[-1] == MAX_START_POLL_S == max(waits)
