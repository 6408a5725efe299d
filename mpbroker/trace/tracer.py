"""The tracer process: drains every lane into segment files, deletes old ones, and outlives the supervisor by a moment.

Its state is its own; lanes are shared with one processor each. SIGTERM, also sent by the kernel when the supervisor
dies, ends it after a last drain. If the supervisor is gone, it unlinks this broker's names in /dev/shm, because nobody
else will.

It sleeps between turns, and is woken when a lane of 16,384 records becomes half full. Then it only empties the lanes,
in native code (native/trace/trace_tail.h): a turn is half a millisecond of code that nobody else has in the caches.
"""

import contextlib
import errno
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mpbroker import __version__, _native
from mpbroker.protocol.api_keys import API_NAMES, ApiKey
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessState
from mpbroker.shm.segment import left_dashcams
from mpbroker.shm.troubles import Trouble
from mpbroker.shm.waits import WaitName
from mpbroker.trace import lane, manifest, retention
from mpbroker.trace.lane_drain import LaneDrain, Limits, Origin, recover_directory
from mpbroker.trace.own_records import OwnRecords

if TYPE_CHECKING:
    from mpbroker.config.broker_config import BrokerConfig
    from mpbroker.trace.dashcam import Dashcam

MIN_PAUSE_MS, TURN_MS = 10, 200
RETENTION_MS = 60_000
OPEN_AGAIN_MS = 2_000
_NS_PER_MS = 1_000_000
LAST_NAMED_API = 66  # names of the APIs a broker may serve; they and fifteen listeners fit into a segment's header
NAMED_BEYOND: Final = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
}
"""Of the keys above, those that this broker serves."""


def main(ctx: ProcessContext) -> None:
    """Trace until asked to stop."""
    try:
        tracer = Tracer(ctx)
        ctx.running()
        while not ctx.stop_requested() and not ctx.supervisor_gone():
            tracer.turn()
            tracer.pause()
        ctx.process_row.state = ProcessState.STOPPING
        tracer.finish()
    finally:
        if ctx.supervisor_gone():
            unlink_names(ctx.names)


