"""Frames byte by byte: every API's headers as Kafka's rules make them (KIP-482, KIP-511), and how long they may be."""

import contextlib
import struct

import pytest

from mpbroker import _native
from mpbroker.errors import BufferTooSmall, ProtocolError
from mpbroker.protocol import codec, headers
from mpbroker.protocol.schema import request
from mpbroker.protocol.types import ReservedRecords, Struct
from tests.harness.no_memory import leaves_nothing
from tests.harness.unread_memory import unread_memory

CONTROLLED_SHUTDOWN, API_VERSIONS, NEVER = 7, 18, 14
INT32_MAX = (1 << 31) - 1
CORRELATION = 0x01020304


@request(key=230, versions=(0, 32767), flexible=32768)
class Body(Struct):
    """Some bytes that are not 0 wherever a frame begins."""

    text: str = "~" * 0x0101


@request(key=231, versions=(0, 0), flexible=1)
class Large(Struct):
    """A field of any length that is not looked at while its bytes are counted."""

    records: ReservedRecords = None
    blob: bytes = b""


BODY = struct.pack(">h", 0x0101) + b"~" * 0x0101


def request_header(key: int, version: int, client_id: bytes) -> bytes:
    header = struct.pack(">hhi", key, version, CORRELATION)
    if (key, version) != (CONTROLLED_SHUTDOWN, 0):
        header += struct.pack(">h", len(client_id)) + client_id
    return header + b"\0" * (version >= headers.FIRST_FLEXIBLE[key])


def response_header(key: int, version: int) -> bytes:
    tags = version >= headers.FIRST_FLEXIBLE[key] and key != API_VERSIONS
    return struct.pack(">i", CORRELATION) + b"\0" * tags


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def versions_of(key: int) -> set[int]:
    first = min(headers.FIRST_FLEXIBLE[key], NEVER)
    return {version for version in (0, 1, first - 1, first, first + 1, 32767) if version >= 0}


@pytest.mark.parametrize("key", headers.FIRST_FLEXIBLE)
def test_headers_of_every_api(key):
    """Into memory that held something else before, so that a byte nobody writes is seen."""
    for version in versions_of(key):
        asked = request_header(key, version, b"client") + BODY
        answered = response_header(key, version) + BODY
        frame = _native.codec_encode_request_frame(key, version, CORRELATION, "client", Body())
        assert frame == framed(asked)
        assert _native.codec_encode_response_frame(key, version, CORRELATION, Body()) == framed(answered)
        target = bytearray(b"\xff" * 600)
        end, ranges = _native.codec_encode_response_frame_into(key, version, CORRELATION, Body(), target, 100)
        assert (target[100:end], ranges) == (framed(answered), [])
        assert target[:100] == b"\xff" * 100 and target[end:] == b"\xff" * (600 - end)
        told = headers.decode_request_header(frame, 4)
        client = "" if (key, version) == (CONTROLLED_SHUTDOWN, 0) else "client"
        assert told == headers.RequestHeader(key, version, CORRELATION, client, len(frame) - len(BODY))
        read = headers.decode_response_header(key, version, framed(answered), 4)
        assert read == (CORRELATION, 4 + len(answered) - len(BODY))


@pytest.mark.parametrize("key", headers.FIRST_FLEXIBLE)
def test_headers_that_are_cut_off(key):
    """One byte less than the whole is none, wherever the header ends."""
    for version in versions_of(key):
        asked, answered = request_header(key, version, b"id"), response_header(key, version)
        assert headers.decode_request_header(asked).body_offset == len(asked)
        assert headers.decode_response_header(key, version, answered) == (CORRELATION, len(answered))
        for length in range(len(asked)):
            with pytest.raises(ProtocolError):
                headers.decode_request_header(asked[:length])
        for length in range(len(answered)):
            with pytest.raises(ProtocolError):
                headers.decode_response_header(key, version, answered[:length])


