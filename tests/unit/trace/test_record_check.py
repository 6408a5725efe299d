"""What cannot be is told from what a broker writes, record by record as by columns."""

import random

import pytest

from mpbroker.analysis.engine.input import soundness
from mpbroker.trace import record, record_check, segment
from mpbroker.trace.record_check import RecordCheck
from tests.harness.record_trace import Lane, random_requests, request, write_segment
from tests.harness.same_file import rewrite

FIELDS = ("seq_lo", "kind", "plane_prio", "api_key", "error", "flags")


def _checked(path, chunk_records=7):
    """How many records are sound, and the sentence, as the standard library finds it."""
    info = segment.read_info(path)
    check = RecordCheck(info)
    sound = b"".join(check.sound(data) for data in segment.read_chunks(info, chunk_records))
    whole = path.read_bytes()[segment.HEADER_BYTES :]
    assert sound == whole[: len(sound)] and len(sound) == check.records * record.RECORD_BYTES
    return check.records, record_check.damaged_from(info, check.records, check.wrong) if check.wrong else ""


def _by_columns(path):
    checked = soundness.check(segment.read_info(path))
    return checked.info.record_count, checked.info.damage


@pytest.mark.parametrize("sampled_out", [0, 20, 40_000])
def test_both_checks_find_the_same_wherever_a_bit_is_wrong(tmp_path, sampled_out):
    chance, found = random.Random(sampled_out), set()
    rows = random_requests(60, seed=sampled_out, sampled=sampled_out > 0)
    for number in range(250):
        lane = Lane(first_seq=(1 << 32) - 30, sampled_out=sampled_out)
        path = write_segment(tmp_path / str(number), rows, lane, close=False)
        data = bytearray(path.read_bytes())
        offset, size = record.layout()[chance.choice(FIELDS)]
        at = segment.HEADER_BYTES + chance.randrange(60) * record.RECORD_BYTES + offset + chance.randrange(size)
        data[at] ^= 1 << chance.randrange(8)
        rewrite(path, data)
        assert _checked(path) == _by_columns(path)
        found.add(" ".join(_checked(path)[1].partition(" has ")[2].split()[:2]).rstrip("-0123456789,"))
    assert found == {"", "kind ", "a sequence", "API ", "a weight"}


@pytest.mark.parametrize(("weight_at", "sound"), [(9, 9), (10, 20), (19, 20)])
def test_counters_bound_weights_before_their_drain_alone(tmp_path, weight_at, sound):
    rows = [request(flags=15 << 12 if number == weight_at else 0) for number in range(20)]
    info = segment.read_info(write_segment(tmp_path, rows, close=False))
    info = info._replace(progress=info.progress._replace(written=10))
    assert len(RecordCheck(info).sound(b"".join(segment.read_chunks(info)))) == sound * record.RECORD_BYTES
    assert soundness.check(info).requests == sound


def test_what_the_broker_writes_is_believed_whole(tmp_path):
    rows = random_requests(300, seed=3, sampled=True)
    path = write_segment(tmp_path, rows, Lane(sampled_out=40_000), close=False)
    assert _checked(path) == (300, "") == _by_columns(path)


@pytest.mark.parametrize("apis", [0, 1])
def test_without_a_table_of_apis_every_one_may_be(tmp_path, apis):
    """A header that had no room for it."""
    info = segment.read_info(write_segment(tmp_path, [request(api_key=9)]))
    if not apis:
        info = info._replace(opened=info.opened._replace(extra={"cut": True}))
    check = RecordCheck(info)
    data = b"".join(segment.read_chunks(info))
    assert check.sound(data) == (b"" if apis else data)
    assert check.wrong == ("API 9, which there is not, and no error" if apis else "")


def test_once_one_is_impossible_nothing_more_is_believed(tmp_path):
    info = segment.read_info(write_segment(tmp_path, [request() for _ in range(3)]))
    check, (first, second, third) = RecordCheck(info), segment.read_chunks(info, 1)
    assert check.sound(first) == first and check.sound(third[:44] + b"\x09" + third[45:]) == b""
    assert check.sound(second) == b"" and check.records == 1 and check.wrong == "kind 9, which there is not"
