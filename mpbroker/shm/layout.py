"""Shared memory as Python code sees it: the plan of the segments, and numbers, sizes and offsets of layout.h, which
are the compiler's own (`_native.LAYOUT`). Only the struct formats are written down here; a test holds them against
the compiler's offsets.

Pure arithmetic, any process. The supervisor plans and writes headers before the first fork (shm.segment); afterwards
nobody changes a size.
"""

import struct
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

from mpbroker._native import LAYOUT
from mpbroker.config.limits import HANDLER_ARENA_BYTES

VERSION: Final = LAYOUT["version"]
MAGIC_CORE: Final = LAYOUT["magic_core"]
MAGIC_PAGE: Final = LAYOUT["magic_page"]
PAGE_BYTES: Final = LAYOUT["header"]

SLOT_SUPERVISOR: Final = LAYOUT["slot_supervisor"]
SLOT_ACCEPTOR: Final = LAYOUT["slot_acceptor"]
SLOT_PROCESSORS: Final = LAYOUT["slot_processors"]
SLOT_HANDLERS: Final = LAYOUT["slot_handlers"]
SLOT_CONTROLLER: Final = LAYOUT["slot_controller"]
SLOT_LOG_KEEPER: Final = LAYOUT["slot_log_keeper"]
SLOT_TRACER: Final = LAYOUT["slot_tracer"]
SLOT_COORDINATOR: Final = LAYOUT["slot_coordinator"]
SLOT_ADMIN: Final = LAYOUT["slot_admin"]
SLOT_CLUSTER_CONTROLLER: Final = LAYOUT["slot_cluster_controller"]
SLOT_FETCHERS: Final = LAYOUT["slot_fetchers"]
MAX_FETCHERS: Final = LAYOUT["max_fetchers"]
MAX_PROCESSORS: Final = LAYOUT["max_processors"]
MAX_HANDLERS: Final = LAYOUT["max_handlers"]
MAX_SLOTS: Final = LAYOUT["max_slots"]

MAX_RINGS: Final = LAYOUT["max_rings"]
RING_CONTROL: Final = LAYOUT["ring_control"]
RING_DATA: Final = LAYOUT["ring_data"]
RING_CONTROLLER: Final = LAYOUT["ring_controller"]
RING_CLUSTER_CONTROLLER: Final = LAYOUT["ring_cluster_controller"]
RING_COORDINATOR: Final = LAYOUT["ring_coordinator"]
RING_COORDINATOR_REQUEUED: Final = LAYOUT["ring_coordinator_requeued"]
RING_RESPONSE: Final = LAYOUT["ring_response"]
CLASS_REQUEUED: Final = LAYOUT["class_requeued"]
RING_SLACK: Final = 128
"""Room for stale and duplicate hints in rings that must never be full."""
INDEX_BITS: Final = LAYOUT["index_bits"]
DIRTY_BITS: Final = LAYOUT["dirty_bits"]
"""A handler's set of moved partitions is kept modulo this."""
EXTENTS_PER_HANDLER: Final = LAYOUT["extents_per_handler"]
JOURNAL_ROWS: Final = LAYOUT["journal_rows"]
KILLER_ROWS: Final = LAYOUT["killer_rows"]
INJECT_ROWS: Final = LAYOUT["inject_rows"]
MAX_COUNTERS: Final = LAYOUT["max_counters"]
ADDRESS_ROWS: Final = LAYOUT["address_rows"]
"""Rows of `addresses` for each processor, by connection number."""
SESSION_UNIT_BYTES: Final = LAYOUT["session_units"]
MAX_FETCH_SESSIONS: Final = 65536
"""The row is a part of a session's id; the rest is random."""
MAX_BROKERS: Final = LAYOUT["max_brokers"]
BROKER_BYTES: Final = LAYOUT["broker_bytes"]
"""Bytes of a broker's endpoints and rack."""
MAX_ASSIGNED: Final = LAYOUT["max_assigned"]
"""Replicas of a partition."""
API_ROWS: Final = LAYOUT["api_rows"]
"""Rows of `apis` for each processor, one for each API key."""

CORE_REGIONS: Final = ("topics", "journal", "partitions", "producers", "entries", "slots", "commands", "extents",
                       "doorbells", "killers", "inject", "apis", "groups", "members", "addresses", "fetch_sessions",
                       "session_units", "session_owners", "assignments", "brokers", "replicas")
PAGE_REGIONS: Final = ("processes", "rings", "counters")
STRIDES: Final = {name: LAYOUT[name] for name in CORE_REGIONS + PAGE_REGIONS}
"""Bytes of one row of each region."""

