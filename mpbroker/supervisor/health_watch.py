"""The supervisor looks at the others' heartbeats: one WARN line when a process hangs, one line when that is over. A log
keeper that was stopped and forgotten is ended (stopped_keeper.py).

State of the supervisor alone; health.py has the rules. A process counts only when two looks a second apart found the
same old heartbeat: after the whole machine or container was frozen, everybody's is old for a moment.
"""

import time
from collections.abc import Callable, Mapping

from mpbroker.errors import MpbrokerError
from mpbroker.metrics.event_log import EventLog
from mpbroker.shm.page_view import PageView
from mpbroker.shm.process_table import BrokerState
from mpbroker.supervisor import health
from mpbroker.supervisor.health import Facts, Finding
from mpbroker.supervisor.process_types import SUPERVISOR_SLOT
from mpbroker.supervisor.stopped_keeper import end_stopped_keepers

LOOK_EVERY_NS = 1_000_000_000
NEVER_NS = 1 << 63


class HealthWatch:
    """`look` is called in every turn of the supervisor's loop and does something once a second."""

    def __init__(
        self,
        page_name: str,
        held: Callable[[], Mapping[int, int]],
        log: EventLog,
        oldest_beat_ns: Callable[[], int],
    ) -> None:
        self._page_name = page_name
        self._oldest_beat_ns = oldest_beat_ns  # of all processes that run
        self._page: PageView | None = None  # mapped at the first look: after the first forks
        self._held = held
        self._log = log
        self._due_ns = time.monotonic_ns() + LOOK_EVERY_NS
        self._seen: dict[int, Finding] = {}  # slot → what the last look found
        self._told: dict[int, Finding] = {}  # slot → what has been logged and is not over

    def look(self) -> bool:
        """Say what began and what ended since the last time. True when it was time to look."""
        now_ns = time.monotonic_ns()
        if now_ns < self._due_ns:
            return False
        self._due_ns = now_ns + LOOK_EVERY_NS
        # To read all that there is to know of everybody costs the supervisor copies of 50 pages that its workers share.
        is_all_well = now_ns - self._oldest_beat_ns() < health.SILENT_NS
        found = {} if is_all_well else self._find(now_ns)
        self._say_what_is_over(found, now_ns)
        self._say_what_began(found, now_ns)
        end_stopped_keepers([now for now in found.values() if self._is_confirmed(now)], now_ns, self._log)
        self._seen = found
        return True

    def _say_what_is_over(self, found: dict[int, Finding], now_ns: int) -> None:
        for slot, told in list(self._told.items()):
            now = found.get(slot)
            if now is None or now.since_ns != told.since_ns:
                del self._told[slot]
                self._say_over(told, now_ns)

    def _say_what_began(self, found: dict[int, Finding], now_ns: int) -> None:
        """What was there at the last look, too, and has not been said; again when a silent process gets work."""
        for slot, now in found.items():
            told = self._told.get(slot)
            is_news = told is None or (now.level == health.HUNG and told.level != health.HUNG)
            if is_news and self._is_confirmed(now):
                self._told[slot] = now
                self._say(now, now_ns)

    def _is_confirmed(self, now: Finding) -> bool:
        before = self._seen.get(now.slot)
        return before is not None and before.since_ns == now.since_ns

    def _find(self, now_ns: int) -> dict[int, Finding]:
        if self._page is None:
            try:
                self._page = PageView(self._page_name)
            except MpbrokerError as error:  # somebody removed the name: requests are served all the same
                self._log.warning("health_not_watched", reason=error)
                self._due_ns = NEVER_NS
                return {}
        page = self._page
        if page.state is not BrokerState.RUNNING:
            return {}
        facts = Facts(page.state, now_ns, page.processes(), page.rings(), page.reserved_handlers, self._held)
        silent = (one for one in health.judge(facts, now_ns) if one.level in (health.HUNG, health.SILENT))
        return {one.slot: one for one in silent if one.slot != SUPERVISOR_SLOT}

    def _say(self, one: Finding, now_ns: int) -> None:
        self._log.warning(
            f"process_{one.level}",
            process=one.process,
            pid=one.pid,
            for_s=(now_ns - one.since_ns) // 1_000_000_000,
            reason=one.sentence,
            remedy="see where it is: mpbroker status --stacks",
        )

    def _say_over(self, told: Finding, now_ns: int) -> None:
        self._log.info(
            f"process_no_longer_{told.level}",
            process=told.process,
            pid=told.pid,
            after_s=(now_ns - told.since_ns) // 1_000_000_000,
        )
