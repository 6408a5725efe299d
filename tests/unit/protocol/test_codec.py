"""The codec's promises: buffers, nulls, bounds, reserving, defaults, ownership."""

import array
import contextlib
import gc
import tracemalloc
from typing import Annotated

import msgspec
import pytest

from mpbroker import _native
from mpbroker.errors import BufferTooSmall, ProtocolError
from mpbroker.protocol import codec
from mpbroker.protocol.codec import (
    decode,
    decode_prefix,
    encode,
    encode_into,
    encode_reserving,
    encoded_size,
    prepare,
)
from mpbroker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, SupportedFeatureKey
from mpbroker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.protocol.schema import request
from mpbroker.protocol.types import Float64, Int8, Int16, Int32, Int64, Struct, UInt16, Uuid, tagged


@request(key=240, versions=(0, 1), flexible=1)
class Numbers(Struct):
    a: Int8 = 0
    b: UInt16 = 0
    c: Int64 = 0
    d: Float64 = 0.0
    e: bool = False
    f: Uuid = bytes(16)
    g: bytes | None = None


class Leaf(Struct):
    number: Int32 = 0


@request(key=241, versions=(1, 1), flexible=0)
class Optional(Struct):
    leaf: Leaf | None = None
    second: Annotated[Leaf | None, tagged(7)] = None
    first: Annotated[Int32, tagged(2)] = 4


@request(key=242, versions=(0, 1), flexible=1)
class Last(Struct):
    """Lists of every kind, and behind them what may be one byte."""

    a: list[bool] = msgspec.field(default_factory=list)
    b: list[Int8] = msgspec.field(default_factory=list)
    c: list[Int16] = msgspec.field(default_factory=list)
    d: list[UInt16] = msgspec.field(default_factory=list)
    e: list[Int32] = msgspec.field(default_factory=list)
    f: list[Int64] = msgspec.field(default_factory=list)
    g: list[Float64] = msgspec.field(default_factory=list)
    h: list[Uuid] = msgspec.field(default_factory=list)
    i: list[str] = msgspec.field(default_factory=list)
    j: list[Leaf] = msgspec.field(default_factory=list)
    k: list[bytes] = msgspec.field(default_factory=list)
    text: str = ""
    leaf: Leaf | None = None


def produce(records=b"batch"):
    partition = PartitionProduceData(index=3, records=records)
    return ProduceRequest(acks=1, timeout_ms=5, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def fetch(*lengths):
    partitions = [PartitionData(partition_index=i, records=n) for i, n in enumerate(lengths)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


@pytest.mark.parametrize("version", [0, 1])
def test_extremes_of_every_scalar(version):
    for numbers in (
        Numbers(-128, 0, -(1 << 63), -1.5, False, bytes(16), None),
        Numbers(127, 65535, (1 << 63) - 1, 1e300, True, bytes(range(16)), b""),
    ):
        assert decode(Numbers, version, encode(numbers, version)) == numbers


@pytest.mark.parametrize(
    "wrap",
    [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b"..") + b)[2:], lambda b: array.array("B", b)],
)
def test_records_are_a_window_on_any_buffer(wrap):
    data = wrap(encode(produce(), 7))
    records = decode(ProduceRequest, 7, data).topic_data[0].partition_data[0].records
    assert type(records) is memoryview and records == b"batch"
    assert records.obj is (data.obj if isinstance(data, memoryview) else data), "it is no copy"


def test_the_window_sees_later_changes_and_keeps_the_buffer():
    data = bytearray(encode(produce(b"12345"), 7))
    records = decode(ProduceRequest, 7, data).topic_data[0].partition_data[0].records
    data[-1:] = b"X"
    assert records == b"1234X"
    with pytest.raises(BufferError):
        data.clear()


def test_a_buffer_of_wider_items_is_read_as_bytes():
    raw = encode(produce(b"12345678"), 7)
    data = array.array("i", raw + bytes(-len(raw) % 4))
    assert decode(ProduceRequest, 7, data).topic_data[0].partition_data[0].records == b"12345678"


#: One byte more for each of so many is more than what is behind any list.
MANY = 60
LEAST = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 4, "f": 8, "g": 8, "h": 16}


