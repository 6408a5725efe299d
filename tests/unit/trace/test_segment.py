"""Segments: what is written is read, cut at any byte, with any header byte wrong."""

import pytest

from mpbroker.trace import segment, segment_writer, statistics
from tests.harness.same_file import rewrite
from tests.unit.trace.traces import CLOCK, full_request, write_segment


@pytest.fixture(autouse=True)
def looks(monkeypatch):
    """How often a header was looked at again; without waiting, for whoever writes it is here."""
    found = []
    monkeypatch.setattr(segment.time, "sleep", found.append)
    return found


@pytest.fixture
def records():
    return [full_request(7 + number, t0_ns=5_000 + number) for number in range(5)]


def test_a_closed_segment_reads_back(tmp_path, records):
    write_segment(tmp_path, records)
    info = segment.read_info(tmp_path / "b4-23456789-r02-00000000000000000007.mpt")
    assert info.opened[:5] == (4, 0xABCDEF0123456789, 2, 7, "cluster")
    assert info.opened.clock == CLOCK and info.opened.extra == {"apis": {"0": "Produce"}}
    assert info.progress.share() == (8, 5, 2, 1)
    closed = info.closed
    assert (closed.record_count, closed.next_seq, closed.t0_min_ns, closed.t0_max_ns) == (5, 12, 5_000, 5_004)
    assert closed.max_total_ns == 6400 and closed.api_counts == (5, *[0] * 63)
    assert b"".join(segment.read_chunks(info, chunk_records=2)) == b"".join(one.pack() for one in records)
    assert b"".join(segment.read_chunks(info, first=3)) == b"".join(one.pack() for one in records[3:])
    assert info.file_bytes == 4096 + 5 * 128 and info.path.stat().st_mode & 0o777 == 0o600
    assert segment.verify(info)


def test_a_changed_record_is_noticed(tmp_path, records):
    info = write_segment(tmp_path, records)
    with open(info.path, "r+b") as file:
        file.seek(4096 + 130)
        file.write(b"\xff")
    assert not segment.verify(segment.read_info(info.path))


def test_an_open_segment_cut_anywhere_keeps_every_whole_record(tmp_path, records):
    whole = write_segment(tmp_path, records, close=False).path.read_bytes()
    path = tmp_path / "cut.mpt"
    for size in range(4096, len(whole) + 1):
        rewrite(path, whole[:size])
        info = segment.read_info(path)
        assert info.record_count == (size - 4096) // 128
        assert b"".join(segment.read_chunks(info)) == whole[4096 : 4096 + info.record_count * 128]


def test_a_file_cut_inside_its_header_is_no_segment(tmp_path, records):
    whole = write_segment(tmp_path, records).path.read_bytes()
    path = tmp_path / "cut.mpt"
    for size in range(0, 4096, 13):
        rewrite(path, whole[:size])
        with pytest.raises(segment.SegmentError, match=f"{size} bytes are no trace segment"):
            segment.read_info(path)


def test_a_closed_segment_cut_anywhere_keeps_every_whole_record_and_says_so(tmp_path, records):
    whole = write_segment(tmp_path, records).path.read_bytes()
    path = tmp_path / "cut.mpt"
    for size in range(4096, len(whole)):
        rewrite(path, whole[:size])
        info = segment.read_info(path)
        there = (size - 4096) // 128
        assert info.closed is None and info.record_count == there
        assert f"{there} records, but it was closed with 5" in info.damage
        assert b"".join(segment.read_chunks(info)) == whole[4096 : 4096 + there * 128]
        result = statistics.collect([info])
        assert result.records + result.dropped + result.sampled_out == result.finished == there + 3
        assert [(gap.first_seq, gap.missing) for gap in result.gaps()] == [(7 + there, 5 - there)]


def test_a_wrong_bit_in_the_counters_is_noticed(tmp_path, records):
    whole = bytearray(write_segment(tmp_path, records).path.read_bytes())
    path = tmp_path / "bad.mpt"
    for place in range(segment.PROGRESS_OFFSET, segment.PROGRESS_CRC_OFFSET + 4):
        whole[place] ^= 0x10
        rewrite(path, whole)
        info = segment.read_info(path)
        assert "checksum of its counters" in info.damage and info.closed.record_count == 5
        assert info.progress.share() == (5, 5, 0, 0)
        result = statistics.collect([info])
        assert (result.finished, result.records, result.gaps()) == (5, 5, [])
        whole[place] ^= 0x10