HEADER: Final = struct.Struct("<QIIQQQQQIIII")
"""magic, version, regions, bytes, boot id, arena bytes, per processor, per handler, processors, handlers, entries per
processor, reserved handlers."""
MAGIC_BYTES: Final = 8
REGION: Final = struct.Struct("<16sQQQ")
PLANES: Final = struct.Struct("<IIII")
COORDINATOR: Final = struct.Struct("<I")
COORDINATOR_OFFSET: Final = LAYOUT["header.coordinator"]
STATE_OFFSET: Final = LAYOUT["header.state"]
PLANES_OFFSET: Final = LAYOUT["header.plane_bound"]
REGIONS_OFFSET: Final = LAYOUT["header.regions"]
DATA_DIR_OFFSET: Final = LAYOUT["header.data_dir"]
DATA_DIR_BYTES: Final = LAYOUT["data_dir_bytes"]
METADATA_GENERATION_OFFSET: Final = LAYOUT["header.metadata_generation"]

PROCESS: Final = struct.Struct("<IIBBBBIIIIIQQQQQIIQQ")
"""pid, incarnation, role, index, listener, -, state, wait, restarts, last exit, -, heartbeat, request, request since,
busy, idle, connections, troubles, troubled since, unsteady since."""
RING_HEAD: Final = LAYOUT["ring.head"]
RING_PEAK: Final = LAYOUT["ring.peak"]
RING_CAPACITY: Final = LAYOUT["ring.capacity"]
RING_SLOTS_FIRST: Final = LAYOUT["ring.slots_first"]


class TopicFlags(IntFlag):
    """Bits of a topic row (native/shm/metadata.h)."""

    EXISTS = 1
    INTERNAL = 2
    DELETING = 4


class PartitionFlags(IntFlag):
    """Bits of a partition row (enum mpb_partition_flags)."""

    EXISTS = LAYOUT["partition_exists"]
    ONLINE = LAYOUT["partition_online"]
    DELETED = LAYOUT["partition_deleted"]


# As plain numbers, for tests of one bit in a hot place: an IntFlag makes an object.
TOPIC_EXISTS: Final = int(TopicFlags.EXISTS)
PARTITION_EXISTS: Final = int(PartitionFlags.EXISTS)
PARTITION_ONLINE: Final = int(PartitionFlags.ONLINE)


class ReplicaRole(IntEnum):
    """What this broker is for a partition (enum mpb_replica_role)."""

    LEADER = LAYOUT["role_leader"]
    FOLLOWER = LAYOUT["role_follower"]
    NONE = LAYOUT["role_none"]  # no controller has said yet, or there is no replica here


class ParkedKind(IntEnum):
    """What a request waits for in its handler's purgatory (enum mpb_parked_kind). Kept in its entry, for the
    handler that runs it again after a death."""

    NOT = LAYOUT["parked_not"]
    PRODUCE = LAYOUT["parked_produce"]  # to be acknowledged
    FETCH = LAYOUT["parked_fetch"]  # for records, or for memory to send them
    CONTROLLER = LAYOUT["parked_controller"]  # for the controller's answers
    COORDINATOR = LAYOUT["parked_coordinator"]  # for other members of its group, or its own record's acknowledgement


class MemoryPlan(NamedTuple):
    """How much of everything. `processors` counts those of all listeners, `handlers` includes the reserved ones and, as
    the last of them, the coordinator if there is one. `replicated`: the broker is one of a cluster."""

    processors: int = 1
    handlers: int = 2
    coordinator: bool = False
    reserved_handlers: int = 0
    entries_per_processor: int = 4096
    data_requests: int = 500
    control_requests: int = 20
    topics: int = 4096
    partitions: int = 16384
    producers: int = 65536
    commands: int = 64
    groups: int = 1024
    members: int = 1024
    fetch_sessions: int = 1000
    session_units: int = 8192
    replicated: bool = False
    arena_processor_bytes: int = 256 << 20
    arena_handler_bytes: int = HANDLER_ARENA_BYTES

    @property
    def entries(self) -> int:
        """Request entries of all processors."""
        return self.processors * self.entries_per_processor

    @property
    def arena_bytes(self) -> int:
        """Address space of the arena; a page costs memory only once it was written."""
        return self.processors * self.arena_processor_bytes + self.handlers * self.arena_handler_bytes


class RingPlan(NamedTuple):
    """One ring: its row in the `rings` region, capacity in hints, first row in the `slots` region."""

    ring: int
    name: str
    capacity: int
    slots_first: int


def plan_rings(plan: MemoryPlan) -> list[RingPlan]:
    """Every ring of a plan. Rings that must never be full have room for every row that can be in them, and slack."""
    wanted = [
        (RING_CONTROL, "control", plan.control_requests),
        (RING_CONTROL + CLASS_REQUEUED, "control-requeued", plan.entries + RING_SLACK),
        (RING_DATA, "data", plan.data_requests),
        (RING_DATA + CLASS_REQUEUED, "data-requeued", plan.entries + RING_SLACK),
        (RING_CONTROLLER, "controller", plan.commands + RING_SLACK),
        (RING_COORDINATOR, "coordinator", plan.entries + RING_SLACK),
        (RING_COORDINATOR_REQUEUED, "coordinator-requeued", plan.entries + RING_SLACK),
    ]
    wanted += [(RING_RESPONSE + p, f"response-{p}", plan.entries_per_processor + RING_SLACK)
               for p in range(plan.processors)]
    if plan.replicated:
        wanted.append((RING_CLUSTER_CONTROLLER, "cluster-controller", plan.commands + RING_SLACK))
    holds = min(plan.data_requests, plan.entries + RING_SLACK)  # stale hints are dropped before a plane is called full
    wanted += [(RING_DATA + c, f"data-{c}", holds) for c in range(1, CLASS_REQUEUED)]
    rings, first = [], 0
    for ring, name, capacity in wanted:
        rings.append(RingPlan(ring, name, capacity, first))
        first += capacity
    return rings


