"""What was loaded counts when it is replicated; who coordinates no more serves nothing; when all are ready."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.transactions.transaction_shell import TransactionShell
from mpbroker.errors import ErrorCode


class World:
    """A shell of parts: partition 1 is row 11, opened in leader epoch 4."""

    def __init__(self, in_cluster=True, state="there"):
        self.done = []
        note = self.done.append
        made = self.made = object.__new__(TransactionShell)
        made._is_in_cluster, made._opened = in_cluster, {1: 4}
        made.topic = SimpleNamespace(partitions=[10, 11])
        made._logs = SimpleNamespace(state=lambda ordinal: SimpleNamespace(leo=90) if state else None)
        made._clock = SimpleNamespace(monotonic_ms=lambda: 7, wall_ms=lambda: 8)
        made._appends = SimpleNamespace(await_end=lambda *words: note(words))
        made._crash_point = note
        made.coordinator = SimpleNamespace(
            loaded=lambda partition, now: [("loaded", partition)],
            close=lambda partition, epoch, now: [("closed", partition, epoch)],
        )
        made._loader = SimpleNamespace(forget=lambda partition: note(("forget", partition)))
        made._take = note
        made._tell_ready = lambda: note("ready")


SERVED = ["coordinator.transactions_loaded", [("loaded", 1)], "ready"]


def test_a_broker_by_itself_serves_what_it_has_read():
    world = World(in_cluster=False)
    world.made._loaded(1)
    assert world.done == SERVED


@pytest.mark.parametrize(("state", "end"), [("there", 90), (None, 0)])
def test_in_a_cluster_it_waits_until_others_have_it(state, end):
    world = World(state=state)
    world.made._loaded(1)
    [(ordinal, end_offset, leader_epoch, now_ms, then)] = world.done
    assert (ordinal, end_offset, leader_epoch, now_ms) == (11, end, 4, 7)
    world.done.clear()
    then(ErrorCode.REQUEST_TIMED_OUT)
    assert len(world.done) == 1 and world.done[0][:4] == (11, end, 4, 7), "it waits on"
    world.done.clear()
    then(ErrorCode.NONE)
    assert world.done == SERVED


@pytest.mark.parametrize("opened", [{}, {1: 5}])
def test_who_coordinates_no_more_or_anew_serves_nothing_of_it(opened):
    world = World()
    world.made._opened = opened
    for code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
        world.made._replicated(1, 4, code)
    assert world.done == []


def test_what_is_closed_is_loaded_no_further():
    world = World()
    world.made._opened = {1: 4, 2: 6}
    world.made._close_all()
    assert world.made._opened == {}
    assert world.done == [("forget", 1), [("closed", 1, 4)], ("forget", 2), [("closed", 2, 6)]]
