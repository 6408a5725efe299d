"""What the admin process answers: path → status, type, body. Reads shared memory, so a broker that hangs is told of as
well; only for consumer groups it asks the coordinator, within a limit. Used by the threads of the admin process.

    /metrics   Prometheus text
    /healthz   200 unless work waits for a process that does not move (`hung`)
    /readyz    200 while the broker serves: not while it starts, stops, resets or hangs
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from mpbroker.admin.controller_families import controller_families
from mpbroker.admin.exposition import CONTENT_TYPE, GAUGE, Family, labelled, render
from mpbroker.admin.group_families import GroupLook, group_families
from mpbroker.admin.group_lag import GroupLag
from mpbroker.admin.process_families import process_families
from mpbroker.admin.replica_families import isr_families
from mpbroker.admin.request_families import request_families
from mpbroker.admin.session_families import session_families
from mpbroker.admin.topic_families import oldest_transaction, topic_families
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.shm import controller_board
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import MAX_FETCHERS, SLOT_FETCHERS
from mpbroker.shm.metrics_view import MetricsView
from mpbroker.shm.page_view import PageView
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState

JSON, PLAIN = "application/json; charset=utf-8", "text/plain; charset=utf-8"
HUNG: Final = "hung"
LOOKS: Final = 5
"""At a board that is being written."""


class Page(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    body: bytes


class Pages:
    """The pages of one broker."""

    def __init__(self, context: ProcessContext) -> None:
        self._context = context
        self._page = PageView(context.names[0])
        self._core = MetricsView(context.supervisor_pid)
        self._groups = GroupLag(lambda: context.listeners)
        self._one_reader = threading.Lock()
        self._paths: dict[str, Callable[[], Page]] = {
            "/": self._index,
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }

    def get(self, path: str) -> Page:
        """The page at a path; its query is not looked at."""
        page = self._paths.get(path.partition("?")[0])
        return page() if page else Page(404, PLAIN, b"not found; there are /metrics, /healthz and /readyz\n")

    def _index(self) -> Page:
        return Page(200, PLAIN, b"mpbroker: /metrics /healthz /readyz\n")

    def _metrics(self) -> Page:
        look = self._look_at_groups()
        with self._one_reader:
            self._core.refresh()
            return Page(200, CONTENT_TYPE, render(self._families(look)))

    def _look_at_groups(self) -> GroupLook:
        """Asks nobody while there is no topic that groups could lie in. Health never waits for the answer."""
        with self._one_reader:
            self._core.refresh()
            may_have_groups = OFFSETS_TOPIC in self._core.topic_names().values()
        if may_have_groups:
            return self._groups.look()
        none = GroupLook()
        none.is_complete = True
        return none

    def _families(self, look: GroupLook) -> Iterator[Family]:
        names, partitions = self._core.topic_names(), list(self._core.partitions())
        in_cluster = self._context.controller_fd >= 0
        yield from topic_families(names, partitions, in_cluster)
        if in_cluster:
            yield from self._cluster()
        has_open = any(one.open_transactions for one in partitions)
        started_ms = self._core.oldest_transaction_ms() if has_open else None
        yield oldest_transaction(started_ms, int(time.time() * 1000))
        yield from group_families(look, names, partitions)
        yield from request_families(self._core.apis())
        yield from session_families(*self._core.fetch_sessions(), self._page.counters())
        yield from process_families(self._page, [each.name for each in self._context.listeners], self._context.roles)
        findings = self._findings()
        states = [labelled(sum(one.level == level for one in findings), level=level) for level in _LEVELS]
        yield Family("mpbroker_health_findings", GAUGE, "What is not well; `mpbroker status` says what.", states)

    def _cluster(self) -> Iterator[Family]:
        """Of the broker as one of a cluster; the controller's are left out if they are just being written."""
        fetchers = range(SLOT_FETCHERS, SLOT_FETCHERS + MAX_FETCHERS)
        lag = max(self._page.counters(slot)[Counter.REPLICA_LAG] for slot in fetchers)
        yield from isr_families(self._page.counters(), lag)
        for _ in range(LOOKS):
            figures = controller_board.read(self._context.controller_fd)
            if figures is not None:
                yield from controller_families(figures)
                return

    def _findings(self) -> Sequence[Any]:
        return self._context.judge(self._page)

    def _healthz(self) -> Page:
        with self._one_reader:
            findings = self._findings()
        return self._health(findings, ok=not any(one.level == HUNG for one in findings))

    def _readyz(self) -> Page:
        with self._one_reader:
            findings = self._findings()
        running = self._page.state is BrokerState.RUNNING
        return self._health(findings, ok=running and not any(one.level == HUNG for one in findings))

    def _health(self, findings: Sequence[Any], ok: bool) -> Page:
        told = [{"level": one.level, "process": one.process, "sentence": one.sentence} for one in findings]
        body = json.dumps({"ok": ok, "state": self._page.state.name.lower(), "findings": told})
        return Page(200 if ok else 503, JSON, body.encode() + b"\n")


_LEVELS: Final = (HUNG, "silent", "degraded")