@pytest.mark.parametrize("close", [True, False])
@pytest.mark.slow
def test_any_bit_of_the_header_may_be_wrong(tmp_path, records, close):
    """Whatever it is: an error that names the file, or the five records, or none and a gap; never others, never a
    crash."""
    whole = bytearray(write_segment(tmp_path, records, close=close).path.read_bytes())
    path = tmp_path / "bad.mpt"
    for place in range(4096):
        bit = 1 << place * 5 % 8
        whole[place] ^= bit
        rewrite(path, whole)
        try:
            info = segment.read_info(path)
        except segment.SegmentError as error:
            assert str(path) in str(error)
        else:
            result = statistics.collect([info])
            told = (result.records, result.finished, [one.missing for one in result.gaps()])
            assert told == (0, 3, [5]) if info.is_doubtful else told in ((5, 5, []), (5, 8, []))
        whole[place] ^= bit


def test_any_wrong_bit_in_the_open_fields_is_noticed(tmp_path, records):
    whole = bytearray(write_segment(tmp_path, records).path.read_bytes())
    json_bytes = len(b'{"apis":{"0":"Produce"}}')
    path = tmp_path / "bad.mpt"
    for place in [*range(252), *range(1024, 1024 + json_bytes)]:
        whole[place] ^= 0x10
        rewrite(path, whole)
        with pytest.raises(segment.SegmentError):
            segment.read_info(path)
        whole[place] ^= 0x10


def test_a_wrong_bit_in_the_close_fields_is_damage_and_no_open_segment(tmp_path, records):
    whole = bytearray(write_segment(tmp_path, records).path.read_bytes())
    path = tmp_path / "bad.mpt"
    for place in range(segment.CLOSE_OFFSET, segment.CLOSE_CRC_OFFSET + 4):
        whole[place] ^= 0x10
        rewrite(path, whole)
        info = segment.read_info(path)
        assert info.closed is None and info.is_doubtful, place
        assert info.damage.startswith(f"{path}: its close fields are damaged"), place
        assert b"".join(segment.read_chunks(info)) == b"".join(one.pack() for one in records), "whoever asks may read"
        whole[place] ^= 0x10


def test_an_open_segment_is_looked_at_once_and_is_no_damage(tmp_path, records, looks):
    info = segment.read_info(write_segment(tmp_path, records, close=False).path)
    assert (info.closed, info.damage, info.is_doubtful, looks) == (None, "", False, [])


@pytest.mark.parametrize("part", ["progress", "close fields"])
def test_what_is_being_written_is_looked_at_twice(tmp_path, records, looks, monkeypatch, part):
    """A reader meets a tracer in the middle of its write; a moment later all of it is there."""
    path = write_segment(tmp_path, records).path
    whole = path.read_bytes()
    at = segment.PROGRESS_OFFSET if part == "progress" else segment.CLOSE_OFFSET
    path.write_bytes(whole[: at + 12] + bytes(40) + whole[at + 52 :])
    monkeypatch.setattr(segment.time, "sleep", lambda seconds: looks.append(seconds) or path.write_bytes(whole))
    info = segment.read_info(path)
    assert info.closed is not None and info.damage == "" and looks == [segment.LOOK_AGAIN_S]


def test_recovery_closes_anew_what_a_crash_tore(tmp_path, records):
    """As many bytes of the close fields as the crash let through: afterwards every record is vouched for."""
    info = write_segment(tmp_path, records)
    whole = info.path.read_bytes()
    for torn in range(1, segment.CLOSE.size + 4, 7):
        rest = segment.CLOSE_CRC_OFFSET + 4 - segment.CLOSE_OFFSET - torn
        at = segment.CLOSE_OFFSET + torn
        info.path.write_bytes(whole[:at] + bytes(rest) + whole[at + rest :])
        found = segment.read_info(info.path)
        assert found.is_doubtful
        segment_writer.recover(found)
        again = segment.read_info(info.path)
        assert (again.record_count, again.damage, again.is_doubtful) == (5, "", False) and segment.verify(again)


def test_of_two_copies_the_one_that_is_vouched_for_is_worth_more(tmp_path, records):
    info = segment.read_info(write_segment(tmp_path, records).path)
    worse = info._replace(is_doubtful=True, record_count=9)
    assert worse.worth < info._replace(record_count=4).worth < info.worth


def test_recovery_closes_what_a_crash_left(tmp_path, records):
    info = write_segment(tmp_path, records, close=False)
    with open(info.path, "ab") as file:
        file.write(b"\x01" * 77)  # a torn record
    recovered = segment_writer.recover(segment.read_info(info.path))
    again = segment.read_info(info.path)
    assert again == recovered and again.closed.record_count == 5 and segment.verify(again)
    assert again.file_bytes == 4096 + 5 * 128
    assert again.progress.share() == (8, 5, 2, 1)


def test_recovery_counts_records_that_the_counters_had_not_seen(tmp_path, records):
    info = write_segment(tmp_path, records, close=False)
    with open(info.path, "ab") as file:
        file.write(full_request(12).pack())
    assert segment_writer.recover(segment.read_info(info.path)).progress.share() == (9, 6, 2, 1)