class Tracer:
    """All lanes of a broker. `turn` drains each once."""

    def __init__(self, ctx: ProcessContext) -> None:
        self._ctx = ctx
        self._row = ctx.process_row
        self._directory = Path(ctx.config.trace_dir)
        self._dashcam: Dashcam | None = None
        self._drains: list[LaneDrain] = []
        self._own: OwnRecords | None = None
        self._retention_due_ns = 0
        self._pause_ms = TURN_MS
        self._failing = False
        self._losses: dict[str, int] = {}
        self._open_due_ns = 0
        self._left: list[str] = []
        self._saving: Any | None = None
        try:
            self._open(time.monotonic_ns())
        except OSError as error:
            self._say(error)

    def _open(self, now_ns: int) -> int:
        """Begin to write, at the first turn or, where the disk did not allow it, some time later. A trace directory
        that cannot be written never forbids a broker's start; what finds no room in the lanes meanwhile is counted."""
        if self._own is not None or not self._ctx.lanes or now_ns < self._open_due_ns:
            return 0
        self._open_due_ns = now_ns + OPEN_AGAIN_MS * _NS_PER_MS
        if not self._ctx.may_trace():
            raise OSError(errno.ENOSPC, "the disk was full at the start, and has no room yet")
        try:
            self._begin()
        except OSError:
            self._drains = []
            raise
        return 0

    def _begin(self) -> None:
        config = self._ctx.config
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._left = left_dashcams(config.data_dir, self._ctx.boot_id)
        if config.mpbroker_trace_dashcam_bytes:
            self._begin_dashcam()
        left = recover_directory(self._directory, config.node_id)
        if left:
            self._ctx.log.info("trace_segments_recovered", count=left)
        origin = Origin(config.node_id, getattr(self._ctx, "cluster_id", ""), time_namespace_ns(), self._describe())
        self._origin = origin
        self._attach_lanes()
        self._own = OwnRecords(self._ctx, self._directory, self._drains)
        if self._dashcam is not None:
            self._dashcam.resume()
            self._own.on_death = self._dashcam.trigger.died
            self._own.on_dump = self._dashcam.asked

    def _begin_dashcam(self) -> None:
        """From here on traces are written into memory."""
        from mpbroker.trace.dashcam import Dashcam

        if self._dashcam is None:
            self._dashcam = Dashcam(self._ctx.config, self._ctx.boot_id, self._ctx.log, self._end_segments)
        self._directory = self._dashcam.memory

    def _end_segments(self) -> None:
        for drain in self._drains:
            drain.close()

    def _attach_lanes(self) -> list[LaneDrain]:
        """Lanes are made when their processor is first started: those that are there now and were not before."""
        known, limits, new = {drain.lane.name for drain in self._drains}, self._limits(self._ctx.config), []
        for name in self._ctx.lanes:
            if name not in known:
                with contextlib.suppress(lane.LaneError):
                    new.append(LaneDrain(lane.attach(name), self._directory, self._origin, limits))
        for drain in new:
            drain.watch = self._dashcam.trigger.see if self._dashcam is not None else None
        self._drains += new
        return new

    def _limits(self, config: "BrokerConfig") -> Limits:
        if self._dashcam is not None:
            return self._dashcam.limits(len(self._ctx.lanes))
        return Limits(config.mpbroker_trace_segment_bytes, config.mpbroker_trace_segment_ms)

    def _describe(self) -> dict[str, Any]:
        listeners = [
            {"name": one.name, "protocol": one.protocol, "control": one.control} for one in self._ctx.listeners
        ]
        apis = {str(key): name for key, name in API_NAMES.items() if key <= LAST_NAMED_API or key in NAMED_BEYOND}
        return {"version": __version__, "listeners": listeners, "apis": apis}

    def turn(self) -> int:
        """Drain every lane once, and do what is due; returns the records moved. A full disk is said once, then
        retried."""
        now_ns = time.monotonic_ns()
        self._row.beat()
        moved = 0
        failure: OSError | None = None
        for work in (self._open, self._write_own, self._drain, self._watch, self._save_left, self._retain):
            try:
                moved += work(now_ns)
            except OSError as error:
                failure = failure or error
        if failure is not None or self._own is not None or not self._ctx.lanes:
            self._say(failure)  # between two tries to begin nothing is known
        self._pause_ms = TURN_MS
        if self._own is not None:
            self._pause_ms = min(self._pause_ms, max(MIN_PAUSE_MS, self._own.due_ms(now_ns)))
        if self._dashcam is not None and self._dashcam.is_busy:
            self._pause_ms = MIN_PAUSE_MS
        self._take_new_limits()
        return moved

    @property
    def pause_ms(self) -> int:
        """How long it is until the next turn, at most."""
        return self._pause_ms

    def pause(self) -> None:
        """Sleep until the next turn is due or a signal comes; lanes that become half full are emptied meanwhile, after
        the names of what they hold."""
        ctx, follows = self._ctx, self._own is not None and self._dashcam is None
        tails = tuple(drain.tail() for drain in self._drains if follows)
        self._row.wait = WaitName.TRACE_FLUSH
        ended = _native.trace_wait(tails, ctx.wakeup_fd, ctx.trace_bell_fd, ctx.trace_notices_fd, self._pause_ms)
        self._row.wait = 0
        if ended == _native.TRACE_SIGNALLED:
            ctx.drain_wakeups()

    def finish(self) -> None:
        """The last drain: what lanes and notices hold now, and the last gauges; then the segments are closed."""
        if self._own is not None:
            self._own.sample_gauges(time.monotonic_ns())
        self.turn()
        for drain in self._drains:
            lost = 0
            try:
                lost = drain.give_up()
                drain.close()
            except OSError as error:
                self._ctx.log.error("trace_close_failed", directory=str(self._directory), reason=str(error))
            if lost:
                self._ctx.log.error("trace_records_lost", directory=str(self._directory), records=lost)
        if self._own is not None:
            self._own.close()
        if self._dashcam is not None:
            try:
                self._dashcam.finish(self._ctx.supervisor_gone())
            except OSError as error:
                self._ctx.log.error("trace_dump_failed", directory=str(self._directory), reason=str(error))

    def _write_own(self, now_ns: int) -> int:
        """The tracer's own records go first: the names of what follows."""
        if self._own is not None:
            self._own.take(now_ns)
            self._own.write(now_ns)
        return 0

    def _drain(self, now_ns: int) -> int:
        return sum(drain.step(now_ns) for drain in self._drains)

    def _watch(self, now_ns: int) -> int:
        """The dash-cam's turn."""
        if self._dashcam is not None and self._own is not None:
            self._dashcam.turn(now_ns, self._drains, self._own)
        return 0

    def _save_left(self, now_ns: int) -> int:
        """Of a broker that was killed: what its dash-cam had in memory. A directory that may not be read stays."""
        if not self._left or now_ns < self._open_due_ns:
            return 0
        if self._saving is None and not os.access(self._left[0], os.R_OK | os.W_OK | os.X_OK):
            self._ctx.log.error("trace_dump_failed", directory=self._left.pop(0), reason="it may not be read")
            return 0
        try:
            if self._saving is None:
                from mpbroker.trace.left_dashcam import LeftDashcam

                config = self._ctx.config
                self._saving = LeftDashcam(Path(self._left[0]), Path(config.trace_dir), config.node_id, self._ctx.log)
            if self._saving.turn():
                self._saving = None
                self._left.pop(0)
        except OSError:
            self._open_due_ns = now_ns + OPEN_AGAIN_MS * _NS_PER_MS
            raise
        return 0

    def _say(self, failure: OSError | None) -> None:
        """One line when writing fails, one when it works again, one when something had to be given up meanwhile."""
        if failure is not None and not self._failing:
            self._ctx.log.error("trace_write_failed", directory=str(self._directory), reason=str(failure))
        if failure is None and self._failing:
            self._ctx.log.info("trace_writing_again")
        if self._failing != (failure is not None):
            self._failing = failure is not None
            self._row.set_trouble(Trouble.TRACES_NOT_WRITTEN, self._failing)
        losses = self._own.losses() if self._own is not None and failure is None else self._losses
        if losses != self._losses:
            self._ctx.log.warning("trace_events_lost", **losses)
            self._losses = losses

    def _retain(self, now_ns: int) -> int:
        if now_ns < self._retention_due_ns or not self._drains:
            return 0
        self._retention_due_ns = now_ns + RETENTION_MS * _NS_PER_MS
        config = self._ctx.config
        if self._dashcam is not None:
            self._dashcam.retain_dumps(time.time())
            return 0
        active = {path: size for drain in self._drains for path, size in drain.active.items()}
        deleted = retention.apply(
            self._directory,
            active,
            time.time(),
            config.mpbroker_trace_retention_bytes,
            config.mpbroker_trace_retention_ms,
        )
        retention.delete_dictionaries(self._directory, keep={(config.node_id, self._ctx.boot_id & 0xFFFFFFFF)})
        if deleted:
            manifest.forget(self._directory, {path.name for path in deleted})
            self._ctx.log.info("trace_segments_deleted", count=len(deleted))
        return 0

    def _name_listeners(self) -> None:
        """Those of the broker have changed: segments from now on name the ones it has now."""
        extra = self._describe()
        if self._own is None or extra == self._origin.extra:
            return
        self._origin = self._origin._replace(extra=extra)
        for drain in self._drains:
            with contextlib.suppress(OSError):  # a full disk: the drain tries again
                drain.use_origin(self._origin)

    def _take_new_limits(self) -> None:
        config = self._ctx.take_reload()
        if config is not None:
            self._name_listeners()
            if self._dashcam is not None:
                self._dashcam.take_settings(config)
            for drain in self._drains:
                drain.limits = self._limits(config)
            if self._own is not None:
                for drain in self._attach_lanes():
                    self._own.add_drain(drain)
                self._own.gauge_ms = config.mpbroker_trace_gauge_interval_ms


def unlink_names(names: tuple[str, ...]) -> None:
    """Remove a dead broker's names from /dev/shm."""
    for name in names:
        lane.unlink(name)


def time_namespace_ns() -> int:
    """What this process's time namespace adds to CLOCK_MONOTONIC; 0 where the kernel has no such namespaces."""
    try:
        with open("/proc/self/timens_offsets") as file:
            for line in file:
                clock, seconds, nanoseconds = line.split()
                if clock in ("monotonic", "1"):
                    return int(seconds) * 1_000_000_000 + int(nanoseconds)
    except (OSError, ValueError):
        pass
    return 0
