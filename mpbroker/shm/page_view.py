"""The named page as seen from outside: process table, ring depths and counters, read-only, without the broker's help.

Used by `status` and `top`; works while the broker hangs, because nothing here waits for anybody.
"""

import mmap
import os
from typing import NamedTuple

import posix_ipc

from mpbroker.errors import MpbrokerError
from mpbroker.shm import layout
from mpbroker.shm.process_table import BrokerState, ProcessInfo, ProcessState, unpack_process
from mpbroker.shm.segment import names_of

RING_NAMES = {layout.RING_CONTROL: "control", layout.RING_CONTROL + layout.CLASS_REQUEUED: "control-requeued",
              layout.RING_DATA: "data", layout.RING_DATA + layout.CLASS_REQUEUED: "data-requeued",
              layout.RING_CONTROLLER: "controller"}


class PageError(MpbrokerError):
    """There is no page of that name, or it is not one this version reads."""


class RingInfo(NamedTuple):
    """One ring, in hints. `peak`: the largest depth since start."""

    name: str
    depth: int
    capacity: int
    peak: int


class PageView:
    """A mapped page."""

    def __init__(self, name: str) -> None:
        try:
            segment = posix_ipc.SharedMemory(name, read_only=True)
        except posix_ipc.ExistentialError:
            raise PageError(f"there is no {name} in /dev/shm") from None
        try:
            self._map = mmap.mmap(segment.fd, os.fstat(segment.fd).st_size, prot=mmap.PROT_READ)
        except ValueError:
            raise PageError(f"/dev/shm{name} is empty") from None
        finally:
            segment.close_fd()
        self.name = name
        self._view = memoryview(self._map)
        self._check()
        self._regions = layout.read_regions(self._view)

    def _check(self) -> None:
        if len(self._view) < layout.PAGE_BYTES:
            raise PageError(f"/dev/shm{self.name} has only {len(self._view)} bytes")
        magic, version = layout.HEADER.unpack_from(self._view)[:2]
        if magic != layout.MAGIC_PAGE:
            raise PageError(f"/dev/shm{self.name} is not a page of mpbroker")
        if version != layout.VERSION:
            raise PageError(f"/dev/shm{self.name} has layout {version}; this program reads {layout.VERSION}")

    def close(self) -> None:
        """Unmap."""
        self._view.release()
        self._map.close()

    @property
    def boot_id(self) -> int:
        """Of the start that made the page."""
        return layout.HEADER.unpack_from(self._view)[4]

    @property
    def state(self) -> BrokerState:
        """State of the broker when its supervisor last wrote it."""
        return BrokerState(int.from_bytes(self._view[layout.STATE_OFFSET : layout.STATE_OFFSET + 4], "little"))

    def _rows(self, region: str) -> list[memoryview]:
        where = self._regions[region]
        return [self._view[where.offset + i * where.stride : where.offset + (i + 1) * where.stride]
                for i in range(where.count)]

    def processes(self) -> list[ProcessInfo]:
        """Slots that were ever used."""
        rows = (unpack_process(slot, row) for slot, row in enumerate(self._rows("processes")))
        return [row for row in rows if row.state != ProcessState.EMPTY or row.pid]

    def rings(self) -> list[RingInfo]:
        """Every ring in use."""
        found = []
        for number, row in enumerate(self._rows("rings")):
            tail, head, peak, capacity = (int.from_bytes(row[at : at + 8], "little") for at in
                                          (0, layout.RING_HEAD, layout.RING_PEAK, layout.RING_CAPACITY))
            if capacity:
                name = RING_NAMES.get(number, f"response-{number - layout.RING_RESPONSE}")
                found.append(RingInfo(name, min(max(0, tail - head), capacity), capacity, peak))
        return found

    def counters(self, slot: int | None = None) -> list[int]:
        """All 240 counters of a slot, or summed over the slots; shm.counters has the names."""
        rows = self._rows("counters")
        chosen = rows if slot is None else [rows[slot]]
        columns = [row.cast("Q").tolist() for row in chosen]
        return [sum(column) for column in zip(*columns, strict=True)]


def open_page(data_dir: str) -> PageView:
    """The page of the broker that runs, or last ran, on a data directory. PageError when there is none."""
    pages = [name for name in names_of(data_dir) if name.endswith("-page")]
    if not pages:
        raise PageError(f"no broker has a page in /dev/shm for {data_dir}")
    newest = max(pages, key=lambda name: os.stat(f"/dev/shm{name}").st_mtime_ns)
    return PageView(newest)
