"""Single steps of a request handler, of parts: what follows what, what is done only when there is reason to, and with
what a process begins and ends."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.server import request_handler as module
from mpbroker.server.request_handler import IDLE_EVERY_MS, POLL_MS, RequestHandler
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.layout import DIRTY_BITS, MAX_HANDLERS, SLOT_CONTROLLER, SLOT_HANDLERS
from mpbroker.shm.process_table import BrokerState, ProcessState


class World:
    """A handler of parts; `did`: what was called, in order. `dirty`: what moved."""

    def __init__(self, monkeypatch, control_only=False):
        self.did, self.dirty, self.requests = [], (False, []), []
        note = lambda *words: self.did.append(words)  # noqa: E731
        self.clock = ManualClock()
        self.purgatory = SimpleNamespace(
            has_deadlines=False, check_all=lambda: note("all"), check_hashed=lambda *words: note("hashed", *words),
            advance=lambda now_ms: note("advance", now_ms), next_due_ms=lambda: None,
        )  # fmt: skip
        self.produces = SimpleNamespace(waiting=0, take_over=self._take_over)
        self.fetches = SimpleNamespace(waiting=0, take_over=self._take_over)
        self.port = SimpleNamespace(
            python_waits=None, serve_or_claim=self._claim, take_dirty=lambda: note("dirty") or self.dirty,
            idle=lambda: note("idle"), recover=lambda: note("recover"), discipline=None,
            hand_over=lambda keys: note("hand over", keys),
        )  # fmt: skip
        self.context = SimpleNamespace(
            port=self.port, purgatory=self.purgatory, clock=self.clock,
            produce_deadline_ms=None, fetch_deadline_ms=None,
            native_topics=SimpleNamespace(
                native=self.produces, fetch=self.fetches, use_config=lambda config: note("native", config)
            ),
            commands=SimpleNamespace(take_answers=lambda: note("answers")),
            log=SimpleNamespace(tick=lambda: note("tick")),
            log_manager=SimpleNamespace(
                close_stale=lambda: note("stale"), recover_slot=lambda slot: note("recover slot", slot)
            ),
            metadata=SimpleNamespace(use_config=lambda config: note("metadata", config)),
            fetch_sessions=SimpleNamespace(recover=lambda: note("sessions")),
            config=SimpleNamespace(mpbroker_control_plane_scheduling="nice"), is_ending=lambda: False,
        )  # fmt: skip
        dispatched = lambda context, request: note(  # noqa: E731
            "dispatch", request, context.produce_deadline_ms, context.fetch_deadline_ms
        )
        monkeypatch.setattr(module, "dispatch", dispatched)
        monkeypatch.setattr(module, "prefer_latency", lambda how: note("rank", how))
        monkeypatch.setattr(module, "handlers_discipline", lambda config: ("discipline of", config))
        self.handler = RequestHandler(self.context, control_only)

    def _claim(self, wait_ms, control_only):
        self.did.append(("claim", wait_ms, control_only))
        return self.requests.pop(0) if self.requests else None

    def _take_over(self, now_ms):
        self.did.append(("take over", now_ms))
        return self.taken.pop(0) if self.taken else None

    def steps(self):
        did, self.did[:] = list(self.did), []
        return did


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


LOOKED = [("dirty",), ("answers",)]


@pytest.mark.parametrize("control_only", [False, True])
def test_without_a_request_it_looks_at_what_waits(monkeypatch, control_only):
    world = World(monkeypatch, control_only)
    assert world.handler.do_work() is False
    assert world.steps() == [("claim", POLL_MS, control_only), *LOOKED] and world.port.python_waits is False
    assert world.handler.do_work_now() is False
    assert world.steps() == [("claim", 0, control_only), *LOOKED]


@pytest.mark.parametrize(
    ("deadlines", "produces", "fetches"), [(False, 0, 0), (True, 0, 0), (False, 1, 0), (False, 0, 1)]
)
def test_after_a_request_it_looks_only_if_something_waits(world, deadlines, produces, fetches):
    world.purgatory.has_deadlines, world.produces.waiting, world.fetches.waiting = deadlines, produces, fetches
    world.requests, world.taken = ["one"], []
    assert world.handler.do_work_now() is True
    took = [("take over", world.clock.monotonic_ms())] * bool(produces or fetches)
    ends = [("advance", world.clock.monotonic_ms())] * deadlines
    looks = [*LOOKED, *took, *ends] if deadlines or produces or fetches else []
    assert world.steps() == [("claim", 0, False), ("dispatch", "one", None, None), *looks]
    assert world.port.python_waits is deadlines


@pytest.mark.parametrize(
    ("dirty", "looked"),
    [
        ((False, []), []),
        ((False, [3, 9]), [("hashed", [3, 9], DIRTY_BITS)]),
        ((True, [3]), [("all",)]),
        ((True, []), [("all",)]),
    ],
)
def test_it_looks_at_what_moved(world, dirty, looked):
    world.dirty = dirty
    world.handler.do_work_now()
    assert world.steps()[1:] == [*LOOKED, *looked]


@pytest.mark.parametrize("kind", ["produces", "fetches"])
def test_what_waited_natively_goes_on_with_the_time_it_has_left(world, kind):
    waiting, now_ms = getattr(world, kind), world.clock.monotonic_ms()
    waiting.waiting = 3
    world.taken = [("first", 700), ("second", 800), None, ("third", 900)]
    world.handler.do_work_now()
    given = [(700, None), (800, None)] if kind == "produces" else [(None, 700), (None, 800)]
    took = ("take over", now_ms)
    steps = [took, ("dispatch", "first", *given[0]), took, ("dispatch", "second", *given[1]), took]
    assert world.steps()[3:] == steps, "None: no more of them is to be answered now"
    assert (world.context.produce_deadline_ms, world.context.fetch_deadline_ms) == (None, None)


@pytest.mark.parametrize("control_only", [False, True])
def test_it_rests_once_a_second(monkeypatch, control_only):
    world = World(monkeypatch, control_only)
    rests = [("tick",), *[("rank", "nice")] * control_only, ("idle",), ("stale",)]
    for after_ms, rested in ((0, True), (0, False), (IDLE_EVERY_MS - 1, False), (1, True), (1, False)):
        world.clock.advance(after_ms)
        assert world.handler.rest_is_due() is rested
        world.handler.rest()
        assert world.steps() == (rests if rested else [])


def test_who_leaves_gives_back_what_it_has_parked(world):
    row = SimpleNamespace(set_state=lambda state: world.did.append(state))
    world.handler.leave(row)
    assert world.steps() == [ProcessState.STOPPING, ("recover",)]


def test_new_settings_reach_all_that_have_some(world):
    world.handler.use_config("new")
    assert world.steps() == [("metadata", "new"), ("native", "new")]
    assert world.context.config == "new" and world.port.discipline == ("discipline of", "new")


@pytest.mark.parametrize(
    ("worked", "reloading", "due", "rests"),
    [(True, False, False, False), (False, False, False, True), (True, True, False, True), (True, False, True, True)],
)
@pytest.mark.parametrize("config", [None, "new"])
def test_a_round_rests_when_it_is_idle_or_time(worked, reloading, due, rests, config):
    did = []
    handler = SimpleNamespace(
        do_work=lambda: worked, rest_is_due=lambda: due, rest=lambda: did.append("rest"), use_config=did.append,
        context=SimpleNamespace(listeners="old"),
    )  # fmt: skip
    ctx = SimpleNamespace(reloading=reloading, take_reload=lambda: config, listeners="of now")
    module.work(ctx, handler)
    assert did == (["rest", *[config] * (config is not None)] if rests else [])
    assert handler.context.listeners == ("of now" if rests and config else "old")


@pytest.mark.parametrize(("index", "reserved", "control_only"), [(0, 1, True), (1, 1, False), (0, 0, False)])
@pytest.mark.parametrize("coordinator", [-1, 0])
@pytest.mark.parametrize("ending", [False, True])
def test_the_life_of_a_handler(world, monkeypatch, index, reserved, control_only, coordinator, ending):
    """Those below the reserved number serve the control plane alone. It leaves nothing to others if the broker ends."""
    states, stops, made = [], [False, False, True], []
    monkeypatch.setattr(module, "build_context", lambda ctx: world.context)
    monkeypatch.setattr(module, "work", lambda ctx, handler: made.append(handler))
    monkeypatch.setattr(module, "API_TABLE", SimpleNamespace(handed_over={11: (0, 9), 8: (2, 9)}))
    world.context.is_ending = lambda: ending
    config = SimpleNamespace(reserved_handlers=reserved)
    module.main(
        SimpleNamespace(
            process_row=SimpleNamespace(set_state=states.append),
            index=index,
            slot=7,
            config=config,
            core=SimpleNamespace(coordinator=coordinator),
            running=lambda: world.did.append("running"),
            stop_requested=lambda: stops.pop(0),
        )
    )
    recovered = [("recover slot", 7), ("sessions",), ("recover",)]
    handed = [("hand over", [11, 8])] * (coordinator >= 0)
    assert world.steps() == [*recovered, *handed, "running", *[("recover",)] * (not ending)]
    assert states == [ProcessState.RECOVERING, *[ProcessState.STOPPING] * (not ending)]
    assert len(made) == 2 and made[0].control_only is control_only
    assert world.port.discipline == ("discipline of", config)


class Built:
    """What `build_context` puts together, with everything of the machine replaced by what it was given."""

    def __init__(self, monkeypatch, in_cluster):
        self.rung, self.quotas = [], []
        for name in ("MetadataCache", "FetchSessionTable", "ControllerCommands", "LogManager", "ReplicationQuota"):
            monkeypatch.setattr(module, name, lambda *words, name=name: (name, *words))
        monkeypatch.setattr(module, "open_handler_port", lambda ctx: "port")
        monkeypatch.setattr(module, "open_log", lambda ctx: SimpleNamespace(flush="flush"))
        monkeypatch.setattr(module, "SystemClock", ManualClock)
        monkeypatch.setattr(module, "summed", lambda core, slots, counter: (slots, counter.name))
        monkeypatch.setattr(module, "_cluster", lambda ctx: "cluster" if in_cluster else None)
        native = SimpleNamespace(native=SimpleNamespace(parks=None))
        monkeypatch.setattr(
            module, "ServerContext", lambda **named: SimpleNamespace(native_topics=native, leader_quota=None, **named)
        )
        config = load_broker_config(environ={}, cores=2)
        vars(config)["cluster_store"] = "store" if in_cluster else None
        self.core = SimpleNamespace(arena_handler_bytes=1 << 20, ring_service=self.rung.append)
        self.core.state = BrokerState.RUNNING
        self.ctx = SimpleNamespace(
            core=self.core, config=config, data_dirs=("/d",), slot=7, listeners="listeners", log="log",
            process_row="row", cluster_id="id", stored_settings="stored", renew_listeners="renew",
        )  # fmt: skip
        self.context = module.build_context(self.ctx)


@pytest.mark.parametrize("in_cluster", [False, True])
def test_what_the_handlers_of_a_process_work_with(monkeypatch, in_cluster):
    built = Built(monkeypatch, in_cluster)
    context = built.context
    assert context.commands == ("ControllerCommands", "port", context.metadata, in_cluster)
    assert context.cluster == ("cluster" if in_cluster else None)
    slots = range(SLOT_HANDLERS, SLOT_HANDLERS + MAX_HANDLERS)
    quota = ("ReplicationQuota", (slots, "LEADER_THROTTLED_BYTES"))
    assert context.leader_quota == (quota if in_cluster else None)
    assert context.native_topics.native.parks is in_cluster and context.asks_coordinator is True
    assert (context.stored_settings, context.renew_listeners) == ("stored", "renew")
    assert (context.listeners, context.row, context.log, context.cluster_id) == ("listeners", "row", "log", "id")
    context.request_isr_change()
    assert built.rung == [SLOT_CONTROLLER]
    assert context.is_ending() is False
    built.core.state = BrokerState.DRAINING
    assert context.is_ending() is True


def test_a_broker_by_itself_asks_for_no_locks_of_listeners(monkeypatch):
    from mpbroker.metadata import listener_locks

    monkeypatch.setattr(module, "ClusterCache", lambda core, is_dead, now_ms: (core, is_dead("x")))
    locks = lambda place: SimpleNamespace(is_dead=lambda name: (place, name))  # noqa: E731
    monkeypatch.setattr(listener_locks, "ListenerLocks", locks)
    ctx = SimpleNamespace(core="core", config=SimpleNamespace(cluster_store=None))
    assert module._cluster(ctx) is None
    ctx.config.cluster_store = "store"
    assert module._cluster(ctx) == ("core", ("store", "x"))
