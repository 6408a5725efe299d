"""What Produce and Fetch are served with natively: the callables that decompress, and the topics that are known."""

import sys
import zlib

import pytest

from mpbroker import _native
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.messages.produce import ProduceResponse
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.process_table import ProcessRow
from tests.harness.kept_blocks import ROUNDS, kept
from tests.harness.small_core import small_core
from tests.unit.server.test_produce_fetch import produce

HANDLER_SLOT, TOPIC_ID, GZIP, LZ4 = 48, bytes(range(16)), 1, 3
NOW_MS, MOST_PARTITIONS = 1_700_000_000_000, 1024
RECORDS = [(b"k", b"v" * 100, NOW_MS)]


class World:
    """A port whose Produce requests are served with the callables of a test."""

    def __init__(self, path, decompress) -> None:
        self.core = small_core(partitions=1100).core
        ProcessRow(self.core, HANDLER_SLOT).begin(1, 3, 0, 255)
        self.log = _native.Log(self.core, [str(path)], HANDLER_SLOT)
        assert self.log.create(0, TOPIC_ID, 0, 0, 0, "t-0", 0, NOW_MS) == 0
        self.processor, self.port = _native.ProcessorPort(self.core, 0), _native.HandlerPort(self.core, 0)
        self.released = 0
        self.native = _native.NativeProduce(self.port, self.log, 150, decompress, self._release)
        self.native.now_ms = NOW_MS
        self.native.reset(self.core.metadata_generation)
        assert self.native.add("t", TOPIC_ID, [0], _native.LogOptions(), True, False) is True

    def _release(self) -> None:
        self.released += 1

    def served(self, records, version=7):
        """The answer of one request for partition 0; None when it was left to Python."""
        frame = encode_request_frame(produce(records=records), version, 5, "test")[4:]
        assert self.processor.submit(0, 1, 1, 0, frame, 1) >= 0
        request = self.port.serve_or_claim()
        if request is not None:
            self.port.answer_none(request)
        [(entry, _, _, _, body)] = self.processor.collect(9)
        answer = None if body is None else bytes(body)[4:]
        self.processor.sent(entry)
        if answer is None:
            return None
        response = decode(ProduceResponse, version, answer, decode_response_header(0, version, answer)[1])
        return response.responses[0].partition_responses[0]


