"""Functions and types of the extension, each allocation refused once: MemoryError, and nothing is left behind."""

import array
import os

import pytest

from mpbroker import _native
from mpbroker.protocol import headers
from mpbroker.protocol.messages.produce import ProduceRequest
from mpbroker.protocol.messages_by_key import REQUESTS, RESPONSES
from mpbroker.record.batch_builder import encode_batch
from tests.harness.no_memory import leaves_nothing, refuse_each
from tests.harness.one_thread import one_thread
from tests.harness.small_core import small_core
from tests.unit.native.test_codec_calls import Tagged
from tests.unit.protocol.test_codec import Last, Numbers
from tests.unit.server.test_produce_fetch import produce
from tests.unit.trace.traces import full_request

LATE_MS, LARGE = 1 << 45, 1 << 40  # no whole numbers that Python keeps anyway
TOPIC_ID = bytes(range(16))
RECORDS = [(b"key" * 9, b"v" * 40, LATE_MS, ((b"header", b"x" * 30), (b"none", None))), (None, None, LATE_MS + 5)]
BATCH = encode_batch(RECORDS)
RETRIED = encode_batch(RECORDS, producer_id=LARGE, producer_epoch=500, base_sequence=700)
FUTURE = encode_batch([(b"k", b"v", LARGE << 8), (b"l", b"v", LARGE << 8)])
HEADER, ROWS = BATCH[:61], BATCH[61:]
TRACE = full_request(1, api_key=3).pack()
assert headers.RequestHeader


def a_core():
    """Rows of all tables that functions read."""
    made = small_core(replicated=True, topics=300, partitions=600)
    core = made.core
    for row in range(300, 303):
        made.partition(row, bytes(16), row - 300)
        _native.partition_link(core, row, row + 2)
    _native.topic_write(core, 0, 1, TOPIC_ID, "topic-of-the-test", 900, 3, b"overrides" * 3, 500)
    _native.journal_append(core, 299)
    _native.topic_write(core, 298, 1, bytes(16), "", 0, 0, b"", 1)
    _native.assignment_write(core, 0, TOPIC_ID, 500, 501, 502, 503, 504, (600, 601), (602,), (603,))
    _native.broker_write(core, 0, 700, LARGE, b"endpoints" * 5)
    _native.cluster_announce(core, 800, 900, LARGE)
    _native.rows_raise(core, 300, 600)
    return core


CORE = a_core()
METADATA = REQUESTS[3]()
ENCODED = _native.codec_encode(RESPONSES[3](), 9)
TAGGED = Tagged(text="t" * 99, number=500, second=b"x" * 99, third=b"y" * 99)
LISTS = Last(**{name: [number] * 3 for name, number in (("a", True), ("b", 100), ("c", 500))})
PRODUCED = [_native.codec_encode(produce("topic" * 9, BATCH), version) for version in (7, 9)]
KEYS = _native.KeyMap(1 << 16, 0.9, bytes(16))
OUT = bytearray(1 << 16)

#: Function → arguments, several tuples of them.
CALLS = {
    "crc32": [(BATCH, 5)],
    "crc32c": [(BATCH,)],
    "xxh32": [(BATCH,)],
    "crc32c_implementation": [()],
    "batch_check_request": [(BATCH, 7), (RETRIED, 7), (b"short", 7), (encode_batch([(None, bytes(300), 5)]), 7)],
    "batch_check_append": [
        (BATCH, 1 << 20, False, False, LATE_MS, LARGE, LARGE, True),
        (RETRIED, 1 << 20, False, True, LATE_MS, LARGE, LARGE, True),
        (b"short", 1 << 20, False, False, LATE_MS, LARGE, LARGE, True),
    ],
    "records_check": [(ROWS, HEADER, False, False, LATE_MS, LARGE, LARGE)],
    "records_refused": [(FUTURE[61:], FUTURE[:61], True, False, 0, 5, 5), (ROWS, b"", True, False, 0, 5, 5)],
    "records_find_timestamp": [(ROWS, HEADER, LATE_MS + 1), (ROWS, HEADER, 2 * LATE_MS)],
    "records_decode": [(ROWS, HEADER)],
    "batch_patch_header": [(BATCH, LARGE, 5), (BATCH, LARGE, 5, -1, LATE_MS)],
    "records_newest": [(BATCH, 0, {})],
    "batch_scan": [(BATCH, 0), (BATCH, len(BATCH)), (BATCH[:-1], 0)],
    "trace_layout": [()],
    "trace_scan": [(TRACE * 3, 5)],
    "codec_encode": [(METADATA, 9), (RESPONSES[3](), 9), (Numbers(g=b"x" * 9000), 1), (Numbers(g=b"x" * 2000), 1)],
    "codec_encoded_size": [(METADATA, 9), (TAGGED, 1)],
    "codec_encode_into": [(METADATA, 9, OUT), (TAGGED, 1, OUT), (produce("t", BATCH), 9, OUT), (LISTS, 1, OUT)],
    "codec_encode_reserving": [(METADATA, 9, OUT), (produce("t", 500), 9, OUT)],
    "codec_encode_request_frame": [(3, 9, 500, "client" * 9, METADATA)],
    "codec_encode_response_frame": [(3, 9, 500, RESPONSES[3]())],
    "codec_encode_response_frame_into": [(3, 9, 500, RESPONSES[3](), OUT)],
    "codec_decode": [
        (type(RESPONSES[3]()), 9, ENCODED),
        (Tagged, 1, _native.codec_encode(TAGGED, 1)),
        (Last, 1, _native.codec_encode(LISTS, 1)),
        (ProduceRequest, 7, PRODUCED[0]),
        (ProduceRequest, 9, bytearray(PRODUCED[1])),
        (ProduceRequest, 9, array.array("B", PRODUCED[1])),
    ],
    "codec_decode_prefix": [(type(RESPONSES[3]()), 9, ENCODED)],
    "codec_decode_request_header": [(b"\0\3\0\1\0\1\0\0\0\4name" + bytes(8),)],
    "codec_decode_response_header": [(3, 9, b"\0\1\0\0\0")],
    "metadata_generation": [(CORE,)],
    "topic_count": [(CORE,)],
    "topic_read": [(CORE, 0), (CORE, 1)],
    "topics_changed": [(CORE, [0, 7]), (CORE, [])],
    "rows_high": [(CORE,)],
    "journal_since": [(CORE, 0), (CORE, 5)],
    "partition_who": [(CORE, 0)],
    "topic_partitions": [(CORE, TOPIC_ID, 0, 0), (CORE, bytes(16), 300, 3)],
    "assignment_write": [(CORE, 1, TOPIC_ID, 500, 501, 502, 503, 504, [600, 601], (602,), range(900, 903))],
    "assignment_read": [(CORE, 0), (CORE, 1)],
    "broker_read": [(CORE, 0)],
    "broker_rows": [(CORE,)],
    "cluster_state": [(CORE,)],
    "held_payload": [(CORE, 0, 0)],
    "io_error_class": [(5,)],
    "io_calls": [()],
    "seal_batch": [(bytearray(BATCH),)],
    "trace_lane_format": [(bytearray(_native.TRACE_LANE_HEADER_BYTES + 64 * 128), 64, 0, 1)],
    "TraceTally": [(LARGE,)],
    "KeyMap": [(1 << 12, 0.9, bytes(16))],
    "LogOptions": [()],
    "Connection": [(-1, 1, 1, 1)],
    "ProcessRow": [(CORE, 3)],
    "FetchSessions": [(CORE, 60)],
    "KnownRows": [(CORE, True)],
    "HandlerPort": [(CORE, 0)],
    "ProcessorPort": [(CORE, 0, 0)],
    "CommandPort": [(CORE, 60)],
    "NetworkTurn": [(_native.ProcessorPort(CORE, 0, 0), -1, 0, 0, 100, -1, {3: (0, 1)})],
}


