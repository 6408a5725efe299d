"""Failed calls on log files are said with errno and partition, once a second at most, and only the new ones."""

import errno
from types import SimpleNamespace

import pytest

from mpbroker.log.failed_calls import LOOK_EVERY_MS, OTHER_REMEDY, REMEDIES, WELL_AFTER_MS, FailedCalls
from mpbroker.log.keeper_context import IoFailures
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.troubles import Trouble
from tests.harness.controller_world import Lines

PARTITIONS = SimpleNamespace(all=[SimpleNamespace(ordinal=3, dir="orders-0"), SimpleNamespace(ordinal=4, dir="b-1")])


class World:
    def __init__(self, *failures, is_successor=True):
        self.clock, self.lines, self.failures = ManualClock(), Lines(), list(failures)
        self.troubles = []
        keeper = SimpleNamespace(
            clock=self.clock,
            events=self.lines,
            data_dir="/data",
            log_dir=0,
            is_mine=lambda ordinal: True,
            is_successor=is_successor,
            partitions=PARTITIONS,
            io_failures=lambda: self.failures,
            trouble=lambda bit, there: self.troubles.append((bit, there)),
        )
        self.job = FailedCalls(keeper)

    def look(self):
        self.clock.advance(LOOK_EVERY_MS)
        self.lines.events.clear()
        self.job.do_work()
        return self.lines.named("log_calls_failed")


def test_new_failures_are_said_with_errno_and_partition():
    world = World(IoFailures(5, errno.EIO, 4), IoFailures(0, 0, -1))
    assert world.look() == []  # those were there before
    world.failures[1] = IoFailures(2, errno.ENOSPC, 3)
    (said,) = world.look()
    assert (said["directory"], said["partition"], said["calls"]) == ("/data", "orders-0", 2)
    assert (said["errno"], said["error"]) == (errno.ENOSPC, "ENOSPC: No space left on device")
    assert "free space" in said["remedy"]
    assert world.look() == []


def test_the_first_of_a_boot_says_what_failed_before_it_began():
    world = World(IoFailures(5, errno.EIO, 4), IoFailures(0, 0, -1), is_successor=False)
    (said,) = world.look()
    assert (said["partition"], said["calls"], said["errno"]) == ("b-1", 5, errno.EIO)
    assert world.look() == []


def test_processes_with_the_same_failure_are_one_line():
    world = World(*[IoFailures(0, 0, -1)] * 3)
    world.failures[:] = [IoFailures(1, errno.EIO, 4), IoFailures(2, errno.EIO, 4), IoFailures(1, errno.EMFILE, 9)]
    said = world.look()
    assert [(line["partition"], line["calls"]) for line in said] == [("b-1", 3), ("unknown", 1)]
    assert "offline" in said[0]["remedy"] and "open files" in said[1]["remedy"]


def test_it_looks_once_a_second_at_most():
    world = World(IoFailures(0, 0, -1))
    assert world.look() == []
    world.failures[0] = IoFailures(1, errno.EIO, 3)
    world.job.do_work()
    assert world.lines.events == [] and 0 < world.job.remaining_ms() <= LOOK_EVERY_MS


def test_status_shows_the_trouble_until_no_call_has_failed_for_a_while():
    world = World(IoFailures(0, 0, -1))
    world.look()
    world.failures[0] = IoFailures(1, errno.ENOSPC, 3)
    world.look()
    world.look()
    assert world.troubles == [(Trouble.LOG_CALLS_FAIL, there) for there in (False, True, True)]
    world.clock.advance(WELL_AFTER_MS)
    world.look()
    assert world.troubles[-1] == (Trouble.LOG_CALLS_FAIL, False)


def test_a_failure_is_said_for_the_log_directory_that_it_is_of():
    world = World(IoFailures(0, 0, -1), IoFailures(0, 0, -1))
    keeper = world.job._keeper
    keeper.is_mine = lambda ordinal: ordinal == 0
    world.look()
    for log_dir, expected in ((1, [0]), (0, [0, -1])):
        keeper.log_dir = log_dir
        found = [ordinal for ordinal in (0, 3, -1) if world.job._is_mine(ordinal)]
        assert found == expected


def test_it_is_well_again_when_nothing_failed_for_long_enough():
    world = World(IoFailures(0, 0, -1))
    world.look()
    assert world.troubles == [(Trouble.LOG_CALLS_FAIL, False)]
    world.failures[0] = IoFailures(1, errno.EIO, 3)
    world.look()
    for _ in range(WELL_AFTER_MS // LOOK_EVERY_MS - 1):
        world.look()
    assert {there for _, there in world.troubles[1:]} == {True}
    world.look()
    assert world.troubles[-1] == (Trouble.LOG_CALLS_FAIL, False)


@pytest.mark.parametrize("number", [errno.EBADMSG, errno.ERANGE, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EIO])
def test_a_directory_is_said_to_be_offline_only_where_it_is(number):
    """What somebody else did to a file costs its partition alone."""
    assert ("offline" in REMEDIES.get(number, OTHER_REMEDY)) == (number == errno.EIO)
