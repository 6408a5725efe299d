"""Every call on files, C's and Python's alike, fails once with every errno: append, roll, retention, flush, recovery,
deletion, a clean stop and a start.

Afterwards: nothing acknowledged is unreadable, no passing errno has condemned anything, the next try works, and no
descriptor is lost. Calls are numbered by the one hook (`_native.io_fail`), which a test build has. LONG=1 for every
call with every errno: some ten minutes.
"""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mpbroker import _native
from mpbroker.controller.partition_logs import PartitionLogs
from mpbroker.errors import ErrorCode, MpbrokerError
from mpbroker.log import data_dir, reserve_file
from mpbroker.log.data_dir import FIRST
from mpbroker.log.deletion import remove_deleted
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.log_keeper import LogKeeper
from mpbroker.log.log_loader import LogLoader
from mpbroker.log.partition_directory import DELETE_SUFFIX, find_all, read_topic_id, retire
from tests.harness.descriptors import open_descriptors
from tests.unit.log.log_world import LogWorld, to_load

PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN)
FULL = (errno.ENOSPC, errno.EDQUOT)
BROKEN = (errno.EIO, errno.EROFS)
#: Every call with every errno; else each call with one of them, in turn.
LONG = "LONG" in os.environ
RECORDS, MORE, DELAY_MS = 8, 4, 1000
ONLINE = 2
SETTINGS = {
    "segment_bytes": "700",
    "index_interval_bytes": "100",
    "retention_bytes": "1",
    "file_delete_delay_ms": str(DELAY_MS),
}
pytestmark = pytest.mark.skipif(not hasattr(_native, "io_fail"), reason="no test build")


@pytest.fixture(autouse=True)
def no_hook():
    yield
    _native.io_fail(0, 0, -1)


#: Kinds of the calls of the last piece of work.
seen: list[int] = []


def each_call(run: Callable[[int, int], None], errnos: tuple[int, ...]) -> set[int]:
    """`run(call, errno)`, which lets that call of a piece of work fail (`failing`), until there is no such call; the
    kinds of those that failed."""
    kinds = set()
    for turn, number in enumerate(errnos):
        for call in range(0 if LONG else turn, 10_000, 1 if LONG else len(errnos)):
            run(call, number)
            if call >= len(seen):
                assert call > 0
                break
            kinds.add(seen[call])
    return kinds


def failing(call: int, number: int, work: Callable[[], object]) -> object:
    """What `work` returns or the error it ends with, while one call of it fails; no other does."""
    _native.io_fail(call, 1, number)
    try:
        return work()
    except (OSError, MpbrokerError) as error:
        return error
    finally:
        seen[:] = _native.io_calls()
        _native.io_fail(0, 0, -1)


class Trial:
    """A directory that is copied for each run, and what must be readable in it."""

    def __init__(self, path: Path, *, clean: bool = False, damaged: bool = False) -> None:
        self.template, self.run_path = path / "template", path / "run"
        self.template.mkdir()
        world = LogWorld(self.template)
        self.partition = world.create(**SETTINGS)
        for number in range(RECORDS):
            world.clock.advance(10)
            assert world.append(self.partition, producer_id=7, producer_epoch=0, base_sequence=number).error == 0
        self.wanted = world.records(self.partition)
        if clean:
            assert LogKeeper(world.keeper()).stop()
        if damaged:
            with open(self.template / self.partition.dir / world.files(self.partition, ".log")[-1], "ab") as log:
                log.write(b"half a batch")
        world.close()

    def begin(self) -> LogWorld:
        shutil.rmtree(self.run_path, ignore_errors=True)
        shutil.copytree(self.template, self.run_path)
        world = LogWorld(self.run_path)
        world.partitions.all = [self.partition]
        return world

    def loaded(self) -> LogWorld:
        """A broker that runs."""
        world = self.begin()
        world.reboot()
        return world

    def readable(self, world: LogWorld) -> bool:
        """Everything acknowledged, in order, from the log start on."""
        state = world.state(self.partition)
        return state.flags & ONLINE and self.wanted.endswith(world.records(self.partition)) and state.leo == RECORDS


