"""What the tracer records of its own beside requests: connections, gauges, markers, processes; and the dictionary of
names.

Part of the tracer process, which alone writes all of it. Records go into the segments of the processor they are about,
those about the whole broker into the first lane's.
"""

from collections.abc import Callable
from pathlib import Path

from mpbroker.record.checksum import crc32c
from mpbroker.shm.page_view import PageView
from mpbroker.shm.process_context import ProcessContext
from mpbroker.trace import record
from mpbroker.trace.dictionary_writer import DictionaryWriter
from mpbroker.trace.gauge import Gauge, RingGauge
from mpbroker.trace.gauge_sampler import GaugeSampler
from mpbroker.trace.lane_drain import LaneDrain
from mpbroker.trace.mark_spool import Mark, MarkSpool
from mpbroker.trace.notice_intake import NoticeIntake
from mpbroker.trace.process_event import DIED, ROLE_NAMES
from mpbroker.trace.process_watch import ProcessWatch
from mpbroker.trace.record import TraceRecord
from mpbroker.trace.topic_names import TopicNames

PROCESSES_MS = 200
_TRACER = next(role for role, name in ROLE_NAMES.items() if name == "tracer")
_NS_PER_MS = 1_000_000


class OwnRecords:
    """`take` looks around, `write` puts what it saw onto the disk. Times are monotonic nanoseconds."""

    def __init__(self, ctx: ProcessContext, directory: Path, drains: list[LaneDrain]) -> None:
        self.gauge_ms = ctx.config.mpbroker_trace_gauge_interval_ms
        self._drains = drains
        self._by_processor = {drain.lane.processor: drain for drain in drains}
        self._page = PageView(ctx.names[0])
        self._names = DictionaryWriter(directory, ctx.config.node_id, ctx.boot_id)
        self._notices = NoticeIntake(ctx.trace_notices_fd, self._names, self._add)
        self._topics = TopicNames(ctx.core)
        self._spool = MarkSpool(directory, lambda reason: ctx.log.warning("marker_refused", reason=reason))
        self._marks: list[Mark] = []
        self._watch = ProcessWatch()
        self._gauges = GaugeSampler()
        self._before_idle: list[Gauge] = []
        self.on_death: Callable[[str], object] = lambda text: None
        self.on_dump: Callable[[Mark], object] = lambda mark: None
        self._finished = 0
        self._processes_due_ns = self._gauges_due_ns = 0

    def add_drain(self, drain: LaneDrain) -> None:
        """A processor was added; the list of drains has its one already."""
        self._by_processor[drain.lane.processor] = drain

    def take(self, now_ns: int) -> None:
        """Takes what was reported and marked, and samples what is due."""
        self._notices.take()
        self._topics.take(self._tell_topic)
        self._take_marks()
        if now_ns >= self._processes_due_ns:
            self._processes_due_ns = now_ns + PROCESSES_MS * _NS_PER_MS
            looked_before = self._watch.has_looked
            for event in self._watch.events(self._page.processes(), now_ns):
                if event.event == DIED and (looked_before or event.role == _TRACER):
                    self.on_death(f"{event.name} died: {event.exit_text}")
                self._drains[0].add_event(event.pack(self._drains[0].lane.processor), urgent=event.event == DIED)
        if now_ns >= self._gauges_due_ns:
            self._gauges_due_ns = now_ns + self.gauge_ms * _NS_PER_MS
            self.sample_gauges(now_ns)

    def write(self, now_ns: int) -> None:
        """Names first, so that a record's name is there when the record is; then the markers' files may go.

        OSError: what could not be written waits.
        """
        self._names.flush()
        for drain in self._drains:
            drain.write_events(now_ns)
        for mark in self._marks:
            self._spool.done(mark)
        self._marks.clear()

    def sample_gauges(self, now_ns: int) -> None:
        """Keep a sample; add it, and the one before it if that was left out, when there is work in the broker."""
        sample = self._gauges.sample(now_ns, self._page.processes(), self._page.rings())
        finished = sum(drain.lane.counters().finished for drain in self._drains)
        waiting = any(isinstance(one, RingGauge) and one.depth for one in sample)
        if finished == self._finished and not waiting:
            self._before_idle = sample
            return
        self._finished = finished
        for one in (*self._before_idle, *sample):
            self._drains[0].add_event(one.pack(self._drains[0].lane.processor))
        self._before_idle = []

    def due_ms(self, now_ns: int) -> int:
        """Until the next gauges."""
        return max(0, (self._gauges_due_ns - now_ns) // _NS_PER_MS)

    def losses(self) -> dict[str, int]:
        """What had to be given up so far, by name; those that are 0 are left out."""
        counts = {
            "events": sum(drain.events_lost for drain in self._drains),
            "names": self._names.lost,
            "unreadable_notices": self._notices.junk,
        }
        return {name: count for name, count in counts.items() if count}

    def close(self) -> None:
        """Give descriptors back."""
        self._names.close()
        self._gauges.close()

    def mark(self, text: str, t0_ns: int) -> None:
        """Add a marker."""
        number, processor = self._names.marker(text, t0_ns), self._drains[0].lane.processor
        self._drains[0].add_event(TraceRecord(t0_ns=t0_ns, kind=record.MARKER, aux=number, proc_id=processor).pack())

    def _take_marks(self) -> None:
        if self._marks:
            return  # the disk is full: those must be written first
        self._marks = self._spool.take()
        for mark in self._marks:
            self.mark(mark.text, mark.t0_ns)
            if mark.dump_after_ms is not None:
                self.on_dump(mark)

    def _add(self, processor: int, data: bytes) -> None:
        self._by_processor.get(processor, self._drains[0]).add_event(data)

    def _tell_topic(self, name: str) -> None:
        self._names.topic(crc32c(name.encode()), name)