class Region(NamedTuple):
    """One array of a segment."""

    name: str
    offset: int
    stride: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls


def _place(counts: dict[str, int]) -> tuple[list[Region], int]:
    """Regions one after another, each beginning on a page; and the segment's bytes."""
    regions, at = [], PAGE_BYTES
    for name, count in counts.items():
        regions.append(Region(name, at, STRIDES[name], count))
        at += (STRIDES[name] * count + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES
    return regions, at


def core_regions(plan: MemoryPlan) -> tuple[list[Region], int]:
    """The core segment's regions and bytes."""
    slots = sum(ring.capacity for ring in plan_rings(plan))
    return _place({
        "topics": plan.topics, "journal": JOURNAL_ROWS, "partitions": plan.partitions, "producers": plan.producers,
        "entries": plan.entries, "slots": slots, "commands": plan.commands,
        "extents": plan.handlers * EXTENTS_PER_HANDLER, "doorbells": 1, "killers": KILLER_ROWS, "inject": INJECT_ROWS,
        "apis": plan.processors * API_ROWS, "groups": plan.groups, "members": plan.members,
        "addresses": plan.processors * ADDRESS_ROWS, "fetch_sessions": plan.fetch_sessions,
        "session_units": plan.session_units, "session_owners": plan.session_units,
        "assignments": plan.partitions if plan.replicated else 0, "brokers": MAX_BROKERS if plan.replicated else 0,
        "replicas": plan.partitions if plan.replicated else 0,
    })


def page_regions() -> tuple[list[Region], int]:
    """The page segment's regions and bytes."""
    return _place({"processes": MAX_SLOTS, "rings": MAX_RINGS, "counters": MAX_SLOTS})


def check_plan(plan: MemoryPlan) -> None:
    """ValueError, naming the number, for a plan the layout cannot express."""
    bounds = {
        "processors": (1, MAX_PROCESSORS), "handlers": (1, MAX_HANDLERS), "reserved_handlers": (0, plan.handlers),
        "entries_per_processor": (1, 2**INDEX_BITS - 2), "data_requests": (1, 2**31 - 1),
        "commands": (1, LAYOUT["max_commands"]),
        "control_requests": (1, 2**31 - 1), "topics": (1, 2**24), "partitions": (1, 2**24), "producers": (1, 2**24),
        "groups": (1, 2**24), "members": (1, 2**24), "fetch_sessions": (0, MAX_FETCH_SESSIONS),
        "session_units": (1, 2**24),
        "arena_processor_bytes": (PAGE_BYTES, 2**44), "arena_handler_bytes": (LAYOUT["unit_bytes"], 2**44),
    }
    for name, (least, most) in bounds.items():
        value = getattr(plan, name)
        if not least <= value <= most:
            raise ValueError(f"{name}={value}: allowed is {least} to {most}")
    if plan.entries > 2**INDEX_BITS - 2:
        raise ValueError(f"{plan.entries} request entries in all: allowed are {2**INDEX_BITS - 2}")


def header_bytes(magic: int, plan: MemoryPlan, regions: list[Region], size: int, boot_id: int) -> bytes:
    """The first page of a segment."""
    page = bytearray(PAGE_BYTES)
    HEADER.pack_into(page, 0, magic, VERSION, len(regions), size, boot_id, plan.arena_bytes, plan.arena_processor_bytes,
                     plan.arena_handler_bytes, plan.processors, plan.handlers, plan.entries_per_processor,
                     plan.reserved_handlers)
    PLANES.pack_into(page, PLANES_OFFSET, plan.data_requests, plan.control_requests, 1, 1)
    COORDINATOR.pack_into(page, COORDINATOR_OFFSET, plan.handlers if plan.coordinator else 0)
    for i, region in enumerate(regions):
        REGION.pack_into(page, REGIONS_OFFSET + i * REGION.size, region.name.encode(), region.offset, region.stride,
                         region.count)
    return bytes(page)


def read_regions(segment: memoryview) -> dict[str, Region]:
    """The region table of a mapped segment; rows that do not lie inside it are left out."""
    count = min(HEADER.unpack_from(segment, 0)[2], LAYOUT["max_regions"])
    regions = {}
    for i in range(count):
        name, offset, stride, rows = REGION.unpack_from(segment, REGIONS_OFFSET + i * REGION.size)
        if offset + stride * rows <= len(segment):
            regions[name.rstrip(b"\0").decode("ascii", "replace")] = Region(name.decode("ascii"), offset, stride, rows)
    return regions
