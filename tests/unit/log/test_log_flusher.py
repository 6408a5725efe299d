"""Which logs are synced when, who is rung for it, and what a failed sync leads to."""

import errno
from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log.log_flusher import PROGRESS_MS, ROLLED_INTERVAL_MS, WAIT_S, LogFlusher
from mpbroker.log.log_keeper import LogKeeper
from mpbroker.log.syncs import Synced
from mpbroker.shm.process_table import WaitName
from mpbroker.shm.troubles import Trouble
from tests.unit.log.log_world import LogWorld, config_of

ONLINE = 2


class FailingDisk:
    """The native Log, but a sync answers as one that met EIO does."""

    def __init__(self, log):
        self._log = log
        self.syncs = 0

    def __getattr__(self, name):
        return getattr(self._log, name)

    def flush(self, ordinal):
        self.syncs += 1
        self._log.fail_log_dir(0)
        return ErrorCode.KAFKA_STORAGE_ERROR, self._log.state(ordinal).flushed_offset


@pytest.fixture
def commit_world(tmp_path):
    made = LogWorld(tmp_path, "mpbroker.log.flush=commit")
    yield made
    made.close()


def flusher(world, **fields):
    seen = []
    return LogFlusher(world.keeper(**fields), seen.append), seen


def test_on_commit_everything_unsynced_is_synced_and_its_waiters_are_rung(commit_world):
    world = commit_world
    first, second, idle = world.create(), world.create(partition=1, ordinal=1), world.create(partition=2, ordinal=2)
    job, seen = flusher(world)
    world.fill(first, 3)
    world.fill(second, 2)
    job.do_work()
    assert [world.state(p).flushed_offset for p in (first, second, idle)] == [3, 2, 0]
    assert world.moved == [0, 1] == seen
    job.do_work()
    assert world.moved == [0, 1], "nothing new: nobody is rung"
    world.fill(second, 5)
    job.do_work()
    assert world.state(second).flushed_offset == 5 and world.moved == [0, 1, 1]


def test_a_roll_between_two_syncs_leaves_nothing_unsynced_below(commit_world):
    partition = commit_world.create()
    job, _ = flusher(commit_world)
    for end in (3, 6, 9):
        commit_world.fill(partition, end)
        commit_world.roll(partition)
    job.do_work()
    assert commit_world.state(partition).flushed_offset == 9


def test_without_commit_only_what_rolled_is_synced(world):
    partition = world.create()
    job, seen = flusher(world)
    world.fill(partition, 5)
    job.do_work()
    assert world.state(partition).flushed_offset == 0
    world.roll(partition)
    world.fill(partition, 7)
    world.clock.advance(ROLLED_INTERVAL_MS)
    job.do_work()
    assert world.state(partition).flushed_offset == 7 and seen == [0]


def test_flush_ms_holds_per_topic_at_the_schedulers_interval(tmp_path):
    world = LogWorld(tmp_path, "log.flush.scheduler.interval.ms=100")
    eager, lazy = world.create(flush_ms="500"), world.create(partition=1, ordinal=1)
    assert lazy.settings.flush_ms == 100, "log.flush.interval.ms is not set: the scheduler's interval holds"
    lazy = lazy._replace(settings=world.create("other", 0, 2, flush_ms="5000").settings)
    world.partitions.all = [eager, lazy]
    job, _ = flusher(world)
    job.do_work()
    world.fill(eager, 1)
    world.fill(lazy, 1)
    for passed_ms, synced in ((400, [0, 0]), (100, [1, 0]), (4400, [1, 0]), (100, [1, 1])):
        world.clock.advance(passed_ms)
        job.do_work()
        assert [world.state(p).flushed_offset for p in (eager, lazy)] == synced, passed_ms
    world.close()


def test_a_failed_sync_takes_the_directory_offline_for_good(commit_world):
    world = commit_world
    waiting, other = world.create(), world.create(partition=1, ordinal=1)
    world.fill(waiting, 3)
    disk, troubles = FailingDisk(world.log), []
    keeper = LogKeeper(world.keeper(log=disk, trouble=lambda *words: troubles.append(words)))
    keeper.do_work()
    assert world.state(waiting).flushed_offset == 0, "nothing unsynced counts as synced"
    keeper.do_work()
    world.clock.advance(10_000)
    keeper.do_work()
    assert disk.syncs == 1, "it is never tried again"
    assert not world.state(waiting).flags & ONLINE and not world.state(other).flags & ONLINE
    assert {0, 1} <= set(world.moved), "whoever waits is told"
    assert world.append(other).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(world.events.named("log_directory_offline")) == 1
    assert troubles.count((Trouble.LOG_DIRECTORY_OFFLINE, True)) == 1
    assert keeper.stop() is False, "and the stop is no clean one"
    assert keeper.remaining_ms() > 0, "it does not spin meanwhile"


def test_a_broken_file_of_our_own_counts_as_a_failed_directory_but_a_full_disk_does_not(world):
    keeper = world.keeper()
    keeper.io_failed("checkpoint_not_written", OSError(errno.ENOSPC, "No space left on device"))
    assert world.log.log_dir_online(0)
    keeper.io_failed("checkpoint_not_written", OSError(errno.EIO, "Input/output error"))
    assert not world.log.log_dir_online(0)


