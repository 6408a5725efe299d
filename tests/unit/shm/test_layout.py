"""The Python picture of shared memory is the compiler's, number by number; plans fit what the core attaches to."""

import pytest

from mpbroker import _native
from mpbroker.shm import layout
from mpbroker.shm.layout import MemoryPlan
from tests.harness.small_core import small_core, small_plan


@pytest.mark.parametrize("region", sorted(layout.STRIDES))
def test_strides_are_the_structs_sizes(region):
    assert layout.STRIDES[region] == _native.LAYOUT[region]


def test_numbers_are_the_headers():
    c = _native.LAYOUT
    same = {
        "version": layout.VERSION,
        "magic_core": layout.MAGIC_CORE,
        "magic_page": layout.MAGIC_PAGE,
        "header": layout.PAGE_BYTES,
        "region": layout.REGION.size,
        "header.regions": layout.REGIONS_OFFSET,
        "header.state": layout.STATE_OFFSET,
        "header.plane_bound": layout.PLANES_OFFSET,
        "header.data_dir": layout.DATA_DIR_OFFSET,
        "data_dir_bytes": layout.DATA_DIR_BYTES,
        "header.metadata_generation": layout.METADATA_GENERATION_OFFSET,
        "slot_processors": layout.SLOT_PROCESSORS,
        "slot_handlers": layout.SLOT_HANDLERS,
        "slot_controller": layout.SLOT_CONTROLLER,
        "max_processors": layout.MAX_PROCESSORS,
        "max_handlers": layout.MAX_HANDLERS,
        "max_slots": layout.MAX_SLOTS,
        "max_rings": layout.MAX_RINGS,
        "ring_control": layout.RING_CONTROL,
        "ring_data": layout.RING_DATA,
        "ring_controller": layout.RING_CONTROLLER,
        "ring_response": layout.RING_RESPONSE,
        "class_requeued": layout.CLASS_REQUEUED,
        "extents_per_handler": layout.EXTENTS_PER_HANDLER,
        "journal_rows": layout.JOURNAL_ROWS,
        "killer_rows": layout.KILLER_ROWS,
        "inject_rows": layout.INJECT_ROWS,
        "max_counters": layout.MAX_COUNTERS,
        "index_bits": layout.INDEX_BITS,
        "dirty_bits": layout.DIRTY_BITS,
        **{f"parked_{kind.name.lower()}": kind for kind in layout.ParkedKind},
        **{f"partition_{flag.name.lower()}": flag for flag in layout.PartitionFlags},
        "ring.head": layout.RING_HEAD,
        "ring.peak": layout.RING_PEAK,
        "ring.capacity": layout.RING_CAPACITY,
        "ring.slots_first": layout.RING_SLOTS_FIRST,
    }
    assert {name: c[name] for name in same} == same
    assert {name for name in c if name.startswith("parked_")} <= set(same)


def test_header_fields_stand_where_the_struct_has_them():
    plan = small_plan()
    page = layout.header_bytes(layout.MAGIC_CORE, plan, layout.core_regions(plan)[0], 1 << 20, 0xABCDEF)
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
