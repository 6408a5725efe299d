"""What the admin process answers: path → status, type, body. Reads shared memory, so a broker that hangs is told of as
well; only for consumer groups it asks the coordinator, within a limit. Used by the threads of the admin process.

    /          what there is, and where the requests of the last minute spent their time
    /latency   the same as JSON
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
from mpbroker.protocol.api_keys import API_NAMES
from mpbroker.shm import controller_board, latency_window
from mpbroker.shm.counters import Counter
from mpbroker.shm.latency_window import LatencyWindow
from mpbroker.shm.layout import MAX_FETCHERS, SLOT_FETCHERS
from mpbroker.shm.metrics_view import MetricsView
from mpbroker.shm.page_view import PageView
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState

JSON, PLAIN = "application/json; charset=utf-8", "text/plain; charset=utf-8"
HUNG: Final = "hung"
LOOKS: Final = 5
"""At a board that is being written."""
WATCHED_S: Final = 600.0
"""So long after somebody looked at latencies samples are still taken."""


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
        self._window = LatencyWindow()
        self._watched_s = self._sample_due_s = 0.0
        self._paths: dict[str, Callable[[], Page]] = {
            "/": self._index,
            "/latency": self._latency,
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }

    def get(self, path: str) -> Page:
        """The page at a path; its query is not looked at."""
        page = self._paths.get(path.partition("?")[0])
        return page() if page else Page(404, PLAIN, b"not found; / says what there is\n")

    def _index(self) -> Page:
        found = self._latencies()
        lines = ["mpbroker: /latency /metrics /healthz /readyz", "", *_table(found)]
        return Page(200, PLAIN, "\n".join(lines).encode() + b"\n")

    def _latency(self) -> Page:
        return Page(200, JSON, json.dumps(self._latencies()).encode() + b"\n")

    def _latencies(self) -> dict[str, Any]:
        """Of the last minute, or since the first look where that is less ago. From now on samples are taken."""
        self._watched_s = time.monotonic()
        with self._one_reader:
            self._sample()
            return latency_window.document(self._window, API_NAMES)

    def tick(self) -> None:
        """From time to time: another sample, as long as somebody looks at latencies now and then."""
        now_s = time.monotonic()
        if self._watched_s and now_s - self._watched_s < WATCHED_S and now_s >= self._sample_due_s:
            with self._one_reader:
                self._sample()

    def _sample(self) -> None:
        now_s = time.monotonic()
        self._sample_due_s = now_s + latency_window.EVERY_S
        self._core.refresh()
        self._window.add(now_s, self._core.apis())

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


def _table(found: dict[str, Any]) -> Iterator[str]:
    """Latencies as text: p50 and p99 of each stage."""
    if not found["apis"]:
        yield "No request was answered since the first look at this page; load it again."
        return
    yield f"The last {found['seconds']:.0f} s; stages as p50/p99 in ms:"
    stages = list(found["apis"][0]["stages_ms"])
    yield "".join([f"{'API':<26}{'requests/s':>12}{'errors':>8}", *(f"{stage:>18}" for stage in stages)])
    for row in found["apis"]:
        pairs = (row["stages_ms"][stage] for stage in stages)
        shown = ("-" if pair is None else f"{pair['p50']:.3g}/{pair['p99']:.3g}" for pair in pairs)
        yield "".join([f"{row['api']:<26}{row['per_s']:>12,.1f}{row['errors']:>8}", *(f"{text:>18}" for text in shown)])