@pytest.mark.parametrize(("name", "arguments"), [(name, each) for name, all in CALLS.items() for each in all])
@one_thread
def test_a_function(name, arguments):
    function = getattr(_native, name)
    kind = type(function(*arguments))
    singletons = [None, True, False, (), b"", "", getattr(_native, name)]
    parts = [part for one in arguments if isinstance(one, tuple | list) for part in one]
    leaves_nothing(lambda: refuse_each(lambda: function(*arguments)), [*arguments, *parts, *singletons])
    assert type(function(*arguments)) is kind


MAPPED = {
    "set_aborted": [(bytes(24),), (bytes(9600),)],
    "learn": [(BATCH, 0, LARGE)],
    "learn_batch": [(HEADER, ROWS, 0)],
    "apply": [(BATCH, OUT, LATE_MS, LARGE, b""), (RETRIED, OUT, LATE_MS, LARGE, LARGE.to_bytes(8, "little"))],
    "apply_batch": [(HEADER, ROWS, LATE_MS, LARGE, b"")],
}


@pytest.mark.parametrize(("name", "arguments"), [(name, each) for name, all in MAPPED.items() for each in all])
@one_thread
def test_a_key_map(name, arguments):
    method = getattr(KEYS, name)
    method(*arguments)
    leaves_nothing(lambda: refuse_each(lambda: method(*arguments)), [KEYS, *arguments, None, b"", ()])


@one_thread
def test_a_plan_that_is_made():
    fields = tuple((name, 1, 0, None, 0, LARGE) for name in ("a", "b", "c"))
    leaves_nothing(
        lambda: refuse_each(lambda: _native.Plan(Numbers, True, fields[:1], fields[1:2], fields[2:])),
        [Numbers, fields, LARGE, *fields, *(field[0] for field in fields), *(Numbers.__dict__[one] for one in "abc")],
    )


@one_thread
def test_a_segment_that_is_scanned(tmp_path):
    (tmp_path / "log").write_bytes(RETRIED)
    file, seen = os.open(tmp_path / "log", os.O_RDONLY), []

    def visit(*row):
        seen.append(len(row))

    def work():
        seen.clear()
        _native.scan_segment(file, -1, -1, 0, 4096, True, visit)

    work()
    assert seen == [10]
    leaves_nothing(lambda: refuse_each(work), [visit, None])
    os.close(file)


@one_thread
def test_a_lane():
    memory = bytearray(_native.TRACE_LANE_HEADER_BYTES + 64 * 128)
    _native.trace_lane_format(memory, 64, 900, LARGE)
    lane, tally = _native.TraceLane(memory), _native.TraceTally(LARGE)
    tally.add(TRACE)
    lane.put(TRACE)
    lane.slow_ns = LARGE
    calls = (
        lambda: _native.TraceLane(memory),
        lambda: (lane.peek(9), lane.counters(), lane.seek(0), lane.release(0)),
        lambda: (lane.processor, lane.boot_id, lane.capacity, lane.sample_shift, lane.slow_ns, lane.bell_fd),
        lambda: (tally.api_counts, tally.next_seq, tally.count),
        lambda: tally.add(TRACE),
        lambda: lane.bench_commit(3),
        lambda: _native.trace_wait(((lane, tally, -1, 0, 0), (lane, None, 0, 0, 0)), -1, -1, -1, 0),
    )
    for work in calls:
        leaves_nothing(lambda work=work: refuse_each(work), [memory, lane, tally, None, _native.TraceLane])
