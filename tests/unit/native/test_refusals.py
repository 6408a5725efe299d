"""What the extension refuses, each with its own sentence: a call that says nothing of why is a fault of ours."""

import pytest

from mpbroker import _native
from mpbroker.errors import ProtocolError
from mpbroker.protocol.headers import decode_response_header
from mpbroker.shm.layout import ReplicaRole
from tests.harness.small_core import small_core

TOPIC_ID = bytes(range(16))
BIG = 1 << 30


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Everything that there is to call; a replicated partition in row 0."""

    class World:
        core = small_core(replicated=True).core
        processor = _native.ProcessorPort(core, 0, 0)
        handler = _native.HandlerPort(core, 0)
        row = _native.ProcessRow(core, 3)
        sessions = _native.FetchSessions(core, 48)
        keys = _native.KeyMap(1 << 16, 0.9, bytes(16))
        path = str(tmp_path_factory.mktemp("log"))
        log = _native.Log(core, [path], 118)
        options = _native.LogOptions()

    assert World.log.create(0, TOPIC_ID, 0, 0, 0, "t-0", 0, 1) == 0
    assert World.log.become(0, ReplicaRole.LEADER, 1, 1, [0, 1], [0], 0, 1, 0, leader=0) == 0
    yield World
    World.log.close()


def assigned(core, row=0, topic=TOPIC_ID, replicas=(), isr=(), offline=()):
    _native.assignment_write(core, row, topic, 0, 0, 0, 0, 0, replicas, isr, offline)


def become(log, role=ReplicaRole.LEADER, replicas=(0, 1), isr=(0,)):
    return log.become(0, role, 1, 1, list(replicas), list(isr), 0, 1, 0, leader=0)


REFUSED = {
    "assignment row": (lambda w: assigned(w.core, BIG), IndexError, "no row 1073741824 of"),
    "assignment topic": (lambda w: assigned(w.core, topic=b"x" * 15), ValueError, "a topic id has 16 bytes"),
    "assignment replicas": (lambda w: assigned(w.core, replicas=range(99)), ValueError, "99 replicas, allowed are"),
    "broker row": (lambda w: _native.broker_read(w.core, BIG), IndexError, "no row 1073741824 of"),
    "broker endpoints": (lambda w: _native.broker_write(w.core, 0, 1, 1, bytes(9999)), ValueError, "9999 bytes of"),
    "become replicas": (lambda w: become(w.log, replicas=range(99)), ValueError, "at most .* replicas"),
    "become isr": (lambda w: become(w.log, isr=range(99)), ValueError, "at most .* replicas"),
    "become role": (lambda w: become(w.log, role=7), ValueError, "leader or follower, not 7"),
    "isr answered": (lambda w: w.log.isr_answered(0, 1, 1, list(range(99)), 0), ValueError, "at most .* replicas"),
    "followed": (lambda w: w.log.followed(0, 0), ValueError, "at least one fetcher"),
    "marker's producer": (
        lambda w: w.log.append_marker(0, -1, 0, 7, True, w.options, 1), ValueError, "a producer's id and epoch"
    ),
    "marker's epoch": (
        lambda w: w.log.append_marker(0, 5, -1, 7, True, w.options, 1), ValueError, "a producer's id and epoch"
    ),
    "log directories": (lambda w: _native.Log(w.core, ["/tmp"] * 999, 118), ValueError, "at most .* log directories"),
    "no log directory": (lambda w: _native.Log(w.core, ["/no/such"], 118), FileNotFoundError, "/no/such"),
    "open segments": (lambda w: _native.Log(w.core, ["/tmp"], 118, 65537), ValueError, "at most 65536"),
    "log opened twice": (lambda w: w.log.__init__(w.core, ["/tmp"], 118), RuntimeError, "opened already"),
    "log row": (lambda w: w.log.state(BIG), ValueError, "no partition row 1073741824"),
    "log topic": (lambda w: w.log.find_time(0, 0, 0, b"x"), ValueError, "a topic id is 16 bytes"),
    "log directory": (lambda w: w.log.fail_log_dir(BIG), ValueError, "no log directory 1073741824"),
    "log options": (lambda w: _native.LogOptions(segment_bytes=1), ValueError, "is too small"),
    "topic row": (lambda w: _native.topic_read(w.core, BIG), IndexError, "no topic row 1073741824, the table has 8"),
    "partition row": (lambda w: w.core.notify_partition(BIG), IndexError, "no partition row 1073741824 or slot"),
    "core": (lambda w: _native.KnownRows(None, True), TypeError, "an attached Core is needed"),
    "core twice": (lambda w: w.core.__init__(bytearray(9), bytearray(9), bytearray(9)), RuntimeError, "attached"),
    "core of nothing": (
        lambda w: _native.Core(bytearray(4096), bytearray(4096), bytearray(4096)), ValueError, "not of this version: "
    ),
    "core's slot": (lambda w: w.core.row(128), IndexError, "no slot 128"),
    "handler": (lambda w: _native.HandlerPort(w.core, 2), IndexError, "there is no handler 2"),
    "processor": (lambda w: _native.ProcessorPort(w.core, 1, 0), IndexError, "there is no processor 1"),
    "process row": (lambda w: _native.ProcessRow(w.core, 128), IndexError, "no slot 128"),
    "session's slot": (lambda w: _native.FetchSessions(w.core, 128), IndexError, "no process slot 128"),
    "no session": (lambda w: w.sessions.read(), ValueError, "no session is held"),
    "count": (lambda w: w.row.count(), TypeError, r"count\(counter, n=1\)"),
    "set counter": (lambda w: w.row.set_counter(1), TypeError, r"set_counter\(counter, value\)"),
    "command slot": (lambda w: _native.CommandPort(w.core, 3), IndexError, "slot 3 is neither"),
    "key map": (lambda w: _native.KeyMap(47, 0.9, bytes(16)), ValueError, "memory for two keys"),
    "key map's load": (lambda w: _native.KeyMap(99, 1.5, bytes(16)), ValueError, "a load factor"),
    "key map's seed": (lambda w: _native.KeyMap(99, 0.9, bytes(15)), ValueError, "16 bytes of seed"),
    "batch to learn": (lambda w: w.keys.learn_batch(bytes(60), b"", 0), ValueError, "at least 61 bytes"),
    "batch to seal": (lambda w: _native.seal_batch(bytearray(60)), ValueError, "61 bytes to 2 GiB"),
    "batch to patch": (lambda w: _native.batch_patch_header(bytes(60), 0, 0), ValueError, "at least 61 bytes"),
    "batch to scan": (lambda w: _native.batch_scan(b"1", 2), ValueError, "position 2 lies outside"),
    "newest": (lambda w: _native.records_newest(b"1", 2, {}), ValueError, "position 2 lies outside"),
    "times": (lambda w: _native.records_find_timestamp(b"", bytes(60), 1), ValueError, "the records cannot be read"),
    "check": (
        lambda w: _native.records_check(b"", bytes(60), False, False, 1, -1, -1), ValueError, "a batch header has 61"
    ),
    "records": (lambda w: _native.records_decode(b"", bytes(60)), ValueError, "a batch header has 61 bytes"),
    "checks": (lambda w: _native.batch_check_request(b""), TypeError, "takes 2 arguments, not 1"),
    "append checks": (lambda w: _native.batch_check_append(b""), TypeError, "takes 8 arguments, not 1"),
    "submit": (lambda w: w.processor.submit(), TypeError, "takes 6 to 8 arguments, not 0"),
    "frame": (lambda w: w.processor.submit(0, 1, 1, 0, b"1234567", 1), ValueError, "a frame has 8 bytes"),
    "plane": (lambda w: w.processor.submit(2, 1, 1, 0, b"12345678", 1), ValueError, r"plane is 0 \(data\)"),
    "reserved": (
        lambda w: w.processor.submit_reserved(0, 1, 1, 0, 4096, 8, 1), ValueError, "nothing is reserved at 4096"
    ),
    "retry": (lambda w: w.processor.retry(5), ValueError, "entry 5 is not parked"),
    "sent": (lambda w: w.processor.sent(), TypeError, "takes 1 to 3 arguments, not 0"),
    "not sent": (lambda w: w.processor.sent(5), ValueError, "entry 5 is not being sent"),
    "api keys": (lambda w: w.handler.hand_over([128]), IndexError, "128"),
    "segment": (lambda w: _native.scan_segment(-1, -1, -1, 0, 1, True, None), OSError, "Bad file descriptor"),
    "lane": (lambda w: _native.TraceLane(bytearray(9999)), ValueError, "not a trace lane: "),
    "lane's size": (lambda w: _native.trace_lane_format(bytearray(9999), 3, 0, 1), ValueError, "a lane of 3 records"),
    "a lane that is none": (lambda w: _native.ProcessorPort(w.core, 0, 0, 5), TypeError, "a TraceLane or None"),
    "header": (lambda w: _native.codec_decode_request_header(b"12", 3), ProtocolError, "offset 3 lies outside"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_why(world, name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call(world)


#: The functions that read their arguments themselves: how many there may be.
COUNTS = {
    "codec_decode": (3, 4),
    "codec_decode_prefix": (3, 4),
    "codec_encode": (2, 2),
    "codec_encoded_size": (2, 2),
    "codec_encode_response_frame": (4, 4),
    "codec_encode_request_frame": (5, 5),
    "codec_encode_into": (3, 4),
    "codec_encode_reserving": (3, 4),
    "codec_encode_response_frame_into": (5, 6),
    "codec_decode_request_header": (1, 2),
    "codec_decode_response_header": (3, 4),
}


@pytest.mark.parametrize("name", COUNTS)
def test_how_many_arguments_there_may_be(name):
    function, (least, most) = getattr(_native, name), COUNTS[name]
    for given in (0, least - 1, most + 1, most + 9):
        with pytest.raises(TypeError, match=f"takes {least} to {most} positional arguments, not {given}$"):
            function(*[None] * given)
    for given in {least, most}:
        with pytest.raises((TypeError, ValueError)) as refused:
            function(*[None] * given)
        assert "positional arguments" not in str(refused.value)


def test_the_shortest_header_of_an_answer():
    """A correlation id, behind which flexible versions have tags."""
    decode = decode_response_header
    assert decode(3, 0, b"\0\0\0\7") == (7, 4) == decode(18, 4, b"\0\0\0\7")
    assert decode(3, 12, b"\0\0\0\7\0") == (7, 5) and decode(3, 0, b"x\0\0\0\7", 1) == (7, 5)
    for short in (b"\0\0\7", b""):
        with pytest.raises(ProtocolError, match="it is shorter than 4 bytes"):
            decode(3, 0, short)
    with pytest.raises(ProtocolError):
        decode(3, 12, b"\0\0\0\7")
    for key in (-1, 256, 500, 4096):
        with pytest.raises(ValueError, match=f"there is no API with key {key}"):
            decode(key, 0, b"\0\0\0\7")
    for key in (-1, 255, 256, 257, 32767):  # the table has 256 rows
        frame = key.to_bytes(2, "big", signed=True) + bytes(8)
        with pytest.raises(ProtocolError, match=f"there is no API with key {key} and version 0"):
            _native.codec_decode_request_header(frame)