def logs_of(world: LogWorld) -> PartitionLogs:
    """As the controller has them."""
    loader = LogLoader(world.log, str(world.path), world.events, world.clock)
    return PartitionLogs(world.log, str(world.path), loader, world.clock.wall_ms, lambda name: None)


def unchanged_descriptors(world: LogWorld, before: set[str]) -> None:
    world.log.close_cached(0)
    assert open_descriptors() <= before


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damaged", [True, False])
def test_a_recovery_is_complete_whatever_was_short_for_a_moment(tmp_path, clean, damaged):
    trial = Trial(tmp_path, clean=clean, damaged=damaged)

    def run(call: int, number: int) -> None:
        world = trial.begin()
        before = open_descriptors()

        def start() -> None:
            loader = LogLoader(world.log, str(world.path), world.events, world.clock)
            loader([to_load(trial.partition)])

        ended = failing(call, number, start)
        if number in PASSING:
            assert ended is None and world.events.named("partition_offline") == []
        if not trial_is_online(world, trial.partition):  # a broken disk, or a full one: the start after it
            world.reboot()
        assert trial.readable(world), (call, number, world.events.lines)
        unchanged_descriptors(world, before)
        world.close()

    kinds = each_call(run, (*PASSING, *FULL, *BROKEN))
    assert {_native.IO_OPEN, _native.IO_READ, _native.IO_LIST, _native.IO_STATUS} <= kinds
    assert not damaged or {_native.IO_SYNC, _native.IO_TRUNCATE, _native.IO_WRITE} <= kinds


def trial_is_online(world: LogWorld, partition: KeptPartition) -> bool:
    state = world.state(partition)
    return bool(state.flags & ONLINE) and state.leo == RECORDS


def work_off(jobs: LogKeeper, world: LogWorld) -> None:
    """All that is due: retention, files to unlink, snapshots, checkpoints, flushes, the reserve."""
    for _ in range(3):
        jobs.do_work()
        world.clock.advance(2 * DELAY_MS)


KEEPER = ("log.retention.check.interval.ms=1000", "log.flush.scheduler.interval.ms=1000", "log.initial.task.delay.ms=0")


def test_no_job_of_the_log_keeper_gives_up(tmp_path, monkeypatch):
    """Appends, a roll, retention, unlinking, flushes, snapshots, checkpoints, the reserve, the clean stop."""
    monkeypatch.setattr(reserve_file, "RESERVE_BYTES", 4096)
    trial = Trial(tmp_path)

    def run(call: int, number: int) -> None:
        world = trial.loaded()
        before = open_descriptors()
        acknowledged = [RECORDS]

        def work() -> bool:
            try:
                jobs = LogKeeper(world.keeper())
            except OSError:  # what does not pass ends the process, and its successor tries again
                assert number not in PASSING
                jobs = LogKeeper(world.keeper())
            work_off(jobs, world)
            for sequence in range(RECORDS, RECORDS + MORE):
                again = [world.append(trial.partition, producer_id=7, producer_epoch=0, base_sequence=sequence)]
                if again[0].error:  # as a client does
                    again.append(world.append(trial.partition, producer_id=7, producer_epoch=0, base_sequence=sequence))
                if again[-1].error:
                    break
                acknowledged.append(again[-1].base_offset + 1)
            work_off(jobs, world)
            work_off(jobs, world)
            return jobs.stop()

        ended = failing(call, number, work)
        assert isinstance(ended, bool), ended
        online = world.log.log_dir_online(FIRST)
        if number in PASSING:
            assert online and acknowledged[-1] == RECORDS + MORE, (call, number)
            assert world.events.named("log_keeper_job_failed") == []
        if number in FULL and not online:
            assert world.events.named("log_directory_offline") or not ended
        if not online or not ended:
            ended = LogKeeper(world.keeper()).stop() if online else ended
        unchanged_descriptors(world, before)
        world.reboot()
        state = world.state(trial.partition)
        assert state.flags & ONLINE and state.leo >= acknowledged[-1], (call, number)
        read = world.records(trial.partition)
        assert len(read) > 0 and state.log_start <= acknowledged[-1]
        if online:
            assert ended is True, (call, number)
            assert world.files(trial.partition, ".deleted") == [], (call, number)
        world.close()

    kinds = each_call(run, (*PASSING, errno.ENOSPC, errno.EIO))
    assert kinds == set(range(_native.IO_READ, _native.IO_LIST + 1)) - {_native.IO_TRUNCATE}


