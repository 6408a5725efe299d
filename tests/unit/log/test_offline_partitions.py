"""While a partition is offline the log keeper's row says so; each is looked at when one comes or goes."""

from mpbroker.log.keeper_context import NEVER_MS
from mpbroker.log.offline_partitions import LOOK_EVERY_MS, OfflinePartitions
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE
from mpbroker.shm.troubles import Trouble
from tests.unit.log.log_world import Instead


def another(world):
    """As a topic's coming or going does: another sequence."""
    world.partitions.all = list(world.partitions.all)


def test_a_partition_that_is_offline_is_a_trouble_until_it_is_gone(world):
    first, second, told = world.create(), world.create("u", ordinal=1), []
    job = OfflinePartitions(world.keeper(trouble=lambda *words: told.append(words)))
    job.do_work()
    assert (told, job.remaining_ms()) == ([], NEVER_MS)
    world.log.set_flags(second.ordinal, 0, PARTITION_ONLINE)
    another(world)
    assert job.remaining_ms() == LOOK_EVERY_MS
    world.clock.advance(LOOK_EVERY_MS - 1)
    job.do_work()
    assert (told, job.remaining_ms()) == ([], 1), "at most once a second"
    world.clock.advance(1)
    job.do_work()
    assert told == [(Trouble.PARTITIONS_OFFLINE, True)]
    another(world)
    world.clock.advance(LOOK_EVERY_MS)
    job.do_work()
    assert len(told) == 1 and job.remaining_ms() == NEVER_MS
    world.partitions.all = [first]
    world.clock.advance(LOOK_EVERY_MS)
    job.do_work()
    assert told[1:] == [(Trouble.PARTITIONS_OFFLINE, False)]


def test_what_is_not_shown_here_is_no_offline_partition(world):
    partition, told = world.create(), []
    keeper = world.keeper(trouble=lambda *words: told.append(words))
    world.log.set_flags(partition.ordinal, 0, PARTITION_ONLINE)
    assert keeper.is_offline(partition)
    assert not keeper.is_offline(partition._replace(topic="before")), "its row is another one's by now"
    keeper.log_dir = 1
    assert not keeper.is_offline(partition), "another directory's, whose own job says it"
    keeper.log_dir = 0
    world.log.set_flags(partition.ordinal, 0, PARTITION_EXISTS)
    assert not keeper.is_offline(partition)
    OfflinePartitions(keeper).do_work()
    assert told == []


def test_a_row_that_cannot_be_read_is_looked_at_again(world):
    partition, told = world.create(), []
    keeper = world.keeper(trouble=lambda *words: told.append(words))
    world.log.set_flags(partition.ordinal, 0, PARTITION_ONLINE)
    keeper.log, job = Instead(world.log, state=_busy), OfflinePartitions(keeper)
    job.do_work()
    assert (told, job.remaining_ms()) == ([], LOOK_EVERY_MS)
    keeper.log = world.log
    world.clock.advance(LOOK_EVERY_MS)
    job.do_work()
    assert told == [(Trouble.PARTITIONS_OFFLINE, True)] and job.remaining_ms() == NEVER_MS


def _busy(ordinal):
    raise RuntimeError(f"the lock of {ordinal} is not to be had")
