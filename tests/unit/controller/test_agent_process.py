"""One turn of the agent's loop: what is done, in which order, and what a store that does not answer stops."""

from types import SimpleNamespace

import pytest

from mpbroker.config.cluster_store import ClusterStorePlace
from mpbroker.controller import agent_process as module
from mpbroker.controller.agent_process import DEAD_SESSIONS_MS, _turn
from mpbroker.metadata.meta_store import StoreError
from tests.unit.log.log_world import Events

STEPS = ["keep_alive", "follow_store", "tell_changes", "take", "execute 7", "complete 7 of 3", "keep_alive"]
LAST_STEPS = ["propose", "tell_roles", "hand_over"]


class Agent:
    """Writes down what it is asked for; at `fails` the store does not answer."""

    def __init__(self, done, fails=None):
        self._done, self._fails = done, fails

    def __getattr__(self, name):
        def call(*arguments):
            self._done.append(" ".join([name, *map(str, arguments)]))
            if name == self._fails:
                raise StoreError("no answer")

        return call

    def execute(self, taken):
        self._done.append(f"execute {taken.number}")
        return "result"


@pytest.fixture
def done():
    return []


def turn(done, agent, config=None):
    """One turn with one command that waits; the events."""
    ctx = SimpleNamespace(
        take_reload=lambda: config,
        log=Events(),
        core=SimpleNamespace(metadata_generation=3),
        process_row=SimpleNamespace(beat=lambda: done.append("beat")),
    )
    inbox = SimpleNamespace(take=lambda: done.append("take") or [SimpleNamespace(number=7)])
    channel = SimpleNamespace(
        complete=lambda number, result, generation: done.append(f"complete {number} of {generation}")
    )
    _turn(ctx, agent, inbox, channel)
    return ctx.log


def test_a_turn_hears_the_store_before_it_carries_out_commands(done):
    assert not turn(done, Agent(done)).lines
    assert done == [*STEPS, *LAST_STEPS, "beat"]


def test_settings_that_were_read_anew_come_first(done):
    turn(done, Agent(done), config="settings")
    assert done[:2] == ["use_config settings", "keep_alive"]


@pytest.mark.parametrize("fails", ["follow_store", "tell_changes", *LAST_STEPS])
def test_a_store_that_does_not_answer_ends_the_turn_and_not_the_process(done, fails):
    events = turn(done, Agent(done, fails))
    assert events.named("store_unavailable") == [{"problem": "no answer"}]
    steps = [*STEPS, *LAST_STEPS]
    assert done == [*steps[: steps.index(fails) + 1], "beat"]


def test_the_agent_leaves_dead_sessions_to_others_for_a_while(monkeypatch):
    """They are ended in a transaction of the file that all share: while it waits it carries nothing out."""
    place, asked = ClusterStorePlace("", "/store.db"), []

    class Enough(Exception):
        pass

    def open_store(*words):
        asked.append(words)
        raise Enough

    monkeypatch.setattr(module, "unclean_start", lambda *_: False)
    monkeypatch.setattr(module, "open_log", lambda ctx: None)
    monkeypatch.setattr(module, "open_cluster_store", open_store)
    ctx = SimpleNamespace(
        process_row=SimpleNamespace(set_state=lambda _: None),
        config=SimpleNamespace(cluster_store=place),
        data_dirs=[],
        boot_id=1,
    )
    with pytest.raises(Enough):
        module.main(ctx)
    assert asked == [(place, DEAD_SESSIONS_MS)] and DEAD_SESSIONS_MS > 0