def test_the_settings_in_force_change_with_a_reload(world):
    partition = world.create()
    keeper = world.keeper()
    job = LogFlusher(keeper, lambda ordinal: None)
    world.fill(partition, 2)
    job.do_work()
    assert world.state(partition).flushed_offset == 0
    keeper.config = config_of("mpbroker.log.flush=commit")
    job.do_work()
    assert world.state(partition).flushed_offset == 2


def test_the_schedulers_interval_is_that_of_the_settings_in_force(tmp_path):
    """They may change while it runs; what is due by then is."""
    world = LogWorld(tmp_path, "log.flush.scheduler.interval.ms=5000")
    keeper = world.keeper()
    job = LogFlusher(keeper, lambda ordinal: None)
    job.do_work()
    keeper.config = config_of("log.flush.scheduler.interval.ms=100")
    world.clock.advance(4999)
    job.do_work()
    assert job._scheduler.remaining_ms() == 1
    world.clock.advance(1)
    job.do_work()
    assert job._scheduler.remaining_ms() == 100
    world.close()


class Syncs:
    """Syncs that end when they are waited for, one each time, after `each_ms`; `under_way`: begun before."""

    def __init__(self, clock, answers, under_way=(), each_ms=0):
        self.clock, self.answers, self.each_ms = clock, answers, each_ms
        self.begun, self.running, self.ended = [], list(under_way), []

    def start(self, ordinal):
        self.begun.append(ordinal)
        self.running.append(ordinal)

    def finished(self):
        ended, self.ended = self.ended, []
        return ended

    def wait(self, timeout_s):
        assert timeout_s == WAIT_S
        if self.running:
            ordinal = self.running.pop(0)
            self.clock.advance(self.each_ms)
            self.ended.append(Synced(ordinal, self.answers.get(ordinal, 0), 10 * ordinal))
            return True
        return False


def flushing(world, unflushed, answers=None, **more):
    """A flusher over these syncs; rows above 9 are another directory's."""
    told = []
    syncs = Syncs(world.clock, answers or {}, **more)
    log = SimpleNamespace(unflushed=lambda rolled: [] if rolled else list(unflushed))
    keeper = world.keeper(
        log=log, pool=syncs, is_mine=lambda ordinal: ordinal < 10,
        count=told.append, waiting=told.append, notify=lambda ordinal: told.append(("rung", ordinal)),
        crash_point=lambda name: None,
    )  # fmt: skip
    return LogFlusher(keeper, lambda ordinal: told.append(("flushed", ordinal))), syncs, told


FAILED, GONE = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("answers", "good"),
    [
        ({}, True),
        ({3: FAILED}, False),
        ({1: FAILED}, False),
        ({2: GONE}, True),
        ({2: ErrorCode.REQUEST_TIMED_OUT}, False),
    ],
)
def test_a_stop_waits_for_every_sync_and_says_whether_all_were_good(world, answers, good):
    job, syncs, told = flushing(world, [1, 12, 2, 3], answers)
    assert job.flush_everything() is good
    assert syncs.begun == [1, 2, 3] and not syncs.running
    synced = [ordinal for ordinal in (1, 2, 3) if ordinal not in answers]
    begun = [WaitName.FSYNC] * 3 + [WaitName.NONE]
    assert told == begun + [
        one for ordinal in synced for one in ("log_flushes", ("rung", ordinal), ("flushed", ordinal))
    ]
    failed = [ordinal for ordinal, error in answers.items() if error == FAILED]
    assert world.events.named("flush_failed") == [
        {"about": f"row {one}", "ordinal": one, "flushed_to": 10 * one} for one in failed
    ], "of each partition a line in ten seconds"


def test_what_was_under_way_before_a_stop_is_not_counted(world):
    job, syncs, _ = flushing(world, [1], {5: FAILED}, under_way=[5, 6])
    assert job.flush_everything() is True and syncs.begun == [1]


def test_a_sync_that_nobody_knows_of_any_more_makes_no_good_stop(world):
    job, syncs, _ = flushing(world, [1, 2])
    syncs.start = lambda ordinal: ordinal == 1 and syncs.running.append(ordinal)
    assert job.flush_everything() is False


@pytest.mark.parametrize(
    ("each_ms", "said"), [(PROGRESS_MS - 1, [3, 1]), (PROGRESS_MS, [4, 3, 2, 1]), (PROGRESS_MS // 2, [3, 1])]
)
def test_a_long_stop_says_now_and_then_how_many_are_left(world, each_ms, said):
    job, _, _ = flushing(world, [1, 2, 3, 4], each_ms=each_ms)
    assert job.flush_everything() is True
    assert [(line["left"], line["of"]) for line in world.events.named("syncing_logs")] == [(left, 4) for left in said]


def test_when_something_may_be_due(world, commit_world):
    job, _ = flusher(world)
    assert job.remaining_ms() == 0
    job.do_work()
    assert job.remaining_ms() == ROLLED_INTERVAL_MS
    often = LogFlusher(world.keeper(config=config_of("log.flush.scheduler.interval.ms=300")), lambda ordinal: None)
    often.do_work()
    assert often.remaining_ms() == 300
    assert flusher(commit_world)[0].remaining_ms() == 1000
