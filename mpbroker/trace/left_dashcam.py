"""What the dash-cam of a broker kept in memory when all its processes were killed: the tracer of the next start on the
same data directory writes it to disk, a piece a turn, and only then takes it out of memory."""

import shutil
from pathlib import Path

from mpbroker.shm.events import Events
from mpbroker.trace import dump, dump_cause
from mpbroker.trace.dump import Dump
from mpbroker.trace.lane_drain import recover_directory


class LeftDashcam:
    """One such directory under way to disk."""

    def __init__(self, memory: Path, dumps: Path, broker_id: int, log: Events) -> None:
        recover_directory(memory, broker_id)
        cause = dump_cause.now(dump_cause.LEFT, "the broker before was killed")
        self._dump = Dump(memory, dump.new_directory(dumps, broker_id, cause), [cause])
        self._dump.add_all()
        self._log = log

    def turn(self) -> bool:
        """Copy some; True when all is on disk. OSError: the disk does not take it now."""
        if self._dump.is_busy:
            self._dump.step()
            return False
        self._dump.complete()
        shutil.rmtree(self._dump.memory, ignore_errors=True)
        self._log.info("trace_dumped", directory=str(self._dump.target), segments_lost=self._dump.lost)
        return True
