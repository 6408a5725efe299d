"""The named page as seen from outside: process table, ring depths and counters, read-only, without the broker's help.

Used by `status`; works while the broker hangs, because nothing here waits for anybody.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

import posix_ipc

from mpbroker.errors import MpbrokerError
from mpbroker.shm import layout
from mpbroker.shm.owner import refusal
from mpbroker.shm.process_table import BrokerState, ProcessInfo, ProcessState, unpack_process
from mpbroker.shm.segment import names_of

RING_NAMES = {
    layout.RING_CONTROL: "control",
    layout.RING_CONTROL + layout.CLASS_REQUEUED: "control-requeued",
    layout.RING_DATA: "data",
    layout.RING_DATA + layout.CLASS_REQUEUED: "data-requeued",
    **{layout.RING_DATA + c: f"data-{c}" for c in range(1, layout.CLASS_REQUEUED)},
    layout.RING_CONTROLLER: "controller",
    layout.RING_CLUSTER_CONTROLLER: "cluster-controller",
    layout.RING_COORDINATOR: "coordinator",
    layout.RING_COORDINATOR_REQUEUED: "coordinator-requeued",
}

_PROCESS_HEAD = struct.Struct("<I8xI240x")  # pid, state
_RING = struct.Struct(
    f"<QQ112xQ120xQ{layout.STRIDES['rings'] - layout.RING_CAPACITY - 8}x"
)  # tail, peak, head, capacity
assert _PROCESS_HEAD.size == layout.STRIDES["processes"] and _RING.size == layout.STRIDES["rings"]


class PageError(MpbrokerError):
    """There is no page of that name, or it is not one this version reads."""


class RingInfo(NamedTuple):
    """One ring, in hints. `peak`: the largest depth since start; `number`: its row."""

    name: str
    depth: int
    capacity: int
    peak: int
    number: int


class PageView:
    """A mapped page."""

    def __init__(self, name: str) -> None:
        try:
            segment = posix_ipc.SharedMemory(name, read_only=True)
        except posix_ipc.ExistentialError:
            raise PageError(f"there is no {name} in /dev/shm") from None
        except posix_ipc.PermissionsError:
            raise refusal(f"the broker of /dev/shm{name}", f"/dev/shm{name}") from None
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
        self._row_views: dict[str, list[memoryview]] = {}

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
        for row in (row for rows in self._row_views.values() for row in rows):
            row.release()
        self._view.release()
        self._map.close()

    @property
    def boot_id(self) -> int:
        """Of the start that made the page."""
        boot_id: int = layout.HEADER.unpack_from(self._view)[4]
        return boot_id

    @property
    def data_dir(self) -> str:
        """The broker's data directory, its real path; empty when that is too long for the page."""
        at = layout.DATA_DIR_OFFSET
        return os.fsdecode(bytes(self._view[at : at + layout.DATA_DIR_BYTES]).partition(b"\0")[0])

    @property
    def reserved_handlers(self) -> int:
        """Handlers 0 .. n - 1 take requests of the control plane only."""
        return int(layout.HEADER.unpack_from(self._view)[11])

    @property
    def state(self) -> BrokerState:
        """State of the broker when its supervisor last wrote it."""
        return BrokerState(int.from_bytes(self._view[layout.STATE_OFFSET : layout.STATE_OFFSET + 4], "little"))

    def _rows(self, region: str) -> list[memoryview]:
        where = self._regions[region]
        if region not in self._row_views:
            self._row_views[region] = [
                self._view[where.offset + i * where.stride : where.offset + (i + 1) * where.stride]
                for i in range(where.count)
            ]
        return self._row_views[region]

    def _heads(self, region: str, form: struct.Struct) -> Iterator[tuple[int, ...]]:
        """Of every row what `form` picks out: unused rows are many, and looking at all of all of them is slow."""
        where = self._regions[region]
        return form.iter_unpack(self._view[where.offset : where.offset + where.stride * where.count])

    def processes(self) -> list[ProcessInfo]:
        """Slots that were ever used."""
        rows = self._rows("processes")
        return [
            unpack_process(slot, rows[slot])
            for slot, (pid, state) in enumerate(self._heads("processes", _PROCESS_HEAD))
            if pid or state != ProcessState.EMPTY
        ]

    def rings(self) -> list[RingInfo]:
        """Every ring in use; those of answers only where there is, or was, a processor for them, those of classes
        beyond the first only when something was in them."""
        found = []
        heads = enumerate(self._heads("processes", _PROCESS_HEAD))
        used = {slot - layout.SLOT_PROCESSORS for slot, (pid, state) in heads if pid or state != ProcessState.EMPTY}
        for number, (tail, peak, head, capacity) in enumerate(self._heads("rings", _RING)):
            if number >= layout.RING_RESPONSE and number - layout.RING_RESPONSE not in used:
                continue
            if layout.RING_DATA < number < layout.RING_DATA + layout.CLASS_REQUEUED and not peak:
                continue
            if capacity:
                name = RING_NAMES.get(number) or f"response-{number - layout.RING_RESPONSE}"
                found.append(RingInfo(name, min(max(0, tail - head), capacity), capacity, peak, number))
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