@pytest.mark.parametrize(
    ("version", "least", "more"), [(0, 47, {"i": 2, "j": 4, "k": 4}), (1, 14, {"i": 1, "j": 5, "k": 1})]
)
def test_a_count_is_bounded_by_what_its_elements_take_at_least(version, least, more):
    """Behind a list lie only empty ones, the text and the mark of no structure: as short as a message can be."""
    values = {"g": 0.0, "h": bytes(16), "i": "", "j": Leaf(), "k": b"", "a": False}
    assert len(encode(Last(), version)) == codec._PLANS[Last][version].min_bytes == least
    for at, (name, size) in enumerate((LEAST | more).items()):
        message = Last(**{name: [values.get(name, 0)] * MANY})
        raw = encode(message, version)
        assert len(raw) == least + MANY * size and decode(Last, version, raw) == message
        count_bytes = 4 if version == 0 else 1
        begins = at * count_bytes
        with pytest.raises(ProtocolError, match=f"{name} at byte {begins}: the count exceeds"):
            decode(Last, version, raw[: begins + count_bytes + MANY * size - 1])


@pytest.mark.parametrize("leaf", [None, Leaf(7)])
def test_a_structure_that_may_be_null_may_be_the_last_thing_there_is(leaf):
    raw = encode(Last(leaf=leaf), 0)
    assert raw[46] == (0xFF if leaf is None else 1) and len(raw) == 47 + (0 if leaf is None else 4)
    assert decode(Last, 0, raw) == Last(leaf=leaf)
    with pytest.raises(ProtocolError, match="leaf at byte 46: the message ends inside this field"):
        decode(Last, 0, raw[:46])


def test_trailing_bytes_and_offsets():
    raw = encode(produce(), 7)
    assert decode(ProduceRequest, 7, raw + b"more") == produce()
    assert decode_prefix(ProduceRequest, 7, b"##" + raw + b"more", 2) == (produce(), 2 + len(raw))
    for offset in (-1, len(raw) + 1):
        with pytest.raises(ProtocolError, match="outside"):
            decode(ProduceRequest, 7, raw, offset)


def test_text_that_is_not_utf_8_is_read_with_marks_in_its_place():
    assert decode(MetadataRequest, 1, bytes.fromhex("00000001 0002 c328")).topics[0].name == "\ufffd("


def test_a_negative_count_of_tagged_fields_means_none():
    """Java's brokers read the count as a signed number and loop up to it."""
    assert decode(MetadataRequest, 9, bytes.fromhex("01 01 00 00 ffffffff0f")).topics == []


@pytest.mark.parametrize("version", [3, 7, 9, 13])
def test_every_truncation_is_refused(version):
    raw = encode(produce(), version)
    for cut in range(len(raw)):
        with pytest.raises(ProtocolError):
            decode(ProduceRequest, version, raw[:cut])


@pytest.mark.parametrize(
    ("version", "hexed", "where"),
    [
        (1, "7fffffff", "topics at byte 0: the count exceeds"),
        (1, "00000001 7fff", "name at byte 4: the length exceeds"),
        (1, "00000001 ffff", "name at byte 4: null is not allowed"),
        (0, "ffffffff", "topics at byte 0: null is not allowed"),
        (9, "8080808008", "topics at byte 0: the count exceeds"),
        (9, "80808080808001", "topics at byte 0: the message ends inside a count"),
        (9, "02 00 00", "name at byte 1: null is not allowed"),
        (9, "02 81800400", "the length exceeds"),
        (9, "01 01 00 00 05", "tagged fields at byte 4: there are more"),
        (9, "01 01 00 00 01 00 ff01", "tagged field at byte 5: it is longer"),
    ],
)
def test_what_is_wrong_and_where(version, hexed, where):
    with pytest.raises(ProtocolError) as caught:
        decode(MetadataRequest, version, bytes.fromhex(hexed))
    assert where in str(caught.value)


def test_null_is_any_negative_length_as_kafka_reads_it():
    assert decode(MetadataRequest, 1, bytes.fromhex("fffffff0")).topics is None
    assert decode(MetadataRequest, 9, bytes.fromhex("00 01 00 00 00")).topics is None
    assert decode(MetadataRequest, 9, bytes.fromhex("ffffffff7f 01 00 00 00")).topics is None
    assert decode(MetadataRequest, 1, bytes.fromhex("00000000")).topics == []


def test_a_long_string_is_refused_though_the_bytes_are_there():
    raw = bytes.fromhex("02 818004") + b"x" * 65536 + bytes(20)
    with pytest.raises(ProtocolError, match="at most 32767 bytes"):
        decode(MetadataRequest, 9, raw)


