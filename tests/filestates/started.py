"""What a start makes of a data directory: in this process, by the code a broker runs, or by a real broker.

In this process: the supervisor's look at the directory, then the controller with its store, its loader and its native
log on small shared memory; then the log keeper's retention. `Started.read` is the native read of a Fetch.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mpbroker._native import READ_TO_END, Log
from mpbroker.config.load_config import load_broker_config
from mpbroker.controller.controller import Controller, build_controller
from mpbroker.errors import ConfigError
from mpbroker.log.checkpoint_writer import CheckpointWriter
from mpbroker.log.clean_stop import stop_cleanly
from mpbroker.log.keeper_context import KeeperContext
from mpbroker.log.kept_partitions import KeptPartitions
from mpbroker.log.log_flusher import LogFlusher
from mpbroker.log.log_manager import open_log
from mpbroker.log.log_retention import NO_LIMIT
from mpbroker.log.producer_snapshots import ProducerSnapshots
from mpbroker.protocol.messages.metadata import MetadataRequest
from mpbroker.shm import settings_board
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.layout import PARTITION_ONLINE, SLOT_CONTROLLER, SLOT_LOG_KEEPER
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import NO_LISTENER, ProcessRow
from mpbroker.supervisor.further_directories import LogDirectory
from mpbroker.supervisor.startup import claim_data_dir
from tests.filestates.bases import SETTINGS, Transactions
from tests.harness.broker import Broker
from tests.harness.peer import Peer, fetch
from tests.harness.small_core import small_core

READ_BYTES = 1 << 20
READ_COMMITTED = 1  # isolation level
REFUSED = 2  # exit code
_ROLE = 4


class Refused(Exception):
    """The start was refused with the sentence; nothing may have changed."""


class Read(NamedTuple):
    """A Kafka error code, and what a Fetch of an offset gets."""

    error: int
    data: bytes


class Running(Protocol):
    """A broker that has started."""

    def partitions(self) -> dict[str, bool]:
        """Directory name → whether it is served; of every partition that clients are shown."""
        ...

    def read(self, directory: str, offset: int) -> Read:
        """One fetch."""
        ...

    def producers(self, directory: str) -> dict[int, int] | None:
        """Producer id → last sequence; None: cannot be asked."""
        ...

    def transactions(self, directory: str, offsets: list[int]) -> Transactions:
        """What readers of committed records are told of the partition, who read from each of these offsets."""
        ...


class _Lines:
    """Log lines: kept, for a failure's report."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, about: str | None = None, **fields: Any) -> None:
        self.lines.append(f"{event} {fields}")

    warning = error = info

    def exception(self, event: str, exception: BaseException, about: str | None = None, **fields: Any) -> None:
        self.lines.append(f"{event} {exception!r} {fields}")


class InProcess:
    """Controller and log keeper on one piece of memory."""

    def __init__(self, directories: Sequence[LogDirectory], cluster_id: str, config: Any) -> None:
        self.events = _Lines()
        self._core = small_core(partitions=64, topics=16).core
        rows = {slot: ProcessRow(self._core, slot) for slot in (SLOT_CONTROLLER, SLOT_LOG_KEEPER)}
        for row in rows.values():
            row.begin(os.getpid(), _ROLE, 0, NO_LISTENER)
        context = ProcessContext(
            core=self._core,
            config=config,
            process_row=rows[SLOT_CONTROLLER],
            log=self.events,
            slot=SLOT_CONTROLLER,
            cluster_id=cluster_id,
            data_dirs=tuple(directory.path for directory in directories),
            directory_ids=tuple(directory.id for directory in directories),
            settings_fd=settings_board.create(),
            notice_fd=os.eventfd(0),
        )
        self._descriptors = (context.settings_fd, context.notice_fd)
        for number, directory in enumerate(directories):
            if directory.problem:
                self._core.fail_log_dir(number)
        self._controller: Controller = build_controller(context)
        try:
            self._controller.recover()
        except BaseException:
            self._controller.close()
            self._close_descriptors()
            raise
        context.slot = SLOT_LOG_KEEPER
        self._log: Log = open_log(context)
        self._keepers = [
            KeeperContext(
                log=self._log,
                partitions=KeptPartitions(self._core, config, log_dir=number if len(directories) > 1 else None),
                clock=SystemClock(),
                config=config,
                data_dir=directory.path,
                events=self.events,
                log_dir=number,
            )
            for number, directory in enumerate(directories)
            if self._log.log_dir_online(number)
        ]
        for keeper in self._keepers:
            keeper.partitions.refresh()
        self._by_name = {kept.dir: kept for keeper in self._keepers for kept in keeper.partitions.all}

    def partitions(self) -> dict[str, bool]:
        """See Running."""
        flags = {name: self._log.state(kept.ordinal).flags for name, kept in self._by_name.items()}
        return {name: bool(flag & PARTITION_ONLINE) for name, flag in flags.items()}

    def read(self, directory: str, offset: int) -> Read:
        """See Running."""
        error, plan = self._log.find(self._by_name[directory].ordinal, offset, READ_TO_END, READ_BYTES)
        if error or not plan.length:
            return Read(error, b"")
        data = bytearray(plan.length)
        error, length = self._log.read_into(plan, data)
        return Read(error, bytes(data[:length]))

    def producers(self, directory: str) -> dict[int, int] | None:
        """See Running."""
        _, rows = self._log.producers(self._by_name[directory].ordinal)
        return {row[0]: row[3] for row in rows}

    def transactions(self, directory: str, offsets: list[int]) -> Transactions:
        """See Running."""
        ordinal, aborted = self._by_name[directory].ordinal, set[tuple[int, int]]()
        for offset in offsets:
            error, plan = self._log.find(ordinal, offset, READ_TO_END, READ_BYTES)
            if not error and plan.length:
                error, found = self._log.aborted(plan, offset)
                assert not error, (directory, offset, error)
                aborted |= set(found)
        return Transactions(aborted, self._log.state(ordinal).lso)

    def retain(self) -> None:
        """Retention by age, which the log keeper does sooner or later, too."""
        now_ms = SystemClock().wall_ms()
        for keeper in self._keepers:
            for kept in keeper.partitions.all:
                if keeper.state(kept) is not None:
                    self._log.retain(kept.ordinal, kept.settings.retention_ms, NO_LIMIT, now_ms)

    def stop(self) -> None:
        """A clean stop."""
        for keeper in self._keepers:
            flusher, snapshots = LogFlusher(keeper, lambda ordinal: None), ProducerSnapshots(keeper)
            stop_cleanly(keeper, flusher, snapshots, CheckpointWriter(keeper))

    def close(self) -> None:
        """What a kill does."""
        self._log.close()
        self._controller.close()
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