def test_names_too_long_for_the_header_are_left_out(tmp_path):
    opened = segment.Opened(4, 1, 2, 0, "c", 0, CLOCK, {"listeners": ["x" * 100] * 100})
    page = segment.pack_opened(opened)
    (tmp_path / "a.mpt").write_bytes(page)
    assert segment.read_info(tmp_path / "a.mpt").opened.extra == {"cut": True}


def test_a_further_segment_of_the_same_sequence_stands_behind_the_first(tmp_path, records):
    first = write_segment(tmp_path, records[:1], close=False)
    again = write_segment(tmp_path, records, close=False)
    assert sorted([again.path.name, first.path.name]) == [first.path.name, again.path.name]
    assert (segment.read_info(first.path).record_count, again.record_count) == (1, 5)
    assert again.path.name.startswith(segment.lane_start(4, again.opened.boot_id, 2))


def test_a_checksum_that_is_0_is_told_from_none(tmp_path, records, monkeypatch):
    """0 means that nothing was stored, so 1 stands for it; both parts of the page, by whoever writes and reads."""
    monkeypatch.setattr(segment.zlib, "crc32", lambda *_: 0)
    info = segment.read_info(write_segment(tmp_path, records).path)
    assert info.progress is not None and info.progress.share() == (8, 5, 2, 1)
    assert info.closed is not None and info.closed.record_count == 5


def test_files_are_found_by_what_their_names_begin_and_end_with(tmp_path):
    for name in ("b1-2.mpt", "b1-1.mpt", "b10-1.mpt", "b1-1.mpt.tmp", "dict-b1-1.jsonl"):
        (tmp_path / name).touch()
    assert [path.name for path in segment.find(tmp_path, "b1-")] == ["b1-1.mpt", "b1-2.mpt"]
    assert [path.name for path in segment.find(tmp_path)] == ["b1-1.mpt", "b1-2.mpt", "b10-1.mpt"]
    assert segment.find(tmp_path, "dict-", ".jsonl") == [tmp_path / "dict-b1-1.jsonl"]
    assert segment.find(tmp_path / "none") == segment.find(tmp_path / "b1-1.mpt") == []


def test_a_lanes_first_segment_begins_with_nothing():
    assert segment.Progress() == (0,) * 8 and segment.Progress().share() == (0, 0, 0, 0)
    progress = segment.Progress(1, 2, 3, 4, 50, 60, 70, 80)
    assert progress.share() == (49, 58, 67, 76) and progress.following() == (50, 60, 70, 80) * 2


@pytest.mark.parametrize(("json_bytes", "is_cut"), [(3071, False), (3072, False), (3073, True)])
def test_names_that_just_fit_into_the_header_are_there(tmp_path, json_bytes, is_cut):
    """4096 bytes of header, 1024 of them before the names."""
    extra = {"x": "y" * (json_bytes - len('{"x":""}'))}
    page = segment.pack_opened(segment.Opened(4, 1, 2, 0, "c", 0, CLOCK, extra))
    (tmp_path / "a.mpt").write_bytes(page)
    assert len(page) == 4096
    assert segment.read_info(tmp_path / "a.mpt").opened.extra == ({"cut": True} if is_cut else extra)


@pytest.mark.parametrize("chunk_records", [1, 2, 4, 5, 6, 100])
@pytest.mark.parametrize("first", [0, 1, 4, 5, 6])
def test_records_come_in_pieces_up_to_where_the_segment_was_closed(tmp_path, records, chunk_records, first):
    info = write_segment(tmp_path, records)
    with open(info.path, "ab") as file:
        file.write(bytes(3 * 128))
    pieces = list(segment.read_chunks(segment.read_info(info.path), chunk_records, first))
    assert b"".join(pieces) == b"".join(one.pack() for one in records[first:])
    assert [len(piece) // 128 for piece in pieces[:-1]] == [chunk_records] * (len(pieces) - 1)
    assert all(0 < len(piece) <= chunk_records * 128 for piece in pieces)


@pytest.mark.parametrize("name", ["VERSION", "RECORD_BYTES", "TICK_SHIFT"])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_segment_of_another_format_is_refused_with_a_sentence(tmp_path, monkeypatch, name, by):
    """Whatever of it is another one."""
    with monkeypatch.context() as patched:
        patched.setattr(segment, name, getattr(segment, name) + by)
        page = segment.pack_opened(segment.Opened(4, 1, 2, 0, "c", 0, CLOCK, {}))
    (tmp_path / "a.mpt").write_bytes(page)
    with pytest.raises(segment.SegmentError, match="format .* with records of .* bytes; this program reads 1"):
        segment.read_info(tmp_path / "a.mpt")
