"""Headers of every version and whole frames."""

import functools
import struct

import pytest

from mpbroker import _native
from mpbroker.errors import ProtocolError
from mpbroker.protocol import headers
from mpbroker.protocol.api_keys import API_NAMES, ApiKey
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.headers import (
    FIRST_FLEXIBLE,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_frame,
    encode_response_frame,
    encode_response_frame_into,
)
from mpbroker.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from mpbroker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from mpbroker.protocol.messages.metadata import MetadataRequest
from mpbroker.protocol.messages_by_key import RESPONSES


def test_header_version_1():
    raw = bytes.fromhex("0003 0008 00000005 0002") + b"me" + b"body"
    assert decode_request_header(raw) == RequestHeader(3, 8, 5, "me", 12)
    assert decode_request_header(b"##" + raw, 2).body_offset == 14


def test_header_version_2_keeps_the_short_client_id_and_skips_tags():
    raw = bytes.fromhex("0003 0009 fffffffb 0002") + b"me" + bytes.fromhex("02 00 01 aa 63 00")
    assert decode_request_header(raw) == RequestHeader(3, 9, -5, "me", len(raw))


def test_header_version_0_has_no_client_id():
    raw = struct.pack(">hhi", ApiKey.CONTROLLED_SHUTDOWN, 0, 7)
    assert decode_request_header(raw) == RequestHeader(7, 0, 7, "", 8)
    assert headers.request_header_version(7, 0) == 0 and headers.request_header_version(7, 1) == 1


def test_a_null_client_id_reads_as_empty():
    assert decode_request_header(bytes.fromhex("0012 0000 00000001 ffff")).client_id == ""


@pytest.mark.parametrize("key", sorted(API_NAMES))
def test_every_known_key_has_a_header_at_any_version(key):
    for version in (0, 1, 5, 100):
        raw = struct.pack(">hhi", key, version, 1) + (b"" if (key, version) == (7, 0) else b"\0\0") + b"\0"
        header = decode_request_header(raw)
        flexible = headers.request_header_version(key, version) == 2
        assert header.body_offset == (8 if (key, version) == (7, 0) else 10) + flexible


def test_a_client_id_that_is_no_utf_8_is_read_with_replacements():
    assert decode_request_header(bytes.fromhex("0003 0001 00000001 0002 c328")).client_id == "\ufffd("


@pytest.mark.parametrize(
    ("hexed", "text"),
    [
        ("", "shorter than 8"),
        ("0003 0009 000000", "shorter than 8"),
        ("0003 0001 00000001", "before the client id"),
        ("0003 0001 00000001 0005 6162", "longer than the bytes"),
        ("0003 0009 00000001 0000", "tagged fields"),
        ("0003 0009 00000001 0000 01 00 05", "longer than the bytes"),
        ("01f4 0000 00000001 0000", "no API with key 500"),
        ("ffff 0000 00000001 0000", "no API with key -1"),
        ("0003 ffff 00000001 0000", "version -1"),
    ],
)
def test_headers_that_lead_nowhere(hexed, text):
    with pytest.raises(ProtocolError, match=text):
        decode_request_header(bytes.fromhex(hexed))


@pytest.mark.parametrize("version", [0, 8, 9])
def test_request_frames_come_back(version):
    frame = encode_request_frame(MetadataRequest(), version, -7, "größe")
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    header = decode_request_header(frame, 4)
    assert header == RequestHeader(3, version, -7, "größe", header.body_offset)
    assert decode(MetadataRequest, version, frame, header.body_offset) == MetadataRequest()


@pytest.mark.parametrize(("key", "version"), [(0, 8), (0, 9), (3, 9), (18, 2), (18, 3)])
def test_response_frames_come_back(key, version):
    message = RESPONSES[key]()
    frame = encode_response_frame(key, version, 1 << 30, message)
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    correlation_id, body = decode_response_header(key, version, frame, 4)
    assert correlation_id == 1 << 30 and frame[body:] == encode(message, version)
    assert body == 8 + headers.response_header_version(key, version)


def test_api_versions_never_has_tags_in_its_response_header():
    frame = encode_response_frame(18, 3, 1, ApiVersionsResponse())
    assert frame[4:].startswith(bytes.fromhex("00000001 0000")) and headers.response_header_version(18, 3) == 0


def test_the_answer_to_an_unknown_version_of_api_versions_byte_for_byte():
    message = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 4)])
    assert encode_response_frame(18, 0, 9, message).hex(" ", 4) == "00000010 00000009 00230000 00010012 00000004"


def test_a_response_into_a_buffer_with_reserved_records():
    partition = PartitionData(records=6)
    message = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    buffer = bytearray(300)
    end, [(at, length)] = encode_response_frame_into(1, 11, 5, message, buffer, 100)
    buffer[at : at + length] = partition.records = b"record"
    assert buffer[100:end] == encode_response_frame(1, 11, 5, message)


@pytest.mark.parametrize("arguments", [(500, 0, 1), (18, -1, 1), (18, 0, 1 << 31), (-1, 0, 1)])
def test_frames_nobody_could_read_are_not_made(arguments):
    with pytest.raises(ValueError, match="no frame has key"):
        encode_response_frame(*arguments, ApiVersionsResponse())


def test_a_long_client_id_is_refused():
    assert len(encode_request_frame(ApiVersionsRequest(), 0, 1, "x" * 32767)) == 14 + 32767
    with pytest.raises(ValueError, match="32767"):
        encode_request_frame(ApiVersionsRequest(), 0, 1, "x" * 32768)


def test_truncated_response_headers():
    for key, version, raw in ((3, 8, b"\0\0\0"), (3, 9, b"\0\0\0\1"), (3, 9, b"\0\0\0\1\1\0\5")):
        with pytest.raises(ProtocolError):
            decode_response_header(key, version, raw)
    with pytest.raises(ValueError, match="no API"):
        decode_response_header(999, 0, bytes(8))


@pytest.mark.parametrize("fields", [0, 4])
def test_a_request_header_has_five_fields(fields):
    names = RequestHeader.__struct_fields__[:fields]
    with pytest.raises(TypeError, match="five fields"):
        _native.codec_connect_headers(RequestHeader, names, FIRST_FLEXIBLE)


def test_which_keys_there_may_be_is_told():
    """Beside the message class: the largest key that is named is taken, the one behind it is not."""
    connect = functools.partial(_native.codec_connect_headers, RequestHeader, RequestHeader.__struct_fields__)
    with pytest.raises(ValueError, match=r"from 0 to \d+$") as refused:
        connect({-1: 0})
    largest = int(str(refused.value).rsplit(" ", 1)[1])
    try:
        connect({0: 0, largest: 0})
        with pytest.raises(ValueError, match=f"from 0 to {largest}$"):
            connect({largest + 1: 0})
    finally:
        connect(FIRST_FLEXIBLE)
