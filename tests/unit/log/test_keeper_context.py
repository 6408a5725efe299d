"""What a job of the log keeper is given where nobody says otherwise, which rows are its own, and when something is
due."""

import errno
from types import SimpleNamespace

import pytest

from mpbroker.log.keeper_context import Interval
from mpbroker.log.syncs import InlineSyncs
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE


def test_a_context_that_is_told_nothing_is_the_first_of_a_broker_with_one_directory(world):
    made = world.keeper()
    told = (made.is_successor, made.first_delay_ms, made.log_dir, made.cleaning, made.began)
    assert told == (False, 0, 0, None, None)
    assert (made.pids(), made.io_failures(), made.is_mine(0), made.is_mine(9)) == ((), (), True, True)
    assert isinstance(made.syncs, InlineSyncs) and made.syncs is made.pool


BOTH = PARTITION_EXISTS | PARTITION_ONLINE


@pytest.mark.parametrize(
    ("flags", "path", "log_dir", "found"),
    [
        (BOTH, "t-0", 1, True),
        (BOTH | 1 << 30, "t-0", 1, True),
        (PARTITION_EXISTS, "t-0", 1, False),
        (PARTITION_ONLINE, "t-0", 1, False),
        (BOTH, "t-1", 1, False),
        (BOTH, "t-0", 0, False),
        (BOTH, "", 1, False),
    ],
)
def test_a_row_is_the_partitions_own_while_it_is_online_in_this_directory(world, flags, path, log_dir, found):
    row = SimpleNamespace(flags=flags, dir=path, log_dir=log_dir)
    asked = []
    keeper = world.keeper(log=SimpleNamespace(state=lambda ordinal: asked.append(ordinal) or row), log_dir=1)
    partition = SimpleNamespace(ordinal=5, dir="t-0")
    assert keeper.state(partition) is (row if found else None)
    assert keeper.is_absent(partition) is (path == "")
    assert asked == [5, 5]


def test_a_row_whose_lock_is_not_to_be_had_is_not_known_to_be_anything(world):
    def state(_):
        raise RuntimeError

    keeper = world.keeper(log=SimpleNamespace(state=state))
    assert keeper.state(SimpleNamespace(ordinal=5, dir="t-0")) is None
    assert not keeper.is_absent(SimpleNamespace(ordinal=5, dir="t-0"))


@pytest.mark.parametrize(("number", "condemned"), [(errno.EIO, [3]), (errno.ENOSPC, [])])
def test_what_does_not_pass_takes_the_directory_offline(world, number, condemned):
    failed = []
    keeper = world.keeper(log=SimpleNamespace(fail_log_dir=failed.append), log_dir=3)
    error = OSError(number, "no")
    keeper.io_failed("checkpoint_not_written", error, file="x")
    assert failed == condemned and world.events.lines == [
        ("ERROR", "checkpoint_not_written", {"error": error, "file": "x"})
    ]


def test_an_interval_is_due_once_at_its_end_and_again_one_later():
    clock = ManualClock()
    interval = Interval(clock, 100, 30)
    assert (interval.due(), interval.remaining_ms()) == (False, 30)
    clock.advance(29)
    assert (interval.due(), interval.remaining_ms()) == (False, 1)
    clock.advance(1)
    assert (interval.remaining_ms(), interval.due(), interval.due(), interval.remaining_ms()) == (0, True, False, 100)
    clock.advance(250)
    assert (interval.remaining_ms(), interval.due(), interval.due()) == (0, True, False), (
        "what was missed is not made up"
    )
    clock.advance(40)
    interval.postpone()
    assert (interval.remaining_ms(), interval.due()) == (100, False)
    interval.hasten()
    assert (interval.remaining_ms(), interval.due(), interval.remaining_ms()) == (0, True, 100)
    assert Interval(clock, 100).due(), "without a delay it is due at once"