@pytest.mark.parametrize("length", [980, 1000, 1009, 1010, 1011, 1024, 4096, 30000])
def test_frames_that_a_writer_moves(length):
    """Beyond 1 KiB they are in memory that was asked for."""
    body = struct.pack(">h", length) + b"~" * length
    made = Body("~" * length)
    asked, answered = request_header(3, 12, b"client"), response_header(3, 12)
    assert _native.codec_encode_request_frame(3, 12, CORRELATION, "client", made) == framed(asked + body)
    assert _native.codec_encode_response_frame(3, 12, CORRELATION, made) == framed(answered + body)
    client = "c" * length
    asked = request_header(3, 12, client.encode())
    assert _native.codec_encode_request_frame(3, 12, CORRELATION, client, Body()) == framed(asked + BODY)


def test_an_api_that_is_told_no_more():
    """What is connected takes the place of all that was."""
    connect, cls, names = _native.codec_connect_headers, headers.RequestHeader, headers.RequestHeader.__struct_fields__
    try:
        for known in ({0: 0, 255: 0}, {3: 0}):
            connect(cls, names, known)
            for key in (0, 3, 254, 255):
                raw = struct.pack(">hhih", key, 0, 1, -1) + b"\0"
                if key in known:
                    assert headers.decode_request_header(raw).api_key == key
                else:
                    with pytest.raises(ProtocolError, match=f"no API with key {key} "):
                        headers.decode_request_header(raw)
    finally:
        connect(cls, names, headers.FIRST_FLEXIBLE)


def test_the_largest_version():
    with pytest.raises(ValueError, match="version 32768 "):
        _native.codec_encode_request_frame(3, 32768, 1, "", Body())
    assert _native.codec_encode_request_frame(3, 32767, 1, "", Body())[6:8] == b"\x7f\xff"


def test_the_largest_frame():
    """What follows the length has 2,147,483,647 bytes at most; those beyond the buffer are counted only."""
    target, rest = bytearray(64), 4 + len(codec.encode(Large(records=b""), 0))
    with pytest.raises(BufferTooSmall, match=f"needs {INT32_MAX + 4} bytes"):
        _native.codec_encode_response_frame_into(3, 0, 1, Large(records=INT32_MAX - rest), target)
    with pytest.raises(ValueError, match="a frame cannot have more than 2147483647 bytes"):
        _native.codec_encode_response_frame_into(3, 0, 1, Large(records=INT32_MAX - rest + 1), target)


def test_the_longest_bytes():
    """Nobody reads them while they are counted, so that they need no memory."""
    with unread_memory(INT32_MAX + 1) as whole:
        with whole[:-1] as longest:
            assert _native.codec_encoded_size(Large(blob=longest), 0) == 8 + INT32_MAX
        with pytest.raises(ValueError, match=r"Large\.blob: .* is longer than 2147483647 bytes"):
            _native.codec_encoded_size(Large(blob=whole), 0)


def test_the_largest_reservation():
    target = bytearray(64)
    for length in (0, 1, INT32_MAX):
        assert _native.codec_encoded_size(Large(records=length), 0) == 8 + length
    for length in (-1, INT32_MAX + 1, 1 << 70, -(1 << 70)):
        for call in (
            lambda message: _native.codec_encoded_size(message, 0),
            lambda message: _native.codec_encode_reserving(message, 0, target),
        ):
            with pytest.raises((ValueError, OverflowError)):
                call(Large(records=length))
    for length in (0, 5, 56):
        assert _native.codec_encode_reserving(Large(records=length), 0, target) == (8 + length, [(4, length)])
    with pytest.raises(BufferTooSmall):
        _native.codec_encode_reserving(Large(records=57), 0, target)
    for call in (_native.codec_encode, lambda *words: _native.codec_encode_into(*words, target)):
        with pytest.raises(TypeError, match="bytes can only be reserved by encode_reserving"):
            call(Large(records=5), 0)


def test_a_plan_that_belongs_to_another_class_is_let_go_of():
    plan = codec._build(Large, 0)

    def work():
        with contextlib.suppress(TypeError):
            _native.codec_encode(Body(), 0)

    _native.codec_connect_plans({}, lambda cls, version: plan)
    try:
        leaves_nothing(work, [plan, Body, Large])
    finally:
        _native.codec_connect_plans(codec._PLANS, codec._build)
