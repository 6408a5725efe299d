"""A real log keeper process on inherited shared memory, without the rest of the broker; started by exec.

    python -m tests.harness.keeper_process CORE_FD PAGE_FD ARENA_FD NOTICE_FD DATA_DIR INCARNATION OVERRIDE…

`KeeperProcess` is the test's side: it plays the supervisor (memory, successors), the controller (a topic) and a handler
(appends).
"""

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mpbroker import _native
from mpbroker._native import NO_REQUEST, Log, LogOptions
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ErrorCode
from mpbroker.log.partition_directory import prepare
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm import layout
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.layout import SLOT_HANDLERS, SLOT_LOG_KEEPER, TopicFlags
from mpbroker.shm.parent_death import set_parent_death_signal
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import NO_LISTENER, ProcessRow
from mpbroker.shm.topic_table import journal_append, rows_raise, topic_write
from tests.harness.small_core import small_plan, write_headers

DEADLINE_S = 30
TOPIC, TOPIC_ID = "t", bytes([7] * 16)
KEEPER_ROLE = 5


class KeeperProcess:
    """Shared memory, a topic of one partition, one keeper at a time."""

    def __init__(self, data_dir: Path, *overrides: str) -> None:
        self.data_dir = data_dir
        self.overrides = overrides
        self.directory = data_dir / f"{TOPIC}-0"
        self.incarnation = 0
        self.process: subprocess.Popen[bytes] | None = None
        plan = small_plan()
        sizes = [layout.core_regions(plan)[1], layout.page_regions()[1], plan.arena_bytes]
        self._fds = [os.memfd_create(f"test-{n}") for n in range(3)]
        for descriptor, size in zip(self._fds, sizes, strict=True):
            os.ftruncate(descriptor, size)
        memory = [mmap.mmap(descriptor, 0) for descriptor in self._fds]
        write_headers(*memory, plan)
        self.core = _native.Core(*memory)
        ProcessRow(self.core, SLOT_HANDLERS).begin(os.getpid(), 3, 0, NO_LISTENER)
        self.log = Log(self.core, [str(data_dir)], SLOT_HANDLERS)
        self._notice = os.eventfd(0, os.EFD_NONBLOCK)

    def create(self, overrides: bytes = b"{}") -> None:
        """The topic, with settings as JSON."""
        rows_raise(self.core, 1, 1)
        prepare(str(self.data_dir), f"{TOPIC}-0", TOPIC_ID)
        assert (
            self.log.create(
                ordinal=0,
                topic_id=TOPIC_ID,
                topic_row=0,
                partition=0,
                log_dir=0,
                dir=f"{TOPIC}-0",
                leader_epoch=0,
                now_ms=SystemClock().wall_ms(),
            )
            == 0
        )
        topic_write(self.core, 0, int(TopicFlags.EXISTS), TOPIC_ID, TOPIC, 1, 0, overrides, 1)
        journal_append(self.core, 0)

    def append(self, sequence: int, size: int = 200) -> int:
        """One record of an idempotent producer; its offset. While the keeper has the partition's lock, and this machine
        no core for it, the append comes to nothing and is made again, as a handler does (waiting_for_locks.py)."""
        batch = encode_batch(
            [(b"k", b"%d" % sequence + bytes(size), SystemClock().wall_ms())],
            producer_id=5,
            producer_epoch=0,
            base_sequence=sequence,
        )
        options, deadline = LogOptions(segment_bytes=2000), time.monotonic() + DEADLINE_S
        while True:
            result = self.log.append(0, NO_REQUEST, 0, batch, options, SystemClock().wall_ms())
            if result.error != ErrorCode.REQUEST_TIMED_OUT or time.monotonic() > deadline:
                break
        assert result.error == 0, result.error
        self.core.ring_service(SLOT_LOG_KEEPER)
        return result.base_offset

    @property
    def state(self) -> Any:
        """The partition's row."""
        return self.log.state(0)

    def start(self) -> None:
        """The next keeper; returns when it serves or has died."""
        self.incarnation += 1
        fds = [*self._fds, self._notice]
        command = [
            sys.executable,
            "-m",
            __name__,
            *map(str, fds),
            str(self.data_dir),
            str(self.incarnation),
            *self.overrides,
        ]
        self.process = subprocess.Popen(command, pass_fds=fds, cwd=Path(__file__).parents[2])
        self.until(lambda: self._notices() or self.process.poll() is not None, "the keeper to serve")

    def _notices(self) -> bool:
        try:
            return os.eventfd_read(self._notice) > 0
        except BlockingIOError:
            return False

    def until(self, true, what: str):
        """The first true value."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := true()):
            assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S} s"
            time.sleep(0.002)
        return found

    def died(self) -> int:
        """Wait for the keeper's end; the signal that killed it, 0 or less for an exit."""
        assert self.process is not None
        return -self.process.wait(DEADLINE_S)

    def terminate(self) -> None:
        """SIGTERM."""
        assert self.process is not None
        self.process.terminate()

    def close(self) -> None:
        """Kill what runs and close the descriptors."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.log.close()
        for descriptor in [*self._fds, self._notice]:
            os.close(descriptor)


def run_keeper(arguments: list[str]) -> None:
    """The process itself."""
    from mpbroker.log.log_keeper import main
    from mpbroker.metrics.event_log import EventLog

    set_parent_death_signal(signal.SIGKILL)
    *fds, notice = map(int, arguments[:4])
    core = _native.Core(*(mmap.mmap(descriptor, 0) for descriptor in fds))
    overrides = [f"log.dirs={arguments[4]}", *arguments[6:]]
    context = ProcessContext(
        core=core,
        config=load_broker_config(overrides=overrides, environ={}, cores=2),
        role="log-keeper",
        slot=SLOT_LOG_KEEPER,
        process_row=ProcessRow(core, SLOT_LOG_KEEPER),
        incarnation=int(arguments[5]),
        data_dirs=(arguments[4],),
        log=EventLog("log-keeper"),
        notice_fd=notice,
    )
    context.process_row.begin(os.getpid(), KEEPER_ROLE, 0, NO_LISTENER)
    context.install_signals()
    main(context)


if __name__ == "__main__":
    run_keeper(sys.argv[1:])
