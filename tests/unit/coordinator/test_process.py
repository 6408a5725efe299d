"""The loop of the coordinator process: when it works, how long it waits, and when it begins at all."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator import process
from mpbroker.coordinator.process import POLL_MS, REST_EVERY_MS, CoordinatorProcess
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.shm.clock import ManualClock


class Loop(CoordinatorProcess):
    """With a port, metadata and work that only write down what is asked of them."""

    def __init__(self, incarnation: int = 1) -> None:
        self.clock = ManualClock()
        self.calls, self.waits, self.requests = [], [], []
        self.due_ms = None
        self.topics = {}
        self.config = None
        context = SimpleNamespace(
            core=SimpleNamespace(transactions_ready=0, coordinator_wanted=False),
            config=None,
            incarnation=incarnation,
            reloading=False,
            log=SimpleNamespace(tick=lambda: self.calls.append("tick")),
            take_reload=lambda: self.config,
        )
        self.context = context
        self._metadata = SimpleNamespace(refresh=lambda: None, topic=self.topics.get)
        port = SimpleNamespace(
            serve_or_claim=self._claim, take_dirty=lambda: (False, [3]), idle=lambda: self.calls.append("idle")
        )
        self._ctx, self._port, self._clock, self._rest_due_ms = context, port, self.clock, 0
        self._work = None if incarnation == 1 else self._begin()

    def _claim(self, wait_ms):
        self.waits.append(wait_ms)
        return self.requests.pop(0) if self.requests else None

    def _begin(self):
        self.calls.append("begin")
        return SimpleNamespace(
            execute=lambda request: self.calls.append(request),
            deliver=lambda everything, moved: self.calls.append((everything, moved)),
            next_due_ms=lambda: self.due_ms,
            rest=lambda: self.calls.append("rest"),
            use_config=lambda config: self.calls.append(config),
        )

    def did(self):
        found, self.calls = self.calls, []
        return found


DELIVERED = (False, [3])
RESTED = ["tick", "idle"]


def test_without_groups_it_only_waits():
    loop = Loop()
    loop.turn()
    assert loop.did() == RESTED and loop.waits == [POLL_MS] and loop.context.core.transactions_ready == 1
    loop.clock.advance(REST_EVERY_MS - 1)
    loop.turn()
    assert loop.did() == []
    loop.clock.advance(1)
    loop.turn()
    assert loop.did() == RESTED


@pytest.mark.parametrize("cause", ["request", "wish", "topic", "successor"])
def test_it_begins_when_there_is_something_to_do(cause):
    loop = Loop(2 if cause == "successor" else 1)
    if cause == "request":
        loop.requests = ["a"]
    elif cause == "wish":
        loop.context.core.coordinator_wanted = True
    elif cause == "topic":
        loop.topics[OFFSETS_TOPIC] = object()
    loop.turn()
    assert loop.did()[0 if cause != "topic" else 2] == "begin" and loop.context.core.transactions_ready == 0


def test_requests_do_not_keep_deadlines_and_rests_waiting():
    loop = Loop(2)
    loop.turn()
    assert loop.did() == ["begin", DELIVERED, *RESTED, "rest"]
    loop.requests = ["a", "b", "c", "d"]
    loop.due_ms = loop.clock.now_ms + 10
    loop.turn()
    assert loop.did() == ["a"] and loop.waits[-1] == 10
    loop.clock.advance(10)
    loop.turn()
    assert loop.did() == ["b", DELIVERED] and loop.waits[-1] == 0
    loop.due_ms = None
    loop.clock.advance(REST_EVERY_MS - 11)
    loop.turn()
    assert loop.did() == ["c"]
    loop.clock.advance(1)
    loop.turn()
    assert loop.did() == ["d", DELIVERED, *RESTED, "rest"]
    loop.due_ms = loop.clock.now_ms - 5
    loop.turn()
    assert loop.waits[-1] == 0
    loop.due_ms = loop.clock.now_ms + 10 * POLL_MS
    loop.turn()
    assert loop.waits[-1] == POLL_MS


def test_a_reload_is_taken_on_at_once():
    loop = Loop(2)
    loop.turn()
    loop.did()
    loop.context.reloading, loop.config, loop.requests = True, "new", ["a"]
    loop.turn()
    assert loop.did() == ["a", DELIVERED, *RESTED, "rest", "new"]


@pytest.mark.parametrize(("incarnation", "begins"), [(1, False), (2, True), (3, True)])
def test_a_successor_begins_at_once(monkeypatch, incarnation, begins):
    """Somebody may wait for what its predecessor held."""
    opened = []
    monkeypatch.setattr("mpbroker.coordinator.shell.open_shell", lambda *given: opened.append(given) or "work")
    monkeypatch.setattr(process, "MetadataCache", lambda core, config: (core, config))
    context, clock = SimpleNamespace(core="core", config="config", incarnation=incarnation), ManualClock()
    made = CoordinatorProcess(context, "port", clock)
    assert opened == ([(context, "port", clock, ("core", "config"))] if begins else [])
    assert made._work == ("work" if begins else None)
    assert made._is_due(None), "it rests in its first turn"


def test_without_work_the_metadata_is_looked_at_when_it_rests():
    loop = Loop()
    loop._metadata.refresh = lambda: loop.topics.setdefault(OFFSETS_TOPIC, object())
    loop.turn()
    assert loop.did() == [*RESTED, "begin", "rest"] and loop.context.core.transactions_ready == 0
    loop._metadata.refresh = None
    loop.clock.advance(REST_EVERY_MS)
    loop.turn()
    assert loop.did() == [DELIVERED, *RESTED, "rest"], "whoever works looks itself"


@pytest.mark.parametrize("incarnation, repairs", [(1, []), (2, ["repair 5", "recover"]), (3, ["repair 5", "recover"])])
def test_what_a_predecessor_held_is_put_back_before_anything_is_served(monkeypatch, incarnation, repairs):
    """The first one has no predecessor."""
    done, stops = [], iter((False, False, True))
    context = SimpleNamespace(
        incarnation=incarnation,
        slot=5,
        process_row=SimpleNamespace(set_state=lambda state: done.append(state.name)),
        running=lambda: done.append("runs"),
        stop_requested=lambda: next(stops),
    )
    port = SimpleNamespace(recover=lambda: done.append("recover"))
    log = SimpleNamespace(repair_slot=lambda slot: done.append(f"repair {slot}"))
    monkeypatch.setattr(process, "open_handler_port", lambda _ctx: port)
    monkeypatch.setattr(process, "open_log", lambda _ctx: log)
    monkeypatch.setattr(
        process, "CoordinatorProcess", lambda *_given: SimpleNamespace(turn=lambda: done.append("turn"))
    )
    process.main(context)
    assert done == ["RECOVERING", *repairs, "runs", "turn", "turn"]