def test_unknown_tags_are_skipped_and_known_ones_checked():
    raw = encode(ApiVersionsResponse(finalized_features_epoch=9), 3)
    assert raw.endswith(bytes.fromhex("01 01 08 0000000000000009"))
    unknown = raw[:-11] + bytes.fromhex("03 01 08 0000000000000009 63 03 aabbcc e807 00")
    assert decode(ApiVersionsResponse, 3, unknown).finalized_features_epoch == 9
    with pytest.raises(ProtocolError, match="bytes left over"):
        decode(ApiVersionsResponse, 3, raw[:-11] + bytes.fromhex("01 01 09 000000000000000900"))
    with pytest.raises(ProtocolError, match=r"finalized_features_epoch .* ends inside"):
        decode(ApiVersionsResponse, 3, raw[:-11] + bytes.fromhex("01 01 07 00000000000009"))


def test_tagged_fields_travel_in_tag_order_and_only_when_set():
    assert encode(Optional(), 1) == bytes.fromhex("ff 00")
    both = Optional(leaf=Leaf(1), second=Leaf(2), first=5)
    raw = bytes.fromhex("01 00000001 00  02  02 04 00000005  07 05 00000002 00")
    assert encode(both, 1) == raw and decode(Optional, 1, raw) == both
    features = ApiVersionsResponse(supported_features=[SupportedFeatureKey("group.version", 0, 1)])
    assert decode(ApiVersionsResponse, 3, encode(features, 3)) == features
    assert decode(ApiVersionsResponse, 2, encode(features, 2)) == ApiVersionsResponse(), "2 has no tags"


def test_a_tag_given_twice_keeps_the_last_value():
    raw = bytes.fromhex("ff 02  02 04 00000005  02 04 00000006")
    assert decode(Optional, 1, raw).first == 6


def test_default_lists_are_not_shared():
    one, other = (decode(MetadataResponse, 0, encode(MetadataResponse(), 0)) for _ in range(2))
    one.brokers.append("mine")
    assert other.brokers == [] and MetadataResponse().brokers == []
    response = decode(ApiVersionsResponse, 0, encode(ApiVersionsResponse(api_keys=[ApiVersion(1, 2, 3)]), 0))
    response.supported_features.append("mine")
    assert decode(ApiVersionsResponse, 0, bytes(6)).supported_features == []


def test_encode_into_tells_how_much_room_is_missing():
    message = produce(b"x" * 100)
    raw = encode(message, 7)
    room = bytearray(len(raw) + 4)
    assert encode_into(message, 7, room, 4) == len(room)
    assert room[4:] == raw and encoded_size(message, 7) == len(raw)
    for short in (0, 1, 10, len(raw) - 1):
        with pytest.raises(BufferTooSmall) as caught:
            encode_into(message, 7, bytearray(short + 2), 2)
        assert (caught.value.needed, caught.value.available) == (len(raw), short)
    with pytest.raises((BufferError, TypeError)):
        encode_into(message, 7, bytes(500))
    with pytest.raises(ValueError, match="outside"):
        encode_into(message, 7, bytearray(5), 6)


@pytest.mark.parametrize("version", [11, 12])
def test_reserving_leaves_room_for_the_log(version):
    buffer = bytearray(b"." * 400)
    end, ranges = encode_reserving(fetch(10, 0, 200), version, buffer, 8)
    assert [length for _, length in ranges] == [10, 0, 200]
    assert all(buffer[at : at + length] == b"." * length for at, length in ranges)
    for at, length in ranges:
        buffer[at : at + length] = b"r" * length
    assert decode(FetchResponse, version, buffer[:end], 8) == fetch(b"r" * 10, b"", b"r" * 200)
    assert encoded_size(fetch(10, 0, 200), version) == end - 8
    with pytest.raises(BufferTooSmall) as caught:
        encode_reserving(fetch(1000), version, buffer)
    assert caught.value.needed == encoded_size(fetch(1000), version)


@pytest.mark.parametrize("write", [lambda m: encode(m, 11), lambda m: encode_into(m, 11, bytearray(500))])
def test_reserving_is_refused_where_nobody_fills_the_room(write):
    with pytest.raises(TypeError, match="reserved by encode_reserving"):
        write(fetch(5))
    with pytest.raises(ValueError, match="is not a length"):
        encode_reserving(fetch(-1), 11, bytearray(500))


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (Numbers(a=128), ValueError, "Numbers.a: 128 does not fit"),
        (Numbers(b=-1), ValueError, "Numbers.b: -1 does not fit"),
        (Numbers(c=1 << 70), ValueError, "Numbers.c: .* does not fit"),
        (Numbers(c=None), TypeError, "Numbers.c: None is not an int"),
        (Numbers(d=1), TypeError, "Numbers.d: 1 is not a float"),
        (Numbers(e=2), ValueError, "Numbers.e: 2 does not fit"),
        (Numbers(f=b"short"), TypeError, "Numbers.f: .* is not 16 bytes"),
        (Numbers(g="text"), TypeError, "bytes-like"),
    ],
)
def test_values_that_do_not_fit(message, error, text):
    with pytest.raises(error, match=text):
        encode(message, 0)


