"""The dash-cam: traces stay in memory, bounded in bytes and time, and go to disk when something happens.

The tracer writes its segments, names and manifest into a directory of /dev/shm as it would on disk; this bounds them,
and copies them into a dump when a trigger, `mpbroker trace dump` or SIGUSR1 says so, with what follows for a while. A
tracer that dies leaves memory and an unfinished dump to its successor; what a broker that was killed with all its
processes left in memory is written by the next start (left_dashcam.py).
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.shm.events import Events
from mpbroker.shm.segment import dashcam_directory
from mpbroker.trace import dictionary, dump, dump_cause, manifest, retention
from mpbroker.trace.dump import Dump
from mpbroker.trace.dump_cause import Cause
from mpbroker.trace.dump_trigger import DumpTrigger, TriggerLimits
from mpbroker.trace.lane_drain import LaneDrain, Limits
from mpbroker.trace.mark_spool import Mark
from mpbroker.trace.own_records import OwnRecords

STATE = "dumping.json"
LEAST_SEGMENT_BYTES, MOST_SEGMENT_BYTES = 256 << 10, 8 << 20
SEGMENTS_OF_A_WINDOW = 16
AGAIN_MS = 2_000
GIVE_UP_MS = 60_000
FINISH_S = 10.0
SPARE_BYTES = 4 << 20
"""Left free in /dev/shm: what a lane may bring between two looks, and some."""
_NS_PER_MS = 1_000_000


class _Bounds(NamedTuple):
    """Of what is in memory."""

    most_bytes: int
    window_ms: int


class Dashcam:
    """One per tracer. `end_segments` closes those that are open now, so that they can be copied."""

    def __init__(self, config: BrokerConfig, boot_id: int, log: Events, end_segments: Callable[[], None]) -> None:
        self.memory = Path(dashcam_directory(config.data_dir, boot_id))
        self._dumps = Path(config.trace_dir)
        self._broker_id = config.node_id
        self._log = log
        self._end_segments = end_segments
        self._dump: Dump | None = None
        self._asked: list[Cause] = []
        self._again_ns = 0
        self._failing_since_ns: int | None = None
        self._seen_files: set[str] = set()
        self._retained_ns = 0
        self.trigger = DumpTrigger(TriggerLimits(-1, 0, 0, 0))
        self.take_settings(config)
        self.memory.mkdir(mode=0o700, exist_ok=True)

    def take_settings(self, config: BrokerConfig) -> None:
        """At the start, and when they change."""
        self._bounds = _Bounds(config.mpbroker_trace_dashcam_bytes, config.mpbroker_trace_dashcam_ms)
        self._disk = config.mpbroker_trace_retention_bytes, config.mpbroker_trace_retention_ms
        self.after_ms = config.mpbroker_trace_dashcam_after_ms
        self.trigger.limits = TriggerLimits(
            config.mpbroker_trace_dashcam_latency_ms,
            config.mpbroker_trace_dashcam_error_percent,
            config.mpbroker_trace_dashcam_ms,
            config.mpbroker_trace_dashcam_after_ms,
        )

    def limits(self, lanes: int) -> Limits:
        """Of segments: small ones, for the oldest goes as a whole."""
        share = self._bounds.most_bytes // (4 * max(1, lanes))
        size = min(max(share, LEAST_SEGMENT_BYTES), MOST_SEGMENT_BYTES)
        return Limits(size, max(100, self._bounds.window_ms // SEGMENTS_OF_A_WINDOW))

    @property
    def is_busy(self) -> bool:
        """Whether it wants a turn soon."""
        return self._dump is not None and self._dump.is_busy

    def asked(self, mark: Mark) -> None:
        """By `mpbroker trace dump` or a signal; the marker is written before the dump begins."""
        epoch_ms = (time.time_ns() - time.monotonic_ns() + mark.t0_ns) // _NS_PER_MS
        self._asked.append(Cause(dump_cause.ASKED, mark.text, mark.t0_ns, epoch_ms, mark.dump_after_ms or 0))

    def want(self, cause: Cause) -> None:
        """Write a dump; if one is under way it goes on for this cause too. OSError: no directory can be made for it."""
        until_ns = cause.t0_ns + cause.after_ms * _NS_PER_MS
        if self._dump is None:
            target = dump.new_directory(self._dumps, self._broker_id, cause)
            self._dump = Dump(self.memory, target, [cause], until_ns)
            self._log.info("trace_dump_begun", directory=str(target), reason=cause.text)
        else:
            self._dump.join(cause)
            most_ns = self._dump.causes[0].t0_ns + (self._bounds.window_ms + self.after_ms) * _NS_PER_MS
            self._dump.until_ns = max(self._dump.until_ns, min(until_ns, most_ns))
        self._note(self._dump)
        self._end_segments()
        self._dump.add_closed()

    def turn(self, now_ns: int, drains: list[LaneDrain], own: OwnRecords) -> None:
        """Look at triggers, bound what is in memory, go on with a dump. OSError: the disk does not take it now."""
        self._bound(now_ns, {path: size for drain in drains for path, size in drain.active.items()})
        cause = self.trigger.take(now_ns)
        if cause is not None:
            own.mark(cause.text, cause.t0_ns)
            own.write(now_ns)
            self._asked.append(cause)
        if now_ns < self._again_ns:
            return
        try:
            while self._asked:
                self.want(self._asked[0])
                self._asked.pop(0)
            self._write(now_ns)
            self._failing_since_ns = None
        except OSError as error:
            self._again_ns = now_ns + AGAIN_MS * _NS_PER_MS
            self._failing_since_ns = self._failing_since_ns or now_ns
            if now_ns - self._failing_since_ns > GIVE_UP_MS * _NS_PER_MS:
                self._give_up(error)
            raise

    def finish(self, supervisor_gone: bool) -> None:
        """At the tracer's end: what is under way is written, and a supervisor that died has its dump; then nothing
        stays in memory. OSError: what the disk does not take stays for the next start."""
        if supervisor_gone:
            self.want(dump_cause.now(dump_cause.DIED, "the supervisor died"))
        deadline = time.monotonic() + FINISH_S
        if self._dump is not None:
            self._dump.until_ns = 0
            self._dump.add_closed()
        while self._dump is not None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the disk did not take the dump within {FINISH_S:.0f} s")
            self._write(time.monotonic_ns())
        shutil.rmtree(self.memory, ignore_errors=True)

    def retain_dumps(self, now_s: float) -> int:
        """Delete the oldest whole dumps beyond mpbroker.trace.retention.*; returns how many."""
        busy = {self._dump.target} if self._dump is not None else set()
        return delete_dumps(self._dumps, self._broker_id, busy, now_s, *self._disk)

    def _write(self, now_ns: int) -> None:
        if self._dump is None:
            return
        if self._dump.is_busy:
            self._dump.step()
        elif now_ns >= self._dump.until_ns:
            self._end(self._dump)

    def _end(self, one: Dump) -> None:
        """Its time is over: what is open is closed and copied, once, and then it is complete."""
        if one.until_ns:
            one.until_ns = 0
            self._end_segments()
            one.add_closed()
            if one.is_busy:
                return
        one.complete()
        self._dump = None
        (self.memory / STATE).unlink(missing_ok=True)
        left_out, self.trigger.left_out = self.trigger.left_out, 0
        self._log.info("trace_dumped", directory=str(one.target), segments_lost=one.lost, triggers_left_out=left_out)

    def _give_up(self, error: OSError) -> None:
        self._failing_since_ns = None
        self._asked.clear()
        self._log.error("trace_dump_failed", directory=str(self._dumps), reason=str(error))
        if self._dump is not None:
            self._dump.abandon()
            self._dump = None
            (self.memory / STATE).unlink(missing_ok=True)

    def _bound(self, now_ns: int, active: dict[Path, int]) -> None:
        """The oldest closed segments go when the open ones changed, and once a second for their age."""
        names = {path.name for path in active}
        if names == self._seen_files and now_ns < self._retained_ns + 1000 * _NS_PER_MS:
            return
        self._seen_files, self._retained_ns = names, now_ns
        if self._dump is not None:
            self._dump.add_closed()
        most_bytes = self._room()
        gone = retention.apply(self.memory, active, time.time(), most_bytes, self._bounds.window_ms)
        if gone:
            manifest.forget(self.memory, {path.name for path in gone})

    def _room(self) -> int:
        """For segments: the setting less the names' file, less still where others have filled /dev/shm meanwhile."""
        names_bytes = sum(path.stat().st_size for path in self.memory.glob(dictionary.PATTERN))
        used_bytes = sum(one.file_bytes for one in retention.candidates(self.memory, set()))
        status = os.statvfs(self.memory)
        there = used_bytes + status.f_bavail * status.f_frsize - SPARE_BYTES
        return min(max(self._bounds.most_bytes - names_bytes, self._bounds.most_bytes // 2), max(0, there))

    def _note(self, one: Dump) -> None:
        """For a successor."""
        causes = [cause.document() for cause in one.causes]
        state = {"target": one.target.name, "until_ns": one.until_ns, "causes": causes}
        temporary = self.memory / (STATE + dump.PART_SUFFIX)
        temporary.write_text(json.dumps(state))
        temporary.replace(self.memory / STATE)

    def resume(self) -> None:
        """Go on with what a predecessor was writing when it died; its segments are closed."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            state = json.loads((self.memory / STATE).read_bytes())
            target = self._dumps / Path(str(state["target"])).name
            causes = [dump_cause.read(row) for row in state["causes"]]
            if causes and target.is_dir():
                self._dump = Dump(self.memory, target, causes, max(1, int(state["until_ns"])))
                self._dump.add_closed()


def delete_dumps(
    directory: Path, broker_id: int, busy: set[Path], now_s: float, retention_bytes: int, retention_ms: int
) -> int:
    """Delete whole dumps of the dash-cam, the oldest first, by the same two limits; one under way counts and
    stays. Returns how many went."""
    found = []
    for path in directory.glob(f"{dump.PATTERN}-b{broker_id}-*"):
        if path.is_dir():
            size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
            found.append(retention.Candidate(path, path.stat().st_mtime, size))
    complete = sorted((one for one in found if one.path not in busy), key=lambda one: (one.modified_s, one.path.name))
    busy_bytes = sum(one.file_bytes for one in found if one.path in busy)
    doomed = retention.choose(complete, busy_bytes, now_s, retention_bytes, retention_ms)
    for one in doomed:
        shutil.rmtree(one.path, ignore_errors=True)
    return len(doomed)
