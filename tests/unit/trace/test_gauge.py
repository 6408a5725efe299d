"""Gauges survive their way through a record, and rings are called what `status` calls them."""

from mpbroker.shm import layout
from mpbroker.shm.page_view import RING_NAMES
from mpbroker.trace import gauge, record


def test_a_ring_goes_through_a_record():
    one = gauge.RingGauge(123, layout.RING_DATA, 17, 500, 499)
    data = one.pack(processor=3)
    assert gauge.unpack(b"x" * 128 + data, 128) == one and one.plane == "data"
    told = record.unpack(data)
    assert (told.kind, told.aux, told.handler_id, told.proc_id, told.t0_ns) == (record.GAUGE, gauge.RING, 8, 3, 123)


def test_a_process_goes_through_a_record():
    one = gauge.ProcessGauge(9, 48, 10**12, 2 * 10**12, 4711, 3, 0, 2)
    assert gauge.unpack(one.pack(0)) == one and one.name == "handler 0"
    silent = one._replace(runqueue_wait_ns=None)
    assert gauge.unpack(silent.pack(0)) == silent


def test_a_type_of_a_later_version_is_none():
    assert gauge.unpack(record.TraceRecord(t0_ns=1, kind=record.GAUGE, aux=99).pack()) is None


def test_every_value_has_a_name_and_a_unit():
    assert [name for name, _ in gauge.FIELDS[gauge.RING]] == list(gauge.RingGauge._fields[2:])
    assert [name for name, _ in gauge.FIELDS[gauge.PROCESS]] == list(gauge.ProcessGauge._fields[2:])
    assert all(unit for fields in gauge.FIELDS.values() for _, unit in fields)


def test_rings_have_the_names_that_status_shows():
    assert {ring: gauge.ring_name(ring) for ring in RING_NAMES} == RING_NAMES
    assert (
        gauge.ring_name(layout.RING_RESPONSE + 2) == "response-2" and gauge.ring_name(layout.RING_DATA + 3) == "data-3"
    )
    assert range(layout.RING_RESPONSE, layout.MAX_RINGS) == gauge.RESPONSE_RINGS
    assert gauge.ring_name(21) == "ring-21"


def test_what_a_ring_does_not_have_is_zero():
    data = gauge.RingGauge(1, 2, 3, 4, 5).pack(0)
    assert gauge._VALUES.unpack_from(data, gauge._VALUES_OFFSET) == (3, 4, 5, 0, 0, 0)


def test_rings_of_requests_are_of_a_plane():
    ends = {0: "control", 7: "control", 8: "data", 15: "data", 16: None, 17: None, 32: None, 63: None}
    assert {ring: gauge.RingGauge(1, ring, 3, 4, 5).plane for ring in ends} == ends