def test_shapes_that_do_not_fit():
    for topics, error, text in (
        (None, ValueError, "MetadataRequest.topics: None is not allowed in this version"),
        (5, TypeError, "neither a list nor a tuple"),
        ([ApiVersion()], TypeError, "not of the class"),
    ):
        with pytest.raises(error, match=text):
            encode(MetadataRequest(topics=topics), 0)
    with pytest.raises(ValueError, match="more than 32767 bytes"):
        encode(MetadataResponse(cluster_id="x" * 32768), 8)
    with pytest.raises(UnicodeEncodeError):
        encode(MetadataResponse(cluster_id="\ud800"), 8)
    assert encode(MetadataRequest(topics=()), 0) == bytes(4)


def test_large_messages_grow_without_loss():
    big = produce(bytes(range(256)) * 40_000)
    raw = encode(big, 9)
    assert len(raw) > 10_000_000 and decode(ProduceRequest, 9, raw) == big
    for size in range(900, 5000, 7):  # around the sizes at which the encoder moves to a larger buffer
        message = MetadataResponse(cluster_id="c" * size)
        assert decode(MetadataResponse, 8, encode(message, 8)) == message


def test_nothing_leaks_when_decoding_fails():
    raw = encode(fetch(b"a" * 50, b"b" * 50), 12)
    raw += encode(FetchResponse(responses=[]), 12)

    def damage_all():
        for cut in range(len(raw)):
            for version in (4, 11, 12):
                try:
                    decode(FetchResponse, version, raw[:cut])
                    encode(fetch(LeaderIdAndEpoch()), 12)
                except (ProtocolError, TypeError):
                    pass

    damage_all()
    gc.collect()
    tracemalloc.start()
    try:
        damage_all()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):  # a thousand messages each
            damage_all()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 2000
    finally:
        tracemalloc.stop()


def test_nothing_leaks_when_the_room_is_too_small():
    room = bytearray(30)

    def too_small():
        for _ in range(1000):
            with contextlib.suppress(BufferTooSmall):
                encode_into(fetch(b"a" * 50), 12, room)

    too_small()
    tracemalloc.start()
    try:
        too_small()
        before = tracemalloc.get_traced_memory()[0]
        too_small()
        assert tracemalloc.get_traced_memory()[0] - before < 2000
    finally:
        tracemalloc.stop()


def test_plans_are_built_once_and_before_a_fork():
    prepare([MetadataRequest])
    plans = codec._PLANS[MetadataRequest]
    assert len(plans) == 14 and None not in plans
    kept = plans[9]
    decode(MetadataRequest, 9, encode(MetadataRequest(), 9))
    assert codec._PLANS[MetadataRequest][9] is kept


@pytest.mark.parametrize("version", [0, 13])
def test_a_plan_that_is_there_is_not_asked_for(version):
    prepare([MetadataRequest])
    asked = []
    _native.codec_connect_plans(codec._PLANS, lambda *words: asked.append(words) or codec._build(*words))
    try:
        decode(MetadataRequest, version, encode(MetadataRequest(), version))
        with contextlib.suppress(ProtocolError, TypeError, ValueError):
            encode(MetadataRequest(), 14)
    finally:
        _native.codec_connect_plans(codec._PLANS, codec._build)
    assert asked == [(MetadataRequest, 14)]


@pytest.mark.parametrize("plan", [None, codec._build(ProduceRequest, 3)])
def test_the_plan_of_another_class_is_not_followed(plan):
    _native.codec_connect_plans({}, lambda cls, version: plan)
    try:
        with pytest.raises(TypeError, match="another class"):
            encode(MetadataRequest(), 9)
    finally:
        _native.codec_connect_plans(codec._PLANS, codec._build)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (MetadataRequest,),
        (MetadataRequest, 0),
        (MetadataRequest, "0", b""),
        (MetadataRequest, 0, "text"),
        (MetadataRequest, 0, bytes(4), None),
    ],
)
def test_wrong_arguments(arguments):
    with pytest.raises(TypeError):
        decode(*arguments)