def test_a_topic_is_deleted_whatever_was_short_for_a_moment(tmp_path):
    trial = Trial(tmp_path)

    def run(call: int, number: int) -> None:
        world = trial.loaded()
        before = open_descriptors()
        logs = logs_of(world)

        def delete() -> None:
            logs.hide(trial.partition.ordinal)
            logs.retire(trial.partition.dir, trial.partition.topic_id)
            logs.sync()

        ended = failing(call, number, delete)
        if number in PASSING:
            assert ended is None
        elif ended is not None:
            delete()
        retired = [name for name in os.listdir(world.path) if name.endswith(DELETE_SUFFIX)]
        assert len(retired) == 1 and list(find_all(str(world.path))) == []
        assert read_topic_id(str(world.path / retired[0])) == trial.partition.topic_id
        assert world.log.log_dir_online(FIRST)
        unchanged_descriptors(world, before)
        world.close()

    assert {_native.IO_RENAME, _native.IO_SYNC} <= each_call(run, (*PASSING, errno.EIO))


def test_a_deleted_directory_is_removed_at_the_next_turn(tmp_path):
    trial = Trial(tmp_path)

    def run(call: int, number: int) -> None:
        world = trial.begin()
        assert retire(str(world.path), trial.partition.dir, trial.partition.topic_id, DELETE_SUFFIX)
        before = open_descriptors()
        far = 1 << 45

        def remove() -> list[str]:
            return remove_deleted(str(world.path), now_ms=far, delay_ms=0)

        ended = failing(call, number, remove)
        if isinstance(ended, OSError):
            remove()
        assert not [name for name in os.listdir(world.path) if name.endswith(DELETE_SUFFIX)]
        assert open_descriptors() <= before
        world.close()

    assert {_native.IO_UNLINK, _native.IO_LIST, _native.IO_STATUS} <= each_call(run, (*PASSING, errno.EIO))


def test_a_data_directory_is_taken_whatever_was_short_for_a_moment(tmp_path):
    def run(call: int, number: int) -> None:
        path = tmp_path / "data"
        shutil.rmtree(path, ignore_errors=True)
        before = open_descriptors()

        def start() -> tuple[data_dir.DataDirLock, data_dir.MetaProperties]:
            data_dir.create(str(path))
            held = data_dir.lock(str(path))
            try:
                return held, data_dir.prepare(str(path), 1)
            except BaseException:
                held.close()
                raise

        ended = failing(call, number, start)
        if number in PASSING:
            assert isinstance(ended, tuple), (call, ended)
        if isinstance(ended, BaseException):
            ended = start()
        held, meta = ended
        assert data_dir.read_meta(str(path)) == meta and data_dir.holder(str(path)) == os.getpid()
        held.close()
        assert open_descriptors() <= before
        assert sorted(os.listdir(path)) == [".lock", "meta.properties"]

    assert len(each_call(run, (*PASSING, *FULL, *BROKEN))) >= 6


@pytest.mark.parametrize("number", PASSING)
def test_a_partition_is_made_at_the_second_try(tmp_path, number):
    """The client hears of it, and asks again."""
    calls = 0
    for call in range(100):
        (tmp_path / f"{call}").mkdir()
        world = LogWorld(tmp_path / f"{call}")
        logs = logs_of(world)
        topic = type("Topic", (), {"name": "t", "id": bytes([7] * 16), "row": 0})
        error = failing(call, number, lambda: logs.create(topic, 0, 0))  # noqa: B023
        assert error in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
        if error:
            assert logs.create(topic, 0, 0) == ErrorCode.NONE
        assert world.log.log_dir_online(FIRST) and world.log.state(0).flags & ONLINE
        world.close()
        if call >= len(seen):
            break
        calls += 1
    assert calls > 5
