"""One broker of `mpbroker cluster start`: executed, watched, told to stop. The foreground process only.

A broker is a program of its own (`mpbroker start`), executed in a process group of its own, so that Ctrl-C reaches the
foreground alone; the kernel sends it SIGTERM should the foreground die.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from mpbroker.cli.cluster_plan import ClusterPlan
from mpbroker.log import data_dir
from mpbroker.shm.parent_death import set_parent_death_signal

LOG_TAIL_BYTES: Final = 2000


class BrokerProcess:
    """`pid` 0: it does not run. `stopping`: it was told to end."""

    def __init__(self, plan: ClusterPlan, node_id: int) -> None:
        self.plan = plan
        self.node_id = node_id
        self.stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1

    @property
    def pid(self) -> int:
        """Of the broker's supervisor."""
        return self._process.pid if self._process is not None else 0

    def fileno(self) -> int:
        """Readable when it has ended."""
        return self._pidfd

    def start(self) -> None:
        """Give it its data directory, and execute it."""
        directory = self.plan.data_dir(self.node_id)
        data_dir.create(directory)
        data_dir.prepare(directory, self.node_id, self.plan.cluster_id)
        with suppress(FileNotFoundError):
            os.unlink(self.plan.ready_file(self.node_id))
        foreground = os.getpid()

        def before_it_is_executed() -> None:
            set_parent_death_signal(signal.SIGTERM)
            if os.getppid() != foreground:  # it died before it could be noticed
                os._exit(1)

        with open(self.plan.log_file(self.node_id), "ab") as log:
            self._process = subprocess.Popen(
                self._words(directory),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                process_group=0,
                preexec_fn=before_it_is_executed,  # this process has no threads
            )
        self._pidfd = os.pidfd_open(self._process.pid)
        self.stopping = False

    def _words(self, directory: str) -> Sequence[str]:
        words = [sys.executable, "-m", "mpbroker", "start", "--data-dir", directory]
        words += ["--ready-file", self.plan.ready_file(self.node_id)]
        for name, text in self.plan.settings(self.node_id).items():
            words += ["--override", f"{name}={text}"]
        for pair in self.plan.overrides:
            words += ["--override", pair.replace("{node}", str(self.node_id))]
        return words

    def stop(self) -> None:
        """Tell it to end; a second time, to end at once."""
        if self._process is not None:
            self.stopping = True
            self._process.send_signal(signal.SIGTERM)

    def ended(self) -> str:
        """After its descriptor became readable: how it ended."""
        assert self._process is not None
        code = self._process.wait()
        os.close(self._pidfd)
        self._process, self._pidfd = None, -1
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def last_lines(self) -> str:
        """The end of its log."""
        with open(self.plan.log_file(self.node_id), "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")
