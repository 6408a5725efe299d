"""How much of everything: bounds of a plan, its rings and regions row by row, and how their table is read."""

import pytest

from mpbroker import _native
from mpbroker.shm import layout
from mpbroker.shm.layout import MemoryPlan, TopicFlags, check_plan, core_regions, plan_rings, read_regions

L = _native.LAYOUT
MANY = 2**24
BOUNDS = {
    "processors": (1, 32),
    "handlers": (1, 64),
    "reserved_handlers": (0, 2),
    "entries_per_processor": (1, 131070),
    "data_requests": (1, 2147483647),
    "control_requests": (1, 2147483647),
    "commands": (1, L["max_commands"]),
    "topics": (1, MANY),
    "partitions": (1, MANY),
    "producers": (1, MANY),
    "groups": (1, MANY),
    "members": (1, MANY),
    "fetch_sessions": (0, 65536),
    "session_units": (1, MANY),
    "arena_processor_bytes": (4096, 2**44),
    "arena_handler_bytes": (L["unit_bytes"], 2**44),
}


@pytest.mark.parametrize("field", BOUNDS)
def test_what_the_layout_can_express(field):
    least, most = BOUNDS[field]
    for value in (least, most):
        check_plan(MemoryPlan(**{"entries_per_processor": 64, field: value}))
    for value in (least - 1, most + 1):
        with pytest.raises(ValueError, match=f"^{field}={value}: allowed is {least} to {most}$"):
            check_plan(MemoryPlan(**{field: value}))


@pytest.mark.parametrize(("processors", "entries", "fits"), [(2, 65535, True), (2, 65536, False), (31, 4228, True)])
def test_entries_of_all_processors_have_numbers(processors, entries, fits):
    plan = MemoryPlan(processors=processors, entries_per_processor=entries)
    assert plan.entries == processors * entries
    if fits:
        check_plan(plan)
        return
    with pytest.raises(ValueError, match=f"^{plan.entries} request entries in all: allowed are 131070$"):
        check_plan(plan)


def test_a_plan_that_is_told_nothing():
    assert MemoryPlan()._asdict() == {
        "processors": 1,
        "handlers": 2,
        "coordinator": False,
        "reserved_handlers": 0,
        "entries_per_processor": 4096,
        "data_requests": 500,
        "control_requests": 20,
        "topics": 4096,
        "partitions": 16384,
        "producers": 65536,
        "commands": 64,
        "groups": 1024,
        "members": 1024,
        "fetch_sessions": 1000,
        "session_units": 8192,
        "replicated": False,
        "arena_processor_bytes": 256 << 20,
        "arena_handler_bytes": 256 << 20,
    }
    assert MemoryPlan(processors=3, arena_processor_bytes=5, arena_handler_bytes=7).arena_bytes == 29
    assert [int(flag) for flag in TopicFlags] == [1, 2, 4]


PLAN = MemoryPlan(
    processors=3,
    handlers=4,
    entries_per_processor=100,
    data_requests=50,
    control_requests=7,
    commands=9,
    topics=11,
    partitions=13,
    producers=17,
    groups=19,
    members=23,
    fetch_sessions=29,
    session_units=31,
)


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize(("data_requests", "of_a_class"), [(50, 50), (427, 427), (428, 428), (429, 428)])
def test_every_ring_has_the_room_that_it_may_need(replicated, data_requests, of_a_class):
    rings = plan_rings(PLAN._replace(replicated=replicated, data_requests=data_requests))
    classes = range(1, layout.CLASS_REQUEUED)
    expected = [
        (layout.RING_CONTROL, "control", 7),
        (layout.RING_CONTROL + layout.CLASS_REQUEUED, "control-requeued", 428),
        (layout.RING_DATA, "data", data_requests),
        (layout.RING_DATA + layout.CLASS_REQUEUED, "data-requeued", 428),
        (layout.RING_CONTROLLER, "controller", 137),
        (layout.RING_COORDINATOR, "coordinator", 428),
        (layout.RING_COORDINATOR_REQUEUED, "coordinator-requeued", 428),
        *((layout.RING_RESPONSE + number, f"response-{number}", 228) for number in range(3)),
        *[(layout.RING_CLUSTER_CONTROLLER, "cluster-controller", 137)] * replicated,
        *((layout.RING_DATA + number, f"data-{number}", of_a_class) for number in classes),
    ]
    assert [ring[:3] for ring in rings] == expected
    assert [ring.slots_first for ring in rings] == [
        sum(capacity for *_, capacity in expected[:number]) for number in range(len(expected))
    ]


@pytest.mark.parametrize("replicated", [False, True])
def test_every_region_has_its_rows(replicated):
    plan = PLAN._replace(replicated=replicated)
    regions, size = core_regions(plan)
    assert {region.name: region.count for region in regions} == {
        "topics": 11,
        "journal": L["journal_rows"],
        "partitions": 13,
        "producers": 17,
        "entries": 300,
        "slots": sum(ring.capacity for ring in plan_rings(plan)),
        "commands": 9,
        "extents": 4 * L["extents_per_handler"],
        "doorbells": 1,
        "killers": L["killer_rows"],
        "inject": L["inject_rows"],
        "apis": 3 * L["api_rows"],
        "groups": 19,
        "members": 23,
        "addresses": 3 * L["address_rows"],
        "fetch_sessions": 29,
        "session_units": 31,
        "session_owners": 31,
        "assignments": 13 * replicated,
        "brokers": L["max_brokers"] * replicated,
        "replicas": 13 * replicated,
    }
    at = 4096
    for region in regions:
        assert (region.offset, region.stride) == (at, L[region.name])
        at += -(-region.stride * region.count // 4096) * 4096
    assert size == at


def test_the_header_says_how_much_there_is():
    plan = PLAN._replace(reserved_handlers=1, coordinator=True)
    regions, size = core_regions(plan)
    page = layout.header_bytes(7, plan, regions, size, 9)
    arenas = (plan.arena_bytes, plan.arena_processor_bytes, plan.arena_handler_bytes)
    assert layout.HEADER.unpack_from(page) == (7, layout.VERSION, len(regions), size, 9, *arenas, 3, 4, 100, 1)
    assert layout.PLANES.unpack_from(page, layout.PLANES_OFFSET) == (50, 7, 1, 1)
    assert layout.COORDINATOR.unpack_from(page, layout.COORDINATOR_OFFSET) == (4,)
    alone = layout.header_bytes(7, plan._replace(coordinator=False), regions, size, 9)
    assert layout.COORDINATOR.unpack_from(alone, layout.COORDINATOR_OFFSET) == (0,) and len(page) == 4096
    assert (layout.RING_SLACK, layout.MAX_FETCH_SESSIONS, layout.MAGIC_BYTES) == (128, 65536, 8)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_region_is_read_if_all_of_it_is_there(missing):
    regions, size = layout.page_regions()
    page = layout.header_bytes(layout.MAGIC_PAGE, PLAN, regions, size, 1)
    last = regions[-1]
    there = last.offset + last.stride * last.count - missing
    found = read_regions(memoryview(page + bytes(there - len(page))))
    assert list(found) == [region.name for region in regions[: len(regions) - missing]]
    for region in regions[: len(regions) - missing]:
        assert found[region.name][1:] == region[1:]