@contextlib.contextmanager
def started_here(path: Path, *, clean_stop: bool, homes: Sequence[str] = ("",)) -> Iterator[InProcess]:
    """A start in this process on the log directories `homes` of `path`. Refused."""
    directories = ",".join(str(path / home) for home in homes)
    settings = [f"{name}={value}" for name, value in {**SETTINGS, "log.dirs": directories}.items()]
    config = load_broker_config(overrides=settings, environ={}, cores=2)
    try:
        with claim_data_dir(config) as claim:
            running = InProcess(claim.directories, claim.cluster_id, config)
            try:
                running.retain()
                yield running
                if clean_stop:
                    running.stop()
            finally:
                running.close()
    except ConfigError as error:
        raise Refused(str(error)) from error
    finally:
        for lock in path.rglob(".lock"):
            lock.unlink()


class _Real:
    """A broker that is asked by a client."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        topics = peer.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 8).topics
        self._names = {
            f"{topic.name}-{one.partition_index}": (topic.name, one.partition_index)
            for topic in topics
            for one in topic.partitions
        }

    def partitions(self) -> dict[str, bool]:
        """See Running."""
        storage_error = 56
        return {
            name: fetch(self._peer, topic, 0, partition).error_code != storage_error
            for name, (topic, partition) in self._names.items()
        }

    def read(self, directory: str, offset: int) -> Read:
        """See Running."""
        topic, partition = self._names[directory]
        answer = fetch(self._peer, topic, offset, partition)
        return Read(answer.error_code, bytes(answer.records or b""))

    def producers(self, directory: str) -> dict[int, int] | None:
        """See Running."""
        return None

    def transactions(self, directory: str, offsets: list[int]) -> Transactions:
        """See Running."""
        topic, partition = self._names[directory]
        answers = [fetch(self._peer, topic, offset, partition, isolation_level=READ_COMMITTED) for offset in offsets]
        aborted = {(one.producer_id, one.first_offset) for each in answers for one in each.aborted_transactions or ()}
        return Transactions(aborted, answers[-1].last_stable_offset)


@contextlib.contextmanager
def started_really(path: Path, *, clean_stop: bool, homes: Sequence[str] = ("",)) -> Iterator[_Real]:
    """A broker of its own, killed or stopped in the end. Refused."""
    broker = Broker(path.parent, overrides=SETTINGS, further_dirs=[str(path / home) for home in homes[1:]])
    broker.data_dir = path / homes[0]
    try:
        broker.start()
    except AssertionError:
        code = broker.process.returncode if broker.process else None
        if code != REFUSED:
            raise
        raise Refused(broker.log().strip().rsplit("\n", 1)[-1]) from None
    try:
        with Peer(broker.port()) as peer:
            yield _Real(peer)
        if clean_stop:
            broker.stop()
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            if broker.process is not None and broker.process.poll() is None:
                broker.destroy()
        for name in (".lock", ".mpbroker-status.json", ".reserve"):
            for left in path.rglob(name):
                left.unlink()
