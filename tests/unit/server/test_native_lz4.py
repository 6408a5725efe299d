"""Batches of lz4 are read by the native path itself: the interpreter hears only of frames that it cannot read, and says
what is wrong with them."""

import os
import struct

import pytest

from mpbroker.log.log_manager import LogManager
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.checksum import crc32c
from mpbroker.record.compression import GZIP, LZ4, SNAPPY, ZSTD
from mpbroker.shm.counters import Counter
from tests.harness.in_process_broker import InProcessBroker

RECORDS_AT, CRC_AT = 61, 17
REFUSED_BY_KAFKA_WITH, INVALID_RECORD = -1, 87  # UNKNOWN_SERVER_ERROR: what its decompressor throws has no code


@pytest.fixture
def asked(monkeypatch):
    """The codecs of the batches that the native path asked the interpreter to decompress."""
    codecs, decompress = [], LogManager._decompress

    def counted(self, codec, *rest):
        codecs.append(codec)
        return decompress(self, codec, *rest)

    monkeypatch.setattr(LogManager, "_decompress", counted)
    return codecs


@pytest.fixture
def broker(tmp_path, asked):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    produce(broker, batch(0, b"first"))  # from now on the topic is known natively
    return broker


def batch(codec: int, *values: bytes) -> bytes:
    return encode_batch([(b"k", value, 1_700_000_000_000) for value in values], codec=codec)


def with_records(records: bytes) -> bytes:
    """A batch of one record, said to be of lz4, whose checksum is right."""
    made = batch(LZ4, b"one")[:RECORDS_AT] + records
    made = made[:8] + struct.pack(">i", len(made) - 12) + made[12:]
    return made[:CRC_AT] + struct.pack(">I", crc32c(made[CRC_AT + 4 :])) + made[CRC_AT + 4 :]


def produce(broker: InProcessBroker, records: bytes) -> tuple[int, int]:
    """The answer's error and base offset."""
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])]
    [answer] = broker.call(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), 7).responses[0].partition_responses
    return answer.error_code, answer.base_offset


def served(broker: InProcessBroker) -> int:
    return broker.handler.context.row.counter(Counter.PRODUCE_NATIVE)


def test_lz4_is_read_without_the_interpreter(broker, asked):
    before = served(broker)
    sent = [(b"small",), (b"a" * 100,) * 50, (os.urandom(70_000),), (b"runs" * 60_000, b"and more")]
    for number, values in enumerate(sent):
        assert produce(broker, batch(LZ4, *values))[0] == 0, number
    assert (served(broker) - before, asked) == (len(sent), [])


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, ZSTD])
def test_other_codecs_are_the_interpreters(broker, asked, codec):
    before = served(broker)
    assert produce(broker, batch(codec, b"a" * 100)) == (0, 1)
    assert (served(broker) - before, asked) == (1, [codec])


def broken_frames() -> dict[str, bytes]:
    whole = batch(LZ4, b"one record that is long enough " * 4)[RECORDS_AT:]
    return {
        "no magic": b"\0" + whole[1:],
        "header checksum": whole[:6] + bytes([whole[6] ^ 1]) + whole[7:],
        "cut": whole[:-6],
        "nothing": b"",
        "a distance of nothing": whole[:7] + struct.pack("<I", 4) + b"\x00\x00\x00\x00" + bytes(4),
        "block longer than the frame": whole[:7] + struct.pack("<I", 60_000) + whole[11:],
    }


@pytest.mark.parametrize("name", broken_frames())
def test_a_broken_frame_is_refused_and_nothing_is_appended(broker, asked, name):
    assert produce(broker, with_records(broken_frames()[name])) == (REFUSED_BY_KAFKA_WITH, -1)
    assert asked == [LZ4]  # who says so is the reader that knows what Kafka takes
    assert produce(broker, batch(0, b"next")) == (0, 1)


def test_records_that_are_none_are_refused_in_a_good_frame(broker, asked):
    frame = batch(LZ4, b"one")[RECORDS_AT:]
    stored = frame[:7] + struct.pack("<I", 0x80000000 | 5) + b"\x7f\0\0\0\0" + bytes(4)
    assert produce(broker, with_records(stored)) == (INVALID_RECORD, -1)
    assert asked == []
    assert produce(broker, batch(0, b"next")) == (0, 1)
