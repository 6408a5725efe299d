"""A buffer that a call of the extension read, or wrote into, can grow again afterwards, whatever the call came to; a
request's header needs the class of headers."""

import subprocess
import sys
from contextlib import suppress

import pytest

from mpbroker import _native
from mpbroker.protocol import headers
from mpbroker.record.batch_builder import encode_batch
from tests.harness.small_core import small_core

BATCH = encode_batch([(b"k", b"v" * 20, 7), (b"l", None, 8)])
RECORDS = BATCH[61:]
FRAME = b"\0\x12\0\0\0\0\0\5\0\1c"
RECORD = bytes(128)
assert headers.RequestHeader


def aborted():
    return _native.KeyMap(1 << 16, 0.9, bytes(16))


#: name → calls of functions of one buffer, or of two; those that are refused as well.
ONE = {
    "crc32": [(0,), (-1,)],
    "crc32c": [(0,), (-1,)],
    "xxh32": [()],
    "batch_check_request": [(7,), ("x",)],
    "batch_check_append": [(1 << 20, False, False, 7, -1, -1, True), (1, True, True, 7, 0, 0, False), ("x",)],
    "batch_scan": [(0,), (1,), (-1,), (1 << 20,), (0, False)],
    "batch_patch_header": [(5, 6), (5, 6, 7), (1 << 70, 6)],
    "records_newest": [(0, {}), (-1, {}), (1 << 20, {}), (0, None)],
    "trace_scan": [(5,), (-1,)],
    "seal_batch": [()],
    "codec_decode_request_header": [(), (99,), (-1,)],
}
TWO = {
    "lz4_read": [()],
    "records_decode": [()],
    "records_check": [(), (False, False, 7, -1, -1), (True, True, 7, 0, 0)],
    "records_find_timestamp": [(7,), (99,)],
    "records_refused": [(), (False, False, 7, -1, -1), (True, False, 7, 0, 0)],
}
BYTES = {"trace_scan": RECORD, "codec_decode_request_header": FRAME}


def grows(buffer):
    """BufferError: somebody has it still."""
    buffer.append(0)


@pytest.mark.parametrize("cut", [0, 1, 30, 60])
@pytest.mark.parametrize(("name", "more"), [(name, more) for name, all in ONE.items() for more in all])
def test_one_buffer(name, more, cut):
    whole = BYTES.get(name, BATCH)
    buffer = bytearray(whole[: max(len(whole) - cut, 0)])
    with suppress(Exception):
        getattr(_native, name)(buffer, *more)
    grows(buffer)


@pytest.mark.parametrize("cut", [0, 1, 30, 60])
@pytest.mark.parametrize(("name", "more"), [(name, more) for name, all in TWO.items() for more in all])
def test_two_buffers(name, more, cut):
    first, second = bytearray(RECORDS), bytearray(BATCH[: len(BATCH) - cut])
    with suppress(Exception):
        getattr(_native, name)(first, second, *more)
    grows(first), grows(second)


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_the_buffers_of_a_key_map(cut):
    """Of those that are taken as a whole, and of batches."""
    calls = [
        ("set_aborted", (bytes(max(24 - cut, 0)),)),
        ("learn", (BATCH[: len(BATCH) - cut], 0, 99)),
        ("learn", (BATCH[: len(BATCH) - cut], 0, "x")),
        ("learn_batch", (BATCH[: len(BATCH) - cut], RECORDS, 0)),
        ("learn_batch", (BATCH, RECORDS[: len(RECORDS) - cut], 0)),
    ]
    for name, arguments in calls:
        given = [bytearray(one) if isinstance(one, bytes) else one for one in arguments]
        with suppress(Exception):
            getattr(aborted(), name)(*given)
        for one in given:
            if isinstance(one, bytearray):
                grows(one)


@pytest.mark.parametrize("length", [0, 7, 8, 20])
def test_the_buffers_of_ports(length):
    core = small_core().core
    processor, handler = _native.ProcessorPort(core, 0), _native.HandlerPort(core, 0)
    frame = bytearray(FRAME[:length])
    for arguments in ((0, 1, 1, 0, frame, 1), (9, 1, 1, 0, frame, 1), (0, 1, 1, 0, frame, "x")):
        with suppress(Exception):
            processor.submit(*arguments)
        grows(frame)
        del frame[length:]
    assert processor.submit(0, 1, 1, 0, FRAME, 1) >= 0
    request, answer = handler.serve_or_claim(), bytearray(length)
    with suppress(Exception):
        handler.answer(request, answer)
    grows(answer)
    with suppress(Exception):
        handler.answer(None, answer)
    grows(answer)


def test_a_header_before_its_class_is_there():
    """A process that reads requests imports it; another one is told."""
    program = (
        "from mpbroker import _native\n"
        "try:\n    _native.codec_decode_request_header(bytes(20))\n"
        "except RuntimeError as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert told.stdout == "mpbroker.protocol.headers is not loaded\n", told.stderr


@pytest.mark.parametrize(
    ("make", "least_wrong"),
    [
        (lambda core, index: _native.HandlerPort(core, index), 2),
        (lambda core, index: _native.ProcessorPort(core, index, 0), 1),
        (lambda core, index: _native.ProcessRow(core, index), 128),
        (lambda core, index: _native.FetchSessions(core, index), 128),
    ],
)
def test_the_first_number_that_is_nobodys(make, least_wrong):
    core = small_core().core
    make(core, least_wrong - 1)
    with pytest.raises((IndexError, ValueError)):
        make(core, least_wrong)
