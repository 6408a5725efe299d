"""Single steps of the coordinator's shell: what a bell leads to and in which order, runs that wait for a repair."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.shell import Shell
from mpbroker.shm.process_table import BrokerState


class World:
    """A shell of parts; `done` says in order what was called."""

    def __init__(self):
        self.done, self.rows = [], {}
        note = self.done.append

        def part(name, **given):
            return SimpleNamespace(**given) if given else name

        made = self.made = object.__new__(Shell)
        made._now = lambda: SimpleNamespace(ms=7, wall_ms=8)
        made._follow_metadata = lambda: note("metadata")
        made._appends = part(
            "appends", moved=lambda *words: note(("moved", *words)), retry=lambda ms: note(("append again", ms)),
            expire=lambda ms: note(("expire", ms)),
        )  # fmt: skip
        made._answers = SimpleNamespace(
            retry=lambda ms: note(("answer again", ms)), close_parked=lambda: note("hung up"), publish=lambda *_: None
        )
        made._loader = SimpleNamespace(step=lambda: note("load"))
        made._unsure, made._unrepaired = {1, 2}, []
        made._unknown_topics = SimpleNamespace(are_gone=lambda one: one == 2)
        made._forget_gone = lambda partition: note(("forget", partition))
        made._transactions = SimpleNamespace(deliver=lambda: note("transactions"), close=lambda: None)
        made._groups = SimpleNamespace(
            pass_time=lambda now: note("time") or ["effects"], loaded=lambda partition, now: [("loaded", partition)]
        )
        made._take = lambda effects: note(effects)
        made._ctx = SimpleNamespace(core=SimpleNamespace(state=BrokerState.RUNNING))
        made._crash_point = note
        made._port = SimpleNamespace(intended_row=self.rows.get)
        made._logs = SimpleNamespace(repair=lambda ordinal: note(("repair", ordinal)))
        made._run = lambda request: note(("run", request))


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize("state", ["RUNNING", "DRAINING"])
def test_a_bell_leads_to_everything_in_its_order(world, state):
    """Metadata first, and who is to be hung up on at the very end."""
    world.made._ctx.core.state = BrokerState[state]
    world.made.deliver(True, [3])
    assert world.done[:10] == [
        "metadata", ("moved", True, [3]), ("append again", 7), ("expire", 7), ("answer again", 7), "load",
        ("forget", 2), "transactions", "time", ["effects"],
    ]  # fmt: skip
    assert ("hung up" in world.done) is (state == "DRAINING")


def test_a_second_run_waits_until_the_first_ones_append_is_finished(world):
    world.made._unrepaired = ["a", "b"]
    world.rows["b"] = 5
    world.made.deliver(False, [])
    assert world.done[1:3] == [("run", "a"), ("repair", 5)] and world.made._unrepaired == ["b"]
    world.rows.clear()
    world.done.clear()
    world.made.deliver(False, [])
    assert world.done[1] == ("run", "b") and world.made._unrepaired == []


def test_what_was_loaded_is_served_and_offsets_of_deleted_topics_go(world):
    world.made._loaded(4)
    assert world.done == ["coordinator.loaded", [("loaded", 4)], ("forget", 4)]
