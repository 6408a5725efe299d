"""What nobody wrote is not counted: flipped bits and impossible records are found, named, and left out wherever a trace
is read."""

import random
import warnings
import zlib

import pyarrow as pa
import pytest

from mpbroker.analysis.engine.engines.local_engine import LocalEngine
from mpbroker.analysis.engine.input import soundness, trace_input
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running import runner
from mpbroker.analysis.spark.arrow_types import narrow
from mpbroker.analysis.spark.source import MpbTraceSource
from mpbroker.trace import record, segment
from tests.harness.record_trace import OFFSET_NS, Lane, clock, request, write_segment

PLACES = {name: place for name, (place, _) in record.layout().items()}
REQUESTS = 50


def _segments(folder, close=True):
    """Two segments of one lane; the second is damaged by the tests."""
    rows = [request(1_000_000 + 1000 * number, corr_id=number) for number in range(2 * REQUESTS)]
    write_segment(folder, rows[:REQUESTS])
    return write_segment(folder, rows[REQUESTS:], Lane(first_seq=REQUESTS), close=close)


def _change(path, number, field, value):
    """One field of record `number`, as bytes."""
    with open(path, "r+b") as file:
        file.seek(segment.HEADER_BYTES + number * record.RECORD_BYTES + PLACES[field])
        file.write(value)


def _local(folder):
    return LocalEngine(open_input([folder])).requests(["corr_id"])["corr_id"].to_pylist()


def _spark(folder):
    """As Spark's workers read it, without a JVM. Of the files left out it warns (test_source_plan.py)."""
    with warnings.catch_warnings(action="ignore"):
        reader = MpbTraceSource({"path": str(folder)}).reader(narrow(["corr_id"]))
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    return pa.Table.from_batches(batches)["corr_id"].to_pylist()


def test_a_flipped_bit_anywhere_leaves_its_closed_segment_out(tmp_path):
    path, chance = _segments(tmp_path), random.Random(9)
    sound = path.read_bytes()
    for _ in range(40):
        at = chance.randrange(segment.HEADER_BYTES, len(sound))
        damaged = bytearray(sound)
        damaged[at] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        assert _local(tmp_path) == _spark(tmp_path) == list(range(REQUESTS)), at
    loss = open_input([tmp_path]).loss
    assert loss.damaged_files == 1 and loss.records == REQUESTS and loss.missing == REQUESTS
    [named, missing] = loss.sentences
    assert named == f"{path}: its records are not those it was closed with; none of them is counted"
    assert f"{REQUESTS} requests are missing in 1 gap" in missing
    path.write_bytes(sound)
    assert (
        _local(tmp_path) == _spark(tmp_path) == list(range(2 * REQUESTS)) and not open_input([tmp_path]).loss.sentences
    )


IMPOSSIBLE = [
    ("kind", b"\x5d", "kind 93, which there is not"),
    ("api_key", (27_876).to_bytes(2, "little"), "API 27876, which there is not, and no error"),
    ("flags", (record.KEPT | 3 << 12).to_bytes(2, "little"), "a weight that sampling does not give"),
    ("seq_lo", (7).to_bytes(4, "little"), "a sequence number that cannot follow the one before"),
    ("seq_lo", (0xF0000000).to_bytes(4, "little"), "a sequence number that cannot follow the one before"),
]


@pytest.mark.parametrize(("field", "value", "reason"), IMPOSSIBLE)
def test_an_open_segment_counts_up_to_its_first_impossible_record(tmp_path, field, value, reason):
    path = _segments(tmp_path, close=False)
    _change(path, 20, field, value)
    assert _local(tmp_path) == _spark(tmp_path) == list(range(REQUESTS + 20))
    loss = open_input([tmp_path]).loss
    assert loss.sentences[0] == f"{path}: record 20 has {reason}: it is damaged, and nothing from there on is counted"
    assert loss.records == loss.finished == REQUESTS + 20 and loss.missing == REQUESTS - 20


@pytest.mark.parametrize(
    ("field", "more"),
    [("api_key", {"error": 35}), ("api_key", {"flags": record.ABORTED}), ("flags", {})],
    ids=["refused", "aborted", "weight"],
)
def test_what_the_broker_writes_is_believed(tmp_path, field, more):
    """An unknown API that was refused, one whose client went; a sampled request."""
    values = {"api_key": 27_876} if field == "api_key" else {"flags": 4 << 12}
    write_segment(tmp_path, [request(**(values | more))], Lane(sampled_out=15))
    found = open_input([tmp_path])
    assert found.loss.records == 1 and found.loss.damaged_files == 0


@pytest.mark.parametrize(
    ("fields", "sampled_out"),
    [({"error": 6, "flags": 1 << 12}, 100), ({"plane_prio": 1, "flags": 1 << 12}, 100), ({"flags": 15 << 12}, 0)],
    ids=["failed", "control", "more than were sampled out"],
)
def test_weights_that_sampling_never_gives(tmp_path, fields, sampled_out):
    path = write_segment(tmp_path, [request(), request(**fields)], Lane(sampled_out=sampled_out))
    found = open_input([tmp_path])
    assert found.loss.records == 1 and f"{path}: record 1 has a weight" in found.loss.sentences[0]


