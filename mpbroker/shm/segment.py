"""Creating, attaching and removing the shared segments.

The supervisor creates all three before it forks: core and arena as memfd (a named segment would die by SIGBUS in a
64 MiB container /dev/shm), the page as named memory `/mpbroker-<data directory>-<boot>-page` for `status`.
Named memory is reserved before it is mapped, so that too small a /dev/shm is an error at start and never a SIGBUS.
Workers inherit the mappings; unrelated processes attach to the page read-only (shm.page_view).
"""

import errno
import mmap
import os
import time
from collections.abc import Iterable

import posix_ipc

from mpbroker import _native
from mpbroker.errors import ConfigError
from mpbroker.shm import layout
from mpbroker.shm.layout import MemoryPlan
from mpbroker.shm.process_table import NEVER_DIED, BrokerState, ProcessRow

SHM_DIR = "/dev/shm"
DASHCAM_SUFFIX = "-dashcam"  # a directory of trace segments, not shared memory: trace/dashcam.py
CORE_MEMFD = "mpbroker-core"
CRASH_VARIABLE = "MPBROKER_CRASH"


def name_prefix(data_dir: str) -> str:
    """What every name of a data directory begins with: `/mpbroker-` and 8 hex digits of its real path."""
    return f"/mpbroker-{_native.crc32c(os.path.realpath(data_dir).encode()):08x}-"


def page_name(data_dir: str, boot_id: int) -> str:
    """Name of the page of one start."""
    return f"{name_prefix(data_dir)}{boot_id:016x}-page"


def names_of(data_dir: str) -> list[str]:
    """Every name in /dev/shm that belongs to the data directory, whichever broker created it; the dash-cam's traces are
    none: the next start writes them to disk."""
    prefix = name_prefix(data_dir)[1:]
    try:
        names = [name for name in os.listdir(SHM_DIR) if name.startswith(prefix)]
        return sorted(f"/{name}" for name in names if not name.endswith(DASHCAM_SUFFIX))
    except FileNotFoundError:
        return []


def dashcam_directory(data_dir: str, boot_id: int) -> str:
    """Where the dash-cam of one start keeps its traces: in memory, but files that every trace command reads."""
    return f"{SHM_DIR}{name_prefix(data_dir)}{boot_id:016x}{DASHCAM_SUFFIX}"


def left_dashcams(data_dir: str, boot_id: int) -> list[str]:
    """Of brokers on this data directory that were killed; for the start that has its lock and this boot id."""
    prefix, own = name_prefix(data_dir)[1:], os.path.basename(dashcam_directory(data_dir, boot_id))
    with os.scandir(SHM_DIR) as entries:
        found = [one for one in entries if one.name.startswith(prefix) and one.name.endswith(DASHCAM_SUFFIX)]
    return sorted(one.path for one in found if one.name != own and one.is_dir(follow_symlinks=False))


def check_room(dashcam_bytes: int) -> None:
    """ConfigError when /dev/shm can never hold so much; what others take of it later is met by keeping less."""
    status = os.statvfs(SHM_DIR)
    room = status.f_bavail * status.f_frsize
    if dashcam_bytes > room:
        problem = (
            f"mpbroker.trace.dashcam.bytes={dashcam_bytes}: {SHM_DIR} has {room} free bytes; allowed is less than that"
        )
        raise ConfigError("mpbroker.trace.dashcam.bytes", str(dashcam_bytes), problem=problem)


def unlink_names(names: Iterable[str]) -> list[str]:
    """Remove names; returns those that existed."""
    removed = []
    for name in names:
        try:
            posix_ipc.unlink_shared_memory(name)
            removed.append(name)
        except posix_ipc.ExistentialError:
            pass
    return removed


def sweep(data_dir: str) -> list[str]:
    """Remove what a killed broker left behind. Only for the holder of the data directory's lock."""
    return unlink_names(names_of(data_dir))


