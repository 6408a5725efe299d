"""A real controller process on inherited shared memory, without the rest of the broker; started by exec.

    python -m tests.harness.controller_process CORE_FD PAGE_FD ARENA_FD NOTICE_FD DATA_DIR

`ControllerProcess` is the test's side: it plays the supervisor (memory, successors) and a request handler (commands).
"""

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from mpbroker import _native
from mpbroker.config.load_config import load_broker_config
from mpbroker.metadata.commands import Answer, Command, decode_answer, encode_command
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.shm import layout, settings_board
from mpbroker.shm.layout import SLOT_CONTROLLER, SLOT_HANDLERS, MemoryPlan
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessRow
from tests.harness.small_core import small_plan, write_headers

CLUSTER_ID = "kill-test-cluster-id00"
DEADLINE_S = 30


class ControllerProcess:
    """Shared memory, one controller process at a time, and a handler's end of the command table."""

    def __init__(self, data_dir: Path, **plan: int) -> None:
        self.data_dir = data_dir
        self.config = load_broker_config(overrides=[f"log.dirs={data_dir}"], environ={}, cores=2)
        self.boot(small_plan(**plan))

    def boot(self, plan: MemoryPlan) -> None:
        """Empty shared memory, as after a start of the broker."""
        sizes = [layout.core_regions(plan)[1], layout.page_regions()[1], plan.arena_bytes]
        self._fds = [os.memfd_create(f"test-{n}") for n in range(3)]
        for descriptor, size in zip(self._fds, sizes, strict=True):
            os.ftruncate(descriptor, size)
        memory = [mmap.mmap(descriptor, 0) for descriptor in self._fds]
        write_headers(*memory, plan)
        self.core = _native.Core(*memory)
        self.cache = MetadataCache(self.core, self.config)
        self._port = _native.CommandPort(self.core, SLOT_HANDLERS)
        self._notice = os.eventfd(0, os.EFD_NONBLOCK)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> None:
        """Start the controller; with `wait` return when it serves."""
        fds = [*self._fds, self._notice]
        command = [sys.executable, "-m", __name__, *map(str, fds), str(self.data_dir)]
        self.process = subprocess.Popen(command, pass_fds=fds, cwd=Path(__file__).parents[2])
        if wait:
            self._until(self._notices, "the controller to serve")

    def _notices(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the controller ended with {self.process.returncode}"
        try:
            return os.eventfd_read(self._notice) > 0
        except BlockingIOError:
            return False

    def _until(self, true, what: str):
        deadline = time.monotonic() + DEADLINE_S
        while not (found := true()):
            assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S} s"
            time.sleep(0.002)
        return found

    def died(self) -> int:
        """Wait for the controller's death; the signal that killed it."""
        assert self.process is not None
        return -self.process.wait(DEADLINE_S)

    def send(self, command: Command, operation: int) -> int:
        """Queue a command."""
        return self._port.send(encode_command(command), operation)

    def answer(self) -> Answer:
        """Wait for the answer to the one command under way; the snapshot shows what it says."""
        ((number, _, payload, generation),) = self._until(self._port.answers, "an answer")
        self._port.free(number)
        self.cache.refresh()
        assert self.cache.generation >= generation
        return decode_answer(payload)

    def run(self, command: Command, operation: int) -> dict[str, int]:
        """Send, wait, error code by topic."""
        self.send(command, operation)
        return {result.name: result.error_code for result in self.answer().results}

    def topics(self) -> dict[str, int]:
        """What any process sees: topic → partitions."""
        self.cache.refresh()
        return {topic.name: len(topic.partitions) for topic in self.cache.topics()}

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        """Kill what runs and close the descriptors."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for descriptor in [*self._fds, self._notice]:
            os.close(descriptor)


def run_controller(arguments: list[str]) -> None:
    """The process itself."""
    from mpbroker.controller.controller import main
    from mpbroker.metrics.event_log import EventLog

    *fds, notice = map(int, arguments[:4])
    core = _native.Core(*(mmap.mmap(descriptor, 0) for descriptor in fds))
    config = load_broker_config(overrides=[f"log.dirs={arguments[4]}"], environ={}, cores=2)
    context = ProcessContext(
        core=core,
        config=config,
        role="controller",
        slot=SLOT_CONTROLLER,
        process_row=ProcessRow(core, SLOT_CONTROLLER),
        cluster_id=CLUSTER_ID,
        data_dirs=(arguments[4],),
        log=EventLog("controller"),
        notice_fd=notice,
        settings_fd=settings_board.create(),
    )
    context.process_row.begin(os.getpid(), 4, 0, 255)
    context.install_signals()
    main(context)


if __name__ == "__main__":
    run_controller(sys.argv[1:])