@pytest.fixture
def unraisable(monkeypatch):
    """What callables raised where nobody can be told."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told_one: told.append(told_one.exc_type))
    return told


def compressed() -> bytes:
    return encode_batch(RECORDS, codec=GZIP)


def unpacked(codec, data, most):
    """As the broker does it."""
    assert codec == GZIP and most > 1_048_588 // 2 and isinstance(data, memoryview) and data.readonly
    return 0, zlib.decompress(bytes(data), wbits=31)


def test_records_that_python_decompressed(tmp_path):
    seen = []

    def decompress(*arguments):
        seen.append(bytes(arguments[1]))
        return unpacked(*arguments)

    world = World(tmp_path, decompress)
    whole = compressed()
    for number in range(3):
        answer = world.served(whole)
        assert (answer.error_code, answer.base_offset) == (0, number)
        assert (world.native.served, world.released) == (number + 1, number + 1)
    assert seen == [whole[61:]] * 3
    world.log.close()


def test_records_that_are_not_compressed_are_nobodys_business(tmp_path):
    world = World(tmp_path, lambda *_: pytest.fail("nothing is compressed"))
    assert world.served(encode_batch(RECORDS)).error_code == 0 and world.released == 0
    world.log.close()


@pytest.mark.parametrize("code", [-1, 2, 10, 87])
def test_a_code_in_the_place_of_records(tmp_path, unraisable, code):
    world = World(tmp_path, lambda *_: (code, None))
    assert world.served(compressed()).error_code == code and unraisable == []
    assert world.log.state(0).leo == 0
    world.log.close()


def _raises(*_):
    raise KeyError("broken")


@pytest.mark.parametrize(
    "decompress",
    [
        _raises,
        lambda *_: None,
        lambda *_: (),
        lambda *_: (0,),
        lambda *_: (0, None),
        lambda *_: (0, "text"),
        lambda *_: ("0", b""),
        lambda *_: (0, b"", 1),
        lambda *_: [0, b""],
        lambda: (0, b""),
        None,
    ],
)
def test_a_callable_that_is_broken(tmp_path, unraisable, decompress):
    """The interpreter says so, nothing is written, the request is left to Python, and the next one is served."""
    world = World(tmp_path, decompress)
    assert world.served(compressed()) is None
    assert len(unraisable) == 1 and world.log.state(0).leo == 0
    assert world.served(encode_batch(RECORDS)).base_offset == 0
    world.log.close()


def test_what_was_decompressed_is_let_go_of(tmp_path):
    """An export that was kept would forbid it to grow."""
    unpacked_bytes = bytearray(zlib.decompress(compressed()[61:], wbits=31))
    world = World(tmp_path, lambda *_: (0, unpacked_bytes))
    assert world.served(compressed()).error_code == 0
    unpacked_bytes.append(0)
    del unpacked_bytes[-1:]
    assert kept(lambda: world.served(compressed())) < ROUNDS // 2
    world.log.close()


def test_a_release_that_is_broken(tmp_path, unraisable):
    world = World(tmp_path, unpacked)
    world.native = _native.NativeProduce(world.port, world.log, 150, unpacked, _raises)
    world.native.now_ms = NOW_MS
    world.native.reset(world.core.metadata_generation)
    assert world.native.add("t", TOPIC_ID, [0], _native.LogOptions(), True, False) is True
    assert world.served(compressed()).error_code == 0 and unraisable == [KeyError]
    world.log.close()


def test_topics_that_are_known(tmp_path):
    world = World(tmp_path, unpacked)
    add, options = world.native.add, _native.LogOptions()
    assert add("most", b"m" * 16, list(range(MOST_PARTITIONS)), options, True, False) is True
    assert add("more", b"n" * 16, [0] * (MOST_PARTITIONS + 1), options, True, False) is False
    assert add("none", b"o" * 16, [0], options, False, True) is False
    assert add("last", b"p" * 16, [1099], options, True, False) is True
    for wrong in (1100, 1 << 32):
        with pytest.raises(IndexError, match=f"no partition row {wrong}"):
            add("x", b"x" * 16, [0, wrong], options, True, False)
    for wrong, error in (("0", TypeError), (None, TypeError), (-1, OverflowError), (1 << 64, OverflowError)):
        with pytest.raises(error):
            add("x", b"x" * 16, [0, wrong], options, True, False)
    for topic_id in (b"", b"x" * 15, b"x" * 17):
        with pytest.raises(ValueError, match="a topic id is 16 bytes"):
            add("x", topic_id, [0], options, True, False)
    for place in range(4):
        arguments = ["x", b"x" * 16, [0], options, True, False]
        arguments[place] = object()
        with pytest.raises(TypeError):
            add(*arguments)
    plain = encode_batch(RECORDS)
    assert world.served(plain).error_code == 0
    world.native.reset(world.core.metadata_generation)
    assert world.served(plain) is None, "every topic is forgotten"
    assert add("t", TOPIC_ID, [0], options, True, False) is True
    world.native.reset(77), add("t", TOPIC_ID, [0], options, True, False)
    assert world.served(plain) is None, "they are of another generation"
    for wrong, error in (("x", TypeError), (None, TypeError), (-1, OverflowError)):
        with pytest.raises(error):
            world.native.reset(wrong)
    world.log.close()


def test_the_first_counter_that_there_is_not(tmp_path):
    world = World(tmp_path, unpacked)
    most = next(number for number in range(100_000) if not _counts(world.core, number))
    _native.NativeProduce(world.port, world.log, most - 1, unpacked, _raises)
    newest = _native.NativeProduce(world.port, world.log, 0, unpacked, _raises)
    _native.NativeFetch(world.port, world.log, newest, most - 1)
    with pytest.raises(ValueError, match=f"no counter {most}"):
        _native.NativeProduce(world.port, world.log, most, unpacked, _raises)
    with pytest.raises(ValueError, match=f"no counter {most}"):
        _native.NativeFetch(world.port, world.log, newest, most)
    world.log.close()


def _counts(core, number) -> bool:
    try:
        core.row(3).counter(number)
    except IndexError:
        return False
    return True


@pytest.mark.parametrize("version", [7, 8, 9])
def test_which_record_is_at_fault(tmp_path, version):
    """Versions that have a place for its number get it from Python."""
    world = World(tmp_path, unpacked)
    world.native.reset(world.core.metadata_generation)
    assert world.native.add("t", TOPIC_ID, [0], _native.LogOptions(timestamp_after_max_ms=5), True, False) is True
    late = encode_batch([(b"k", b"v", NOW_MS), (b"k", b"v", NOW_MS + 6)])
    answer = world.served(late, version)
    assert (answer is None) is (version >= 8)
    assert answer is None or answer.error_code == 32
    assert world.served(encode_batch([(b"k", b"v", NOW_MS + 5)]), version).error_code == 0
    assert world.log.state(0).leo == 1
    world.log.close()


def _mapped_kb():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmData:"))


def test_what_was_unpacked_natively_goes_with_its_object(tmp_path):
    """A mebibyte, when the first batch of lz4 comes."""
    world = World(tmp_path, unpacked)
    packed = encode_batch(RECORDS, codec=LZ4)

    def another(rounds):
        for _ in range(rounds):
            world.native = _native.NativeProduce(world.port, world.log, 150, unpacked, world._release)
            world.native.now_ms = NOW_MS
            world.native.reset(world.core.metadata_generation)
            assert world.native.add("t", TOPIC_ID, [0], _native.LogOptions(), True, False) is True
            assert world.served(packed).error_code == 0

    another(5)
    before_kb = _mapped_kb()
    another(40)
    assert _mapped_kb() - before_kb < 20 << 10 and world.released == 0, "the interpreter was not asked"
    world.log.close()
