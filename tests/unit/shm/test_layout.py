"""The Python picture of shared memory is the compiler's, number by number; plans fit what the core attaches to."""

from itertools import pairwise

import pytest

from mpbroker import _native
from mpbroker.channel.processor_port import INLINE_PAYLOAD_BYTES
from mpbroker.shm import layout
from mpbroker.shm.layout import MemoryPlan
from tests.harness.c_headers import defined
from tests.harness.small_core import small_core, small_plan


def test_the_core_has_a_row_size_for_every_region():
    regions = [region.name for region in layout.core_regions(small_plan())[0] + layout.page_regions()[0]]
    assert regions == list(layout.STRIDES)
    assert all(stride > 0 for stride in layout.STRIDES.values())


@pytest.mark.parametrize(
    ("prefix", "names"),
    [("parked_", layout.ParkedKind), ("partition_", layout.PartitionFlags)],
)
def test_every_name_of_an_enumeration_is_the_headers(prefix, names):
    there = {name for name in _native.LAYOUT if name.startswith(prefix) and not name.startswith("partition_copy")}
    assert there == {f"{prefix}{one.name.lower()}" for one in names}


def test_a_frame_that_lies_in_its_entry_is_as_long_as_the_header_has_it():
    assert defined("shm/layout.h", "MPB_INLINE_PAYLOAD") == INLINE_PAYLOAD_BYTES


def test_process_slots_of_the_roles_do_not_overlap():
    pools = [
        (layout.SLOT_SUPERVISOR, 1),
        (layout.SLOT_ACCEPTOR, 1),
        (layout.SLOT_PROCESSORS, layout.MAX_PROCESSORS),
        (layout.SLOT_HANDLERS, layout.MAX_HANDLERS),
    ]
    pools += [
        (slot, 1)
        for slot in (
            layout.SLOT_CONTROLLER,
            layout.SLOT_LOG_KEEPER,
            layout.SLOT_TRACER,
            layout.SLOT_COORDINATOR,
            layout.SLOT_ADMIN,
        )
    ]
    ends = [(first, first + size) for first, size in pools]
    assert all(end <= first for (_, end), (first, _) in pairwise(ends))
    assert ends[-1][1] <= layout.MAX_SLOTS


def test_header_fields_stand_where_the_struct_has_them():
    plan = small_plan()
    page = layout.header_bytes(layout.MAGIC_CORE, plan, layout.core_regions(plan)[0], 1 << 20, 0xABCDEF)
    assert layout.REGION.size == _native.LAYOUT["region"]
    at = _native.LAYOUT["header.boot_id"]
    assert int.from_bytes(page[at : at + 8], "little") == 0xABCDEF
    at = _native.LAYOUT["header.arena_bytes"]
    assert int.from_bytes(page[at : at + 8], "little") == plan.arena_bytes
    at = _native.LAYOUT["header.processor_count"]
    assert [int.from_bytes(page[at + 4 * i : at + 4 * i + 4], "little") for i in range(4)] == [1, 2, 64, 0]


def test_process_fields_stand_where_the_struct_has_them():
    assert layout.PROCESS.size == _native.LAYOUT["process.unsteady_since_ns"] + 8
    row = bytearray(256)
    layout.PROCESS.pack_into(row, 0, *range(1, 21))
    at = _native.LAYOUT["process.heartbeat_ns"]
    assert int.from_bytes(row[at : at + 8], "little") == 12


def test_regions_do_not_overlap_and_begin_on_pages():
    for regions, size in (layout.core_regions(MemoryPlan()), layout.page_regions()):
        end = layout.PAGE_BYTES
        for region in regions:
            assert region.offset == end
            assert region.offset % layout.PAGE_BYTES == 0
            end += -(-region.stride * region.count // layout.PAGE_BYTES) * layout.PAGE_BYTES
        assert end == size
        assert len(regions) <= _native.LAYOUT["max_regions"]


def test_rings_that_may_not_be_full_have_room_for_every_row():
    plan = MemoryPlan(processors=3, entries_per_processor=100, data_requests=7, control_requests=2, commands=5)
    rings = {ring.name: ring for ring in layout.plan_rings(plan)}
    assert rings["data"].capacity == 7
    assert rings["control"].capacity == 2
    assert rings["data-requeued"].capacity > 300
    assert rings["controller"].capacity > 5
    assert all(rings[f"response-{i}"].capacity > 100 for i in range(3))
    first = 0
    for ring in rings.values():
        assert ring.slots_first == first
        first += ring.capacity


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("processors", 0),
        ("processors", 33),
        ("handlers", 65),
        ("handlers", 0),
        ("reserved_handlers", 3),
        ("entries_per_processor", 0),
        ("entries_per_processor", 131071),
        ("data_requests", 0),
        ("arena_handler_bytes", 1),
        ("commands", 5000),
        ("partitions", 0),
    ],
)
def test_a_plan_outside_the_layout_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        layout.check_plan(small_plan(**{field: value}))


def test_entries_of_all_processors_must_fit_an_index():
    with pytest.raises(ValueError, match="request entries"):
        layout.check_plan(small_plan(processors=32, entries_per_processor=4096))


def test_the_core_refuses_memory_of_another_version():
    small = small_core()
    core, page, arena = small.memory
    core[8:12] = (99).to_bytes(4, "little")
    with pytest.raises(ValueError, match="version"):
        _native.Core(core, page, arena)


def test_the_core_refuses_a_region_that_lies_outside():
    small = small_core()
    core, page, arena = small.memory
    at = layout.REGIONS_OFFSET + 16
    core[at : at + 8] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(ValueError, match="missing or too long"):
        _native.Core(core, page, arena)


def test_the_core_refuses_rings_outside_their_words():
    small = small_core()
    core, page, arena = small.memory
    at = layout.read_regions(memoryview(page))["rings"].offset + layout.RING_CAPACITY
    page[at : at + 8] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(ValueError, match="contradict"):
        _native.Core(core, page, arena)


def test_read_regions_leaves_out_what_lies_outside():
    page = memoryview(bytearray(layout.header_bytes(layout.MAGIC_PAGE, small_plan(), layout.page_regions()[0], 1, 1)))
    assert layout.read_regions(page) == {}
