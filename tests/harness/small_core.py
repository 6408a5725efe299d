"""Shared memory of one process for tests: small tables in anonymous memory, nothing named, nothing to clean up."""

import ctypes
import mmap
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mpbroker import _native
from mpbroker.shm import layout, segment
from mpbroker.shm.layout import MemoryPlan

WHO = struct.Struct("<IIIIII16s")  # flags, topic_row, partition, log_dir, next_ordinal, dir_length, topic_id
DIR_OFFSET = _native.LAYOUT["partition.dir"]
#: Of a partition's row (shm/layout.h): its lock, and since when somebody waits for that, which its holder takes back.
LOCK_OFFSET, BUSY_OFFSET = 64, 120
WAIT_S = 60.0


def small_plan(**changes: int) -> MemoryPlan:
    """A plan of a few megabytes; `changes` by MemoryPlan's names."""
    small = {
        "processors": 1,
        "handlers": 2,
        "entries_per_processor": 64,
        "topics": 8,
        "partitions": 16,
        "producers": 64,
        "commands": 8,
        "arena_processor_bytes": 1 << 20,
        "arena_handler_bytes": 1 << 20,
    }
    return MemoryPlan(**small | changes)


class SmallCore:
    """Core, page and arena of a plan. `partition` writes a partition row's identity without any log behind it."""

    def __init__(self, core: mmap.mmap, page: mmap.mmap, arena: mmap.mmap, plan: MemoryPlan) -> None:
        self.memory = (core, page, arena)
        self.core = _native.Core(core, page, arena)
        self._regions = {region.name: region for region in layout.core_regions(plan)[0]}

    def place(self, region: str, row: int = 0, at: int = 0) -> int:
        """Where a byte of a table's row is in the core; what follows the table, where there is no such row."""
        found = self._regions[region]
        return found.offset + row * found.stride + at

    def _base(self, ordinal: int) -> int:
        return self.place("partitions", ordinal)

    def set_flags(self, ordinal: int, flags: int) -> None:
        """Store a partition row's flags."""
        struct.pack_into("<I", self.memory[0], self._base(ordinal), flags)

    def partition(
        self, ordinal: int, topic_id: bytes, partition: int, flags: int = 3, topic_row: int = 0, directory: str = "t-0"
    ) -> None:
        """Make the row one of a partition (flags 3: exists and online)."""
        base, name = self._base(ordinal), directory.encode()
        next_ordinal = WHO.unpack_from(self.memory[0], base)[4]
        WHO.pack_into(self.memory[0], base, flags, topic_row, partition, 0, next_ordinal, len(name), topic_id)
        self.memory[0][base + DIR_OFFSET : base + DIR_OFFSET + len(name)] = name

    @contextmanager
    def held(self, ordinal: int) -> Iterator[None]:
        """Meanwhile another thread holds the lock of a row that was used before. Without a process table any thread
        that lives counts as a worker: nobody takes the lock for lost."""
        lock = ctypes.addressof(ctypes.c_char.from_buffer(self.memory[0])) + self._base(ordinal) + LOCK_OFFSET
        taken, enough, codes, libc = threading.Event(), threading.Event(), [], ctypes.CDLL(None)

        def hold() -> None:
            codes.append(libc.pthread_mutex_lock(ctypes.c_void_p(lock)))
            taken.set()
            enough.wait(WAIT_S)
            codes.append(libc.pthread_mutex_unlock(ctypes.c_void_p(lock)))

        holder = threading.Thread(target=hold)
        holder.start()
        try:
            assert taken.wait(WAIT_S)
            yield
        finally:
            enough.set()
            holder.join()
            struct.pack_into("<Q", self.memory[0], self._base(ordinal) + BUSY_OFFSET, 0)
        assert codes == [0, 0]


def write_headers(core: mmap.mmap, page: mmap.mmap, arena: mmap.mmap, plan: MemoryPlan) -> None:
    """Headers and rings into zeroed memory of the plan's sizes."""
    regions, size = layout.core_regions(plan)
    core[: layout.PAGE_BYTES] = layout.header_bytes(layout.MAGIC_CORE, plan, regions, size, 0x1234)
    regions, size = layout.page_regions()
    page[: layout.PAGE_BYTES] = layout.header_bytes(layout.MAGIC_PAGE, plan, regions, size, 0x1234)
    segment.write_page_rings(page, plan)


def small_core(**changes: int) -> SmallCore:
    """Freshly zeroed memory with headers and rings."""
    plan = small_plan(**changes)
    sizes = [layout.core_regions(plan)[1], layout.page_regions()[1], plan.arena_bytes]
    core, page, arena = (mmap.mmap(-1, size) for size in sizes)
    write_headers(core, page, arena, plan)
    return SmallCore(core, page, arena, plan)
