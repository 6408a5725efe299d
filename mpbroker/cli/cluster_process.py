"""One broker of `mpbroker cluster start`: forked or executed, watched, told to stop. The foreground process only.

A broker is `mpbroker start` in a process group of its own, so that Ctrl-C reaches the foreground alone; the kernel
sends it SIGTERM should the foreground die. At first it is a fork of the foreground, with which all brokers share what
they import; started again, it is executed, so that a roll takes what was installed meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from mpbroker.cli.cluster_plan import ClusterPlan
from mpbroker.cli.main import main
from mpbroker.log import data_dir
from mpbroker.supervisor.launch import launch_broker

LOG_TAIL_BYTES: Final = 2000


class BrokerProcess:
    """`pid` 0: it does not run. `stopping`: it was told to end."""

    def __init__(self, plan: ClusterPlan, node_id: int) -> None:
        self.plan = plan
        self.node_id = node_id
        self.stopping = False
        self.pid = 0
        """Of the broker's supervisor."""
        self._pidfd = -1
        self._ran = False

    def fileno(self) -> int:
        """Readable when it has ended."""
        return self._pidfd

    def start(self) -> None:
        """Give it its data directory, and run it."""
        directory = self.plan.data_dir(self.node_id)
        data_dir.create(directory)
        data_dir.prepare(directory, self.node_id, self.plan.cluster_id)
        with suppress(FileNotFoundError):
            os.unlink(self.plan.ready_file(self.node_id))
        words, again = self._words(directory), self._ran
        with open(self.plan.log_file(self.node_id), "ab") as log:
            self.pid, self._pidfd = launch_broker(
                lambda: _execute(words) if again else main(words),
                f"mpbroker start --data-dir {directory}",
                log.fileno(),
            )
        self._ran, self.stopping = True, False

    def _words(self, directory: str) -> Sequence[str]:
        words = ["start", "--data-dir", directory]
        words += ["--ready-file", self.plan.ready_file(self.node_id)]
        for name, text in self.plan.settings(self.node_id).items():
            words += ["--override", f"{name}={text}"]
        for pair in self.plan.overrides:
            words += ["--override", pair.replace("{node}", str(self.node_id))]
        return words

    def stop(self) -> None:
        """Tell it to end; a second time, to end at once."""
        if self.pid:
            self.stopping = True
            signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)

    def ended(self) -> str:
        """After its descriptor became readable: how it ended."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._pidfd)
        self.pid, self._pidfd = 0, -1
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def last_lines(self) -> str:
        """The end of its log."""
        with open(self.plan.log_file(self.node_id), "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")


def _execute(words: Sequence[str]) -> NoReturn:
    program = [sys.executable, "-m", "mpbroker", *words]
    os.execv(program[0], program)
