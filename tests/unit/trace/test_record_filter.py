"""Which requests of a trace are kept: compared with the same said field by field, at the edges of every bound."""

import itertools
from pathlib import Path

import pytest

from mpbroker.trace import record, segment
from mpbroker.trace.record import RECORD_BYTES
from mpbroker.trace.record_filter import RecordFilter
from tests.unit.trace.traces import CLOCK, request

OFFSET_NS = CLOCK.realtime_ns - CLOCK.monotonic_ns
NAMES = {11: "alice", 12: "bob", 13: "alice"}  # two hashes of one name: it was cut, or the broker began anew
INFO = segment.SegmentInfo(Path("a.mpt"), segment.Opened(4, 7, 2, 0, "c", 0, CLOCK, {}), segment.Progress(), None, 0, 0)
RECORDS = [
    request(number, t0_ns=t0_ns, api_key=api_key)._replace(client_hash=client, kind=kind)
    for number, (t0_ns, api_key, client, kind) in enumerate(
        itertools.product((4_999, 5_000, 5_001, 6_000), (-1, 0, 1), (11, 12, 13, 14), (record.REQUEST, record.MARKER))
    )
]


def wanted(one, wants):
    moment = one.t0_ns + OFFSET_NS
    return (
        one.kind == record.REQUEST
        and (wants.from_ns is None or wants.from_ns <= moment)
        and (wants.to_ns is None or moment < wants.to_ns)
        and (wants.api_keys is None or one.api_key in wants.api_keys)
        and (wants.clients is None or NAMES.get(one.client_hash) in wants.clients)
    )


@pytest.mark.parametrize("from_ns", [None, OFFSET_NS + 5_000])
@pytest.mark.parametrize("to_ns", [None, OFFSET_NS + 5_001])
@pytest.mark.parametrize("api_keys", [None, frozenset(), frozenset({-1, 1})])
@pytest.mark.parametrize("clients", [None, frozenset(), frozenset({"alice", "nobody"})])
def test_what_is_wanted_is_kept_whole_and_in_order(from_ns, to_ns, api_keys, clients):
    wants = RecordFilter(from_ns, to_ns, api_keys, clients)
    assert wants.is_open == (wants == (None, None, None, None))
    kept = wants.kept(b"".join(one.pack() for one in RECORDS), INFO, NAMES)
    found = [record.unpack(kept, at) for at in range(0, len(kept), RECORD_BYTES)]
    expected = [one for one in RECORDS if wanted(one, wants)]
    assert found == expected and len(kept) == RECORD_BYTES * len(expected)