class SharedMemory:
    """The segments of one start and the supervisor's Core over them. `close` unlinks the page; children never call
    it."""

    def __init__(
        self,
        plan: MemoryPlan,
        core: mmap.mmap,
        page: mmap.mmap,
        arena: mmap.mmap,
        name: str,
        boot_id: int,
        eventfds: tuple[int, ...],
    ) -> None:
        self.plan = plan
        self.name = name
        self.boot_id = boot_id
        self._page = page
        self.core = _native.Core(core, page, arena, eventfds)

    def row(self, slot: int) -> ProcessRow:
        """A row of the process table."""
        return ProcessRow(self.core, slot)

    def set_state(self, state: BrokerState) -> None:
        """State of the broker, for workers and for `status`."""
        self.core.state = state

    def reset(self, eventfds: tuple[int, ...]) -> None:
        """Drop core and arena and start from empty ones, after every worker is dead. The process table, the counters
        and the digests of killer frames stay."""
        killers = self.core.killers()
        state = self.core.state
        write_page_rings(self._page, self.plan)
        core, arena = _create_core(self.plan, self.boot_id), _create_arena(self.plan)
        self.core = _native.Core(core, self._page, arena, eventfds)
        self.core.state = state
        for digest, when_ms, kills in killers:
            self.core.add_killer(digest, when_ms, kills)

    def remember_killer(self, handler: int) -> None:
        """A fault ended this handler: the frame it executed, if any, killed it. Frames that do so twice are refused."""
        executed = self.core.frame_in_hand(handler)
        if executed is not None:
            self.core.add_killer(executed[0], time.time_ns() // 1_000_000)

    def arm_crash_points(self, points: str) -> None:
        """`name[:nth][=stop],…`: the process that passes point `name` for the nth time kills or stops itself, once; a
        reset disarms all. ConfigError for a text that is none, and where crash points are not compiled in."""
        try:
            self.core.arm(points)
        except ValueError as error:
            _, _, reason = str(error).rpartition(f"{points!r}: ")
            raise ConfigError(CRASH_VARIABLE, points, reason.removeprefix("allowed is ")) from None

    def close(self) -> None:
        """Unlink the page; the memory itself goes with its last process."""
        unlink_names([self.name])


def create(plan: MemoryPlan, data_dir: str, boot_id: int, eventfds: tuple[int, ...] = ()) -> SharedMemory:
    """All segments, zeroed, with headers and rings written. ConfigError when /dev/shm is too small for the page, or
    where the lock of a dead process would stay taken for ever."""
    layout.check_plan(plan)
    _test_locks()
    name = page_name(data_dir, boot_id)
    page = _create_page(plan, name, boot_id, data_dir)
    try:
        return SharedMemory(plan, _create_core(plan, boot_id), page, _create_arena(plan), name, boot_id, eventfds)
    except BaseException:
        unlink_names([name])
        raise


def _test_locks() -> None:
    try:
        _native.robust_lock_self_test()
    except OSError as error:
        raise ConfigError(
            "robust locks",
            "",
            problem=f"this system does not free the locks of a killed process ({error.strerror}); mpbroker needs Linux "
            "with glibc 2.25 or later",
        ) from error


def _memfd(name: str, size: int) -> mmap.mmap:
    """New memory without a name in any directory. The mapping keeps a descriptor of its own: in the supervisor `status`
    finds it under /proc (shm.core_view), workers close it."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def _create_core(plan: MemoryPlan, boot_id: int) -> mmap.mmap:
    regions, size = layout.core_regions(plan)
    core = _memfd(CORE_MEMFD, size)
    _write_header(core, layout.header_bytes(layout.MAGIC_CORE, plan, regions, size, boot_id))
    return core


def _write_header(memory: mmap.mmap, header: bytes) -> None:
    """The magic number last: who sees it from outside (`status`, during a start or a reset) sees a whole header."""
    memory[layout.MAGIC_BYTES : len(header)] = header[layout.MAGIC_BYTES :]
    memory[: layout.MAGIC_BYTES] = header[: layout.MAGIC_BYTES]


def _create_arena(plan: MemoryPlan) -> mmap.mmap:
    return _memfd("mpbroker-arena", plan.arena_bytes)


def _reserve(name: str, size: int) -> int:
    """Create named memory with all its pages promised; returns the descriptor."""
    try:
        unlink_names([name])
        segment = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=0o600)
    except (OSError, posix_ipc.Error) as error:
        reason = getattr(error, "strerror", None) or error
        problem = f"shared memory cannot be created in {SHM_DIR} ({reason})"
        raise ConfigError(SHM_DIR, name, problem=problem) from None
    try:
        os.posix_fallocate(segment.fd, 0, size)
    except OSError as error:
        segment.close_fd()
        unlink_names([name])
        if error.errno in (errno.ENOSPC, errno.ENOMEM):
            problem = f"{SHM_DIR} is too small: {name} needs {size} free bytes; make it larger"
            raise ConfigError(SHM_DIR, "too small", problem=problem) from None
        raise
    descriptor: int = segment.fd
    return descriptor


def write_page_rings(page: mmap.mmap, plan: MemoryPlan) -> None:
    """Empty rings of the planned capacities in the page's `rings` region."""
    base = layout.read_regions(memoryview(page))["rings"].offset
    stride = layout.STRIDES["rings"]
    page[base : base + stride * layout.MAX_RINGS] = bytes(stride * layout.MAX_RINGS)
    for ring in layout.plan_rings(plan):
        at = base + stride * ring.ring
        page[at + layout.RING_CAPACITY : at + layout.RING_CAPACITY + 8] = ring.capacity.to_bytes(8, "little")
        page[at + layout.RING_SLOTS_FIRST : at + layout.RING_SLOTS_FIRST + 8] = ring.slots_first.to_bytes(8, "little")


def _create_page(plan: MemoryPlan, name: str, boot_id: int, data_dir: str) -> mmap.mmap:
    regions, size = layout.page_regions()
    descriptor = _reserve(name, size)
    try:
        page = mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
    _write_header(page, layout.header_bytes(layout.MAGIC_PAGE, plan, regions, size, boot_id))
    write_page_rings(page, plan)
    path = os.fsencode(os.path.realpath(data_dir))
    if len(path) < layout.DATA_DIR_BYTES:  # a longer one must be named: looking for brokers does not find it
        page[layout.DATA_DIR_OFFSET : layout.DATA_DIR_OFFSET + len(path)] = path
    base = regions[0].offset
    for slot in range(layout.MAX_SLOTS):
        at = base + slot * layout.STRIDES["processes"]
        layout.PROCESS.pack_into(page, at, *(0,) * 9, NEVER_DIED, *(0,) * 10)
    return page
