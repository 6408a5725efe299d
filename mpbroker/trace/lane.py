"""A trace lane as named POSIX shared memory: one per processor, written by it, drained by the tracer.

The supervisor creates the lanes before it forks and unlinks them at its end; processors and the tracer attach by name.
Accounting, in native/trace/trace_lane.h: finished requests = written + dropped + sampled out.
"""

import contextlib
import errno
import mmap
import os
from typing import NamedTuple

import posix_ipc

from mpbroker import _native
from mpbroker.errors import MpbrokerError
from mpbroker.trace.record import RECORD_BYTES

CAPACITY_RECORDS = _native.TRACE_LANE_RECORDS


class LaneError(MpbrokerError):
    """A lane cannot be created or attached."""

    exit_code = 2


class LaneCounters(NamedTuple):
    """Requests finished by this processor, and where each one's record went; `drained`: records the tracer has
    taken."""

    finished: int
    written: int
    dropped: int
    sampled_out: int
    drained: int


class Lane:
    """A process's view of one lane. `native` is what the processor's C code commits through."""

    def __init__(self, name: str, memory: mmap.mmap) -> None:
        self.name = name
        self._memory = memory
        self._view = memoryview(memory)
        try:
            self.native = _native.TraceLane(memory)
        except ValueError as error:
            raise LaneError(f"/dev/shm{name}: {error}") from None

    @property
    def processor(self) -> int:
        """Index of the processor that writes it."""
        return self.native.processor

    @property
    def boot_id(self) -> int:
        """Of the supervisor that created it."""
        return self.native.boot_id

    def counters(self) -> LaneCounters:
        """As of now; a commit under way may be missing from `finished`."""
        return LaneCounters(*self.native.counters())

    def peek(self, max_records: int) -> memoryview:
        """Records that are not yet released, as many as lie in one piece; empty when there are none. Not a copy."""
        offset, size = self.native.peek(max_records)
        return self._view[offset : offset + size]

    def release(self, records: memoryview) -> None:
        """Give the place of peeked records back to the writer."""
        self.native.release(len(records) // RECORD_BYTES)

    def drain(self, max_records: int) -> bytes:
        """A copy of the next records, released at once: for readers that do not mind losing them when they die."""
        records = self.peek(max_records)
        copy = bytes(records)
        self.release(records)
        return copy


def lane_bytes(capacity_records: int = CAPACITY_RECORDS) -> int:
    """Bytes of /dev/shm a lane takes."""
    return _native.TRACE_LANE_HEADER_BYTES + capacity_records * RECORD_BYTES


def create(name: str, processor: int, boot_id: int, capacity_records: int = CAPACITY_RECORDS) -> Lane:
    """Make a lane called `name` (`/…`) and reserve all of its memory; LaneError if /dev/shm is too small for it.

    Reserved now, because a page that /dev/shm cannot give later would be a SIGBUS in the middle of a request.
    """
    try:
        segment = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=0o600)
    except posix_ipc.ExistentialError:
        raise LaneError(f"/dev/shm{name} exists already; remove it if no broker runs") from None
    size = lane_bytes(capacity_records)
    try:
        os.posix_fallocate(segment.fd, 0, size)
        memory = mmap.mmap(segment.fd, size)
    except OSError as error:
        posix_ipc.unlink_shared_memory(name)
        if error.errno == errno.ENOSPC:
            raise LaneError(
                f"/dev/shm is too small: a trace lane needs {size} bytes of it; make it larger, or set "
                "mpbroker.trace.enabled=false"
            ) from None
        raise
    finally:
        segment.close_fd()
    _native.trace_lane_format(memory, capacity_records, processor, boot_id)
    return Lane(name, memory)


def attach(name: str, bell_fd: int = -1) -> Lane:
    """Map an existing lane; LaneError when there is none of that name. `bell_fd`: the eventfd that its writer rings."""
    try:
        segment = posix_ipc.SharedMemory(name)
    except posix_ipc.ExistentialError:
        raise LaneError(f"there is no trace lane /dev/shm{name}") from None
    try:
        found = Lane(name, mmap.mmap(segment.fd, os.fstat(segment.fd).st_size))
    except ValueError:  # of a processor that is just being added
        raise LaneError(f"the trace lane /dev/shm{name} is not made yet") from None
    finally:
        segment.close_fd()
    found.native.bell_fd = bell_fd
    return found


def unlink(name: str) -> None:
    """Remove the name; processes that have it mapped keep their memory. No error when it is gone already."""
    with contextlib.suppress(posix_ipc.ExistentialError):
        posix_ipc.unlink_shared_memory(name)