@pytest.mark.parametrize(("place", "counted"), [(9, 9), (10, 20), (19, 20)])
@pytest.mark.parametrize("first", [0, (1 << 32) - 15])
def test_counters_bound_the_weights_before_their_drain_and_none_behind_it(tmp_path, place, counted, first):
    """A crash left ten requests that the counters know, none sampled out, and ten that came later: beside those very
    many may have been. So it is where a broker still writes."""
    rows = [request(flags=15 << 12 if number == place else 0) for number in range(20)]
    path = write_segment(tmp_path, rows, Lane(first_seq=first), close=False)
    _note(path, segment.Progress(*[first, first, 0, 0] * 2)._replace(written=first + 10, finished=first + 10))
    loss = open_input([tmp_path]).loss
    assert loss.records == counted == len(_local(tmp_path)) == len(_spark(tmp_path))
    said = f"{path}: record 9 has a weight that sampling does not give: it is damaged, and nothing from there on"
    assert [one.startswith(said) for one in loss.sentences[:1]] == [True] * (place == 9)
    _note(path, segment.Progress(*[first, first, 0, 0] * 2)._replace(written=first + 20, finished=first + 20))
    assert open_input([tmp_path]).loss.records == place, "the next drain tells"


def _note(path, progress):
    """As a tracer writes them."""
    with open(path, "r+b") as file:
        file.seek(segment.PROGRESS_OFFSET)
        file.write(segment.pack_progress(progress))


def test_counters_that_are_damaged_bound_no_weight(tmp_path):
    """The checksum still vouches for the records."""
    path = write_segment(tmp_path, [request(flags=15 << 12)], Lane(sampled_out=40_000))
    _note(path, segment.read_info(path).progress._replace(dropped=1))
    with open(path, "r+b") as file:
        file.seek(segment.PROGRESS_OFFSET)
        file.write(b"\xff")
    loss = open_input([tmp_path]).loss
    assert loss.records == 1 and len(loss.sentences) == 1 and "the checksum of its counters" in loss.sentences[0]


def test_skipped_sequence_numbers_are_counted_exactly(tmp_path):
    """Headers and checksum agree with the records that are left; only their numbers tell."""
    path = _segments(tmp_path)
    info = segment.read_info(path)
    rows = [chunk for data in segment.read_chunks(info, 1) for chunk in [data]]
    left = [row for number, row in enumerate(rows) if number % 10 != 3]
    lane = Lane(first_seq=REQUESTS)
    again = write_segment(tmp_path, [request() for _ in left], lane)
    data = bytearray(again.read_bytes())
    data[segment.HEADER_BYTES :] = b"".join(left)
    closed = segment.read_info(again).closed
    packed = segment.pack_closed(closed._replace(records_crc=zlib.crc32(b"".join(left))))
    data[segment.CLOSE_OFFSET : segment.CLOSE_OFFSET + len(packed)] = packed
    again.write_bytes(data)
    loss = open_input([tmp_path]).loss
    assert loss.missing == 5 and len(loss.gaps) == 5 and loss.damaged_files == 0
    assert [gap.first_seq for gap in loss.gaps] == [REQUESTS + place for place in (3, 13, 23, 33, 43)]
    assert len(_local(tmp_path)) == len(_spark(tmp_path)) == 2 * REQUESTS - 5


def test_numbers_wrap_at_32_bits(tmp_path):
    first = (1 << 32) - 20
    write_segment(tmp_path, [request() for _ in range(REQUESTS)], Lane(first_seq=first))
    loss = open_input([tmp_path]).loss
    assert loss.records == REQUESTS and not loss.gaps and not loss.sentences


def test_a_bit_of_the_close_fields_does_not_switch_the_checksum_off(tmp_path):
    """With them goes what vouches for the records: none is counted, whether they are damaged or not."""
    path = _segments(tmp_path)
    sound = path.read_bytes()
    for damaged in ((segment.CLOSE_OFFSET + 8,), (segment.CLOSE_OFFSET + 8, segment.HEADER_BYTES + 20 * 128 + 120)):
        data = bytearray(sound)
        for place in damaged:
            data[place] ^= 0x80
        path.write_bytes(data)
        assert _local(tmp_path) == _spark(tmp_path) == list(range(REQUESTS))
        found = open_input([tmp_path])
        assert found.loss.damaged_files == 1 and found.loss.missing == found.loss.records == REQUESTS
        assert found.loss.sentences[0].startswith(f"{path}: its close fields are damaged")


def test_a_clock_that_nothing_vouches_for_is_not_believed(tmp_path):
    within = clock(2_000_000, OFFSET_NS + 10**9).pack_record(0, 0)
    info = segment.read_info(write_segment(tmp_path, [request()], events=[within], close=False))
    assert list(trace_input.samples_of(info)) == [info.opened.clock, clock(2_000_000, OFFSET_NS + 10**9, 50)]
    assert list(trace_input.samples_of(info._replace(is_doubtful=True))) == [info.opened.clock]


def test_a_copy_that_is_whole_stands_for_a_damaged_one(tmp_path):
    path = _segments(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / path.name).write_bytes(path.read_bytes())
    with open(path, "r+b") as file:
        file.seek(segment.CLOSE_OFFSET)
        file.write(b"\xff")
    assert _local(tmp_path) == _spark(tmp_path) == list(range(2 * REQUESTS))


def test_a_file_that_has_not_changed_is_read_once(tmp_path, monkeypatch):
    path = _segments(tmp_path)
    open_input([tmp_path])
    monkeypatch.setattr(soundness.segment, "read_chunks", None)
    assert open_input([tmp_path]).loss.records == 2 * REQUESTS
    _change(path, 0, "corr_id", b"\xff")
    with pytest.raises(TypeError):
        open_input([tmp_path])


def test_a_study_says_what_it_left_out(tmp_path):
    path = _segments(tmp_path / "trace")
    _change(path, 0, "kind", b"\x00\xff")
    outcome = runner.run_studies(["latency"], LocalEngine(open_input([tmp_path / "trace"])), tmp_path / "out")
    assert any(f"{path.name}: its records are not those it was closed with" in one for one in outcome.meta["sentences"])
    assert "Api" not in " ".join(outcome.results[0].verdicts) and outcome.meta["input"]["requests"] == REQUESTS
