"""Real log keepers killed with SIGKILL at named points; the next one finishes what was begun and nothing is lost."""

import signal

import pytest

from mpbroker._native import Log
from mpbroker.channel.handler_port import HandlerPort
from mpbroker.config.topic_config import effective
from mpbroker.log.clean_shutdown import MARKER
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.log_loader import LogLoader
from mpbroker.log.producer_snapshot import snapshot_offsets
from mpbroker.shm.clock import SystemClock
from tests.harness.keeper_process import TOPIC_ID, KeeperProcess
from tests.harness.small_core import small_core
from tests.unit.log.log_world import Events, config_of, to_load

pytestmark = pytest.mark.slow

QUICK = (
    "mpbroker.log.flush=commit",
    "log.initial.task.delay.ms=0",
    "log.retention.check.interval.ms=50",
    "log.segment.delete.delay.ms=50",
    "replica.high.watermark.checkpoint.interval.ms=50",
    "log.flush.offset.checkpoint.interval.ms=50",
)
RUNNING = [
    "keeper.flush.begin:3",
    "keeper.flush.synced:3",
    "keeper.retain.renamed:2",
    "retain.committed",
    "retain.index_removed",
    "keeper.deleted.unlinked:2",
    "keeper.snapshot.written",
    "keeper.checkpoint.written:2",
]
STOPPING = [
    "keeper.flush.synced",
    "keeper.stop.flushed",
    "keeper.snapshot.written",
    "keeper.checkpoint.written",
    "keeper.stop.checkpointed",
    "keeper.stop.marked",
]
RECORDS = 40


@pytest.fixture
def keeper(tmp_path):
    process = KeeperProcess(tmp_path, *QUICK)
    yield process
    process.close()


def arm(keeper: KeeperProcess, points: str) -> None:
    keeper.core.arm(points)


def loaded(keeper: KeeperProcess):
    """The state the next start of the broker finds: (log, events)."""
    events, log = Events(), Log(small_core().core, [str(keeper.data_dir)], 1)
    partition = to_load(KeptPartition(0, TOPIC_ID, "t", 0, effective({}, config_of())))
    LogLoader(log, str(keeper.data_dir), events, SystemClock())([partition])
    return log, events


def bases_of(keeper: KeeperProcess) -> list[int]:
    return sorted(int(path.stem) for path in keeper.directory.glob("*.log"))


@pytest.mark.parametrize("point", RUNNING)
def test_a_keeper_killed_while_it_works(keeper, point):
    """Appends go on over its death; the successor syncs all of them, retention and unlinking come to their end."""
    keeper.create(b'{"retention.bytes":"6000"}')
    arm(keeper, point)
    keeper.start()
    for sequence in range(RECORDS):
        assert keeper.append(sequence) == sequence
        if keeper.process.poll() is None:
            keeper.until(
                lambda end=sequence + 1: keeper.process.poll() is not None or keeper.state.flushed_offset >= end,
                "the sync",
            )
    keeper.until(lambda: keeper.process.poll() is not None, "the crash point to be reached")
    assert keeper.died() == signal.SIGKILL and keeper.core.hits(point.partition(":")[0]) > 0
    keeper.start()
    keeper.until(lambda: keeper.state.flushed_offset == RECORDS, "the successor's sync")
    keeper.until(lambda: keeper.state.log_bytes <= 6000 + 2000, "retention")
    keeper.until(lambda: bases_of(keeper)[0] == keeper.state.log_start, "what lies below the log start to go")
    keeper.until(lambda: not list(keeper.directory.glob("*.deleted")), "the unlinking")
    state, bases = keeper.state, bases_of(keeper)
    assert (bases[0], bases[-1], state.leo) == (state.log_start, state.active_base, RECORDS)
    assert keeper.append(RECORDS) == RECORDS
    keeper.terminate()
    assert keeper.died() == 0 and (keeper.data_dir / MARKER).exists()


@pytest.mark.parametrize("point", STOPPING)
def test_a_keeper_killed_while_it_stops(keeper, point):
    """The marker is there only if all before it was done; the next start finds every record either way."""
    keeper.create()
    keeper.start()
    for sequence in range(RECORDS):
        keeper.append(sequence)
    if point != "keeper.flush.synced":
        keeper.until(lambda: keeper.state.flushed_offset == RECORDS, "the sync")
    arm(keeper, point)
    keeper.terminate()
    assert keeper.died() in (signal.SIGKILL, 0)
    killed = keeper.core.hits(point) > 0
    assert (keeper.data_dir / MARKER).exists() is (not killed or point == "keeper.stop.marked")
    log, events = loaded(keeper)
    assert log.state(0).leo == RECORDS and log.state(0).log_start == 0
    assert not events.named("log_cut")
    assert [row[0] for row in log.producers(0)[1]][-1] == 5
    log.close()


def test_a_successor_may_stop_cleanly_what_its_predecessor_began_to_stop(keeper):
    keeper.create()
    arm(keeper, "keeper.stop.checkpointed")
    keeper.start()
    for sequence in range(RECORDS):
        keeper.append(sequence)
    keeper.terminate()
    assert keeper.died() == signal.SIGKILL
    keeper.start()
    keeper.terminate()
    assert keeper.died() == 0 and (keeper.data_dir / MARKER).exists()
    assert max(snapshot_offsets(str(keeper.directory))) == RECORDS


def test_who_waited_for_a_sync_is_rung_although_the_keeper_died_before_it_could(keeper):
    keeper.create()
    arm(keeper, "keeper.flush.synced")
    handler = HandlerPort(keeper.core, 0)
    keeper.append(0)
    handler.watch(0)
    keeper.start()
    assert keeper.died() == signal.SIGKILL
    keeper.until(lambda: keeper.state.flushed_offset == 1, "the sync that was done before the death")
    assert handler.take_dirty() == (False, [])
    keeper.start()
    assert keeper.until(lambda: handler.take_dirty()[0], "the bell")
