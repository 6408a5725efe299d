"""A log keeper that somebody stopped and forgot is ended, so that its successor syncs, cleans and gives disk back.

The supervisor alone, stateless. Of every other process a stop costs what that one has in hand; of this one it costs
every partition of its log directory, and a lock that it holds cannot be taken while it may wake up. A kill is safe at
any instruction: the successor repairs what it held. A process under a debugger (state t) is left alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from typing import Final

from mpbroker.metrics.event_log import EventLog
from mpbroker.supervisor.health import Finding
from mpbroker.supervisor.stacks import state_of

STOPPED_NS: Final = 15_000_000_000
"""Long enough for whoever looks at it by SIGSTOP and SIGCONT, and half of a client's usual time for a request."""
ROLE: Final = "log-keeper "


def end_stopped_keepers(
    confirmed: Iterable[Finding],
    now_ns: int,
    log: EventLog,
    state: Callable[[int], str] = state_of,
    kill: Callable[[int, int], None] = os.kill,
) -> None:
    """`confirmed`: what two looks found. Its pid is a child's that was not waited for yet, so nobody else's."""
    for one in confirmed:
        if one.process.startswith(ROLE) and now_ns - one.since_ns >= STOPPED_NS and state(one.pid) == "T":
            seconds = (now_ns - one.since_ns) // 1_000_000_000
            log.warning("stopped_log_keeper_ended", process=one.process, pid=one.pid, for_s=seconds)
            kill(one.pid, signal.SIGKILL)
