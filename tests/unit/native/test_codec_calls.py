"""The codec's calls at the bounds of their arguments, and what they keep hold of."""

import array
import subprocess
import sys
from typing import Annotated

import msgspec
import pytest

from mpbroker import _native
from mpbroker.errors import BufferTooSmall, ProtocolError
from mpbroker.protocol import codec, headers
from mpbroker.protocol.messages_by_key import REQUESTS, RESPONSES
from mpbroker.protocol.schema import request
from mpbroker.protocol.types import Int32, Int64, Records, Struct, tagged
from tests.harness.no_memory import leaves_nothing

METADATA = 3
FLEXIBLE = {key: first for key, first in headers.FIRST_FLEXIBLE.items() if first == 0}
LEAST, MOST = -(1 << 31), (1 << 31) - 1


@request(key=244, versions=(0, 1), flexible=1)
class Text(Struct):
    text: str = ""


@request(key=243, versions=(1, 1), flexible=1)
class Tagged(Struct):
    """A text, and behind it what is sent by tag."""

    text: str = ""
    number: Annotated[Int32, tagged(2)] = 4
    second: Annotated[Records, tagged(3)] = None
    third: Annotated[Records, tagged(4)] = None
    large: Annotated[Int64, tagged(5)] = 1 << 40


def text_of(length: int) -> Text:
    return Text(text="é" * (length // 2) + "e" * (length % 2))


@pytest.mark.parametrize("version", [0, 1])
def test_the_longest_text(version):
    for length in (0, 1, 32766, 32767):
        encoded = codec.encode(text_of(length), version)
        assert codec.decode(Text, version, encoded) == text_of(length)
    with pytest.raises(ValueError, match=r"Text\.text: .* has more than 32767 bytes"):
        codec.encode(text_of(32768), version)


def test_the_longest_text_that_is_read():
    """A varint could say more than a string may have."""
    body = b"x" * 32768
    assert len(codec.decode(Tagged, 1, b"\x80\x80\x02" + body[1:] + b"\0").text) == 32767
    with pytest.raises(ProtocolError, match="at most 32767 bytes"):
        codec.decode(Tagged, 1, b"\x81\x80\x02" + body + b"\0")


def test_a_tagged_value_of_another_type_is_no_default():
    """It is equal to it, and would be left out without a word."""
    for wrong in (4.0, "4", None):
        with pytest.raises(TypeError, match=r"Tagged\.number: .* is not an int"):
            codec.encode(Tagged(number=wrong), 1)
    assert codec.encode(Tagged(number=4), 1) == b"\1\0"
    assert codec.encode(Tagged(large=int("1099511627776")), 1) == b"\1\0", "equal, and another object"
    assert codec.encode(Tagged(number=5), 1) == b"\1\1\2\4\0\0\0\5"


def test_what_a_tag_says_is_skipped_unless_it_is_known():
    whole = b"\1\2\x09\3abc\2\4\0\0\0\7"
    message, end = codec.decode_prefix(Tagged, 1, whole + b"more")
    assert (message.number, end) == (7, len(whole))
    message, end = codec.decode_prefix(Tagged, 1, b"\1\1\x09\3abcmore")
    assert (message.number, end) == (4, 7)
    for wrong, words in (
        (b"\1\1\2\5\0\0\0\7\0", "the tagged field has bytes left over"),
        (b"\1\1\2\3\0\0\7", "the message ends inside this field"),
        (b"\1\1\2\5\0\0\0\7", "it is longer than the bytes that are left"),
        (b"\1\3\2\4\0", "there are more than the bytes left can hold"),
    ):
        with pytest.raises(ProtocolError, match=words):
            codec.decode(Tagged, 1, wrong)


def test_windows_on_a_buffer_are_let_go_of():
    """One view is shared by the fields of a message, tagged or not; it goes with them."""
    whole = bytearray(b"\1\2\3\4\4abc\4\3\3xy")
    message = codec.decode(Tagged, 1, whole)
    assert (bytes(message.second), bytes(message.third)) == (b"abc", b"xy")
    assert message.second.obj is whole
    with pytest.raises(BufferError):
        whole.append(0)
    del message
    whole.append(0)
    with pytest.raises(ProtocolError):
        codec.decode(Tagged, 1, whole[:-5] + b"\4\x09")
    leaves_nothing(lambda: codec.decode(Tagged, 1, whole), [whole, Tagged])


def test_a_buffer_of_larger_items():
    """Places are counted in bytes whatever it holds."""
    whole = b"\1\2\3\4\4abc\4\3\3xyz"
    whole += bytes(-len(whole) % 16)
    for kind in "BHIbhi":
        message = codec.decode(Tagged, 1, array.array(kind, whole))
        assert (bytes(message.second), bytes(message.third)) == (b"abc", b"xy")
    matrix = memoryview(whole).cast("B", (len(whole) // 4, 4))
    assert bytes(codec.decode(Tagged, 1, matrix).second) == b"abc"


def test_a_plan_is_borrowed():
    message, target = Tagged(text="x"), bytearray(100)
    encoded = codec.encode(message, 1)
    [plan] = [one for one in codec._PLANS[Tagged] if one is not None and one.min_bytes == 2]
    for work in (
        lambda: _native.codec_decode(Tagged, 1, encoded),
        lambda: _native.codec_decode_prefix(Tagged, 1, encoded),
        lambda: _native.codec_encode(message, 1),
        lambda: _native.codec_encoded_size(message, 1),
        lambda: _native.codec_encode_into(message, 1, target),
        lambda: _native.codec_encode_reserving(message, 1, target),
        lambda: _native.codec_encode_request_frame(METADATA, 1, 5, "c", message),
        lambda: _native.codec_encode_response_frame(METADATA, 1, 5, message),
        lambda: _native.codec_encode_response_frame_into(METADATA, 1, 5, message, target),
    ):
        leaves_nothing(work, [plan, message, encoded, target, Tagged])


def test_a_version_behind_the_last_plan_is_asked_for():
    """What stood in the list before, and may lie behind its end, counts no more."""
    codec.encode(Tagged(), 1)
    plans = codec._PLANS[Tagged]
    plans.append(plans[1])
    del plans[2:]
    for version in (2, 3, -1, 1 << 40):
        with pytest.raises((ValueError, ProtocolError)):
            _native.codec_encode(Tagged(), version)
    for version in ("x", None, 1.0):
        with pytest.raises(TypeError):
            _native.codec_encode(Tagged(), version)


@pytest.mark.parametrize("call", ["codec_encode(object(), 0)", "codec_decode(object, 0, b'')"])
def test_a_codec_that_is_not_there(call):
    program = f"from mpbroker import _native\ntry:\n    _native.{call}\nexcept RuntimeError as error:\n    print(error)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert told.stdout == "mpbroker.protocol.codec is not loaded\n", told.stderr


def test_headers_that_are_not_there():
    """No API has been told yet."""
    program = (
        "from mpbroker import _native\nfor key in range(256):\n"
        "    try:\n        _native.codec_decode_response_header(key, 0, bytes(4))\n"
        "    except ValueError as error:\n        print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert told.stdout == "".join(f"there is no API with key {key}\n" for key in range(256)), told.stderr


def frames(key, version, correlation_id):
    """Each way to make the frame of an answer or of a request."""
    response, target = RESPONSES[METADATA](), bytearray(1000)
    whole = _native.codec_encode_response_frame(key, version, correlation_id, response)
    end, _ = _native.codec_encode_response_frame_into(key, version, correlation_id, response, target)
    assert bytes(target[:end]) == whole
    return whole, _native.codec_encode_request_frame(key, version, correlation_id, "", REQUESTS[METADATA]())


@pytest.mark.parametrize("correlation_id", [LEAST, LEAST + 1, -1, 0, MOST])
def test_numbers_of_a_frame(correlation_id):
    for frame, at in zip(frames(METADATA, 1, correlation_id), (4, 8), strict=True):
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert int.from_bytes(frame[at : at + 4], "big", signed=True) == correlation_id


@pytest.mark.parametrize(
    ("key", "version", "correlation_id"),
    [(-1, 1, 5), (256, 1, 5), (250, 1, 5), (3, -1, 5), (3, 32768, 5), (3, 1, LEAST - 1), (3, 1, MOST + 1)],
)
def test_numbers_that_no_frame_has(key, version, correlation_id):
    words = f"^no frame has key {key}, version {version} and correlation id {correlation_id}$"
    for call, more in (
        (_native.codec_encode_response_frame, (RESPONSES[METADATA](),)),
        (_native.codec_encode_response_frame_into, (RESPONSES[METADATA](), bytearray(99))),
        (_native.codec_encode_request_frame, ("", REQUESTS[METADATA]())),
    ):
        with pytest.raises(ValueError, match=words):
            call(key, version, correlation_id, *more)
        for place in range(3):
            numbers = [3, 1, 5]
            numbers[place] = "x"
            with pytest.raises(TypeError):
                call(*numbers, *more)
            numbers[place] = 1 << 64
            with pytest.raises(OverflowError):
                call(*numbers, *more)


def test_apis_that_were_flexible_from_the_first():
    assert FLEXIBLE
    for key in FLEXIBLE:
        assert _native.codec_decode_response_header(key, 0, b"\0\0\0\7\0") == (7, 5)
        assert _native.codec_decode_request_header(key.to_bytes(2, "big") + b"\0\0\0\0\0\7\0\1c\0").client_id == "c"
        answer = RESPONSES[METADATA]()
        assert _native.codec_encode_response_frame(key, 0, 7, answer)[4:9] == b"\0\0\0\7\0"


@pytest.mark.parametrize("name", ["codec_encode_into", "codec_encode_reserving"])
def test_where_a_message_is_put(name):
    call, message = getattr(_native, name), Tagged(text="abc")
    size = codec.encoded_size(message, 1)
    for offset in (0, 1, 90):
        target = bytearray(offset + size)
        found = call(message, 1, target, offset)
        assert found == (len(target) if name == "codec_encode_into" else (len(target), []))
        assert target[offset:] == codec.encode(message, 1) and not any(target[:offset])
        del target[-1:]
        with pytest.raises(BufferTooSmall, match=f"needs {size} bytes, the buffer has room for {size - 1}$"):
            call(message, 1, target, offset)
    wrong = [("x", TypeError), (None, TypeError), (1 << 64, OverflowError), (-1, ValueError), (9, ValueError)]
    for offset, error in wrong:
        with pytest.raises(error):
            call(message, 1, bytearray(8), offset)
    for target in (bytes(99), "x", None, memoryview(bytes(99))):
        with pytest.raises((TypeError, BufferError)):
            call(message, 1, target)
    with pytest.raises(BufferTooSmall):
        call(message, 1, bytearray(8), 8)


def test_the_longest_client():
    make, header = _native.codec_encode_request_frame, _native.codec_decode_request_header
    for version in (1, 9):
        for length in (0, 1, 32766, 32767):
            frame = make(METADATA, version, 5, "c" * length, REQUESTS[METADATA]())
            read = header(frame, 4)
            assert (read.client_id, read.api_version) == ("c" * length, version)
            assert len(frame) - read.body_offset == codec.encoded_size(REQUESTS[METADATA](), version)
        with pytest.raises(ValueError, match="a client id cannot have more than 32767 bytes"):
            make(METADATA, version, 5, "c" * 32768, REQUESTS[METADATA]())
    for wrong in (b"c", None, 5):
        with pytest.raises(TypeError):
            make(METADATA, 1, 5, wrong, REQUESTS[METADATA]())


def test_what_a_header_is_connected_with():
    """Five fields that are slots, API keys below 256, versions that int16 has, and the first that it has not."""
    connect, cls, names = _native.codec_connect_headers, headers.RequestHeader, headers.RequestHeader.__struct_fields__

    class Plain:
        def __init__(self):
            self.a = self.b = self.c = self.d = self.e = 0

    try:
        connect(cls, names, {0: 32768})
        for wrong in ({0: 32769}, {0: -1}, {-1: 0}, {256: 0}):
            with pytest.raises(ValueError, match="API keys run from 0 to 255"):
                connect(cls, names, wrong)
        connect(cls, names, {255: 0})
        with pytest.raises(TypeError, match="five fields"):
            connect(cls, names[:4], {})
        for place in range(5):
            fields = [*names]
            fields[place] = "nothing"
            with pytest.raises((TypeError, AttributeError)):
                connect(cls, tuple(fields), {})
        with pytest.raises((TypeError, AttributeError)):
            connect(Plain, tuple("abcde"), {})
        connect(cls, names[::-1], headers.FIRST_FLEXIBLE)
        reversed_ones = _native.codec_decode_request_header(b"\0\3\0\1\0\0\0\5\0\1c")
        assert [getattr(reversed_ones, name) for name in names] == [11, "c", 5, 1, 3]
    finally:
        connect(cls, names, headers.FIRST_FLEXIBLE)
    straight = _native.codec_decode_request_header(b"\0\3\0\1\0\0\0\5\0\1c")
    assert [getattr(straight, name) for name in names] == [3, 1, 5, "c", 11]


def test_a_plan_that_comes_to_nothing_is_let_go_of():
    """Whichever row is wrong, and whatever is wrong with it."""
    good = ("text", 9, 0, None, 0, b"")
    for wrong in (
        ("nothing", 1, 0, None, 0, 0),
        ("text", 12, 0, None, 0, 0),
        ("text", 11, 0, None, 0, 0),
        ("text", 1, 0, _native.Plan(Tagged, False, (good,), (), ()), 0, 0),
        ("text", 11, 1, _native.Plan(Tagged, False, (), (), ()), 0, 0),
        (),
    ):
        for places in (((good, wrong), (), ()), ((good,), (wrong,), ()), ((good,), (good,), (wrong,))):

            def work(places=places):
                with pytest.raises((TypeError, AttributeError)):
                    _native.Plan(Tagged, False, *places)

            leaves_nothing(work, [Tagged, good, wrong, *good, *wrong])


def test_the_fewest_bytes_of_a_message():
    """Of each kind, nullable and compact or not; what is tagged or absent takes none."""
    inner = _native.Plan(Tagged, False, (("text", 4, 0, None, 0, 0),), (), ())
    array, nullable, compact = 1, 2, 4
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 8, 6: 8, 7: 16, 8: 2, 9: 4, 10: 4}
    for kind, size in sizes.items():
        for flags in range(8):
            expected = size
            if flags & compact and kind >= 8:
                expected = 1
            if flags & array:
                expected = 1 if flags & compact else 4
            field = ("text", kind, flags, None, 0, 0)
            assert _native.Plan(Tagged, False, (field,), (field,), (field,)).min_bytes == expected
            assert _native.Plan(Tagged, True, (field, field), (), ()).min_bytes == 2 * expected + 1
    for flags, size in ((0, 4), (nullable, 1), (array, 4), (array | nullable, 4), (array | compact, 1)):
        assert _native.Plan(Tagged, False, (("text", 11, flags, inner, 0, 0),), (), ()).min_bytes == size


def test_a_message_that_lacks_a_field():
    message = Tagged()
    del message.text
    with pytest.raises(ValueError, match=r"Tagged\.text: None was deleted"):
        codec.encode(message, 1)
    assert msgspec.structs.asdict(Tagged())["text"] == ""
