"""A log directory that has failed: said once, its partitions are offline, and who waits for them is rung."""

from mpbroker._native import Log
from mpbroker.log.offline_directory import RETRY_MS, OfflineDirectory
from mpbroker.shm.layout import PARTITION_ONLINE
from mpbroker.shm.troubles import Trouble


def flags(world, partition):
    return world.state(partition).flags & PARTITION_ONLINE


def test_nothing_is_done_while_the_directory_works(world):
    partition, told = world.create(), []
    job = OfflineDirectory(world.keeper(trouble=lambda *words: told.append(words)))
    job.do_work()
    assert not job.failed and flags(world, partition) and (told, world.moved, world.events.lines) == ([], [], [])
    world.log.fail_log_dir(0)
    job.do_work()
    assert job.failed and world.moved == [0], "the first look after the failure does not wait"


def test_partitions_of_a_failed_directory_are_offline_and_their_waiters_rung(world):
    first, second, told = world.create(), world.create("u", ordinal=1), []
    job = OfflineDirectory(world.keeper(trouble=lambda *words: told.append(words)))
    world.log.fail_log_dir(0)
    for _ in range(2):
        job.do_work()
    assert told == [(Trouble.LOG_DIRECTORY_OFFLINE, True)]
    [said] = world.events.named("log_directory_offline")
    assert said["directory"] == str(world.path) and "start the broker again" in said["remedy"]
    assert not flags(world, first) and not flags(world, second) and world.moved == [0, 1]
    third = world.create("v", ordinal=2)
    world.clock.advance(RETRY_MS - 1)
    job.do_work()
    assert world.moved == [0, 1] and flags(world, third), "once a second"
    world.clock.advance(1)
    job.do_work()
    assert world.moved == [0, 1, 2] and not flags(world, third), "only what is not offline yet"
    assert len(told) == 1 and len(world.events.named("log_directory_offline")) == 1


def test_one_directory_of_several_fails_for_itself(world, tmp_path):
    world.log.close()
    world.log = Log(world.core, [str(tmp_path), str(tmp_path)], 1)
    job = OfflineDirectory(world.keeper(log_dir=1))
    world.log.fail_log_dir(0)
    assert not job.failed
    world.log.fail_log_dir(1)
    assert job.failed
